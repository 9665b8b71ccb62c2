//! What workers of a pool are bound to, and who may have it.

use std::time::Duration;

use toolgate_store::ledger::{Binding, Ledger as _};

use crate::holding::Scene;

const LEASE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_machine_is_bound_once_whatever_it_calls_itself() {
    let scene = Scene::new(LEASE).await;
    let store = &scene.store;
    let bind = async |principal: &str, worker: &str, workspace: &str| {
        store.bind_worker(principal, worker, workspace).await.unwrap()
    };
    // Of one with many workers each has its own.
    assert_eq!(bind("token:pool", "a", "acme/1").await, Binding::Now);
    assert_eq!(bind("token:pool", "b", "acme/2").await, Binding::Now);
    assert_eq!(bind("token:pool", "a", "acme/3").await, Binding::Elsewhere);
    assert_eq!(bind("worker:pods/p-1", "", "acme/3").await, Binding::Now);
    assert_eq!(bind("worker:pods/p-1", "", "acme/3").await, Binding::Now);
    assert_eq!(bind("worker:pods/p-1", "", "acme/4").await, Binding::Elsewhere);
    // Also if it was bound when it had a name.
    assert_eq!(bind("token:pool", "", "acme/4").await, Binding::Elsewhere);
    let of_another = Binding::OfAnother {
        principal: "worker:pods/p-1".to_owned(),
        worker: String::new(),
    };
    assert_eq!(bind("worker:pods/p-2", "", "acme/3").await, of_another);
    let bound = store.bindings_of("worker:pods/p-1").await.unwrap();
    assert_eq!(bound, [(String::new(), "acme/3".to_owned())]);
}
