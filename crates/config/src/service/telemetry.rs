//! The part `telemetry` of the configuration, with what OpenTelemetry's own variables say where it says nothing.

use std::net::SocketAddr;

use toolgate_web::Url;

use super::layered::Layered;
use super::values::{Source, TelemetryConfig};
use crate::environment::Environment;
use crate::error::ConfigError;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// What is sent, with the standard variables that switch it off and name a collector of its own.
const TRACES: [&str; 2] = ["OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
const METRICS: [&str; 2] = ["OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"];

impl Layered<'_> {
    pub(super) fn telemetry(&mut self) -> Result<TelemetryConfig, ConfigError> {
        let admin = self.value(
            "telemetry.admin",
            |raw| &raw.telemetry.admin,
            |text, _| address(text),
            || None,
            |address| address.map_or_else(|| "none".to_owned(), |address| address.to_string()),
        )?;
        const KEY: &str = "telemetry.otlp_endpoint";
        let [traces, metrics] = if self.said(|raw| &raw.telemetry.otlp_endpoint).is_some() {
            let endpoint = self.value(
                KEY,
                |raw| &raw.telemetry.otlp_endpoint,
                |text, _| endpoint(text),
                || None,
                or_none,
            )?;
            [TRACES, METRICS].map(|[switch, _]| endpoint.clone().filter(|_| !self.is_off(switch)))
        } else {
            let found = [TRACES, METRICS].map(|[switch, own]| self.standard(switch, own));
            self.note_standard(KEY, &found);
            found.map(|found| found.map(|(_, endpoint)| endpoint))
        };
        Ok(TelemetryConfig {
            admin,
            traces,
            metrics,
            attributes: attributes(self.env),
        })
    }

    fn is_off(&self, switch: &str) -> bool {
        self.env.get(switch).is_some_and(|text| text == "none")
    }

    /// Returns the endpoint that the standard variables name for one kind of telemetry, and the variable that does.
    fn standard(&mut self, switch: &str, own: &'static str) -> Option<(&'static str, String)> {
        let env = self.env;
        let disabled = env.get("OTEL_SDK_DISABLED");
        if self.is_off(switch) || disabled.is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return None;
        }
        let set = |name| Some((name, env.get(name).filter(|text| !text.is_empty())?));
        let (name, text) = [own, ENDPOINT].into_iter().find_map(set)?;
        match endpoint(text) {
            Ok(endpoint) => Some((name, endpoint?)),
            Err(why) => {
                // Perhaps meant for other programs.
                self.warn(format!("the variable {name} has no effect: {why}"));
                None
            }
        }
    }

    fn note_standard(&mut self, key: &str, found: &[Option<(&str, String)>; 2]) {
        let (name, value) = match found {
            [None, None] => return self.record(key, or_none(&None), Source::Default),
            [Some((name, traces)), Some((_, metrics))] if traces == metrics => (name, traces.clone()),
            [Some((name, traces)), Some((_, metrics))] => (name, format!("{traces} for traces, {metrics} for metrics")),
            [Some((name, traces)), None] => (name, format!("{traces} for traces")),
            [None, Some((name, metrics))] => (name, format!("{metrics} for metrics")),
        };
        self.record(key, value, Source::Variable((*name).to_owned()));
    }
}

fn or_none(endpoint: &Option<String>) -> String {
    endpoint.clone().unwrap_or_else(|| "none".to_owned())
}

fn address(text: &str) -> Result<Option<SocketAddr>, String> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None if text == "none" => return Ok(None),
        None => text.to_owned(),
    };
    let wrong = |_| format!("expected an address and port such as \"127.0.0.1:9464\", or \"none\", found {text:?}");
    numeric.parse().map(Some).map_err(wrong)
}

fn endpoint(text: &str) -> Result<Option<String>, String> {
    if text == "none" {
        return Ok(None);
    }
    let url = Url::parse(text).ok().filter(|url| {
        let is_plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
        matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain
    });
    // Not repeated: it may hold a secret.
    let expected = "expected the address of a collector, such as \"http://127.0.0.1:4317\", or \"none\"";
    url.map(|url| Some(url.into())).ok_or_else(|| expected.to_owned())
}

/// Returns what is said of the service: the standard variables, and what is known without them.
fn attributes(env: &Environment) -> Vec<(String, String)> {
    let given = env.get("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default().split(',');
    let mut all: Vec<(String, String)> = given
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.trim().to_owned(), decoded(value.trim())))
        .filter(|(key, _)| !key.is_empty())
        .collect();
    if let Some(name) = env.get("OTEL_SERVICE_NAME").filter(|name| !name.is_empty()) {
        all.retain(|(key, _)| key != "service.name");
        all.push(("service.name".to_owned(), name.to_owned()));
    }
    for (key, value) in [
        ("service.name", "toolgate"),
        ("service.version", env!("CARGO_PKG_VERSION")),
    ] {
        if !all.iter().any(|(known, _)| known == key) {
            all.push((key.to_owned(), value.to_owned()));
        }
    }
    all
}

