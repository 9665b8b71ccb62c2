//! Calls that run before they are recorded: what they leave behind, and what others are told of them.

use super::*;

type Told = oneshot::Receiver<Result<Created, StoreError>>;

/// Begins a call that is recorded at the latest then.
async fn begin(within: Duration) -> (Writing, Told) {
    let (told, heard) = oneshot::channel();
    (Writing::unrecorded((Instant::now() + within, told)).await, heard)
}

async fn heard(told: Told) -> Result<Created, StoreError> {
    timeout(LIMIT, told)
        .await
        .expect("it is told in time")
        .expect("it is told")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_over_soon_is_stored_at_once() {
    let (writing, told) = begin(LIMIT).await;
    let patch: JsonMap = [("at".to_owned(), 1.into())].into_iter().collect();
    writing.send(Command::Metadata { title: None, patch }).await;
    writing.finish().await;
    assert_eq!(writing.shown(), 0, "nothing is shown that is not stored");
    let store = writing.store.clone();
    let events = writing.end().await;
    assert_eq!(heard(told).await.expect("it is stored"), Created::New);
    assert_eq!(store.begun.lock()[..], [events]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_takes_longer_is_recorded_before_its_end() {
    let (writing, told) = begin(Duration::ZERO).await;
    assert_eq!(heard(told).await.expect("it is stored"), Created::New);
    assert_eq!(writing.shown(), 1);
    assert_eq!(writing.call.record().state, CallState::Pending);
    writing.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_belongs_to_a_call_comes_behind_its_record() {
    for is_output in [false, true] {
        let (mut writing, told) = begin(LIMIT).await;
        match is_output {
            true => writing.print(1).await,
            false => assert!(writing.tell(|stored| Command::Recorded { stored }).await),
        }
        let stored = writing.store.get(&writing.call.id).await.expect("it can be read");
        assert!(stored.is_some(), "the record is not there");
        assert_eq!(heard(told).await.expect("it is stored"), Created::New);
        // Known by now, and told at once.
        writing.store.set(Gate::Away);
        assert!(writing.tell(|stored| Command::Recorded { stored }).await);
        writing.store.set(Gate::Open);
        writing.finish().await;
        writing.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_cannot_be_recorded_has_no_log() {
    for ends in [false, true] {
        let (writing, told) = begin(LIMIT).await;
        writing.store.set(Gate::Away);
        if ends {
            let ending = Box::new(Ending::failed(EndReason::ToolError, "done"));
            writing.send(Command::End { ending }).await;
        } else {
            assert!(!writing.tell(|stored| Command::Recorded { stored }).await);
        }
        let answer = heard(told).await;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
        assert!(
            timeout(LIMIT, writing.task)
                .await
                .expect("it ends")
                .expect("it ends well")
        );
        assert_eq!(writing.call.watch().borrow().last, 0, "nothing is shown");
        assert_eq!(writing.store.begun.lock().len(), 1, "it is not tried again");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_is_taken_stays_with_its_call() {
    let (writing, told) = begin(LIMIT).await;
    let first = CallRecord {
        request_digest: "another".to_owned(),
        ..record(&writing.call.record().owner)
    };
    let created = writing.store.store.create_call(first.clone(), Vec::new()).await;
    assert_eq!(created.expect("it is free"), Created::New);
    let (done, _finished) = oneshot::channel();
    writing.send(Command::Finish { done }).await;
    let ending = Box::new(Ending::failed(EndReason::ToolError, "done"));
    writing.send(Command::End { ending }).await;
    assert_eq!(
        heard(told).await.expect("it is there"),
        Created::Taken(Box::new(first.clone()))
    );
    assert!(
        timeout(LIMIT, writing.task)
            .await
            .expect("it ends")
            .expect("it ends well")
    );
    let stored = writing.store.get(&writing.call.id).await.expect("it can be read");
    assert_eq!(stored, Some(first));
    assert_eq!(writing.call.watch().borrow().last, 0, "nothing is shown");
}
