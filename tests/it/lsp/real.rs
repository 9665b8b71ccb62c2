//! Servers of the registries: what a model asks of them, and what they say of a file before and after it is broken.
//!
//! Which of them are not there, `tests/run.sh` says; without them their tests fail.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolgate_contract::call;

use crate::feedback::*;
use crate::support::*;

/// A small project, and where the things in it are that every server is asked for.
struct Project {
    files: &'static [(&'static str, &'static str)],
    /// The file that uses what the others define.
    user: &'static str,
    /// In it: a call of the function that is asked for, after characters that take two UTF-16 units.
    call: &'static str,
    /// The function that the call stands in.
    caller: &'static str,
    /// The function that is called; no other has a name that ends so.
    function: &'static str,
    /// Where it is defined, and the text before its name.
    definition: (&'static str, &'static str),
    /// A type that others implement: where, the text before its name, the name, and the file that implements it.
    interface: Option<(&'static str, &'static str, &'static str, &'static str)>,
    /// What breaks the file of the user, and a part of what is said of it.
    breaks: (&'static str, &'static str, &'static str),
}

const TYPESCRIPT: Project = Project {
    files: &[
        ("package.json", "{}\n"),
        ("package-lock.json", "{}\n"),
        (
            "tsconfig.json",
            "{\"compilerOptions\": {\"strict\": true, \"target\": \"es2020\", \"types\": []}}\n",
        ),
        (
            "shapes.ts",
            "export interface Shape {\n  area(): number;\n}\n\nexport function double(value: number): number {\n  return value * 2;\n}\n",
        ),
        (
            "circle.ts",
            "import { Shape } from \"./shapes\";\n\nexport class Circle implements Shape {\n  area(): number {\n    return 3;\n  }\n}\n",
        ),
        (
            "user.ts",
            "import { double } from \"./shapes\";\n\nexport function twice(value: number): number {\n  const face = \"😀𝒳\"; return double(value) + face.length;\n}\n",
        ),
    ],
    user: "user.ts",
    call: "double(value) +",
    caller: "twice",
    function: "double",
    definition: ("shapes.ts", "export function "),
    interface: Some(("shapes.ts", "export interface ", "Shape", "circle.ts")),
    breaks: (
        "double(value)",
        "double(\"x\")",
        "not assignable to parameter of type 'number'",
    ),
};

const PYTHON: Project = Project {
    files: &[
        ("pyproject.toml", "[project]\nname = \"shapes\"\nversion = \"0\"\n"),
        ("shapes.py", "def double(value: int) -> int:\n    return value * 2\n"),
        (
            "user.py",
            "from shapes import double\n\n\ndef twice(value: int) -> int:\n    face = \"😀𝒳\"; return double(value) + len(face)\n",
        ),
    ],
    user: "user.py",
    call: "double(value) +",
    caller: "twice",
    function: "double",
    definition: ("shapes.py", "def "),
    interface: None,
    breaks: ("double(value)", "double(\"x\")", "\"value\" of type \"int\""),
};

const GO: Project = Project {
    files: &[
        ("go.mod", "module example.com/shapes\n\ngo 1.21\n"),
        (
            "shapes.go",
            "package shapes\n\ntype Shape interface {\n\tArea() int\n}\n\nfunc Double(value int) int {\n\treturn value * 2\n}\n",
        ),
        (
            "circle.go",
            "package shapes\n\ntype Circle struct{}\n\nfunc (Circle) Area() int {\n\treturn 3\n}\n",
        ),
        (
            "user.go",
            "package shapes\n\nfunc Twice(value int) int {\n\tface := \"😀𝒳\"; return Double(value) + len(face)\n}\n",
        ),
    ],
    user: "user.go",
    call: "Double(value) +",
    caller: "Twice",
    function: "Double",
    definition: ("shapes.go", "func "),
    interface: Some(("shapes.go", "type ", "Shape", "circle.go")),
    breaks: ("Double(value)", "Double(\"x\")", "cannot use \"x\""),
};

const RUST: Project = Project {
    files: &[
        (
            "Cargo.toml",
            "[package]\nname = \"shapes\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        ),
        (
            "src/lib.rs",
            "pub mod circle;\npub mod user;\n\npub trait Shape {\n    fn area(&self) -> usize;\n}\n\npub fn double(value: usize) -> usize {\n    value * 2\n}\n",
        ),
        (
            "src/circle.rs",
            "use crate::Shape;\n\npub struct Circle;\n\nimpl Shape for Circle {\n    fn area(&self) -> usize {\n        3\n    }\n}\n",
        ),
        (
            "src/user.rs",
            "use crate::double;\n\npub fn twice(value: usize) -> usize {\n    let face = \"😀𝒳\"; double(value) + face.len()\n}\n",
        ),
    ],
    user: "src/user.rs",
    call: "double(value) +",
    caller: "twice",
    function: "double",
    definition: ("src/lib.rs", "pub fn "),
    interface: Some(("src/lib.rs", "pub trait ", "Shape", "src/circle.rs")),
    breaks: ("double(value)", "double(value", "Syntax Error"),
};

/// How long a server may take until it knows its project.
const WARM_UP: Duration = Duration::from_secs(90);

/// Where a name stands, counted from 1: its column in characters, as the tool is told, and in UTF-16 units, as servers answer.
#[derive(Clone, Copy)]
struct Place {
    line: u64,
    character: u64,
    units: u64,
}

impl Place {
    /// As it stands in an answer.
    fn in_file(self, path: &str) -> (String, u64, u64) {
        (file_name(path).to_owned(), self.line, self.units)
    }
}

fn position(project: &Project, file: &str, before: &str, name: &str) -> Place {
    let (_, text) = project.files.iter().find(|(path, _)| *path == file).unwrap();
    let wanted = format!("{before}{name}");
    let at = text.find(&wanted).unwrap_or_else(|| panic!("{wanted:?} in {file}")) + before.len();
    let line = text[..at].rsplit('\n').next().unwrap();
    Place {
        line: text[..at].matches('\n').count() as u64 + 1,
        character: line.chars().count() as u64 + 1,
        units: line.encode_utf16().count() as u64 + 1,
    }
}

/// Asks a server through the tool. Nothing found is an empty list.
/// Asks until the answer is the right one. On a busy machine the first answers take longer than they may, and servers
/// that still read the project answer with nothing, one kind of question after the other.
async fn ask(server: &Server, operation: &str, file: &str, at: Place, is_right: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + WARM_UP;
    loop {
        let answer = try_ask(server, operation, file, at).await;
        if let Ok(answer) = answer.as_ref()
            && is_right(answer)
        {
            return answer.clone();
        }
        assert!(Instant::now() < deadline, "{operation}: {answer:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn try_ask(server: &Server, operation: &str, file: &str, at: Place) -> Result<Value, String> {
    let query = if operation == "workspaceSymbol" { "double" } else { "" };
    let input = json!({
        "operation": operation, "filePath": file, "line": at.line, "character": at.character, "query": query,
    });
    let call = server.run("lsp", input).await;
    let output = match call.ending {
        Some(call::Ending::Completed(end)) => end.output,
        Some(call::Ending::Failed(end)) => return Err(end.error),
        None => panic!("{call:?}"),
    };
    Ok(serde_json::from_str(&output).unwrap_or_else(|_| {
        assert_eq!(output, format!("No results found for {operation}"));
        json!([])
    }))
}

/// The files and ranges in an answer, whether it has locations or links to them.
fn places(answer: &Value) -> Vec<(String, u64, u64)> {
    let place = |item: &Value| {
        let (uri, range) = match item.get("targetUri") {
            Some(uri) => (uri, &item["targetSelectionRange"]),
            None => (&item["uri"], &item["range"]),
        };
        let file = uri.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let start = &range["start"];
        (
            file,
            start["line"].as_u64().unwrap() + 1,
            start["character"].as_u64().unwrap() + 1,
        )
    };
    let found = answer.as_array().unwrap().iter().filter(|item| !item.is_null());
    found.map(place).collect()
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

fn names(answer: &Value) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest: Vec<&Value> = answer.as_array().unwrap().iter().collect();
    while let Some(symbol) = rest.pop() {
        names.extend(symbol["name"].as_str());
        rest.extend(symbol["children"].as_array().into_iter().flatten());
    }
    names
}

/// Asks everything of a server.
async fn check(project: &Project, server: &Server) {
    for (name, text) in project.files {
        put(server, name, text);
    }
    let (user, function) = (project.user, project.function);
    let (defined_in, before) = project.definition;
    let call = position(project, user, "", project.call);
    let definition = position(project, defined_in, before, function);
    let (defined_at, used_at) = (definition.in_file(defined_in), call.in_file(user));

    ask(server, "goToDefinition", user, call, |answer| {
        places(answer).contains(&defined_at)
    })
    .await;
    ask(server, "findReferences", defined_in, definition, |answer| {
        let references = places(answer);
        references.contains(&used_at) && references.contains(&defined_at)
    })
    .await;
    let has_function = |answer: &Value| names(answer).contains(&function);
    ask(server, "hover", user, call, |answer| {
        answer.to_string().contains(function)
    })
    .await;
    ask(server, "documentSymbol", defined_in, definition, has_function).await;
    // Some name it with its package.
    ask(server, "workspaceSymbol", defined_in, definition, |answer| {
        names(answer).iter().any(|name| name.ends_with(function))
    })
    .await;

    if let Some((file, before, name, implemented_in)) = project.interface {
        let interface = position(project, file, before, name);
        ask(server, "goToImplementation", file, interface, |answer| {
            places(answer)
                .iter()
                .any(|(file, ..)| file == file_name(implemented_in))
        })
        .await;
    }

    ask(server, "prepareCallHierarchy", defined_in, definition, |answer| {
        names(answer) == [function]
    })
    .await;
    ask(server, "incomingCalls", defined_in, definition, |callers| {
        let caller = callers[0]["from"]["name"].as_str().unwrap_or_default().to_lowercase();
        let from = &callers[0]["fromRanges"][0]["start"];
        caller.contains(&project.caller.to_lowercase()) && from["character"] == call.units - 1
    })
    .await;
    let caller = position(project, user, "", project.caller);
    ask(server, "outgoingCalls", user, caller, |callees| {
        let callees = callees.as_array().unwrap().iter();
        callees
            .filter_map(|it| it["to"]["name"].as_str())
            .any(|name| name == function)
    })
    .await;
}

/// Breaks a file and mends it. What is wrong stands in the result if the server is quick, and comes later otherwise.
async fn break_and_mend(project: &Project, server: &Server) {
    let (whole, broken, said) = project.breaks;
    let user = project.user;
    read(server, user).await;
    let broke = edit(server, user, whole, broken).await;
    let has_error =
        |found: &Value| found["severity"] == 1.0 && found["message"].as_str().is_some_and(|text| text.contains(said));
    let output = &completed(&broke).output;
    if output.contains("LSP") {
        let head = format!(
            "Edit applied successfully.\n\nLSP errors detected in this file, please fix:\n<diagnostics file=\"{}\">\nERROR [",
            path_of(server, user)
        );
        assert!(output.starts_with(&head) && output.contains(said), "{output}");
        assert!(output.ends_with("\n</diagnostics>"), "{output}");
    }
    eventually("the server reports what is broken", async || {
        reported(server, &server.get(&broke.call_id).await, user)
            .iter()
            .any(has_error)
    })
    .await;

    let mended = edit(server, user, broken, whole).await;
    eventually("the server reports that it is mended", async || {
        let metadata = metadata(&server.get(&mended.call_id).await);
        let found = metadata["diagnostics"][path_of(server, user)].as_array();
        found.is_some_and(|found| found.iter().all(|it| it["severity"] != 1.0))
    })
    .await;
    assert!(!completed(&server.get(&mended.call_id).await).output.contains(said));
}

/// A service that finds the programs of a folder, too.
async fn with_programs(folder: String) -> Server {
    let path = std::env::var("PATH").unwrap_or_default();
    let setup = setup(json!({}), "3s").env("PATH", &format!("{folder}:{path}"));
    Server::with(setup).await
}

#[test]
fn typescript_language_server() {
    test(async {
        let server = with_programs(installed("npm/node_modules/.bin")).await;
        fs::create_dir(server.work().join("node_modules")).unwrap();
        let package = installed("npm/node_modules/typescript");
        std::os::unix::fs::symlink(package, server.work().join("node_modules/typescript")).unwrap();
        check(&TYPESCRIPT, &server).await;
        break_and_mend(&TYPESCRIPT, &server).await;
    });
}

#[test]
fn pyright() {
    test(async {
        let server = with_programs(installed("npm/node_modules/.bin")).await;
        check(&PYTHON, &server).await;
        break_and_mend(&PYTHON, &server).await;
    });
}

#[test]
fn gopls() {
    test(async {
        let server = with_programs(installed("gopls")).await;
        check(&GO, &server).await;
        break_and_mend(&GO, &server).await;
    });
}

#[test]
fn rust_analyzer() {
    test(async {
        // rustup's, where that is what starts it: the tests have a home of their own.
        let home = std::env::var("HOME").unwrap_or_default();
        let of_user = |name: &str, folder: &str| std::env::var(name).unwrap_or_else(|_| format!("{home}/{folder}"));
        let setup = setup(json!({}), "3s")
            .env("RUSTUP_HOME", &of_user("RUSTUP_HOME", ".rustup"))
            .env("CARGO_HOME", &of_user("CARGO_HOME", ".cargo"));
        let server = Server::with(setup).await;
        check(&RUST, &server).await;
        break_and_mend(&RUST, &server).await;
    });
}
