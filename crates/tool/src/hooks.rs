//! Running hooks: in which order, for how long, and what becomes of their failures.
//!
//! | point | a refusal, a failure or no answer in time |
//! |---|---|
//! | `tool.execute.before` | the call fails with the hook's text; the tool does not run |
//! | `tool.execute.after` | the call fails with the hook's text, though the tool has run |
//! | `tool.definition` | the definition stays as it was before that hook; one that is gone or does not answer is not asked again for this list, and none is when the list has waited long enough |
//! | `shell.env` | the command does not run |
//! | `permission.ask` | the hook counts as absent: a person is asked |
//!
//! *Invariant:* hooks run one after the other, each on what the one before left. What they return is checked like what
//! it replaces: arguments against the schema, results against the limits; nobody's rules are loosened but by
//! `permission.ask`, and that only where a person would have been asked.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_model::{
    Ask, Attachment, AttachmentContent, CallId, Definition, Ending, Outcome, SessionId, Source, Timestamp,
};

use super::{Hook, HookError, HookPoint};

/// How long one hook may take.
const HOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// How long all hooks together may take for one list of tools: they are asked for each tool.
const LIST_LIMIT: Duration = Duration::from_secs(10);

/// Bytes of variables that hooks may add.
const MAX_ENVIRONMENT: usize = 256 * 1024;

/// Hooks in the order in which they run.
#[derive(Clone, Default)]
pub struct Hooks(Vec<Arc<dyn Hook>>);

impl FromIterator<Arc<dyn Hook>> for Hooks {
    fn from_iter<T: IntoIterator<Item = Arc<dyn Hook>>>(hooks: T) -> Self {
        Self(hooks.into_iter().collect())
    }
}

/// The call that hooks are told of.
#[derive(Clone, Copy)]
pub struct HookedCall<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The session.
    pub session: &'a SessionId,
    /// The call.
    pub call: &'a CallId,
}

impl HookedCall<'_> {
    fn to_json(self) -> Value {
        json!({ "tool": self.tool, "sessionID": self.session, "callID": self.call.name() })
    }
}

/// What hooks say of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAnswer {
    /// Nothing: a person is asked.
    Ask,
    /// This one allows it.
    Allow(String),
    /// This one refuses it.
    Deny(String),
}

impl Hooks {
    fn at(&self, point: HookPoint) -> impl Iterator<Item = &Arc<dyn Hook>> {
        self.0.iter().filter(move |hook| hook.handles(point))
    }

    /// Returns whether there is a hook for a point.
    pub fn handle(&self, point: HookPoint) -> bool {
        self.at(point).next().is_some()
    }

    /// Runs all hooks of a point; the first failure ends it.
    async fn run(&self, point: HookPoint, input: Value, mut output: Value) -> Result<Value, HookError> {
        for hook in self.at(point) {
            let changed = run(hook, point, input.clone(), output.clone()).await?;
            // What is no object has none of what may be changed.
            if changed.is_object() {
                output = changed;
            }
        }
        Ok(output)
    }

    /// Returns the arguments that the call goes on with.
    ///
    /// # Errors
    /// A hook refused or failed.
    pub async fn before(&self, about: HookedCall<'_>, args: Value) -> Result<Value, HookError> {
        if !self.handle(HookPoint::ExecuteBefore) {
            return Ok(args);
        }
        let output = self
            .run(HookPoint::ExecuteBefore, about.to_json(), json!({ "args": args }))
            .await?;
        Ok(output.get("args").cloned().unwrap_or(args))
    }

    /// Returns a result in the shape that the tool has made of it, as hooks leave it.
    ///
    /// # Errors
    /// A hook refused or failed.
    pub async fn after(&self, about: HookedCall<'_>, args: &Value, result: Value) -> Result<Value, HookError> {
        if !self.handle(HookPoint::ExecuteAfter) {
            return Ok(result);
        }
        let mut input = about.to_json();
        input["args"] = args.clone();
        self.run(HookPoint::ExecuteAfter, input, result).await
    }

