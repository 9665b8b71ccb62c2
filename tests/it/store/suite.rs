//! The generic suite: its cases by name, the fixture of a store, and what the cases are made with.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use toolgate_model::{
    Approval, Ask, CallEvent, CallId, CallRecord, CallState, Ending, EventKind, InstanceId, JsonMap, Model, Origin,
    Outcome, Prompt, PromptId, PromptRequest, PromptState, SessionId, Timestamp, Truncation, WarningKind, json_map,
};
use toolgate_store::{CallLog, Created, Store};

/// One place where runs of the service keep their state; empty at first.
#[async_trait]
pub(crate) trait Fixture: Send + Sync {
    /// Starts a run of the service.
    async fn open(&self, instance: &InstanceId) -> Arc<dyn Store>;

    /// Ends a run, all its writes done; its instance is dead from then on.
    async fn stop(&self, instance: &InstanceId);

    /// Returns the workspace of a text: of that name, unless runs here can have none of it.
    fn workspace(&self, text: &str) -> String {
        text.to_owned()
    }
}

/// Names each case once; a store runs them all with `suite!(FIXTURE)`, an expression that makes a fixture for each case.
macro_rules! suite {
    ($fixture:expr) => {
        suite! {
            $fixture;
            calls: create_and_take, append_continues_the_log, append_refuses_what_does_not_fit, two_writers_race,
                a_restart_finds_calls, a_change_after_the_end_leaves_the_end, orphans_change_owner_once, orphans_of_the_living_stay, events_by_pages, long_log,
                filters, pages_while_calls_arrive, bad_pages, sweeping_calls, hostile_ids_of_calls, many_at_once;
            prompts: open_and_list, first_reply_wins, two_stores_settle_once, approvals_count_once, cascades,
                what_came_meanwhile_is_looked_at, who_asks_is_kept_while_the_prompt_is_open, grants_live_and_go, uses_are_counted, unknown_prompts,
                hostile_ids_of_prompts;
            prefixes: workspaces_by_prefix;
            records: facts_are_seen_at_once, the_last_fact_wins, facts_before_appends, facts_of_workspaces, forgetting,
                hostile_facts,
                workspaces_are_remembered, journal_is_ordered, journal_wakes_readers, journal_wakes_readers_of_others,
                journal_has_what_is_stored_and_nothing_else, journal_of_two_stores, sweeping_the_journal;
            outputs: written_and_read, ranges, read_while_written, dropped_writer, never_written, large_ones, listed, deleted,
                kept_after_restart, swept_by_age, swept_by_size, unknown_outputs;
            audit: each_thing_is_recorded_once, people_are_recorded, facts_are_recorded_before_appends, two_stores_keep_one_chain, sweeping_the_audit;
            changes: contents_are_kept, changes_are_kept_in_order, changes_go_with_their_call;
        }
    };
    ($fixture:expr; $($theme:ident: $($case:ident),+;)+) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                crate::store::$theme::$case(&$fixture).await;
            }
        )+)+
    };
}

pub(crate) use suite;

pub(crate) fn record(id: &str, owner: &InstanceId) -> CallRecord {
    CallRecord {
        id: CallId::from(id),
        owner: owner.clone(),
        origin: Origin {
            workspace: "main".to_owned(),
            session: SessionId::from("ses_1"),
            directory: String::new(),
            message_id: String::new(),
            agent: "build".to_owned(),
            model: Model::default(),
            client: "cli".to_owned(),
            client_name: String::new(),
            unanswered: None,
            parent: None,
            requester: String::new(),
            on_behalf_of: Vec::new(),
            clients: Vec::new(),
            extra: json_map([("z", json!(1)), ("a", json!([1.5, null, "\u{0}"]))]),
            environment: Default::default(),
        },
        tool: "bash".to_owned(),
        requested_tool: "Bash".to_owned(),
        directory: "/w".to_owned(),
        original: None,
        in_task: false,
        ancestors: Vec::new(),
        made_by_call: false,
        is_step: false,
        request_digest: "00".to_owned(),
        input_json: r#"{"command":"true"}"#.to_owned(),
        input_digest: "11".to_owned(),
        timeout: None,
        on_disconnect: Default::default(),
        state: CallState::Pending,
        created: Timestamp(1_000),
        started: None,
        ended: None,
        last_sequence: 0,
        title: String::new(),
        summary: String::new(),
        waiting_on: None,
        ending: None,
    }
}

