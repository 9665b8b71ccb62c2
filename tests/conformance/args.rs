//! The runner's arguments: what `cargo test` passes on.
//!
//! *Invariant:* an option of the standard test harness is obeyed or passed over, never an error.

/// Options of the standard harness whose value is an argument of its own.
const WITH_VALUE: [&str; 7] = [
    "--color",
    "--format",
    "--logfile",
    "--report-time",
    "--shuffle-seed",
    "-Z",
    "--ensure-time",
];

/// What to run, and how.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Args {
    filters: Vec<String>,
    skips: Vec<String>,
    exact: bool,
    pub(crate) list: bool,
    pub(crate) threads: Option<usize>,
    /// The language whose client library is used.
    pub(crate) client: Option<String>,
    /// Whether services are reached through a gateway.
    pub(crate) gateway: bool,
    /// Whether that gateway has a database, and services are workers that keep nothing.
    pub(crate) store: bool,
}

impl Args {
    /// Reads arguments.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Self {
        let mut args = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let (name, mut value) = match argument.split_once('=') {
                Some((name, value)) if name.starts_with('-') => (name, Some(value.to_owned())),
                _ => (argument.as_str(), None),
            };
            let takes_value = ["--skip", "--test-threads", "--client"].contains(&name) || WITH_VALUE.contains(&name);
            if takes_value && value.is_none() {
                value = arguments.next();
            }
            match name {
                "--list" => args.list = true,
                "--gateway" => args.gateway = true,
                "--store" => args.store = true,
                "--exact" => args.exact = true,
                "--skip" => args.skips.extend(value),
                "--client" => args.client = value,
                "--test-threads" => args.threads = value.and_then(|value| value.parse().ok()),
                name if name.starts_with('-') => {}
                filter => args.filters.push(filter.to_owned()),
            }
        }
        args
    }

    /// Says whether a case is to be run.
    pub(crate) fn wants(&self, id: &str) -> bool {
        let fits = |part: &String| {
            if self.exact {
                id == part
            } else {
                id.contains(part.as_str())
            }
        };
        (self.filters.is_empty() || self.filters.iter().any(fits)) && !self.skips.iter().any(fits)
    }
}
