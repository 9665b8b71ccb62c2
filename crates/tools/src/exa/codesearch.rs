//! `codesearch`: asks a search service for examples and documentation of programming (`docs/spec/web-tools.md` §3).

use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Number, Value, json};
use toolgate_model::{Ask, Effect, ToolOutput};
use toolgate_tool::{About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool};

use super::{Query, Service, object, output};

const NAME: &str = "codesearch";
const NONE: &str = "No code snippets or documentation found. Please try a different query, be more specific about the \
                    library or programming concept, or check the spelling of framework names.";
const SEARCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Tokens that the answer may have unless the call says otherwise.
const DEFAULT_TOKENS: u64 = 5000;

/// The tool.
#[derive(Clone)]
pub struct CodeSearch(Service);

/// Its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// What to search for: a library, an interface or a concept, and what you want to know of it
    pub query: String,
    /// How many tokens the answer may have, from 1000 to 50000; more for documentation, fewer for one question
    #[schemars(range(min = 1000, max = 50000), extend("default" = DEFAULT_TOKENS))]
    pub tokens_num: Option<Number>,
}

impl CodeSearch {
    /// Makes the tool for a search service.
    pub fn new(service: Service) -> Self {
        Self(service)
    }
}

#[async_trait]
impl TypedTool for CodeSearch {
    type Input = Input;

    const ABOUT: About = About {
        name: NAME,
        effects: &[Effect::Network],
        permissions: &[NAME],
        advertised: true,
        properties: Properties::RESUMABLE,
        example: r#"{"query": "tonic interceptor with shared state"}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("codesearch.md").trim_end().to_owned()
    }

    fn is_offered(&self, offer: &Offer<'_>) -> bool {
        self.0.is_offered(offer)
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["query"])
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let Input { query, tokens_num } = input;
        let arguments = object([
            ("query", Some(json!(query))),
            (
                "tokensNum",
                Some(json!(tokens_num.unwrap_or_else(|| DEFAULT_TOKENS.into()))),
            ),
        ]);
        let title = format!("Code search: {query}");
        ctx.permission
            .ask(Ask {
                always: vec!["*".to_owned()],
                title: title.clone(),
                metadata: arguments.clone(),
                ..Ask::new(NAME, vec![query])
            })
            .await?;
        let query = Query {
            name: "Code search",
            tool: "get_code_context_exa",
            arguments,
            limit: SEARCH_TIMEOUT,
        };
        let text = self.0.ask(&query, ctx).await?;
        Ok(output(title, text, NONE))
    }
}
