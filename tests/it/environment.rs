//! Variables that a call sets for its programs: what they reach, what is shown and approved, and which are refused.

use std::collections::HashMap;

use serde_json::json;
use tonic::{Code, Status};
use toolgate_contract::*;
use toolgate_fs::marks::sha256;

use crate::support::*;

fn with(variables: &[(&str, &str)], request: ExecuteToolRequest) -> ExecuteToolRequest {
    let set = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    ExecuteToolRequest {
        context: Some(CallContext {
            environment: set.collect::<HashMap<_, _>>(),
            ..request.context.unwrap_or_default()
        }),
        ..request
    }
}

async fn made(server: &Server, request: ExecuteToolRequest) -> Result<Call, Status> {
    run(&mut server.tools(), run_request(request)).await
}

fn batched(setup: Setup) -> Setup {
    Setup {
        config: Some(json!({"experimental": {"batch_tool": true}})),
        ..setup
    }
}

#[test]
fn programs_get_them_and_so_do_calls_below() {
    test(async {
        let server = Server::with(batched(Setup::default())).await;
        let print = "echo \"$GREETING\"";
        let call = made(&server, with(&[("GREETING", "it's a 'test'\n$x")], bash(print)))
            .await
            .unwrap();
        assert_eq!(completed(&call).output, "it's a 'test'\n$x\n");
        let call = made(&server, bash(print)).await.unwrap();
        assert_eq!(completed(&call).output, "\n", "they are the call's own");

        let members =
            json!({"tool_calls": [{"tool": "bash", "parameters": {"command": print, "description": "a test"}}]});
        let batch = made(&server, with(&[("GREETING", "hello")], request("batch", members)))
            .await
            .unwrap();
        let id = completed(&batch).metadata.as_ref().map(json_of).unwrap()["calls"][0]["call"].clone();
        let child = server.get(id.as_str().unwrap()).await;
        assert_eq!(completed(&child).output, "hello\n");
        assert_eq!(child.context.unwrap().environment["GREETING"], "hello");
    });
}

