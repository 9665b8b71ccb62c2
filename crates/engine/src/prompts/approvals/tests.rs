//! Ten thousand trees of calls, and who may answer in them.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use toolgate_model::{
    Ask, CallId, GrantId, GrantScope, InstanceId, Model, Origin, Principal, PrincipalKind, PromptId, PromptRequest,
    PromptState, SessionId, Timestamp,
};

use super::super::grants::{Grants, Place};
use super::*;

fn origin(requester: &Principal) -> Origin {
    Origin {
        workspace: "w".to_owned(),
        session: SessionId::from("s"),
        directory: String::new(),
        message_id: String::new(),
        agent: "build".to_owned(),
        model: Model::default(),
        client: String::new(),
        client_name: String::new(),
        unanswered: None,
        parent: None,
        requester: requester.id(),
        on_behalf_of: Vec::new(),
        clients: Vec::new(),
        extra: Default::default(),
        environment: Default::default(),
    }
}

fn prompt(origin: &Origin) -> Prompt {
    Prompt {
        id: PromptId::from("p"),
        call: CallId::from("c"),
        owner: InstanceId::from("i"),
        session: origin.session.clone(),
        workspace: origin.workspace.clone(),
        agent: origin.agent.clone(),
        tool: "bash".to_owned(),
        requester: origin.requester.clone(),
        directory: origin.directory.clone(),
        on_behalf_of: origin.on_behalf_of.clone(),
        clients: origin.clients.clone(),
        approvals: Vec::new(),
        created: Timestamp(0),
        expires: None,
        state: PromptState::Open,
        input_json: None,
        input_digest: String::new(),
        request: PromptRequest::Permission {
            ask: Box::new(Ask::new("bash", vec!["ls".to_owned()])),
            rule: None,
            verdicts: Vec::new(),
        },
        decision: None,
        environment: Default::default(),
    }
}

fn anybody() -> impl Strategy<Value = Principal> {
    let kinds = prop_oneof![
        Just(PrincipalKind::Anonymous),
        Just(PrincipalKind::Owner),
        Just(PrincipalKind::Member),
        Just(PrincipalKind::Token),
        Just(PrincipalKind::Jwt),
        Just(PrincipalKind::Certificate),
        Just(PrincipalKind::Call),
    ];
    (kinds, "[ab]").prop_map(|(kind, name)| Principal::new(kind, name))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn nobody_answers_for_themselves(
        makers in proptest::collection::vec((anybody(), any::<bool>()), 1..8),
        answering in anybody(),
        said in proptest::option::of(any::<bool>()),
        here in proptest::option::of(any::<bool>()),
    ) {
        let policy = ApprovalPolicy {
            self_approval: said,
            self_approval_in: here.map(|here| ("w".to_owned(), here)).into_iter().collect(),
            second_approver: Vec::new(),
        };
        // A chain of calls: made by a principal of its own, or by the call above.
        let mut behind = vec![makers[0].0.clone()];
        let mut call = origin(&makers[0].0);
        for (maker, by_the_call) in &makers[1..] {
            let mut child = if *by_the_call { call.clone() } else { origin(maker) };
            child.inherit(&call);
            if !by_the_call {
                behind.push(maker.clone());
            }
            call = child;
        }
        let trusted = matches!(answering.kind(), PrincipalKind::Anonymous | PrincipalKind::Owner);
        let allows_self = here.or(said).unwrap_or(trusted);
        let expected = allows_self || !behind.contains(&answering);
        prop_assert_eq!(policy.may_answer(&prompt(&call), &answering.id()), expected);
        // Neither does what they allowed for somebody else.
        let grant = granted(vec![answering.id()]);
        let rights = working_in("/w");
        prop_assert_eq!(policy.holds_for(&grant, &rights.of_requesters(&call)), expected);
    }
}

#[test]
fn some_permissions_take_two() {
    let policy = |names: &[&str]| ApprovalPolicy {
        second_approver: names.iter().map(|&name| name.to_owned()).collect(),
        ..ApprovalPolicy::default()
    };
    assert!(policy(&["edit", "bash"]).takes_two("bash"));
    assert!(policy(&["*"]).takes_two("bash"));
    assert!(!policy(&["edit"]).takes_two("bash"));
}

fn granted(approvers: Vec<String>) -> Grant {
    Grant {
        session: SessionId::from("s"),
        scope: GrantScope::default(),
        title: String::new(),
        by: String::new(),
        uses: 0,
        last_used: None,
        id: GrantId::from("g"),
        owner: InstanceId::from("i"),
        workspace: "w".to_owned(),
        worktree: String::new(),
        permission: "bash".to_owned(),
        pattern: "ls".to_owned(),
        prompt: PromptId::from("p"),
        approvers,
        created: Timestamp(0),
    }
}

fn working_in(folder: &str) -> Rights {
    Rights {
        rules: Arc::default(),
        ancestors: Vec::new(),
        worktree: Path::new(folder).into(),
        requesters: Arc::default(),
    }
}

#[test]
fn what_one_has_granted_does_not_stand_where_it_takes_two() {
    let policy = ApprovalPolicy {
        second_approver: vec!["bash".to_owned()],
        ..ApprovalPolicy::default()
    };
    let rights = working_in("/w");
    let one = granted(vec!["token:ann".to_owned()]);
    assert!(ApprovalPolicy::default().holds_for(&one, &rights));
    assert!(!policy.holds_for(&one, &rights));
    let two = granted(vec!["token:ann".to_owned(), "token:bob".to_owned()]);
    assert!(policy.holds_for(&two, &rights));
    let other = Grant {
        permission: "edit".to_owned(),
        ..one
    };
    assert!(policy.holds_for(&other, &rights));
}

#[test]
fn what_was_granted_in_a_folder_holds_in_no_other_one() {
    let mut grants = Grants::default();
    let grant = granted(Vec::new());
    let (owner, session) = (grant.owner.clone(), grant.session.clone());
    grants.add([Grant {
        worktree: "/w".to_owned(),
        ..grant
    }]);
    let place = Place {
        owner: &owner,
        workspace: "w",
        session: &session,
    };
    for (folder, count) in [("/w", 1), ("/elsewhere", 0)] {
        let standing = grants.standing(&place, &working_in(folder), &ApprovalPolicy::default(), Timestamp(1));
        assert_eq!(standing.rules.len(), count, "{folder}");
    }
}