    /// Lets hooks change the end of a call that succeeded.
    ///
    /// # Errors
    /// A hook refused or failed.
    pub async fn after_ending(
        &self,
        about: HookedCall<'_>,
        args: &Value,
        ending: &mut Ending,
    ) -> Result<(), HookError> {
        let Outcome::Completed { output } = &mut ending.outcome else {
            return Ok(());
        };
        let attachments: Vec<Value> = ending.attachments.iter().map(attachment_json).collect();
        let result = json!({
            "title": ending.title,
            "output": output,
            "metadata": ending.metadata,
            "attachments": attachments,
        });
        let changed = self.after(about, args, result).await?;
        if let Some(Value::Array(after)) = changed.get("attachments")
            && *after != attachments
        {
            let before = std::mem::take(&mut ending.attachments);
            ending.attachments = reattached(before, &attachments, after);
        }
        if let Some(title) = changed.get("title").and_then(Value::as_str) {
            title.clone_into(&mut ending.title);
        }
        if let Some(text) = changed.get("output").and_then(Value::as_str) {
            text.clone_into(output);
        }
        if let Some(Value::Object(metadata)) = changed.get("metadata") {
            ending.metadata = metadata.clone();
        }
        Ok(())
    }

    /// Returns definitions as hooks leave them. Those of MCP servers are not shown to them.
    pub async fn definitions(&self, mut definitions: Vec<Definition>) -> Vec<Definition> {
        let changing = async {
            for hook in self.at(HookPoint::Definition) {
                redefine_all(hook, &mut definitions).await;
            }
        };
        if tokio::time::timeout(LIST_LIMIT, changing).await.is_err() {
            tracing::warn!("hooks for `tool.definition` are too slow: some definitions stay as they are");
        }
        definitions
    }

    /// Returns who may change definitions.
    pub fn redefining(&self) -> Vec<&str> {
        self.at(HookPoint::Definition).map(|hook| hook.name()).collect()
    }

    /// Returns the variables that hooks add for a command.
    ///
    /// # Errors
    /// A hook refused or failed.
    pub async fn environment(
        &self,
        about: HookedCall<'_>,
        directory: &Path,
    ) -> Result<BTreeMap<String, String>, HookError> {
        if !self.handle(HookPoint::ShellEnvironment) {
            return Ok(BTreeMap::new());
        }
        let input = json!({
            "cwd": directory.to_string_lossy(),
            "sessionID": about.session,
            "callID": about.call.name(),
        });
        let output = self
            .run(HookPoint::ShellEnvironment, input, json!({ "env": {} }))
            .await?;
        let Some(Value::Object(variables)) = output.get("env") else {
            return Ok(BTreeMap::new());
        };
        let variables: BTreeMap<String, String> = variables
            .iter()
            .filter_map(|(name, value)| {
                let value = value.as_str()?;
                let is_usable = !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
                is_usable.then(|| (name.clone(), value.to_owned()))
            })
            .collect();
        let size: usize = variables.iter().map(|(name, value)| name.len() + value.len()).sum();
        if size > MAX_ENVIRONMENT {
            return Err(HookError::Refused(format!(
                "The hooks for `shell.env` set {size} bytes of variables; at most {MAX_ENVIRONMENT} are possible."
            )));
        }
        Ok(variables)
    }

    /// Asks hooks before a person is asked. The first one that says something decides.
    /// Those that `may_answer` does not trust with this one are left out.
    pub async fn permission(
        &self,
        about: HookedCall<'_>,
        message: &str,
        ask: &Ask,
        may_answer: impl Fn(&dyn Hook) -> bool + Send,
    ) -> HookAnswer {
        for hook in self.at(HookPoint::PermissionAsk) {
            if !may_answer(&**hook) {
                continue;
            }
            // The request in the shape of today's releases, and what the type that plugins are written against has besides.
            let input = json!({
                "id": format!("per_{}", about.call),
                "sessionID": about.session,
                "permission": ask.permission,
                "patterns": ask.patterns,
                "always": ask.always,
                "metadata": ask.metadata,
                "tool": { "messageID": message, "callID": about.call.name(), "name": about.tool },
                "type": ask.permission,
                "pattern": ask.patterns,
                "title": ask.title,
                "messageID": message,
                "callID": about.call.name(),
                "time": { "created": Timestamp::now().millis() },
            });
            match run(hook, HookPoint::PermissionAsk, input, json!({ "status": "ask" })).await {
                Ok(output) => match output.get("status").and_then(Value::as_str) {
                    Some("allow") => return HookAnswer::Allow(hook.name().to_owned()),
                    Some("deny") => return HookAnswer::Deny(hook.name().to_owned()),
                    Some(_) | None => {}
                },
                Err(error) => {
                    tracing::warn!(hook = hook.name(), %error, "a hook for `permission.ask` counts as absent");
                }
            }
        }
        HookAnswer::Ask
    }
}

