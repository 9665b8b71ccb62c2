//! The trait that a tool's author writes, the trait that the registry holds, and what is said about a tool.

use std::fmt;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toolgate_fs::Workspace;
use toolgate_model::{Claims, Definition, Effect, Model, Source, ToolOutput};
use toolgate_permission::Rights;
use toolgate_permission::judgement;

use super::context::ToolContext;
use super::error::{ToolError, invalid_arguments};
use super::outline::Outline;
use super::schema::schema_of;

/// For whom a list of tools is made.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The workspace.
    pub workspace: &'a Workspace,
    /// The agent's name.
    pub agent: &'a str,
    /// The model.
    pub model: &'a Model,
    /// The kind of client.
    pub client: &'a str,
    /// What the agent may do; none where only a name is looked up.
    pub rights: Option<&'a Rights>,
}

impl Offer<'_> {
    /// Says whether a rule denies the agent a permission for one pattern.
    pub fn denies(&self, permission: &str, pattern: &str) -> bool {
        self.rights
            .is_some_and(|rights| judgement::denies(permission, pattern, rights))
    }
}

/// One thing that is wrong with an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputProblem {
    /// The argument, its place in the input joined by dots; empty for the input itself.
    pub argument: String,
    /// The schema's keyword that it breaks.
    pub keyword: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for InputProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.argument.is_empty() {
            write!(f, "{}: ", self.argument)?;
        }
        f.write_str(&self.message)
    }
}

/// Says whether models of this kind are given `apply_patch`, in the place of `edit` and `write`
/// (`docs/spec/framework.md` §6).
pub fn uses_apply_patch(model: &Model) -> bool {
    let id = &model.model_id;
    id.contains("gpt-") && !id.contains("oss") && !id.contains("gpt-4")
}

/// A tool as the registry holds it.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// Returns the tool's name.
    fn name(&self) -> &str;

    /// Returns the JSON Schema of the input, which every input is checked against.
    fn input_schema(&self) -> Value;

    /// Returns what is told about the tool in a list made for `offer`.
    fn definition(&self, offer: &Offer<'_>) -> Definition;

    /// Looks again at what the tool's definition is made of. Called before a list is made.
    async fn refresh(&self) {}

    /// Returns what the model reads when an input does not fit the schema.
    fn misfit(&self, problems: &[InputProblem]) -> String {
        misfit(self.name(), problems)
    }

    /// Says whether the tool is one for this model and client. One that is not can neither be seen nor called.
    fn is_offered(&self, _offer: &Offer<'_>) -> bool {
        true
    }

    /// Returns an input that the schema accepts, as JSON text; the registry's test runs it under rules that deny all.
    fn example(&self) -> &str {
        "{}"
    }

    /// Returns what the tool is, as far as calls of it are treated differently from others.
    fn properties(&self) -> Properties {
        Properties::NONE
    }

    /// Returns what is shown of a call with this input before it has a result. It runs before anything else does, and
    /// must be cheap.
    fn outline(&self, input: &Value) -> Outline {
        Outline::of_any(self.name(), input)
    }

    /// Runs the tool. The input has been validated against the schema, and is frozen.
    async fn call(&self, input: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError>;
}

/// What a tool is, as far as calls of it are treated differently from others. The default is a tool that is none of this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// It changes nothing before its last question is answered. A call of such a tool that waits for a person when the
    /// service dies is run again from its frozen input, and finds its prompts as they were.
    pub resumable: bool,
    /// Until its last question that is not late is answered it only looks, and it ends when one is refused. What a call of it
    /// would ask can be found out by running it up to there. Its questions name those that [follow](toolgate_model::Ask::then).
    pub foreseeable: bool,
    /// A person who is asked may put another input in the place of a call's. The tool must do nothing before its questions
    /// are answered but those it marks as late, and hand on every refusal.
    pub editable: bool,
    /// Its calls change nothing but what the session knows. They may run before they are recorded: a call of which nobody
    /// hears, because the service dies meanwhile, has done nothing.
    pub only_looks: bool,
    /// People make its calls, at a front end, and may well repeat one: no model is in a loop.
    pub for_people: bool,
    /// Clients may send more input to a running call: see [`StdinHandle`](super::StdinHandle).
    pub reads_input: bool,
    /// A subagent makes calls on behalf of a call of the tool; a front end runs it.
    pub runs_subagent: bool,
    /// An input is checked where the tool is served, and gets there as the model wrote it (`docs/spec/extensions.md` §3.4).
    /// Its schema is then for models alone.
    pub checks_own_input: bool,
    /// The tool hands its result to the hooks itself, in another form than others: see
    /// [`HooksHandle::after`](super::HooksHandle::after).
    pub runs_after_hooks: bool,
}

