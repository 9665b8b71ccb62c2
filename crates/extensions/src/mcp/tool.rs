//! A server's tool as a tool of the service.
//!
//! *Invariant:* nothing is sent before the permission is given, and the server is told the name and the arguments as it
//! knows them. What the server sends is seen by the hooks before it is converted.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use toolgate_model::{Definition, Effect, Source, ToolOutput, json_map};
use toolgate_tool::{Offer, Properties, Tool, ToolContext, ToolError, blocking, misfit};

use crate::asking::ask_to_run;

use super::attending::{Attending, Method};
use super::client::Described;
use super::dispatcher::shortened_line;
use super::marked;
use super::names::full_name;
use super::result;
use super::shared::Shared;

/// The key of the metadata that says what is wrong with the data of a result.
const PROBLEM: &str = "output_schema_problem";

/// How long it may take to find out.
const CHECK_LIMIT: Duration = Duration::from_secs(1);

/// A tool of a server. It goes on working when the server has been connected to anew.
pub(super) struct McpTool {
    name: String,
    described: Described,
    schema: Value,
    effect: Effect,
    limit: Duration,
    server: Arc<Shared>,
}

impl McpTool {
    pub(super) fn new(described: Described, effect: Effect, limit: Duration, server: Arc<Shared>) -> Self {
        Self {
            name: full_name(server.name(), &described.name),
            schema: closed(described.schema.clone()),
            described,
            effect,
            limit,
            server,
        }
    }

    /// Returns what it may do. That it changes things is believed, that it changes nothing is not.
    fn effects(&self) -> Vec<Effect> {
        let claims = &self.described.claims;
        let changes = claims.read_only == Some(false) || claims.destructive == Some(true);
        let writes = (changes && claims.read_only != Some(true)).then_some(Effect::Writes);
        writes.into_iter().chain([self.effect]).collect()
    }

    /// Notes where a result is not what the server said it would be. The result stays as it is: it may be all that there is of
    /// what the tool did.
    async fn check(&self, raw: Value, output: &mut ToolOutput, ctx: &ToolContext) {
        let Some(schema) = self.described.claims.output_schema.clone() else {
            return;
        };
        // A schema may be anything.
        let verdict = blocking(move || match raw.get("structuredContent") {
            None => Some("the result has no data (`structuredContent`)".to_owned()),
            Some(data) => misfit(&schema, data),
        });
        let verdict = tokio::time::timeout(CHECK_LIMIT, verdict);
        // Without a verdict there is no note.
        let verdict = ctx.cancelled.run_until_cancelled(verdict).await;
        if let Some(Ok(Ok(Some(problem)))) = verdict {
            let problem = shortened_line(&problem);
            tracing::warn!(
                server = self.server.name(),
                tool = self.name,
                problem,
                "a result does not fit its schema"
            );
            output.metadata.insert(PROBLEM.to_owned(), json!(problem));
        }
    }

    /// Returns what the server says of it.
    pub(super) fn described(&self) -> &Described {
        &self.described
    }
}

/// Returns the schema as one of an object with no other properties than those named. What is no object stays as it is,
/// and is refused where tools are registered.
fn closed(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else {
        return schema;
    };
    schema.insert("type".to_owned(), json!("object"));
    schema.entry("properties").or_insert_with(|| json!({}));
    schema.insert("additionalProperties".to_owned(), json!(false));
    Value::Object(schema)
}

#[async_trait]
impl Tool for McpTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn input_schema(&self) -> Value {
        self.schema.clone()
    }

    fn definition(&self, _offer: &Offer<'_>) -> Definition {
        let description = &self.described.description;
        Definition {
            title: self.described.title.clone(),
            claims: self.described.claims.clone(),
            ..Definition::foreign(&self.name, description, &self.schema, Source::Mcp, &self.effects())
        }
    }

    fn properties(&self) -> Properties {
        Properties {
            resumable: true,
            foreseeable: true,
            editable: true,
            checks_own_input: true,
            runs_after_hooks: true,
            ..Properties::NONE
        }
    }

    async fn call(&self, input: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        ask_to_run(&self.name, self.name.clone(), &input, ctx).await?;
        // The schema is one of an object.
        let Value::Object(arguments) = input else {
            return Err(ToolError::failed("The arguments are not an object."));
        };
        let headers = marked::headers(&self.described.schema, &arguments);
        let params = json_map([
            ("name", json!(self.described.name)),
            ("arguments", Value::Object(arguments)),
        ]);
        let attending = Attending::new(ctx, &self.server);
        let method = match self.described.is_task {
            true => Method::Task,
            false => Method::Plain("tools/call"),
        };
        let raw = attending.run(method, params, &headers, self.limit).await?;
        let mut output = result::convert(&raw)?;
        self.check(raw, &mut output, ctx).await;
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_closed() {
        let check = |schema: Value, expected: Value| assert_eq!(closed(schema), expected);
        check(
            json!({"type": "object"}),
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
        );
        check(
            json!({"type": "string", "properties": {"q": {}}, "additionalProperties": true, "required": ["q"]}),
            json!({"type": "object", "properties": {"q": {}}, "additionalProperties": false, "required": ["q"]}),
        );
        check(json!(null), json!(null));
        check(json!("object"), json!("object"));
    }
}
