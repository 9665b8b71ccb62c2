//! Tools that this program lends.
//!
//! *Invariant:* an input that does not fit the type of a tool's function is answered to the model.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use toolgate_contract::json::struct_from_json;
use toolgate_contract::{Attachment, HostCompleted, LentTool, ToolEffect};

use crate::error::BoxError;
use crate::invocation::Invocation;

pub(crate) type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolResult, BoxError>> + Send>>;

/// A function that a [`crate::Host`] lends.
#[derive(Clone)]
pub struct Tool {
    pub(crate) definition: LentTool,
    pub(crate) run: Arc<dyn Fn(Invocation) -> ToolFuture + Send + Sync>,
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("name", &self.definition.name)
            .finish_non_exhaustive()
    }
}

/// What a lent function returns. A text becomes one with `into`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolResult {
    /// A short text for people; empty for the last one that was reported.
    pub title: String,
    /// The text for the model; `None` for what the function has written as output.
    pub output: Option<String>,
    /// Merged over what was reported.
    pub metadata: Map<String, Value>,
    /// Files that belong to the result.
    pub attachments: Vec<Attachment>,
}

impl From<String> for ToolResult {
    fn from(output: String) -> Self {
        Self {
            output: Some(output),
            ..Self::default()
        }
    }
}

impl From<&str> for ToolResult {
    fn from(output: &str) -> Self {
        output.to_owned().into()
    }
}

impl ToolResult {
    pub(crate) fn into_wire(self) -> HostCompleted {
        HostCompleted {
            title: self.title,
            output: self.output,
            metadata: Some(struct_from_json(self.metadata)),
            attachments: self.attachments,
        }
    }
}

impl Tool {
    /// Makes a tool of an async function. Its input is a type that `serde` reads and `schemars` describes:
    ///
    /// ```
    /// use toolgate_client::{BoxError, Invocation, Tool, schemars};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Greeting {
    ///     /// Who is greeted.
    ///     name: String,
    /// }
    ///
    /// let greet = Tool::new("greet", "Greets somebody.", async |_call: Invocation, input: Greeting| {
    ///     Ok::<_, BoxError>(format!("Hello, {}!", input.name))
    /// });
    /// # let _ = greet;
    /// ```
    ///
    /// The error of the function is the text for the model: what to do next. The function's future is dropped when the call
    /// ends.
    pub fn new<I, O, F, R>(name: impl Into<String>, description: impl Into<String>, run: F) -> Self
    where
        I: DeserializeOwned + JsonSchema,
        O: Into<ToolResult>,
        F: Fn(Invocation, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, BoxError>> + Send + 'static,
    {
        let definition = LentTool {
            name: name.into(),
            description: description.into(),
            input_schema_json: schema_of::<I>().to_string(),
            effects: Vec::new(),
        };
        let run = Arc::new(run);
        Self::raw(definition, move |call| {
            let run = Arc::clone(&run);
            async move {
                let input = serde_json::from_str(&call.input_json);
                let input = input.map_err(|error| format!("the input does not fit: {error}"))?;
                Ok(run(call, input).await?.into())
            }
        })
    }

    /// Makes a tool of a definition with a JSON Schema of your own; the function reads `input_json` itself.
    pub fn raw<F, R>(definition: LentTool, run: F) -> Self
    where
        F: Fn(Invocation) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolResult, BoxError>> + Send + 'static,
    {
        Self {
            definition,
            run: Arc::new(move |call| Box::pin(run(call))),
        }
    }

    /// Says what the tool may do, for front ends that mark tools by it.
    pub fn effects(mut self, effects: impl IntoIterator<Item = ToolEffect>) -> Self {
        self.definition.effects = effects.into_iter().map(Into::into).collect();
        self
    }
}

fn schema_of<I: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<I>().to_value();
    if let Some(schema) = schema.as_object_mut() {
        // The name of a Rust type tells a model nothing.
        schema.remove("title");
    }
    schema
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(serde::Deserialize, JsonSchema)]
    struct Greeting {
        /// Who is greeted.
        #[allow(dead_code)]
        name: String,
    }

    #[test]
    fn a_schema_is_that_of_the_type() {
        assert_eq!(
            schema_of::<Greeting>(),
            json!({
                "type": "object",
                "properties": {"name": {"description": "Who is greeted.", "type": "string"}},
                "required": ["name"],
            })
        );
    }
}
