//! How many workers may register, and how fast all of them come back.
//!
//! *Invariant:* those that are away count until they are forgotten.

use tonic::Status;

use crate::registry::Registry;

/// Workers that have registered themselves, those that are away included.
const MAX_WORKERS: usize = 12_000;

/// Those of one principal: some are left to the others.
const MAX_WORKERS_OF_ONE: usize = 10_000;

/// So many workers come back in a millisecond, of all that have lost the gateway at once.
const BACK_IN_A_MILLISECOND: usize = 2;

/// Returns how long the workers of a gateway need to come back one after the other, in milliseconds.
pub(crate) fn spread_millis(registry: &Registry) -> u32 {
    u32::try_from(registry.workers().len() / BACK_IN_A_MILLISECOND).unwrap_or(u32::MAX)
}

/// Refuses one more worker where there are too many.
pub(crate) fn must_have_room(registry: &Registry, principal: &str) -> Result<(), Status> {
    let all = registry.workers().len();
    let problem = if all >= MAX_WORKERS {
        "too many workers have registered".to_owned()
    // Not counted before there can be as many: each that comes would be compared with all that are there.
    } else if all >= MAX_WORKERS_OF_ONE && registry.registered_by(principal) >= MAX_WORKERS_OF_ONE {
        format!("{principal} has registered {MAX_WORKERS_OF_ONE} workers: give workers identities of their own")
    } else {
        return Ok(());
    };
    Err(Status::resource_exhausted(problem))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use toolgate_config::service::WorkerConfig;
    use toolgate_model::WorkspaceSet;

    use super::*;
    use crate::worker::{Registration, Worker};

    fn worker(name: String, principal: &str) -> Worker {
        let config = WorkerConfig {
            name,
            address: "http://127.0.0.1:1".to_owned(),
            token_file: None,
            certificate: None,
            key: None,
            ca: None,
        };
        let registration = Registration {
            principal: principal.to_owned(),
            may_have: WorkspaceSet::ALL,
            run: "run".to_owned(),
            said: Arc::new([]),
            // One that is away counts until it is forgotten.
            seat: None,
            left: None,
            draining: false,
            pool: None,
        };
        Worker::registered(config, "Bearer secret".parse().unwrap(), registration, 1 << 20).unwrap()
    }

    #[tokio::test]
    async fn so_many_workers_register() {
        let refused = |registry: &Registry, principal: &str| {
            let room = must_have_room(registry, principal);
            room.map_or_else(|status| status.message().to_owned(), |()| String::new())
        };
        let many = (1..MAX_WORKERS_OF_ONE).map(|number| worker(format!("a{number:05}"), "token:a"));
        let registry = Registry::new(many.collect(), None);
        assert_eq!(refused(&registry, "token:a"), "");
        registry.add(Arc::new(worker("a".to_owned(), "token:a")));
        assert!(refused(&registry, "token:a").contains("token:a has registered 10000 workers"));
        assert_eq!(refused(&registry, "token:b"), "", "there is room for others");

        let some = (0..MAX_WORKERS - 1).map(|number| worker(format!("{number:05}"), &format!("token:{}", number % 2)));
        let registry = Registry::new(some.collect(), None);
        assert_eq!(refused(&registry, "token:c"), "");
        registry.add(Arc::new(worker("c".to_owned(), "token:c")));
        assert!(refused(&registry, "token:c").contains("too many workers"));
    }
}