/// Decodes `%2C` and the like; what is none of them stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, more)) = rest.split_first() {
        let digits = more.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits
            .filter(|_| first == b'%')
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &more[2..] } else { more };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::{Config, RawConfig};
    use super::*;

    fn load(file: &str, vars: &[(&str, &str)]) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("toolgate.toml");
        std::fs::write(&path, file).unwrap();
        let vars = [("HOME", "/nowhere/u")].iter().chain(vars);
        let vars = vars.map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let config = Config::load(Some(&path), RawConfig::default(), &Environment::new(vars, "/nowhere/w"));
        config.map_err(|error| error.to_string())
    }

    fn source(config: &Config, key: &str) -> String {
        let setting = config.explain().iter().find(|setting| setting.key == key).unwrap();
        format!("{} from {}", setting.value, setting.source)
    }

    #[test]
    fn everything_is_off_until_it_is_asked_for() {
        let config = load("", &[]).unwrap();
        assert_eq!(config.telemetry.admin, None);
        assert_eq!(
            (config.telemetry.traces.clone(), config.telemetry.metrics.clone()),
            (None, None)
        );
        assert_eq!(source(&config, "telemetry.admin"), "none from default");
        let text = "[telemetry]\nadmin = \"localhost:9464\"\notlp_endpoint = \"http://c:4317\"";
        let config = load(text, &[("TOOLGATE_TELEMETRY_ADMIN", "[::1]:1")]).unwrap();
        assert_eq!(
            source(&config, "telemetry.admin"),
            "[::1]:1 from TOOLGATE_TELEMETRY_ADMIN"
        );
        let collector = Some("http://c:4317/".to_owned());
        assert_eq!(
            (&config.telemetry.traces, &config.telemetry.metrics),
            (&collector, &collector)
        );
        let off = [
            ("TOOLGATE_TELEMETRY_ADMIN", "none"),
            ("TOOLGATE_TELEMETRY_OTLP_ENDPOINT", "none"),
        ];
        let off = load(text, &off).unwrap().telemetry;
        assert_eq!((off.admin, off.traces, off.metrics), (None, None, None));
        let half = load(text, &[("OTEL_METRICS_EXPORTER", "none")]).unwrap().telemetry;
        assert_eq!((half.traces, half.metrics), (collector, None));
    }

    #[test]
    fn the_standard_variables_count_where_nothing_is_said() {
        let vars = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://standard:4317"),
            ("OTEL_SERVICE_NAME", "gate"),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "service.name=x, team=a%2Cb ,service.version=7,=,odd,half=%4",
            ),
        ];
        let config = load("", &vars).unwrap();
        assert_eq!(
            source(&config, "telemetry.otlp_endpoint"),
            "http://standard:4317/ from OTEL_EXPORTER_OTLP_ENDPOINT"
        );
        assert_eq!(config.telemetry.metrics, config.telemetry.traces);
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let expected = [
            ("team", "a,b"),
            ("service.version", "7"),
            ("half", "%4"),
            ("service.name", "gate"),
        ];
        assert_eq!(
            config.telemetry.attributes,
            expected.iter().map(pair).collect::<Vec<_>>()
        );
        let own = load("[telemetry]\notlp_endpoint = \"http://own:1\"", &vars).unwrap();
        assert_eq!(own.telemetry.traces.as_deref(), Some("http://own:1/"));
        let off = [vars[0], ("OTEL_SDK_DISABLED", "true")];
        assert_eq!(load("", &off).unwrap().telemetry.traces, None);
        let apart = [vars[0], ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "https://numbers")];
        assert_eq!(
            source(&load("", &apart).unwrap(), "telemetry.otlp_endpoint"),
            "http://standard:4317/ for traces, https://numbers/ for metrics from OTEL_EXPORTER_OTLP_ENDPOINT"
        );
        let other = load("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://u:secret@c")]).unwrap();
        assert_eq!(other.telemetry.traces, None);
        let warned = |text: &String| text.contains("OTEL_EXPORTER_OTLP_ENDPOINT") && !text.contains("secret");
        assert!(other.warnings.iter().any(warned), "{:?}", other.warnings);
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for (file, expected) in [
            ("admin = \"9464\"", "telemetry.admin"),
            ("otlp_endpoint = \"collector:4317\"", "telemetry.otlp_endpoint"),
            ("otlp_endpoint = \"https://u:secret@c\"", "expected the address"),
            ("metrics = true", "unknown field `metrics`"),
        ] {
            let error = load(&format!("[telemetry]\n{file}"), &[]).unwrap_err();
            assert!(
                error.contains(expected) && !error.contains("secret"),
                "{expected:?} is not in {error:?}"
            );
        }
    }
}
