//! Both halves apart: the inbox over prompts on which no call waits, and a call whose prompt is settled by another process.
//!
//! What is another process here is another store on the same folder, with an instance of its own.

mod elsewhere;
mod stored;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use toolgate_model::{
    Action, Always, Ask, CallId, Decision, GrantReach, GrantScope, InstanceId, Model, Origin, Principal, PrincipalKind,
    Prompt, PromptId, PromptOutcome, PromptRequest, PromptState, Reply, Rule, SessionId, Timestamp,
};
use toolgate_permission::Rights;
use toolgate_store::Store;
use toolgate_store::local::LocalStore;

use super::asking::{Asked, Opened};
use super::broker::{ApprovalPolicy, ApproverReply, Broker, PromptPolicy, ReplyOutcome};

/// Much longer than any of it takes.
const LIMIT: Duration = Duration::from_secs(60);

/// One run of the service on a data folder.
struct Run {
    store: Arc<dyn Store>,
    instance: InstanceId,
    broker: Broker,
}

impl Run {
    async fn on(folder: &TempDir) -> Self {
        Self::with(folder, ApprovalPolicy::default()).await
    }

    async fn with(folder: &TempDir, approvals: ApprovalPolicy) -> Self {
        let instance = InstanceId::generate();
        let store: Arc<dyn Store> = Arc::new(LocalStore::open(folder.path(), instance.clone()).expect("a store"));
        let broker = Broker::open(store.clone(), instance.clone(), PromptPolicy::default(), approvals);
        Self {
            broker: broker.await.expect("both halves"),
            store,
            instance,
        }
    }

    fn prompt(&self, id: &str, request: PromptRequest) -> Prompt {
        let origin = origin();
        Prompt {
            id: PromptId::from(id),
            call: CallId::from("c"),
            owner: self.instance.clone(),
            session: origin.session,
            workspace: origin.workspace,
            agent: origin.agent,
            tool: "bash".to_owned(),
            requester: origin.requester,
            directory: String::new(),
            on_behalf_of: Vec::new(),
            clients: Vec::new(),
            approvals: Vec::new(),
            created: Timestamp::now(),
            expires: None,
            state: PromptState::Open,
            input_digest: "11".to_owned(),
            input_json: None,
            environment: Default::default(),
            request,
            decision: None,
        }
    }

    async fn ask(&self, id: &str, command: &str) -> Asked {
        let make = |request, _| self.prompt(id, request);
        let (ask, origin, rights) = (ask(command), origin(), rights());
        let asked = self.broker.asking.ask(&ask, &origin, &rights, make).await;
        asked.expect("no rule denies it")
    }

    async fn opened(&self, id: &str, command: &str) -> Opened {
        match self.ask(id, command).await {
            Asked::Opened(opened) => opened,
            Asked::Allowed { .. } => panic!("{command} is not allowed yet"),
        }
    }

    async fn reply(&self, id: &str, reply: Reply) -> ReplyOutcome {
        self.reply_as("ann", id, reply).await
    }

    async fn reply_as(&self, name: &str, id: &str, reply: Reply) -> ReplyOutcome {
        let given = ApproverReply {
            prompt: PromptId::from(id),
            reply_id: String::new(),
            reply,
            input_digest: "11".to_owned(),
            by: name.to_owned(),
            principal: Principal::new(PrincipalKind::Token, name),
        };
        self.broker.inbox.reply(given).await.expect("the store takes it")
    }

    async fn decision(&self, id: &str) -> Option<Decision> {
        let prompt = self.store.prompt(&PromptId::from(id)).await.expect("it is read");
        prompt.expect("it is stored").decision
    }

    /// Says because of which other prompt one was decided.
    async fn because_of(&self, id: &str) -> Option<String> {
        let because_of = self.decision(id).await.and_then(|decision| decision.because_of);
        because_of.map(|prompt| prompt.to_string())
    }
}

fn origin() -> Origin {
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
        requester: "token:asks".to_owned(),
        on_behalf_of: Vec::new(),
        clients: Vec::new(),
        extra: Default::default(),
        environment: Default::default(),
    }
}

/// Every command is asked for.
fn rights() -> Rights {
    let rule = Rule {
        permission: "bash".to_owned(),
        pattern: "*".to_owned(),
        action: Action::Ask,
    };
    Rights {
        rules: [rule].into(),
        ancestors: Vec::new(),
        worktree: Path::new("/work").into(),
        requesters: ["token:asks".to_owned()].into(),
    }
}

/// Asks for a command, and for all of its program from then on.
fn ask(command: &str) -> Ask {
    let program = command.split(' ').next().unwrap_or_default();
    Ask {
        always: vec![format!("{program} *")],
        ..Ask::new("bash", vec![command.to_owned()])
    }
}

fn permission(command: &str) -> PromptRequest {
    PromptRequest::Permission {
        ask: Box::new(ask(command)),
        rule: None,
        verdicts: Vec::new(),
    }
}

/// Allows a program from now on.
fn always(program: &str, reach: GrantReach) -> Reply {
    Reply::Always(Always {
        scope: GrantScope {
            reach,
            ..GrantScope::default()
        },
        patterns: vec![format!("{program} *")],
    })
}

fn rejection() -> Reply {
    Reply::Reject { message: String::new() }
}
