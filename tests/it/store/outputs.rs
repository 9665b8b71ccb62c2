//! Stored outputs.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use toolgate_model::{CallId, InstanceId, OutputId, SessionId, Timestamp, WorkspaceSet};
use toolgate_store::{
    OutputFilter, OutputInfo, OutputOwner, OutputRetention, OutputWriter, Outputs, PageRequest, Store, StoreError,
};

use super::{Fixture, hostile};

fn owner(call: &str) -> OutputOwner {
    OutputOwner {
        call: CallId::from(call),
        session: SessionId::from("ses_1"),
        workspace: "main".to_owned(),
    }
}

async fn begin(store: &dyn Store, call: &str, text: &str) -> Box<dyn OutputWriter> {
    let mut writer = Outputs::create_output(store, owner(call)).await.unwrap();
    writer.append(text.to_owned().into()).await.unwrap();
    writer
}

/// Writes an output and returns all that is known of it.
async fn write(store: &dyn Store, call: &str, text: &str) -> OutputInfo {
    finish(store, begin(store, call, text).await).await
}

async fn finish(store: &dyn Store, writer: Box<dyn OutputWriter>) -> OutputInfo {
    let info = writer.finish().await.unwrap();
    // Nothing is counted before somebody asks for it.
    let looked = store.look(&info.id).await.unwrap();
    assert_eq!(
        looked.map(|info| (info.bytes, info.complete, info.sha256)),
        Some((info.bytes, true, String::new()))
    );
    let whole = store.stat(&info.id).await.unwrap().unwrap();
    assert_eq!(whole.sha256.len(), 64);
    assert_eq!(
        info,
        OutputInfo {
            sha256: info.sha256.clone(),
            ..whole.clone()
        }
    );
    whole
}

async fn read(store: &dyn Store, id: &OutputId, offset: u64, max: usize) -> String {
    String::from_utf8(store.read(id, offset, max).await.unwrap().to_vec()).unwrap()
}

fn ever() -> OutputRetention {
    OutputRetention {
        before: Timestamp(0),
        max_total_bytes: u64::MAX,
    }
}

fn later() -> Timestamp {
    Timestamp::now().after(Duration::from_secs(3_600))
}

pub(crate) async fn written_and_read(fixture: &dyn Fixture) {
    let store = fixture.open(&InstanceId::generate()).await;
    let mut writer = Outputs::create_output(&*store, owner("c")).await.unwrap();
    let (id, path) = (writer.id().clone(), writer.path().to_owned());
    for piece in ["one\n", "", "two\n", "thr", "ee"] {
        writer.append(piece.to_owned().into()).await.unwrap();
    }
    let info = finish(&*store, writer).await;
    let expected = OutputInfo {
        id: id.clone(),
        owner: owner("c"),
        path,
        bytes: 13,
        lines: 3,
        sha256: "058053d87c818d699cde0f00d670bca0e1c6ad857caa9758ea6a556d7c64fcee".to_owned(),
        complete: true,
        cut: false,
        created: info.created,
    };
    assert_eq!(info, expected);
    assert_eq!(store.stat(&id).await.unwrap(), Some(expected));
    assert_eq!(read(&*store, &id, 0, 100).await, "one\ntwo\nthree");
}

pub(crate) async fn ranges(fixture: &dyn Fixture) {
    let store = fixture.open(&InstanceId::generate()).await;
    let mut writer = begin(&*store, "c", "01234").await;
    writer.append("56789".into()).await.unwrap();
    let id = writer.id().clone();
    let check = async |offset: u64, max: usize, expected: &str| {
        assert_eq!(
            read(&*store, &id, offset, max).await,
            expected,
            "at {offset}, at most {max}"
        );
    };
    let mut writer = Some(writer);
    for _ in 0..2 {
        check(0, 10, "0123456789").await;
        check(0, 11, "0123456789").await;
        check(0, usize::MAX, "0123456789").await;
        check(0, 0, "").await;
        check(0, 1, "0").await;
        check(4, 2, "45").await;
        check(5, 5, "56789").await;
        check(9, 1, "9").await;
        check(9, 2, "9").await;
        check(10, 1, "").await;
        check(11, 1, "").await;
        check(u64::MAX, usize::MAX, "").await;
        if let Some(writer) = writer.take() {
            writer.finish().await.unwrap();
        }
    }
}

