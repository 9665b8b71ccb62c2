//! Variables of the environment that look as if they were the service's own, and are none.
//!
//! *Invariant:* pure, and only tells.

use toolgate_permission::hints;

use super::keys::KEYS;
use super::layers::variable_of;
use crate::environment::Environment;

/// Variables that are no keys of the configuration and are read all the same. The last one is what a service says to the
/// servers that it starts.
#[rustfmt::skip]
const OTHER_VARIABLES: [&str; 14] = [
    "TOOLGATE_AGENT", "TOOLGATE_COLOR", "TOOLGATE_CONFIG", "TOOLGATE_LOG", "TOOLGATE_NAME", "TOOLGATE_SERVER",
    "TOOLGATE_SESSION", "TOOLGATE_TLS_CA", "TOOLGATE_TLS_CERT", "TOOLGATE_TLS_KEY", "TOOLGATE_TOKEN",
    "TOOLGATE_TOKEN_FILE", "TOOLGATE_WORKSPACE", "TOOLGATE_MCP_DEPTH",
];

/// Returns a sentence for each variable that looks like ours and is none.
pub fn unknown(env: &Environment) -> Vec<String> {
    let known: Vec<String> = KEYS.iter().map(|key| variable_of(key.path)).collect();
    let known = || known.iter().map(String::as_str).chain(OTHER_VARIABLES);
    let ours = env.vars().filter(|(name, _)| name.starts_with("TOOLGATE_"));
    let unknown = ours.filter(|(name, value)| !is_of_kubernetes(name, value) && !known().any(|one| one == *name));
    unknown
        .map(|(name, _)| {
            let meant = hints::nearest(name, known()).or_else(|| ending(name, known()));
            let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
            format!("the variable {name} is not known and has no effect{meant}")
        })
        .collect()
}

/// Returns the only variable that ends as this one does, whose section was left out.
fn ending<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let rest = name.strip_prefix("TOOLGATE")?;
    let mut ending = known.filter(|known| known.ends_with(rest));
    ending.next().filter(|_| ending.next().is_none())
}

/// Returns whether Kubernetes sets such a variable for a service whose name begins with `toolgate`, for instance
/// `TOOLGATE_PORT_50551_TCP_ADDR`.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    let is_url = ["tcp://", "udp://", "sctp://"]
        .iter()
        .any(|scheme| value.starts_with(scheme));
    let of_port = |rest: &str| {
        let parts: Vec<&str> = rest.split('_').collect();
        let is_known = matches!(
            parts[1..],
            ["TCP" | "UDP" | "SCTP"] | ["TCP" | "UDP" | "SCTP", "PROTO" | "PORT" | "ADDR"]
        );
        is_known && parts[0].parse::<u16>().is_ok()
    };
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || (name.ends_with("_PORT") && is_url)
        || name
            .match_indices("_PORT_")
            .any(|(at, mark)| of_port(&name[at + mark.len()..]))
}
