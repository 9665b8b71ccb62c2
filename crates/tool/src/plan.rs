//! Plan mode, for the tools that enter and leave it: where a session's plan is, and the question whether to switch.
//!
//! The service has no messages and no agent loop: what a front end must do when the person agrees stands in the result's
//! metadata, under [`SWITCH`].

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Mutex;
use toolgate_model::{JsonMap, Question, QuestionOption, Timestamp, json_map};
use toolgate_permission::Refusal;

use super::{ToolContext, ToolError};

/// The key of the metadata that tells a front end to switch: `{agent, message, model?, planFile}`. It should add `message`
/// as the user's next one, for `agent`, on `model` if there is one.
pub const SWITCH: &str = "switchAgent";

/// The session's fact that names its plan.
const FACT: &str = "plan";

const ADJECTIVES: [&str; 32] = [
    "amber", "brave", "bright", "calm", "clear", "clever", "cosmic", "crisp", "eager", "early", "fresh", "gentle",
    "glad", "golden", "happy", "humble", "jolly", "keen", "kind", "lively", "lucky", "merry", "mild", "neat", "proud",
    "quick", "quiet", "silver", "sunny", "swift", "warm", "wise",
];
const NOUNS: [&str; 32] = [
    "badger", "beacon", "birch", "brook", "canyon", "cedar", "cloud", "comet", "coral", "eagle", "ember", "falcon",
    "field", "forest", "garden", "harbor", "island", "lantern", "maple", "meadow", "moon", "ocean", "orchid", "otter",
    "pebble", "planet", "river", "rocket", "star", "stone", "tiger", "willow",
];

/// Where plans are.
#[derive(Debug)]
pub struct Plans {
    /// For a workspace that is no git checkout.
    folder: PathBuf,
    /// Held while a session's plan is named, so that two calls at once agree on it.
    naming: Mutex<()>,
}

/// The plan file of a session. Nothing makes it but the agent that writes the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Absolute path.
    pub path: PathBuf,
    /// The path for people and models: relative to the worktree, which outside git checkouts is `/`.
    pub shown: String,
}

/// What names a plan, once and for all.
#[derive(Serialize, Deserialize)]
struct Name {
    created: i64,
    slug: String,
}

impl Plans {
    /// Keeps the plans of a workspace that is no git checkout in `folder`, the workspace's in the data directory.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.join("plans"),
            naming: Mutex::default(),
        }
    }

    /// Returns the plan of the call's session: always the same, also after a restart.
    pub async fn of_session(&self, ctx: &ToolContext) -> Plan {
        let Name { created, slug } = self.name(ctx).await;
        let file = format!("{created}-{slug}.md");
        if ctx.workspace.is_repository() {
            let shown = format!(".opencode/plans/{file}");
            return Plan {
                path: ctx.workspace.worktree().join(&shown),
                shown,
            };
        }
        let path = self.folder.join(file);
        let shown = path.to_string_lossy().trim_start_matches('/').to_owned();
        Plan { path, shown }
    }

    async fn name(&self, ctx: &ToolContext) -> Name {
        let _naming = self.naming.lock().await;
        let known = ctx.session.get(FACT).await;
        if let Some(name) = known.and_then(|name| serde_json::from_value(name).ok()) {
            return name;
        }
        let name = Name {
            created: Timestamp::now().millis(),
            slug: random_slug(),
        };
        ctx.session.set(FACT, json!(name));
        name
    }
}

fn random_slug() -> String {
    // The last bytes of a UUIDv7 are random.
    let [.., first, second] = uuid::Uuid::now_v7().into_bytes();
    format!(
        "{}-{}",
        ADJECTIVES[usize::from(first) % ADJECTIVES.len()],
        NOUNS[usize::from(second) % NOUNS.len()]
    )
}

/// A change of agents that a person is asked about.
#[derive(Clone, Debug)]
pub struct Switch<'a> {
    /// To which agent.
    pub agent: &'a str,
    /// The question, with its short label.
    pub question: String,
    /// The question's short label.
    pub header: &'a str,
    /// What `Yes` means.
    pub yes: &'a str,
    /// What `No` means.
    pub no: &'a str,
    /// The message that the agent starts with.
    pub message: String,
}

impl Switch<'_> {
    /// Asks whether to switch. Returns the metadata that tells the front end to do so.
    ///
    /// # Errors
    /// The person said no or dismissed the question; any other answer, even an empty one, means yes
    /// (`docs/spec/interactive-tools.md` §4.1).
    pub async fn ask(self, ctx: &ToolContext, plan: &Plan) -> Result<JsonMap, ToolError> {
        let option = |label: &str, description: &str| QuestionOption {
            label: label.to_owned(),
            description: description.to_owned(),
        };
        let question = Question {
            question: self.question,
            header: self.header.to_owned(),
            options: vec![option("Yes", self.yes), option("No", self.no)],
            multiple: false,
            custom: false,
            form: None,
        };
        let answers = ctx.permission.ask_questions(vec![question]).await?;
        let first = answers.first().and_then(|labels| labels.first());
        if first.is_some_and(|label| label == "No") {
            return Err(Refusal::Dismissed { message: String::new() }.into());
        }
        let mut switch = json_map([
            ("agent", json!(self.agent)),
            ("message", json!(self.message)),
            ("planFile", json!(plan.path.to_string_lossy())),
        ]);
        let model = &ctx.origin.model;
        if !model.model_id.is_empty() {
            let model = json!({"providerID": model.provider_id, "modelID": model.model_id});
            switch.insert("model".to_owned(), model);
        }
        Ok(json_map([(SWITCH, switch.into())]))
    }
}