pub(crate) async fn read_while_written(fixture: &dyn Fixture) {
    let store = fixture.open(&InstanceId::generate()).await;
    let elsewhere = fixture.open(&InstanceId::generate()).await;
    let mut writer = Outputs::create_output(&*store, owner("c")).await.unwrap();
    let id = writer.id().clone();
    for number in 0..20_u64 {
        writer.append(format!("{number:04}\n").into()).await.unwrap();
        let expected = format!("{number:04}\n");
        for store in [&store, &elsewhere] {
            assert_eq!(read(&**store, &id, number * 5, 100).await, expected);
            let info = store.stat(&id).await.unwrap().unwrap();
            assert_eq!(
                (info.bytes, info.lines, info.sha256.as_str(), info.complete),
                ((number + 1) * 5, 0, "", false)
            );
        }
    }
    for store in [&store, &elsewhere] {
        let deleted = store.delete(&id).await;
        assert!(matches!(deleted, Err(StoreError::Conflict(_))), "{deleted:?}");
    }
    let info = finish(&*store, writer).await;
    assert_eq!((info.bytes, info.lines, info.complete), (100, 20, true));
    assert_eq!(elsewhere.stat(&id).await.unwrap(), Some(info));
}

pub(crate) async fn dropped_writer(fixture: &dyn Fixture) {
    let store = fixture.open(&InstanceId::generate()).await;
    let finished = write(&*store, "c", "some\ntext").await;
    let writer = begin(&*store, "c", "some\ntext").await;
    let id = writer.id().clone();
    drop(writer);
    let info = store.stat(&id).await.unwrap().unwrap();
    let expected = OutputInfo {
        id: id.clone(),
        path: info.path.clone(),
        created: info.created,
        ..finished
    };
    assert_eq!(info, expected);
    assert_eq!(read(&*store, &id, 5, 100).await, "text");
    let other = write(&*store, "c", "").await;
    assert_eq!(
        store.stat(&id).await.unwrap(),
        Some(info),
        "also when it was stored meanwhile"
    );
    assert!(store.delete(&id).await.unwrap());
    assert!(store.delete(&other.id).await.unwrap());
}

pub(crate) async fn never_written(fixture: &dyn Fixture) {
    let store = fixture.open(&InstanceId::generate()).await;
    let writer = Outputs::create_output(&*store, owner("c")).await.unwrap();
    let id = writer.id().clone();
    assert_eq!(
        store.stat(&id).await.unwrap().map(|info| (info.bytes, info.complete)),
        Some((0, false))
    );
    assert_eq!(read(&*store, &id, 0, 10).await, "");
    drop(writer);
    assert_eq!(
        store.stat(&id).await.unwrap(),
        None,
        "nothing is kept of an output that nobody wrote or finished"
    );

    let writer = Outputs::create_output(&*store, owner("c")).await.unwrap();
    let info = finish(&*store, writer).await;
    assert_eq!((info.bytes, info.lines, info.complete), (0, 0, true));
    assert_eq!(
        info.sha256,
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
    assert_eq!(store.stat(&info.id).await.unwrap().as_ref(), Some(&info));
    assert_eq!(read(&*store, &info.id, 0, 10).await, "");
}

/// What a large output has from a place on: no two places look alike.
fn content(from: u64, length: u64) -> &'static [u8] {
    // To make it takes longer than most of what is done with it.
    static ALL: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let word = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        (1..=(24 << 20) / 8).flat_map(word).collect()
    });
    &ALL[from as usize..(from + length) as usize]
}