async fn run(hook: &Arc<dyn Hook>, point: HookPoint, input: Value, output: Value) -> Result<Value, HookError> {
    match tokio::time::timeout(HOOK_TIMEOUT, hook.run(point, input, output)).await {
        Ok(result) => result,
        Err(_) => Err(HookError::Failed {
            name: hook.name().to_owned(),
            problem: format!(
                "it did not answer `{}` within {} s",
                point.as_str(),
                HOOK_TIMEOUT.as_secs()
            ),
        }),
    }
}

fn attachment_json(attachment: &Attachment) -> Value {
    let mut value = json!({ "type": "file", "mime": attachment.mime });
    if let Some(filename) = &attachment.filename {
        value["filename"] = json!(filename);
    }
    value["url"] = match &attachment.content {
        AttachmentContent::Url(url) => json!(url),
        AttachmentContent::Bytes(bytes) => {
            use base64::Engine as _;
            let text = base64::engine::general_purpose::STANDARD.encode(bytes);
            json!(format!("data:{};base64,{text}", attachment.mime))
        }
    };
    value
}

/// Takes over the attachments that hooks leave: those that they were shown stay as they are, others are new.
fn reattached(before: Vec<Attachment>, shown: &[Value], after: &[Value]) -> Vec<Attachment> {
    let mut before: Vec<Option<Attachment>> = before.into_iter().map(Some).collect();
    after
        .iter()
        .filter_map(|value| {
            let kept = shown.iter().position(|shown| shown == value);
            if let Some(attachment) = kept.and_then(|at| before[at].take()) {
                return Some(attachment);
            }
            let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
            Some(Attachment {
                id: format!("att_{}", uuid::Uuid::now_v7().simple()),
                mime: text("mime")?,
                filename: text("filename"),
                content: AttachmentContent::Url(text("url")?),
            })
        })
        .collect()
}

/// Lets a hook see and change definitions, as far as it may see them.
async fn redefine_all(hook: &Arc<dyn Hook>, definitions: &mut [Definition]) {
    let shown = definitions
        .iter_mut()
        .filter(|definition| definition.source != Source::Mcp);
    for definition in shown {
        let input = json!({ "toolID": definition.name });
        let before = json!({
            "description": definition.description,
            "parameters": definition.input_schema,
            "jsonSchema": definition.input_schema,
        });
        match run(hook, HookPoint::Definition, input, before.clone()).await {
            Ok(after) => redefine(definition, &before, &after),
            Err(error) => {
                tracing::warn!(hook = hook.name(), tool = %definition.name, %error, "a definition stays as it is");
                if matches!(error, HookError::Failed { .. }) {
                    // It would fail for the others too, each time after as long a wait.
                    return;
                }
            }
        }
    }
}