impl Properties {
    /// A tool that is none of this.
    pub const NONE: Self = Self {
        resumable: false,
        foreseeable: false,
        editable: false,
        only_looks: false,
        for_people: false,
        reads_input: false,
        runs_subagent: false,
        checks_own_input: false,
        runs_after_hooks: false,
    };

    /// A tool that changes nothing before its last question is answered.
    pub const RESUMABLE: Self = Self {
        resumable: true,
        foreseeable: true,
        ..Self::NONE
    };

    /// A tool that changes nothing at all.
    pub const ONLY_LOOKS: Self = Self {
        only_looks: true,
        ..Self::RESUMABLE
    };
}

/// The fixed facts of a built-in tool.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The tool's name.
    pub name: &'static str,
    /// What it may do.
    pub effects: &'static [Effect],
    /// The permissions that it may ask for.
    pub permissions: &'static [&'static str],
    /// Whether models are told of it.
    pub advertised: bool,
    /// What it is, as far as calls of it are treated differently.
    pub properties: Properties,
    /// A valid input, as JSON text.
    pub example: &'static str,
}

/// A tool as its author writes it: typed input, schema made from the type.
#[async_trait]
pub trait TypedTool: Send + Sync + 'static {
    /// The arguments. An `Option` field is one that may be absent; `null` is never accepted.
    type Input: DeserializeOwned + JsonSchema + Send;

    /// The fixed facts.
    const ABOUT: About;

    /// Whether it is there only where somebody has switched it on, and may change.
    const EXPERIMENTAL: bool = false;

    /// Returns the text for the model.
    fn description(&self, offer: &Offer<'_>) -> String;

    /// Returns the schema that models are told, which may leave out what is for front ends alone.
    fn told_schema(&self) -> Value {
        schema_of::<Self::Input>()
    }

    /// Says whether the tool is one for this model and client: see [`Tool::is_offered`].
    fn is_offered(&self, _offer: &Offer<'_>) -> bool {
        true
    }

    /// Returns what the model reads when an input does not fit the schema.
    fn misfit(&self, problems: &[InputProblem]) -> String {
        misfit(Self::ABOUT.name, problems)
    }

    /// Returns what is shown of a call before it has a result: see [`Tool::outline`].
    fn outline(&self, input: &Value) -> Outline {
        Outline::of_any(Self::ABOUT.name, input)
    }

    /// Runs the tool.
    async fn run(&self, input: Self::Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError>;
}

#[async_trait]
impl<T: TypedTool> Tool for T {
    fn name(&self) -> &str {
        T::ABOUT.name
    }

    fn input_schema(&self) -> Value {
        schema_of::<T::Input>()
    }

    fn properties(&self) -> Properties {
        T::ABOUT.properties
    }

    fn is_offered(&self, offer: &Offer<'_>) -> bool {
        TypedTool::is_offered(self, offer)
    }

    fn misfit(&self, problems: &[InputProblem]) -> String {
        TypedTool::misfit(self, problems)
    }

    fn outline(&self, input: &Value) -> Outline {
        TypedTool::outline(self, input)
    }

    fn definition(&self, offer: &Offer<'_>) -> Definition {
        Definition {
            name: T::ABOUT.name.to_owned(),
            title: String::new(),
            description: self.description(offer),
            input_schema: self.told_schema(),
            source: Source::Builtin,
            effects: T::ABOUT.effects.to_vec(),
            permissions: T::ABOUT.permissions.iter().map(|&name| name.to_owned()).collect(),
            experimental: T::EXPERIMENTAL,
            advertised: T::ABOUT.advertised,
            claims: Claims::default(),
        }
    }

    fn example(&self) -> &str {
        T::ABOUT.example
    }

    async fn call(&self, input: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let input = serde_json::from_value(input).map_err(|error| {
            // The schema is made from the same type, so only a check that the schema cannot express ends here.
            ToolError::Failed(invalid_arguments(T::ABOUT.name, &error.to_string()))
        })?;
        self.run(input, ctx).await
    }
}

fn misfit(tool: &str, problems: &[InputProblem]) -> String {
    let problems: Vec<String> = problems.iter().map(InputProblem::to_string).collect();
    invalid_arguments(tool, &problems.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_models_use_apply_patch() {
        let check = |id: &str, expected: bool| {
            let model = Model {
                model_id: id.to_owned(),
                ..Model::default()
            };
            assert_eq!(uses_apply_patch(&model), expected, "{id}");
        };
        check("gpt-5", true);
        check("openai/gpt-5.1-codex", true);
        check("gpt-oss-120b", false);
        check("gpt-4o", false);
        check("gpt5", false);
        check("claude-sonnet", false);
        check("", false);
    }
}
