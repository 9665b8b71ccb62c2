//! Cursors over the log of a call that another process runs.

use toolgate_store::{OutputOwner, OutputWriter};

use super::super::cursor::{Cursor, Item, OutputMode, WatchOptions};
use super::*;
use crate::drain_notice::DrainNotice;

/// A call of another process, which has told of output that is not stored.
struct Elsewhere {
    _folder: TempDir,
    store: Arc<dyn Store>,
    record: CallRecord,
    writer: Box<dyn OutputWriter>,
    cursor: Cursor,
}

impl Elsewhere {
    async fn begin() -> Self {
        let folder = TempDir::new().expect("a folder");
        let owner = InstanceId::generate();
        let store: Arc<dyn Store> = Arc::new(LocalStore::open(folder.path(), owner.clone()).expect("a store"));
        let mut record = record(&owner);
        let writer = store
            .create_output(OutputOwner::from(&record))
            .await
            .expect("an output");
        let output = EventKind::Output {
            output: writer.id().clone(),
            offset: 0,
            length: 5,
        };
        let events = apply(&mut record, vec![warning_event("first"), output, warning_event("last")]);
        store.create_call(record.clone(), events).await.expect("it is new");
        let cursor = watch(&store, &record, 0, Duration::from_secs(1)).await;
        let mut begun = Self {
            _folder: folder,
            store,
            record,
            writer,
            cursor,
        };
        assert!(matches!(begun.next().await, Some(Item::Event(event, _)) if event.sequence == 1));
        let next = begun.next().await;
        let is_heartbeat = matches!(next, Some(Item::Heartbeat { last: 1, .. }));
        assert!(
            is_heartbeat,
            "it waits, and names nothing that was not delivered: {next:?}"
        );
        begun
    }

    async fn next(&mut self) -> Option<Item> {
        let next = timeout(LIMIT, self.cursor.next()).await.expect("it does not hang");
        next.expect("it can be read")
    }
}

/// Watches the log behind an event.
async fn watch(store: &Arc<dyn Store>, record: &CallRecord, after: u64, heartbeat: Duration) -> Cursor {
    let options = WatchOptions {
        after,
        mode: OutputMode::Full,
        heartbeat,
        draining: DrainNotice::new(&CancellationToken::new()),
        over: CancellationToken::new(),
    };
    let opened = Cursor::open(store, &record.id, None, options).await;
    opened.expect("it is there")
}

fn warning_event(text: &str) -> EventKind {
    EventKind::Warning {
        kind: WarningKind::MetadataLeftOut,
        text: text.to_owned(),
    }
}

#[tokio::test]
async fn output_that_the_log_is_ahead_of_is_waited_for() {
    let mut call = Elsewhere::begin().await;
    call.writer
        .append(Bytes::from_static(b"hello"))
        .await
        .expect("there is room");
    let next = call.next().await;
    let is_output = matches!(&next, Some(Item::Event(event, data)) if event.sequence == 2 && data == "hello");
    assert!(is_output, "{next:?}");
    assert!(matches!(call.next().await, Some(Item::Event(event, _)) if event.sequence == 3));
}

#[tokio::test]
async fn what_is_behind_output_that_does_not_come_is_not_held_back_for_ever() {
    let mut call = Elsewhere::begin().await;
    loop {
        match call.next().await {
            Some(Item::Heartbeat { last: 1, .. }) => {}
            Some(Item::Gap { first: 2, last: 2, .. }) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(call.next().await, Some(Item::Event(event, _)) if event.sequence == 3));
}

#[tokio::test]
async fn output_that_is_complete_and_too_short_is_not_waited_for() {
    let mut call = Elsewhere::begin().await;
    call.writer
        .append(Bytes::from_static(b"hell"))
        .await
        .expect("there is room");
    call.writer.finish().await.expect("it ends");
    // With any wait a heartbeat would come first.
    let mut cursor = watch(&call.store, &call.record, 1, Duration::ZERO).await;
    let next = cursor.next().await.expect("it can be read");
    assert!(matches!(next, Some(Item::Gap { first: 2, last: 2, .. })), "{next:?}");
}

#[tokio::test]
async fn output_that_never_came_is_left_out_once_the_call_has_ended() {
    let mut call = Elsewhere::begin().await;
    let end = EventKind::Ended(Box::new(crate::outcome::internal_ending()));
    let events = apply(&mut call.record, vec![end]);
    call.store
        .append(call.record.clone(), events)
        .await
        .expect("it is stored");
    let next = call.next().await;
    let is_gap = matches!(
        next,
        Some(Item::Gap {
            first: 2,
            last: 2,
            bytes: 0,
            ..
        })
    );
    assert!(is_gap, "{next:?}");
    for sequence in [3, 4] {
        assert!(matches!(call.next().await, Some(Item::Event(event, _)) if event.sequence == sequence));
    }
    assert!(call.next().await.is_none());
}