/// Longer than what any store keeps in one place.
pub(crate) async fn large_ones(fixture: &dyn Fixture) {
    let store = fixture.open(&InstanceId::generate()).await;
    let elsewhere = fixture.open(&InstanceId::generate()).await;
    let mut writer = Outputs::create_output(&*store, owner("c")).await.unwrap();
    let (id, mut length) = (writer.id().clone(), 0);
    let check = async |offset: u64, max: u64, length: u64| {
        for store in [&store, &elsewhere] {
            let read = store.read(&id, offset, max as usize).await.unwrap();
            let expected = max.min(length - offset);
            // Fewer bytes than were asked for may come, but not none.
            assert!(read.len() as u64 <= expected && (expected == 0 || !read.is_empty()));
            assert!(
                read == *content(offset, read.len() as u64),
                "at {offset}, at most {max}"
            );
        }
    };
    for piece in [
        1,
        1_000,
        65_535,
        70_000,
        7 << 20,
        3 << 20,
        9 << 20,
        20_000,
        1_000,
        1 << 20,
    ] {
        writer.append(Bytes::from_static(content(length, piece))).await.unwrap();
        length += piece;
        for (offset, max) in [
            (length - 1, 100),
            (length / 2, 5_000),
            (length / 3, 700_000),
            (0, 100_000),
        ] {
            check(offset, max, length).await;
        }
    }
    let info = finish(&*store, writer).await;
    assert_eq!(info.bytes, length);
    let mut offset = 0;
    while offset < length {
        let read = elsewhere.read(&id, offset, 10 << 20).await.unwrap();
        assert!(
            !read.is_empty() && read == *content(offset, read.len() as u64),
            "at {offset}"
        );
        offset += read.len() as u64;
    }
    assert_eq!(offset, length);
    assert!(elsewhere.delete(&id).await.unwrap());
}

pub(crate) async fn listed(fixture: &dyn Fixture) {
    let store = fixture.open(&InstanceId::generate()).await;
    let mut infos = Vec::new();
    for number in 0..10 {
        infos.push(write(&*store, &format!("call {}", number % 3), "text").await);
    }
    infos.reverse();
    // A listing may be without what would have to be counted first.
    let uncounted = |info: OutputInfo| OutputInfo {
        lines: 0,
        sha256: String::new(),
        ..info
    };
    let infos: Vec<OutputInfo> = infos.into_iter().map(uncounted).collect();
    let list = async |filter: OutputFilter, size: usize| {
        let (mut page, mut found) = (PageRequest { size, after: None }, Vec::new());
        for _ in 0..20 {
            let listed = Outputs::list_outputs(&*store, &filter, &page).await.unwrap();
            found.extend(listed.items.into_iter().map(uncounted));
            page.after = listed.next;
            if page.after.is_none() {
                return found;
            }
        }
        panic!("the listing does not end");
    };
    for size in [1, 3, 10, 100] {
        assert_eq!(list(OutputFilter::default(), size).await, infos);
    }
    let of_call = OutputFilter {
        call: Some(CallId::from("call 1")),
        ..OutputFilter::default()
    };
    let expected: Vec<OutputInfo> = infos
        .iter()
        .filter(|info| info.owner.call.as_str() == "call 1")
        .cloned()
        .collect();
    assert_eq!(list(of_call, 2).await, expected);
    let main = OutputFilter {
        workspaces: WorkspaceSet::one("main"),
        ..OutputFilter::default()
    };
    assert_eq!(list(main, 4).await.len(), 10);
    let nobody = OutputFilter {
        session: Some(SessionId::from("other")),
        ..OutputFilter::default()
    };
    assert_eq!(list(nobody, 4).await, []);
    let bad = PageRequest {
        size: 1,
        after: Some("bad".to_owned()),
    };
    let result = Outputs::list_outputs(&*store, &OutputFilter::default(), &bad).await;
    assert!(matches!(result, Err(StoreError::BadPage(_))), "{result:?}");

    let writer = begin(&*store, "living", "text").await;
    let first = &list(OutputFilter::default(), 4).await[0];
    assert_eq!((&first.id, first.bytes, first.complete), (writer.id(), 4, false));
}

pub(crate) async fn deleted(fixture: &dyn Fixture) {
    let store = fixture.open(&InstanceId::generate()).await;
    let info = write(&*store, "c", "text").await;
    assert!(store.delete(&info.id).await.unwrap());
    assert!(!store.delete(&info.id).await.unwrap());
    assert_eq!(store.stat(&info.id).await.unwrap(), None);
    let read = store.read(&info.id, 0, 1).await;
    assert!(matches!(read, Err(StoreError::NotFound(_))), "{read:?}");
    let page = PageRequest { size: 10, after: None };
    assert_eq!(
        Outputs::list_outputs(&*store, &OutputFilter::default(), &page)
            .await
            .unwrap()
            .items,
        []
    );
}

