//! How a tool from elsewhere asks before it runs.

use serde_json::{Value, json};
use toolgate_model::{Ask, JsonMap, json_map};
use toolgate_permission::Refusal;
use toolgate_tool::ToolContext;

/// The most bytes of arguments that a prompt shows.
const MAX_SHOWN: usize = 64 * 1024;

/// Asks for the permission of a tool's own name (`docs/spec/framework.md` §16 F11). Whoever is asked sees the arguments: nothing else
/// says what the tool will do.
pub(crate) async fn ask_to_run(name: &str, title: String, input: &Value, ctx: &ToolContext) -> Result<(), Refusal> {
    ctx.permission
        .ask(Ask {
            always: vec!["*".to_owned()],
            title,
            metadata: arguments_shown(input),
            ..Ask::new(name, vec!["*".to_owned()])
        })
        .await
        .map(drop)
}

/// What a person sees of the arguments; all of a large input stands in the call's record only.
fn arguments_shown(input: &Value) -> JsonMap {
    let bytes = input.to_string().len();
    if bytes > MAX_SHOWN {
        return json_map([("input_bytes", json!(bytes))]);
    }
    json_map([("input", input.clone())])
}
