//! What holds for the client library of every language, played through their drivers (`clients/DRIVER.md`).
//!
//! The drivers have to be built: `make test` does it, or `clients/LANGUAGE/run.sh setup` and `build`.
//!
//! *Invariant:* a test knows no language; what one library does differently is a failure.

mod approvals;
mod calls;
mod driver;
mod hosting;
mod lists;
mod outputs;

use serde_json::json;
use toolgate_contract::{CallEvent, ExecuteToolRequest, call};

use crate::support::{Server, test};
use driver::{Driver, Reports, pack, unpack};

/// The languages that this machine can run; the runner of the tests says which it cannot.
fn languages() -> Vec<&'static str> {
    let without = std::env::var("TOOLGATE_TEST_WITHOUT_CLIENTS").unwrap_or_default();
    let is_here = |language: &&str| !without.split_whitespace().any(|it| it == *language);
    ["python", "typescript", "go", "java", "rust"]
        .into_iter()
        .filter(is_here)
        .collect()
}

/// Makes a test for each language out of a function that takes its name.
macro_rules! for_each_language {
    ($($test:ident),* $(,)?) => {
        for_each_language!(@ python: $($test),*);
        for_each_language!(@ typescript: $($test),*);
        for_each_language!(@ go: $($test),*);
        for_each_language!(@ java: $($test),*);
        for_each_language!(@ rust: $($test),*);
    };
    (@ $language:ident: $($test:ident),*) => {
        mod $language {
            $(#[test]
            fn $test() {
                crate::support::test(super::$test(stringify!($language)));
            })*
        }
    };
}
use for_each_language;

/// A client of a library, connected to a server.
struct Client {
    driver: Driver,
    name: String,
}

impl Client {
    /// Starts the driver of a language for it.
    async fn of(language: &str, server: &Server) -> Self {
        Self::to(language, &target(server)).await
    }

    async fn to(language: &str, target: &str) -> Self {
        let driver = Driver::start(language).unwrap();
        driver.connect(language, target, None).await.unwrap();
        Self {
            driver,
            name: language.to_owned(),
        }
    }

    fn begin(&self, what: &str, mut command: serde_json::Value) -> Reports {
        command["client"] = json!(self.name);
        self.driver.begin(what, command)
    }

    async fn ask(&self, what: &str, mut command: serde_json::Value) -> anyhow::Result<serde_json::Value> {
        command["client"] = json!(self.name);
        self.driver.ask(what, command).await
    }

    fn execute(&self, request: &ExecuteToolRequest) -> Reports {
        self.begin("execute", json!({"request": pack(request)}))
    }
}

fn target(server: &Server) -> String {
    match &server.tcp {
        Some(address) => format!("http://{address}"),
        None => format!("unix:{}", server.folder().join("s").display()),
    }
}

/// Collects the events of an execution and what the library says of its end.
async fn collect(reports: &mut Reports) -> (Vec<CallEvent>, call::Ending) {
    let mut events = Vec::new();
    loop {
        let report = reports.next().await.unwrap().expect("the execution has an end");
        if let Some(done) = report.get("done") {
            let call: toolgate_contract::Call = unpack(&done["call"]).unwrap();
            return (events, call.ending.expect("a result says how it ended"));
        }
        events.push(unpack(&report["event"]).unwrap());
    }
}

#[test]
fn a_driver_refuses_what_it_does_not_understand() {
    test(async {
        for language in languages() {
            let driver = Driver::start(language).unwrap();
            let error = driver.ask("no such thing", json!({})).await.unwrap_err();
            let error: &driver::DriverError = error.downcast_ref().unwrap();
            assert_eq!(error.code, "INVALID_ARGUMENT", "{language}: {error}");
        }
    });
}
