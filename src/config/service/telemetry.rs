//! The part `telemetry` of the configuration, with what OpenTelemetry's own variables say where it says nothing.

use std::net::SocketAddr;

use super::Source;
use super::resolve::Pick;
use crate::config::environment::Environment;
use crate::config::error::ConfigError;
use crate::net::Url;

const ENDPOINT: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// What operators see of the service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// Where `/metrics`, `/healthz` and `/readyz` are served, without encryption and to anybody.
    pub admin: Option<SocketAddr>,
    /// Where traces go.
    pub traces: Option<TracesConfig>,
}

/// Where traces go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracesConfig {
    /// The collector, which takes OTLP over gRPC without encryption.
    pub endpoint: String,
    /// What is said of the service in all of them; its name is among that.
    pub attributes: Vec<(String, String)>,
}

impl Pick<'_> {
    pub(super) fn telemetry(&mut self) -> Result<TelemetryConfig, ConfigError> {
        let admin = self.value(
            "telemetry.admin",
            |raw| &raw.telemetry.admin,
            |text, _| address(text),
            || None,
            |address| address.map_or_else(|| "none".to_owned(), |address| address.to_string()),
        )?;
        let endpoint = self.endpoint()?;
        let env = self.env;
        Ok(TelemetryConfig {
            admin,
            traces: endpoint.map(|endpoint| TracesConfig {
                endpoint,
                attributes: attributes(env),
            }),
        })
    }

    fn endpoint(&mut self) -> Result<Option<String>, ConfigError> {
        const KEY: &str = "telemetry.otlp_endpoint";
        let show = |endpoint: &Option<String>| endpoint.clone().unwrap_or_else(|| "none".to_owned());
        let env = self.env;
        let standard = ENDPOINT.into_iter().find_map(|name| Some((name, env.get(name)?)));
        let standard = standard.filter(|(_, text)| !text.is_empty());
        let is_off = env
            .get("OTEL_SDK_DISABLED")
            .is_some_and(|text| text.eq_ignore_ascii_case("true"));
        match standard {
            Some((name, text)) if self.said(|raw| &raw.telemetry.otlp_endpoint).is_none() && !is_off => {
                match endpoint(text) {
                    Ok(endpoint) => {
                        self.note(KEY, show(&endpoint), Source::Variable(name.to_owned()));
                        return Ok(endpoint);
                    }
                    // Perhaps meant for other programs.
                    Err(why) => self.warn(format!("the variable {name} has no effect: {why}")),
                }
            }
            Some(_) | None => {}
        }
        self.value(
            KEY,
            |raw| &raw.telemetry.otlp_endpoint,
            |text, _| endpoint(text),
            || None,
            show,
        )
    }
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
        url.scheme() == "http" && url.has_host() && is_plain
    });
    // Not repeated: it may hold a secret.
    let expected = "expected the address of a collector without TLS, such as \"http://127.0.0.1:4317\", or \"none\"";
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
        assert_eq!(config.telemetry, TelemetryConfig::default());
        assert_eq!(source(&config, "telemetry.admin"), "none from default");
        let text = "[telemetry]\nadmin = \"localhost:9464\"\notlp_endpoint = \"http://c:4317\"";
        let config = load(text, &[("TOOLGATE_TELEMETRY_ADMIN", "[::1]:1")]).unwrap();
        assert_eq!(
            source(&config, "telemetry.admin"),
            "[::1]:1 from TOOLGATE_TELEMETRY_ADMIN"
        );
        assert_eq!(config.telemetry.traces.unwrap().endpoint, "http://c:4317/");
        let off = [
            ("TOOLGATE_TELEMETRY_ADMIN", "none"),
            ("TOOLGATE_TELEMETRY_OTLP_ENDPOINT", "none"),
        ];
        assert_eq!(load(text, &off).unwrap().telemetry, TelemetryConfig::default());
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
        let traces = config.telemetry.traces.unwrap();
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let expected = [
            ("team", "a,b"),
            ("service.version", "7"),
            ("half", "%4"),
            ("service.name", "gate"),
        ];
        assert_eq!(traces.attributes, expected.iter().map(pair).collect::<Vec<_>>());
        let own = load("[telemetry]\notlp_endpoint = \"http://own:1\"", &vars).unwrap();
        assert_eq!(own.telemetry.traces.unwrap().endpoint, "http://own:1/");
        let off = [vars[0], ("OTEL_SDK_DISABLED", "true")];
        assert_eq!(load("", &off).unwrap().telemetry.traces, None);
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
            ("otlp_endpoint = \"https://u:secret@c\"", "without TLS"),
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
