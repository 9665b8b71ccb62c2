//! `invalid`: answers, in the name of the service, a call that names no tool or whose arguments are not JSON.
//!
//! *Invariant:* the answer is a completed result, so that the model reads what went wrong and tries again. To programs the
//! call failed: `CallRecord::is_invalid`.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toolgate_model::{INVALID, JsonMap, OutputText, ToolOutput};
use toolgate_tool::{About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool};

/// The tool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Invalid;

/// Its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The name of the tool that was called
    pub tool: String,
    /// What was wrong with the call
    pub error: String,
}

#[async_trait]
impl TypedTool for Invalid {
    type Input = Input;

    const ABOUT: About = About {
        name: INVALID,
        effects: &[],
        permissions: &[],
        advertised: false,
        properties: Properties::ONLY_LOOKS,
        example: r#"{"tool": "frobnicate", "error": "There is no such tool."}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("invalid.md").trim_end().to_owned()
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["tool"]).titled(input, "error")
    }

    async fn run(&self, input: Input, _ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput {
            title: "Invalid Tool".to_owned(),
            output: OutputText::Text(format!(
                "The arguments provided to the tool are invalid: {}",
                input.error
            )),
            metadata: JsonMap::new(),
            attachments: Vec::new(),
            result: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_tool::Tool;

    use super::*;
    use crate::testing::Bench;

    #[tokio::test]
    async fn says_what_was_wrong() {
        let bench = Bench::new();
        let output = Invalid
            .call(json!({"tool": "x", "error": "boom"}), &bench.ctx())
            .await
            .unwrap();
        assert_eq!(output.title, "Invalid Tool");
        let text = "The arguments provided to the tool are invalid: boom";
        assert_eq!(output.output, OutputText::Text(text.to_owned()));
        assert_eq!(output.metadata, JsonMap::new());
    }
}
