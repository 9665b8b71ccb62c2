//! Gateways that come and go while a worker runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use toolgate_ledger::{LedgerStore, Way};
use toolgate_model::{InstanceId, Timestamp};
use toolgate_store::{CallLog as _, Created, StoreError, Upkeep as _};

use crate::faults::until;
use crate::gateway::{Running, WORKER, options};
use crate::postgres::{database, server};
use crate::store::{end, grow, record};

fn way(address: &str) -> Arc<[Way]> {
    let run = InstanceId::generate();
    let of_one = options(&[address.to_owned()], &run, std::path::Path::new("/nowhere"), WORKER);
    of_one.gateways.borrow().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_goes_on_at_the_gateways_that_are_there() {
    let server = server().await;
    let database = server.address(&database(server).await);
    let one = Running::start(&database).await;
    let (run, folder) = (InstanceId::generate(), tempfile::tempdir().unwrap());
    let (sender, ways) = watch::channel(way(&one.address()));
    let mut settings = options(&[], &run, folder.path(), WORKER);
    settings.gateways = ways;
    settings.workspaces = vec!["main".to_owned()];
    // It goes on for as long as this test takes.
    settings.lease = Some(Duration::from_secs(600));
    let store = LedgerStore::open(settings).await.unwrap();
    let create = async |id: &str| {
        let mut call = record(id, &run);
        let events = grow(&mut call, 1);
        let created = store.create_call(call.clone(), events).await;
        // A call that goes on would end with a lease that nobody renews.
        let events = end(&mut call, Timestamp(2_000));
        store.append(call, events).await.unwrap();
        created
    };
    assert_eq!(create("one").await.unwrap(), Created::New);

    // Another one comes, and the first goes.
    let two = Running::start(&database).await;
    let both: Vec<Way> = way(&one.address())
        .iter()
        .chain(&*way(&two.address()))
        .cloned()
        .collect();
    sender.send(both.into()).unwrap();
    assert_eq!(create("two").await.unwrap(), Created::New);
    one.stop().await;
    assert_eq!(create("three").await.unwrap(), Created::New);
    sender.send(way(&two.address())).unwrap();
    assert_eq!(create("four").await.unwrap(), Created::New);

    // There may be none for a moment.
    sender.send(Arc::new([])).unwrap();
    let none = tokio::time::timeout(Duration::from_secs(20), store.check())
        .await
        .unwrap();
    assert!(matches!(none, Err(StoreError::Unavailable(_))), "{none:?}");
    sender.send(way(&two.address())).unwrap();
    until("it goes on", async || store.check().await.is_ok()).await;
    assert!(!store.stopped().is_cancelled());
    store.close().await.unwrap();
    two.stop().await;
}