pub(crate) async fn kept_after_restart(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let finished = write(&*store, "c", "finished\ntext").await;
    let writer = begin(&*store, "c", "finished\ntext").await;
    let cut_short = writer.id().clone();
    fixture.stop(&instance).await;
    // The run is over before its writer knows: what it wrote must be found by the next one.
    drop(writer);
    drop(store);
    let store = fixture.open(&InstanceId::generate()).await;
    assert_eq!(store.stat(&finished.id).await.unwrap().as_ref(), Some(&finished));
    let info = store.stat(&cut_short).await.unwrap().unwrap();
    let expected = OutputInfo {
        id: cut_short.clone(),
        path: info.path.clone(),
        created: info.created,
        // A store on the machine of the run has all that the run had read.
        cut: info.cut,
        ..finished
    };
    assert_eq!(info, expected);
    assert_eq!(store.stat(&cut_short).await.unwrap(), Some(info));
    assert_eq!(read(&*store, &cut_short, 9, 100).await, "text");
    assert!(store.delete(&cut_short).await.unwrap());
}

pub(crate) async fn swept_by_age(fixture: &dyn Fixture) {
    let store = fixture.open(&InstanceId::generate()).await;
    let elsewhere = fixture.open(&InstanceId::generate()).await;
    let old = write(&*store, "c", "text").await;
    let mine = begin(&*store, "c", "text").await;
    let other = begin(&*elsewhere, "c", "text").await;
    assert_eq!(store.sweep_outputs(ever()).await.unwrap(), 0);
    assert_eq!(
        store
            .sweep_outputs(OutputRetention {
                before: later(),
                ..ever()
            })
            .await
            .unwrap(),
        1
    );
    assert_eq!(store.stat(&old.id).await.unwrap(), None);
    for id in [mine.id(), other.id()] {
        assert_eq!(read(&*store, id, 0, 10).await, "text");
    }
    mine.finish().await.unwrap();
    other.finish().await.unwrap();
    assert_eq!(
        store
            .sweep_outputs(OutputRetention {
                before: later(),
                ..ever()
            })
            .await
            .unwrap(),
        2
    );
    let page = PageRequest { size: 10, after: None };
    assert_eq!(
        Outputs::list_outputs(&*store, &OutputFilter::default(), &page)
            .await
            .unwrap()
            .items,
        []
    );
}

pub(crate) async fn swept_by_size(fixture: &dyn Fixture) {
    let store = fixture.open(&InstanceId::generate()).await;
    let mut infos = Vec::new();
    for _ in 0..5 {
        infos.push(write(&*store, "c", "0123456789").await);
    }
    let keep = |max_total_bytes: u64| OutputRetention {
        max_total_bytes,
        ..ever()
    };
    assert_eq!(store.sweep_outputs(keep(50)).await.unwrap(), 0);
    assert_eq!(store.sweep_outputs(keep(49)).await.unwrap(), 1);
    assert_eq!(store.sweep_outputs(keep(20)).await.unwrap(), 2);
    let mut left = Vec::new();
    for info in &infos {
        left.push(store.stat(&info.id).await.unwrap().is_some());
    }
    assert_eq!(left, [false, false, false, true, true], "the oldest go");
    assert_eq!(store.sweep_outputs(keep(0)).await.unwrap(), 2);
}

pub(crate) async fn unknown_outputs(fixture: &dyn Fixture) {
    let store = fixture.open(&InstanceId::generate()).await;
    let mut texts = hostile();
    texts.extend(["tool_0123456789abABCDEFGHIJKLMN", "", ".", "../toolgate.db"].map(str::to_owned));
    for text in texts {
        let id = OutputId::from(text.as_str());
        assert_eq!(store.stat(&id).await.unwrap(), None, "{text:?}");
        assert!(!store.delete(&id).await.unwrap(), "{text:?}");
        let read = store.read(&id, 0, 10).await;
        assert!(matches!(read, Err(StoreError::NotFound(_))), "{text:?}: {read:?}");
    }
}
