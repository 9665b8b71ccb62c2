//! `websearch`: asks a search service for pages and hands on what it says of them (`docs/spec/web-tools.md` §2).

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};
use toolgate_fs::marks::iso8601;
use toolgate_model::{Ask, Effect, ToolOutput};
use toolgate_tool::{About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool};

use super::{Query, Service, object, output};

const NAME: &str = "websearch";
const NONE: &str = "No search results found. Please try a different query.";
const SEARCH_TIMEOUT: Duration = Duration::from_secs(25);

/// Pages that are asked for unless the call says otherwise.
const DEFAULT_RESULTS: u64 = 8;

/// The tool.
#[derive(Clone)]
pub struct WebSearch(Service);

/// Its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// What to search for
    pub query: String,
    /// How many pages to return (8 if left out)
    pub num_results: Option<Number>,
    /// Whether pages are visited anew: fallback (the default) visits those that are not in the index, preferred all
    pub livecrawl: Option<Crawl>,
    /// How to search: auto (the default), fast, or deep for a thorough search that takes longer
    #[serde(rename = "type")]
    pub kind: Option<Kind>,
    /// How many characters the answer may have at most (10000 if left out)
    pub context_max_characters: Option<Number>,
}

/// When pages are visited anew.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // a text for each would make the schema's list of words a list of schemas
pub enum Crawl {
    #[default]
    Fallback,
    Preferred,
}

/// How to search.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // as above
pub enum Kind {
    #[default]
    Auto,
    Fast,
    Deep,
}

impl WebSearch {
    /// Makes the tool for a search service.
    pub fn new(service: Service) -> Self {
        Self(service)
    }
}

#[async_trait]
impl TypedTool for WebSearch {
    type Input = Input;

    const ABOUT: About = About {
        name: NAME,
        effects: &[Effect::Network],
        permissions: &[NAME],
        advertised: true,
        properties: Properties::RESUMABLE,
        example: r#"{"query": "release notes of Rust 1.95"}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        let today = iso8601(SystemTime::now());
        let today = today.split('T').next().unwrap_or_default();
        include_str!("websearch.md").trim_end().replace("{date}", today)
    }

    fn is_offered(&self, offer: &Offer<'_>) -> bool {
        self.0.is_offered(offer)
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["query"])
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let Input {
            query,
            num_results,
            livecrawl,
            kind,
            context_max_characters,
        } = input;
        let context = context_max_characters.map(|characters| json!(characters));
        let title = format!("Web search: {query}");
        ctx.permission
            .ask(Ask {
                always: vec!["*".to_owned()],
                title: title.clone(),
                metadata: object([
                    ("query", Some(json!(query))),
                    ("numResults", num_results.as_ref().map(|results| json!(results))),
                    ("livecrawl", livecrawl.map(|crawl| json!(crawl))),
                    ("type", kind.map(|kind| json!(kind))),
                    ("contextMaxCharacters", context.clone()),
                ]),
                ..Ask::new(NAME, vec![query.clone()])
            })
            .await?;
        let results = num_results.filter(|results| results.as_f64() != Some(0.0));
        let query = Query {
            name: "Search",
            tool: "web_search_exa",
            arguments: object([
                ("query", Some(json!(query))),
                ("type", Some(json!(kind.unwrap_or_default()))),
                (
                    "numResults",
                    Some(json!(results.unwrap_or_else(|| DEFAULT_RESULTS.into()))),
                ),
                ("livecrawl", Some(json!(livecrawl.unwrap_or_default()))),
                ("contextMaxCharacters", context),
            ]),
            limit: SEARCH_TIMEOUT,
        };
        let text = self.0.ask(&query, ctx).await?;
        Ok(output(title, text, NONE))
    }
}
