//! Pieces of outputs: what the database is asked for one, what is there of it, and when it is refused.

use std::time::Duration;

use bytes::Bytes;
use toolgate_model::{InstanceId, OutputId};
use toolgate_postgres::PostgresStore;
use toolgate_store::ledger::{FIRST_PART, Hold, Ledger as _, PART_BYTES};
use toolgate_store::{OutputOwner, Outputs as _, StoreError, Upkeep as _};

use crate::bucket::{check, owner};
use crate::content::content;
use crate::holding::{Scene, bound, created};
use crate::leases::until;
use crate::proxy::Proxy;
use crate::unanswered;
use crate::without_database::output;

const LEASE: Duration = Duration::from_secs(30);

const SEED: u64 = 11;

/// Begins an output of a call of its own.
async fn begun(store: &PostgresStore, hold: &Hold) -> OutputId {
    let (call, id) = (created(store, hold, "c").await, output('a'));
    let owner = OutputOwner::from(&call);
    store.begin_output_for(hold, &id, owner, call.created).await.unwrap();
    id
}

/// Returns how often the database is asked something about outputs and workspaces meanwhile.
async fn asked<T>(proxy: &Proxy, work: impl Future<Output = Result<T, StoreError>>) -> usize {
    proxy.asked();
    work.await.unwrap();
    let about = |asked: &String| asked.contains("output") || asked.contains("workspaces");
    proxy.asked().iter().filter(|asked| about(asked)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_piece_is_one_question() {
    let scene = unanswered::Scene::new().await;
    let (store, proxy) = (&scene.store, &scene.proxy);
    let hold = bound(store, &InstanceId::generate(), "main").await;
    let id = begun(store, &hold).await;
    let append = |offset: u64, piece: Bytes| store.append_output_for(&hold, &id, offset, piece);
    assert_eq!(asked(proxy, append(0, "a\n".into())).await, 1);
    assert_eq!(asked(proxy, append(2, vec![b'x'; 100_000].into())).await, 1);
    assert_eq!(asked(proxy, append(100_002, "b\n".into())).await, 1);
    assert!(
        asked(proxy, append(100_002, "b\n".into())).await > 1,
        "it is looked for"
    );
    assert_eq!(asked(proxy, store.finish_output_for(&hold, &id, 3)).await, 1);

    // So it is for a run that has a database.
    let mut writer = store.create_output(owner()).await.unwrap();
    writer.append("a\n".into()).await.unwrap();
    assert_eq!(asked(proxy, writer.append("b\n".into())).await, 1);
    writer.finish().await.unwrap();
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_piece_without_an_answer_is_there_once() {
    let scene = unanswered::Scene::new().await;
    let store = &scene.store;
    let hold = bound(store, &InstanceId::generate(), "main").await;
    let id = begun(store, &hold).await;
    let append = |offset: u64, piece: &'static str| store.append_output_for(&hold, &id, offset, piece.into());
    // Said again as it was, and with more behind it.
    for (offset, piece, again) in [(0, "a\n", "a\n"), (2, "b\n", "b\nc\n")] {
        scene.proxy.lose(&["append_to_output_1("]);
        let lost = append(offset, piece).await;
        assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
        assert!(scene.proxy.has_lost());
        append(offset, again).await.unwrap();
    }
    assert_eq!(store.read(&id, 0, 100).await.unwrap(), "a\nb\nc\n");
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_pieces_are_gathered_and_none_is_of_two_parts() {
    let scene = Scene::new(LEASE).await;
    let store = &scene.store;
    let hold = scene.bound(&InstanceId::generate(), "main").await;
    let id = begun(store, &hold).await;
    let mut end = 0;
    let mut append = async |length: u64| {
        let piece = Bytes::from_static(content(SEED, end, length));
        store.append_output_for(&hold, &id, end, piece).await.unwrap();
        end += length;
    };
    let client = scene.server.connect(&scene.name).await.unwrap();
    let pieces = async || {
        let sql = "SELECT start, octet_length(content)::bigint FROM output_parts ORDER BY start";
        let rows = client.query_typed(sql, &[]).await.unwrap();
        let read = rows
            .iter()
            .map(|row| (row.get::<_, i64>(0) as u64, row.get::<_, i64>(1) as u64));
        read.collect::<Vec<_>>()
    };
    append(FIRST_PART - 500).await;
    assert_eq!(pieces().await, []);
    for _ in 0..35 {
        append(1_000).await;
    }
    let short = [
        (FIRST_PART, 15_500),
        (FIRST_PART + 15_500, 16_000),
        (FIRST_PART + 31_500, 3_000),
    ];
    assert_eq!(pieces().await, short);
    // One that is long already stays as it is.
    append(20_000).await;
    append(10).await;
    let long = [(FIRST_PART + 34_500, 20_000), (FIRST_PART + 54_500, 10)];
    assert_eq!(pieces().await, [&short[..], &long].concat());

    let second = FIRST_PART + PART_BYTES;
    for _ in 0..7 {
        append(1 << 20).await;
    }
    append(second - 700 - (FIRST_PART + 54_510 + (7 << 20))).await;
    append(100).await;
    append(1_000).await;
    append(10).await;
    let last = pieces().await.split_off(13);
    assert_eq!(last, [(second - 700, 100), (second - 600, 600), (second, 410)]);
    check(store, &id, SEED, 0, second + 410).await;
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_a_workspace_over_has_what_was_appended_before_and_nothing_after() {
    let scene = Scene::new(LEASE).await;
    let store = &scene.store;
    let hold = scene.bound(&InstanceId::generate(), "main").await;
    let id = begun(store, &hold).await;
    let (mut one, other) = (
        scene.server.connect(&scene.name).await.unwrap(),
        scene.server.connect(&scene.name).await.unwrap(),
    );
    let take = "UPDATE workspaces SET epoch = epoch + 1 WHERE id = 'main'";
    // The append has begun, and waits for the output, or for the workspace.
    for (held, is_stored) in [("UPDATE outputs SET written = written", true), (take, false)] {
        let holding = one.transaction().await.unwrap();
        holding.batch_execute(held).await.unwrap();
        let release = async {
            until("the append waits", async || {
                let sql = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                           AND query LIKE '%append_to_output_1(%'";
                !other.query_typed(sql, &[]).await.unwrap().is_empty()
            })
            .await;
            if is_stored {
                // Nobody takes the workspace meanwhile.
                let lock = "SELECT FROM workspaces WHERE id = 'main' FOR NO KEY UPDATE NOWAIT";
                assert!(other.batch_execute(lock).await.is_err());
            }
            holding.commit().await.unwrap();
        };
        let offset = if is_stored { 0 } else { 2 };
        let (appended, ()) = tokio::join!(store.append_output_for(&hold, &id, offset, "a\n".into()), release);
        match is_stored {
            true => appended.unwrap(),
            false => assert!(matches!(appended, Err(StoreError::Fenced(_))), "{appended:?}"),
        }
    }
    // Said again it is refused as well, and so is what is no place.
    for offset in [0, 2, 100, u64::MAX] {
        let refused = store.append_output_for(&hold, &id, offset, "a\n".into()).await;
        assert!(matches!(refused, Err(StoreError::Fenced(_))), "{offset}: {refused:?}");
    }
    assert_eq!(store.read(&id, 0, 100).await.unwrap(), "a\n");
    scene.store.close().await.unwrap();
}
