//! What workers of a pool are bound to, and who may have it.

use std::time::Duration;

use toolgate_model::InstanceId;
use toolgate_store::StoreError;
use toolgate_store::ledger::{Binding, Bound, Ledger as _};

use crate::holding::{Scene, open};

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

#[tokio::test]
async fn what_is_bound_nobody_else_has() {
    let scene = Scene::new(LEASE).await;
    let store = &scene.store;
    let has = async |run: &str, principal: &str, workspace: &str| {
        let run = InstanceId::new(run);
        store.bind(&run, principal, "there", &[workspace.to_owned()]).await
    };
    let bound = store.bind_worker("worker:pods/p-1", "", "acme/1").await.unwrap();
    assert_eq!(bound, Binding::Now);
    let refused = has("other", "token:other", "acme/1").await.unwrap_err();
    assert!(
        matches!(&refused, StoreError::Conflict(why) if why.contains("acme/1")),
        "{refused:?}"
    );
    // And the other way round.
    assert!(matches!(has("other", "token:other", "acme/2").await, Ok(Bound::Now(_))));
    let held = store.bind_worker("worker:pods/p-2", "", "acme/2").await.unwrap();
    assert_eq!(held, Binding::Held);
    assert!(matches!(
        has("own", "worker:pods/p-1", "acme/1").await,
        Ok(Bound::Now(_))
    ));
}

#[tokio::test]
async fn of_two_at_once_one_gets_it() {
    let scene = Scene::new(LEASE).await;
    let other = open(scene.server, &scene.name, LEASE).await;
    for round in 0..20 {
        let workspace = format!("acme/{round}");
        let (principal, run) = (format!("worker:pods/p-{round}"), InstanceId::new("other"));
        let (bound, has) = tokio::join!(
            scene.store.bind_worker(&principal, "", &workspace),
            other.bind(&run, "token:other", "there", std::slice::from_ref(&workspace)),
        );
        let is_bound = bound.unwrap() == Binding::Now;
        assert_ne!(is_bound, has.is_ok(), "{workspace}: {has:?}");
    }
}
