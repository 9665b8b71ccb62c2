//! What OpenTelemetry's own variables say, where the part `telemetry` of the configuration says nothing.

use percent_encoding::percent_decode_str;

use super::layers::Layers;
use super::parse;
use super::values::Source;
use crate::environment::Environment;

/// The key that counts first.
const KEY: &str = "telemetry.otlp_endpoint";

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// What is sent, with the standard variables that switch it off and name a collector of its own.
const TRACES: [&str; 2] = ["OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
const METRICS: [&str; 2] = ["OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"];

/// Returns the collectors of traces and of metrics: the configured one, else those of the standard variables.
pub(super) fn collectors(layers: &mut Layers<'_>, endpoint: Option<&String>) -> [Option<String>; 2] {
    if layers.has(KEY) {
        return [TRACES, METRICS].map(|[switch, _]| endpoint.cloned().filter(|_| !is_off(layers.env, switch)));
    }
    let found = [TRACES, METRICS].map(|[switch, own]| standard(layers, switch, own));
    let value = match &found {
        [Some((_, traces)), Some((_, metrics))] if traces == metrics => traces.clone(),
        [traces, metrics] => {
            let traces = traces.iter().map(|(_, traces)| format!("{traces} for traces"));
            let metrics = metrics.iter().map(|(_, metrics)| format!("{metrics} for metrics"));
            traces.chain(metrics).collect::<Vec<_>>().join(", ")
        }
    };
    if let Some((name, _)) = found.iter().flatten().next()
        && let Some(setting) = layers.show(KEY, value)
    {
        setting.source = Source::Variable((*name).to_owned());
    }
    found.map(|found| found.map(|(_, endpoint)| endpoint))
}

fn is_off(env: &Environment, switch: &str) -> bool {
    env.get(switch) == Some("none")
}

/// Returns the endpoint that the standard variables name for one kind of telemetry, and the variable that does.
fn standard(layers: &mut Layers<'_>, switch: &str, own: &'static str) -> Option<(&'static str, String)> {
    let env = layers.env;
    let disabled = env.get("OTEL_SDK_DISABLED");
    if is_off(env, switch) || disabled.is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        return None;
    }
    let (name, text) = [own, ENDPOINT]
        .into_iter()
        .find_map(|name| Some((name, env.get(name)?)))?;
    if text == "none" {
        return None;
    }
    parse::collector(text)
        // Perhaps meant for other programs.
        .map_err(|why| layers.warn(format!("the variable {name} has no effect: {why}")))
        .ok()
        .map(|endpoint| (name, endpoint))
}

/// Returns what is said of the service: the standard variables, and what is known without them.
pub(super) fn attributes(env: &Environment) -> Vec<(String, String)> {
    let given = env.get("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default().split(',');
    let mut all: Vec<(String, String)> = given
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| {
            (
                key.trim().to_owned(),
                percent_decode_str(value.trim()).decode_utf8_lossy().into_owned(),
            )
        })
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