/// Takes over what a hook changed. A schema counts only if it is an object.
fn redefine(definition: &mut Definition, before: &Value, after: &Value) {
    if let Some(description) = after.get("description").and_then(Value::as_str) {
        description.clone_into(&mut definition.description);
    }
    let changed = ["jsonSchema", "parameters"]
        .into_iter()
        .filter_map(|key| {
            after
                .get(key)
                .filter(|schema| schema.is_object() && before.get(key) != Some(schema))
        })
        .next();
    if let Some(schema) = changed {
        definition.input_schema = schema.clone();
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use parking_lot::Mutex;

    use super::*;

    /// A hook that does what a function says, and keeps what it was told.
    struct Of(Answers, Mutex<Vec<Value>>);

    /// What a hook makes of what it may change.
    type Answers = fn(Value) -> Result<Value, HookError>;

    #[async_trait]
    impl Hook for Of {
        fn name(&self) -> &str {
            "of"
        }

        fn handles(&self, _point: HookPoint) -> bool {
            true
        }

        async fn run(&self, _point: HookPoint, input: Value, output: Value) -> Result<Value, HookError> {
            self.1.lock().push(input);
            (self.0)(output)
        }
    }

    fn hooks(hooks: &[Answers]) -> Hooks {
        let hook = |hook: &Answers| Arc::new(Of(*hook, Mutex::default())) as Arc<dyn Hook>;
        hooks.iter().map(hook).collect()
    }

    fn refuse(_: Value) -> Result<Value, HookError> {
        Err(HookError::Refused("no".to_owned()))
    }

    fn ids() -> (SessionId, CallId) {
        (SessionId::from("ses_1"), CallId::from("c"))
    }

    #[tokio::test]
    async fn arguments_may_be_changed_and_replaced() {
        let (session, call) = ids();
        let about = HookedCall {
            tool: "t",
            session: &session,
            call: &call,
        };
        let changed = hooks(&[
            |mut output| {
                output["args"]["b"] = json!(2);
                Ok(output)
            },
            |output| Ok(json!({ "args": { "whole": output["args"] } })),
        ]);
        let args = changed.before(about, json!({"a": 1})).await.unwrap();
        assert_eq!(args, json!({"whole": {"a": 1, "b": 2}}));
        let refused = hooks(&[Ok, refuse]).before(about, json!({})).await;
        assert_eq!(refused.unwrap_err().to_string(), "no");
        // A hook that leaves nothing behind changes nothing.
        let args = hooks(&[|_| Ok(Value::Null)])
            .before(about, json!({"a": 1}))
            .await
            .unwrap();
        assert_eq!(args, json!({"a": 1}));
    }

    #[tokio::test]
    async fn results_may_be_changed() {
        let (session, call) = ids();
        let about = HookedCall {
            tool: "t",
            session: &session,
            call: &call,
        };
        let mut ending = Ending {
            outcome: Outcome::Completed {
                output: "out".to_owned(),
            },
            attachments: vec![Attachment {
                id: "att_1".to_owned(),
                mime: "image/png".to_owned(),
                filename: None,
                content: AttachmentContent::Bytes(bytes::Bytes::from_static(b"hi")),
            }],
            ..Ending::failed(toolgate_model::EndReason::Internal, "")
        };
        let before = ending.attachments.clone();
        hooks(&[Ok]).after_ending(about, &json!({}), &mut ending).await.unwrap();
        assert_eq!(ending.attachments, before);
        let change = hooks(&[|mut output| {
            assert_eq!(output["attachments"][0]["url"], "data:image/png;base64,aGk=");
            output["output"] = json!("new");
            output["metadata"]["k"] = json!(1);
            let more = json!({"type": "file", "mime": "text/plain", "url": "data:,x", "filename": "x"});
            output["attachments"].as_array_mut().unwrap().insert(0, more);
            output["attachments"]
                .as_array_mut()
                .unwrap()
                .push(json!({"type": "file"}));
            Ok(output)
        }]);
        change.after_ending(about, &json!({}), &mut ending).await.unwrap();
        assert_eq!(
            ending.outcome,
            Outcome::Completed {
                output: "new".to_owned()
            }
        );
        assert_eq!(ending.metadata["k"], 1);
        let ids: Vec<&str> = ending
            .attachments
            .iter()
            .map(|attachment| attachment.id.as_str())
            .collect();
        assert_eq!(ids.len(), 2);
        assert_eq!(ids[1], "att_1");
    }

    #[tokio::test]
    async fn the_first_hook_that_says_something_decides() {
        let (session, call) = ids();
        let about = HookedCall {
            tool: "t",
            session: &session,
            call: &call,
        };
        let check = async |list: &[Answers], expected: HookAnswer| {
            let answer = hooks(list).permission(about, "msg", &Ask::default(), |_| true).await;
            assert_eq!(answer, expected);
        };
        let allow: fn(Value) -> Result<Value, HookError> = |_| Ok(json!({"status": "allow"}));
        let deny: fn(Value) -> Result<Value, HookError> = |_| Ok(json!({"status": "deny"}));
        check(&[Ok, refuse], HookAnswer::Ask).await;
        check(&[Ok, refuse, deny, allow], HookAnswer::Deny("of".to_owned())).await;
        check(&[allow, deny], HookAnswer::Allow("of".to_owned())).await;
    }
}