pub(crate) fn event(sequence: u64) -> CallEvent {
    CallEvent {
        sequence,
        time: Timestamp(sequence as i64),
        kind: EventKind::Warning {
            kind: WarningKind::Lossy,
            text: format!("event {sequence}"),
        },
    }
}

/// Advances a record by `count` events.
pub(crate) fn grow(record: &mut CallRecord, count: u64) -> Vec<CallEvent> {
    let first = record.last_sequence + 1;
    record.last_sequence += count;
    (first..first + count).map(event).collect()
}

/// Ends a record at a time.
pub(crate) fn end(record: &mut CallRecord, time: Timestamp) -> Vec<CallEvent> {
    let ending = Ending {
        outcome: Outcome::Completed {
            output: "done".to_owned(),
        },
        title: String::new(),
        metadata: JsonMap::new(),
        attachments: Vec::new(),
        result: None,
        resources: None,
        truncation: Truncation::default(),
        timing: Default::default(),
    };
    record.state = CallState::Completed;
    record.ended = Some(time);
    record.ending = Some(ending.clone());
    record.last_sequence += 1;
    vec![CallEvent {
        sequence: record.last_sequence,
        time,
        kind: EventKind::Ended(Box::new(ending)),
    }]
}

pub(crate) async fn create(store: &dyn Store, mut record: CallRecord) -> CallRecord {
    let events = grow(&mut record, 1);
    assert_eq!(
        CallLog::create_call(store, record.clone(), events).await.unwrap(),
        Created::New
    );
    record
}

pub(crate) fn prompt(id: &str, call: &str, owner: &InstanceId) -> Prompt {
    Prompt {
        id: PromptId::from(id),
        call: CallId::from(call),
        owner: owner.clone(),
        session: SessionId::from("ses_1"),
        workspace: "main".to_owned(),
        agent: "build".to_owned(),
        tool: "bash".to_owned(),
        requester: String::new(),
        directory: String::new(),
        on_behalf_of: Vec::new(),
        clients: Vec::new(),
        approvals: Vec::new(),
        created: Timestamp(1_000),
        expires: None,
        state: PromptState::Open,
        input_digest: "11".to_owned(),
        input_json: None,
        request: PromptRequest::Permission {
            ask: Box::new(Ask {
                always: vec!["ls *".to_owned()],
                title: "ls".to_owned(),
                ..Ask::new("bash", vec!["ls".to_owned()])
            }),
            rule: None,
            verdicts: Vec::new(),
        },
        decision: None,
        environment: Default::default(),
    }
}

pub(crate) fn approval(principal: &str) -> Approval {
    Approval {
        principal: principal.to_owned(),
        by: format!("the one with {principal}"),
        always: None,
        time: Timestamp(1_500),
        reply_id: format!("reply of {principal}"),
    }
}

/// Texts that break what quotes, counts or cuts without care.
pub(crate) fn hostile() -> Vec<String> {
    let mut texts: Vec<String> = [
        "'; DROP TABLE calls; --",
        "\"double\" 'single' `back`",
        "nul\u{0}inside",
        "nul\u{0}other",
        "\u{0}",
        "100%_?*",
        "é",
        "e\u{301}",
        "\u{1F600}\u{202E}",
        "A",
        "a",
        " a",
        "a ",
        "../../etc/passwd",
        "line\nfeed",
        "\\u0000",
    ]
    .map(str::to_owned)
    .into();
    texts.push("x".repeat(10_000));
    texts.push(format!("{}y", "x".repeat(10_000)));
    texts
}