#[test]
fn an_approval_is_for_them_too() {
    test(async {
        let server = Server::with(Setup::permission(json!({"bash": "ask"}))).await;
        let request = with(&[("B", "2"), ("A", "1")], bash("echo $A$B"));
        let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
        let prompt = waiting(&mut stream).await;
        assert_eq!(
            prompt.environment,
            HashMap::from([("A".to_owned(), "1".to_owned()), ("B".to_owned(), "2".to_owned())])
        );
        let record = server.get(&prompt.call_id).await;
        let covered = format!("{}\n{}", record.input_json, r#"{"environment":{"A":"1","B":"2"}}"#);
        let digest = sha256(covered.as_bytes());
        assert_eq!((&prompt.input_digest, &record.input_digest), (&digest, &digest));

        let mut permissions = server.permissions();
        let reply = |digest: &str| ReplyPromptRequest {
            reply: Some(PromptReply {
                prompt_id: prompt.prompt_id.clone(),
                input_digest: digest.to_owned(),
                decision: PromptDecision::Once.into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let plain = sha256(record.input_json.as_bytes());
        let (wrong, right) = (reply(&plain), reply(&digest));
        let result = permissions
            .reply_prompt(wrong)
            .await
            .unwrap()
            .into_inner()
            .result
            .unwrap();
        assert_eq!(result.result(), ReplyResult::DigestMismatch);
        let result = permissions
            .reply_prompt(right)
            .await
            .unwrap()
            .into_inner()
            .result
            .unwrap();
        assert_eq!(result.result(), ReplyResult::Accepted);
        let events = collect(stream).await.unwrap();
        assert_eq!(output_of(&events), b"12\n");
    });
}

#[test]
fn the_same_id_with_other_variables_is_another_request() {
    test(async {
        let server = Server::start().await;
        let first = kept("one", with(&[("A", "1")], bash("echo $A")));
        made(&server, first.clone()).await.unwrap();
        made(&server, first).await.unwrap();
        let other = kept("one", with(&[("A", "2")], bash("echo $A")));
        refused(made(&server, other).await, Code::AlreadyExists, "CALL_ID_TAKEN");
    });
}

#[test]
fn what_decides_what_runs_is_refused_unless_an_operator_allows_it() {
    test(async {
        let server = Server::start().await;
        let long = "x".repeat(33 * 1024);
        let many: Vec<String> = (0..65).map(|number| format!("V{number}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "")).collect();
        for variables in [
            &[("PATH", "/tmp")][..],
            &[("LD_PRELOAD", "/tmp/x.so")],
            &[("BASH_ENV", "/tmp/x")],
            &[("GIT_SSH_COMMAND", "sh -c id")],
            &[("NODE_OPTIONS", "--require=/tmp/x.js")],
            &[("TOOLGATE_TOKEN", "x")],
            &[("a b", "x")],
            &[("", "x")],
            &[("1A", "x")],
            &[("BASH_FUNC_ls%%", "() { id; }")],
            &[("A", "x\0y")],
            &[("A", &long)],
            &many,
        ] {
            let name = variables[0].0;
            let details = refused(
                made(&server, with(variables, bash("true"))).await,
                Code::InvalidArgument,
                "INVALID_FIELD",
            );
            let field = &details.bad_request().unwrap().field_violations[0].field;
            assert_eq!(field, "context.environment", "{name}");
            let evaluation = EvaluateCallRequest {
                context: with(variables, bash("true")).context,
                tool: "bash".to_owned(),
                arguments: None,
            };
            refused(
                server.tools().evaluate_call(evaluation).await,
                Code::InvalidArgument,
                "INVALID_FIELD",
            );
        }

        let setup = Setup::permission(json!({"bash": {"*": "ask", "true *": "allow"}}));
        let server = Server::with(setup.env("TOOLGATE_SHELL_ENVIRONMENT_CALLERS", "PATH,LD_*")).await;
        refused(
            made(&server, with(&[("BASH_ENV", "/tmp/x")], bash("true"))).await,
            Code::InvalidArgument,
            "INVALID_FIELD",
        );
        // Allowed to be set, it is asked for all the same: what was allowed is the command with the usual programs.
        let evaluation = EvaluateCallRequest {
            context: with(&[("PATH", "/nowhere:/usr/bin:/bin")], bash("true")).context,
            tool: "bash".to_owned(),
            arguments: Some(evaluate_call_request::Arguments::InputJson(
                json!({"command": "true", "description": "a test"}).to_string(),
            )),
        };
        let evaluation = server
            .tools()
            .evaluate_call(evaluation)
            .await
            .unwrap()
            .into_inner()
            .evaluation
            .unwrap();
        assert_eq!(evaluation.action(), PermissionAction::Ask, "{evaluation:?}");
        let Some(evaluated_request::Request::Permission(asked)) = &evaluation.requests[0].request else {
            panic!("{evaluation:?}")
        };
        assert_eq!(asked.patterns, ["true", "PATH='/nowhere:/usr/bin:/bin'"]);
    });
}

#[test]
fn a_rule_for_a_command_does_not_cover_variables_that_may_run_something_else() {
    test(async {
        let rules = json!({"bash": {"*": "ask", "echo *": "allow", "TEAM=*": "allow"}});
        let server = Server::with(Setup::permission(rules)).await;
        for (variables, asks) in [
            (&[("LANG", "C")][..], false),
            (&[("TEAM", "red")], false),
            (&[("PERLLIB", "evil")], true),
            (&[("LANG", "C"), ("OPENSSL_CONF", "evil")], true),
        ] {
            let evaluation = EvaluateCallRequest {
                context: with(variables, bash("echo x")).context,
                tool: "bash".to_owned(),
                arguments: Some(evaluate_call_request::Arguments::InputJson(
                    json!({"command": "echo x", "description": "a test"}).to_string(),
                )),
            };
            let evaluated = server.tools().evaluate_call(evaluation).await.unwrap().into_inner();
            let action = evaluated.evaluation.unwrap().action();
            assert_eq!(action == PermissionAction::Ask, asks, "{variables:?}: {action:?}");
            let request = RunToolRequest {
                unattended: Unattended::Refuse.into(),
                ..run_request(with(variables, bash("echo x")))
            };
            let call = server
                .tools()
                .run_tool(request)
                .await
                .unwrap()
                .into_inner()
                .call
                .unwrap();
            match asks {
                true => assert_eq!(failed(&call).reason(), FailureReason::PromptExpired, "{variables:?}"),
                false => assert_eq!(completed(&call).output, "x\n", "{variables:?}"),
            }
        }
    });
}
