//! Which versions of gateways and workers go together.
//!
//! *Invariant:* a gateway is never older than its workers: what it does not know it would pass on wrongly, or not at all.

/// How many minor versions a worker may be behind.
const BEHIND: u64 = 2;

/// The version of this program.
pub(crate) const OWN: &str = env!("CARGO_PKG_VERSION");

/// Says why a gateway and a worker of these versions do not go together.
pub(crate) fn problem(gateway: &str, worker: &str) -> Option<String> {
    let is_right = match (read(gateway), read(worker)) {
        (Some((own, minor)), Some((major, theirs))) => own == major && theirs <= minor && minor - theirs <= BEHIND,
        (None, _) | (_, None) => false,
    };
    let worker: String = worker.chars().filter(|c| !c.is_control()).take(64).collect();
    (!is_right).then(|| {
        format!(
            "the gateway has version {gateway} and the worker version {worker:?}: a gateway works with workers of its own minor \
             version and of the {BEHIND} before it; upgrade the gateways first, then the workers"
        )
    })
}

/// Returns the major and the minor version.
fn read(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split(['.', '-', '+']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_at_most_two_minor_versions_behind() {
        for worker in ["1.5.0", "1.5.9-rc.1", "1.4.0", "1.3.7"] {
            assert_eq!(problem("1.5.2", worker), None, "{worker}");
        }
        for worker in ["1.6.0", "1.2.9", "2.5.0", "0.5.0", "1", "", "x.y"] {
            let problem = problem("1.5.2", worker).unwrap();
            assert!(problem.contains("1.5.2") && problem.contains(worker), "{problem}");
        }
        assert_eq!(problem(OWN, OWN), None);
    }
}
