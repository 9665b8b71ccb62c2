//! `toolgate call --dry-run`: what a call would ask, told without making it.
//!
//! *Invariant:* the exit code is the strictest verdict; a call that would fail before it has asked everything is one that failed.

use toolgate_client::Client;
use toolgate_contract::evaluate_call_request::Arguments;
use toolgate_contract::evaluated_request::Request as Asked;
use toolgate_contract::execute_tool_request::Arguments as Given;
use toolgate_contract::{
    CallEvaluation, EvaluateCallRequest, EvaluatedRequest, ExecuteToolRequest, ListToolsRequest, PermissionAction,
    PermissionRequest,
};

use super::exit::{Exit, Failure};
use super::prompt;
use super::terminal::{Look, Paint, Terminal, visible};
use super::tools;

/// The tool that stands for one that could not be understood.
const INVALID: &str = "invalid";

/// Shows what a request to execute a tool would ask.
pub(super) async fn show(client: &Client, request: ExecuteToolRequest, terminal: &Terminal) -> Result<Exit, Failure> {
    let tool = request.tool.clone();
    let context = request.context.clone().unwrap_or_default();
    let evaluation = client.evaluate_request(evaluated(request)).run().await?;
    if evaluation.tool == INVALID {
        let known = ListToolsRequest {
            workspace: context.workspace,
            agent: context.agent,
            model: context.model,
            client_kind: context.client_kind,
            ..ListToolsRequest::default()
        };
        let known = client.list_tools(known).await?;
        // A known one has an input that was not understood.
        if tools::find(&known, &tool).is_none() {
            return Err(tools::unknown(&tool, &known));
        }
    }
    if terminal.json {
        terminal.message(&evaluation)?;
    } else {
        for line in lines(&evaluation, terminal.out) {
            terminal.line(&line)?;
        }
    }
    Ok(exit(&evaluation))
}

/// Returns the request to evaluate what another one would execute.
pub(super) fn evaluated(request: ExecuteToolRequest) -> EvaluateCallRequest {
    EvaluateCallRequest {
        context: request.context,
        tool: request.tool,
        arguments: request.arguments.map(|arguments| match arguments {
            Given::InputJson(text) => Arguments::InputJson(text),
            Given::Input(fields) => Arguments::Input(fields),
        }),
    }
}

fn exit(evaluation: &CallEvaluation) -> Exit {
    let fails = fails(evaluation);
    match evaluation.action() {
        PermissionAction::Deny => Exit::Denied,
        _ if evaluation.tool == INVALID => Exit::Usage,
        _ if fails => Exit::Failed,
        PermissionAction::Allow => Exit::Completed,
        PermissionAction::Ask | PermissionAction::Unspecified => Exit::Asked,
    }
}

/// Returns whether the call, or one that it makes, would fail before it has asked everything.
fn fails(evaluation: &CallEvaluation) -> bool {
    !evaluation.problem.is_empty() || evaluation.tool == INVALID || evaluation.children.iter().any(fails)
}

/// Returns the evaluation as lines, with those of the calls that it would make below it.
fn lines(evaluation: &CallEvaluation, paint: Paint) -> Vec<String> {
    let tool = paint.text(Look::Bold, &visible(&evaluation.tool));
    let mut lines = vec![format!("{tool} {}", visible(&evaluation.summary)).trim_end().to_owned()];
    lines.extend(
        evaluation
            .requests
            .iter()
            .flat_map(|request| request_lines(request, paint)),
    );
    if evaluation.requests.is_empty() && evaluation.complete {
        lines.push("  asks for nothing".to_owned());
    }
    if !evaluation.complete {
        lines.push("  its own code decides what else it asks".to_owned());
    }
    if !evaluation.problem.is_empty() {
        let problem = format!("would fail: {}", visible(&evaluation.problem));
        lines.push(format!("  {}", paint.text(Look::Red, &problem.replace('\n', "\n    "))));
    }
    for child in &evaluation.children {
        lines.extend(self::lines(child, paint).into_iter().map(|line| format!("  {line}")));
    }
    lines
}

fn request_lines(request: &EvaluatedRequest, paint: Paint) -> Vec<String> {
    let verdict = prompt::verdict(request.action(), !request.grant_ids.is_empty(), paint);
    let mut lines = match &request.request {
        Some(Asked::Permission(permission)) => permission_lines(permission, &verdict, paint),
        Some(Asked::Questions(asked)) => {
            let questions = asked
                .questions
                .iter()
                .map(|one| format!("    {}", visible(&one.question)));
            let head = format!("  {verdict} questions");
            std::iter::once(head).chain(questions).collect()
        }
        None => vec![format!("  {verdict} something that this program cannot show")],
    };
    let grants = request.grant_ids.iter();
    lines.extend(grants.map(|id| format!("    by the standing approval {}", visible(id))));
    if request.announced {
        lines.push("    only after the one before is approved; more may be found then".to_owned());
    }
    lines
}

fn permission_lines(request: &PermissionRequest, verdict: &str, paint: Paint) -> Vec<String> {
    let permission = paint.text(Look::Bold, &visible(&request.permission));
    let mut lines = vec![
        format!("  {verdict} {permission} {}", visible(&request.title))
            .trim_end()
            .to_owned(),
    ];
    if request.parts.is_empty() {
        let patterns = request.patterns.iter();
        lines.extend(patterns.map(|pattern| format!("    {}", visible(pattern).replace('\n', "\n    "))));
    }
    for part in &request.parts {
        let mut text = String::new();
        prompt::render_part(&mut text, part, paint);
        lines.push(text.trim_start_matches('\n').to_owned());
    }
    lines.push(match &request.rule {
        Some(rule) => format!(
            "    by the rule {} {}",
            visible(&rule.permission),
            visible(&rule.pattern)
        ),
        None => "    by no rule".to_owned(),
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_verdict_is_the_exit_code() {
        fn check(action: PermissionAction, problem: &str, tool: &str, expected: Exit) {
            let evaluation = CallEvaluation {
                action: action.into(),
                problem: problem.to_owned(),
                tool: tool.to_owned(),
                ..CallEvaluation::default()
            };
            assert_eq!(exit(&evaluation), expected, "{action:?} {problem:?} {tool}");
        }
        check(PermissionAction::Allow, "", "bash", Exit::Completed);
        check(PermissionAction::Ask, "", "bash", Exit::Asked);
        check(PermissionAction::Deny, "", "bash", Exit::Denied);
        check(PermissionAction::Deny, "no file", "bash", Exit::Denied);
        check(PermissionAction::Ask, "no file", "edit", Exit::Failed);
        check(PermissionAction::Allow, "", INVALID, Exit::Usage);
    }
}
