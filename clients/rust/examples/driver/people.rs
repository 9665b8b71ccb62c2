//! Approvers and hosts.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tonic::Code;
use toolgate_client::v1::host_report::Report;
use toolgate_client::{
    Ask, BoxError, Decision, Error, Host, Input, Invocation, Tool, ToolResult, schemars, struct_to_json, v1,
};

use crate::{Command, Failure, decode, encode, lock};

/// Reports that something is gone, unless it has ended as it should.
struct Gone {
    command: Arc<Command>,
    what: &'static str,
    id: String,
    is_over: bool,
}

impl Drop for Gone {
    fn drop(&mut self) {
        lock(&self.command.replies).remove(&self.id);
        lock(&self.command.acts).remove(&self.id);
        if !self.is_over && !self.command.cancelled.is_cancelled() {
            self.command.report(json!({self.what: self.id}));
        }
    }
}

pub(crate) async fn approvals(command: &Arc<Command>) -> Result<Value, Failure> {
    let filter: v1::PromptFilter = decode(&command.line["filter"])?;
    let mut approver = command
        .client()?
        .approver(command.text("name"))
        .sessions(filter.session_ids);
    if !filter.workspace.is_empty() {
        approver = approver.workspace(filter.workspace);
    }
    if command.line["everybody"] == json!(true) {
        approver = approver.everybody();
    }
    let (ready, replied) = (Arc::clone(command), Arc::clone(command));
    let error = approver
        .on_ready(move || ready.report(json!({"ready": true})))
        .on_reply(move |reply| {
            let result = reply.result().as_str_name().trim_start_matches("REPLY_RESULT_");
            replied.report(json!({"result": {"prompt_id": reply.prompt_id, "result": result}}));
        })
        .run(|prompt, _| async move { ask(Arc::clone(command), prompt.message()).await })
        .await;
    Err(error.into())
}

async fn ask(command: Arc<Command>, prompt: &v1::Prompt) -> Result<Decision, BoxError> {
    let (sender, reply) = oneshot::channel();
    lock(&command.replies).insert(prompt.prompt_id.clone(), sender);
    let mut gone = Gone {
        command: Arc::clone(&command),
        what: "gone",
        id: prompt.prompt_id.clone(),
        is_over: false,
    };
    command.report(json!({"prompt": encode(prompt)}));
    let decision = reply.await?;
    gone.is_over = true;
    Ok(decision)
}

pub(crate) fn reply(command: &Command) -> Result<Value, Failure> {
    let reply: v1::PromptReply = decode(&command.line["reply"])?;
    let approvals = command.other("approvals")?;
    let sender = lock(&approvals.replies).remove(&reply.prompt_id);
    let missing = || Failure::new(Code::NotFound, "no handler waits for this prompt");
    sender
        .ok_or_else(missing)?
        .send(decision(reply))
        .map_err(|_| missing())?;
    Ok(json!({}))
}

fn decision(reply: v1::PromptReply) -> Decision {
    match reply.decision() {
        v1::PromptDecision::Unspecified => Decision::Leave,
        v1::PromptDecision::Once => Decision::Once,
        v1::PromptDecision::Always => Decision::Always {
            scope: reply.scope.unwrap_or_default(),
            patterns: reply.always_patterns,
        },
        v1::PromptDecision::Reject => Decision::reject(reply.message),
        v1::PromptDecision::Answer => Decision::Answer(reply.answers.into_iter().map(|answer| answer.values).collect()),
        v1::PromptDecision::Instead => Decision::Instead(Input::from(reply.input_json)),
    }
}

fn report_ready(host: Host, command: &Arc<Command>) -> Host {
    let command = Arc::clone(command);
    host.on_ready(move |welcome| {
        let refused: Vec<String> = welcome.refused.iter().map(encode).collect();
        command.report(json!({"ready": {"refused": refused}}));
    })
}

pub(crate) async fn host(command: &Arc<Command>) -> Result<Value, Failure> {
    let hello: v1::HostHello = decode(&command.line["hello"])?;
    let mut host = command.client()?.host(hello.name).workspace(hello.workspace);
    for definition in hello.tools {
        let command = Arc::clone(command);
        host = host.tool(Tool::raw(definition, move |call| {
            let invoke = v1::HostInvoke {
                invocation_id: call.id.clone(),
                call_id: call.call_id.clone(),
                context: Some(call.context.clone()),
                tool: call.tool.clone(),
                input_json: call.input_json.clone(),
                resent: false,
            };
            serve(Arc::clone(&command), call, json!({"invoke": encode(&invoke)}))
        }));
    }
    if hello.runs_subagents {
        let command = Arc::clone(command);
        host = host.subagents(hello.subagents, move |subagent| {
            let called = json!({"subagent": encode(&subagent.request)});
            serve(Arc::clone(&command), subagent.invocation, called)
        });
    }
    Err(report_ready(host, command).run().await.into())
}

/// Says that a function was called, and does what the commands `report` say.
async fn serve(command: Arc<Command>, call: Invocation, called: Value) -> Result<ToolResult, BoxError> {
    let (sender, mut acts) = mpsc::channel(1);
    lock(&command.acts).insert(call.id.clone(), sender);
    let mut gone = Gone {
        command: Arc::clone(&command),
        what: "cancelled",
        id: call.id.clone(),
        is_over: false,
    };
    command.report(called);
    let mut asking = FuturesUnordered::new();
    loop {
        let (act, done) = tokio::select! {
            act = acts.recv() => act.ok_or("nobody tells this function what to do")?,
            Some(()) = asking.next() => continue,
        };
        let outcome: Result<Value, Failure> = match act.report {
            Some(Report::Progress(progress)) => {
                let title = progress.title.unwrap_or_default();
                call.progress(&title, &object(progress.metadata)).await;
                Ok(json!({}))
            }
            Some(Report::Output(output)) => {
                call.write(output.data).await;
                Ok(json!({}))
            }
            Some(Report::Ask(ask)) => {
                // The function may do other things while it waits.
                let call = call.clone();
                asking.push(async move {
                    let _ = done.send(answer(&call, ask).await);
                });
                continue;
            }
            Some(Report::Completed(completed)) => {
                gone.is_over = true;
                lock(&command.acts).remove(&call.id);
                let _ = done.send(Ok(json!({})));
                return Ok(ToolResult {
                    title: completed.title,
                    output: completed.output,
                    metadata: object(completed.metadata),
                    attachments: completed.attachments,
                });
            }
            Some(Report::Failed(failed)) => {
                gone.is_over = true;
                lock(&command.acts).remove(&call.id);
                let _ = done.send(Ok(json!({})));
                return Err(failed.error.into());
            }
            Some(Report::HookResult(_) | Report::Leave(_)) | None => {
                Err(Failure::invalid("a function cannot report this"))
            }
        };
        let _ = done.send(outcome);
    }
}

async fn answer(call: &Invocation, ask: v1::HostAsk) -> Result<Value, Failure> {
    let asked = call.ask(Ask {
        permission: ask.permission,
        patterns: ask.patterns,
        always: ask.always,
        title: ask.title,
        metadata: object(ask.metadata),
    });
    match asked.await {
        Ok(()) => Ok(json!({"allowed": true})),
        Err(Error::Denied(_)) => Ok(json!({"allowed": false})),
        Err(error) => Err(error.into()),
    }
}

fn object(message: Option<prost_types::Struct>) -> Map<String, Value> {
    message.map(struct_to_json).unwrap_or_default()
}

pub(crate) async fn report(command: &Command) -> Result<Value, Failure> {
    let report: v1::HostReport = decode(&command.line["report"])?;
    let acts = lock(&command.other("host")?.acts).get(&report.invocation_id).cloned();
    let over = |_| Failure::new(Code::NotFound, "the invocation is over");
    let acts = acts.ok_or_else(|| Failure::new(Code::NotFound, "no function waits under this invocation"))?;
    let (done, outcome) = oneshot::channel();
    acts.send((report, done)).await.map_err(|_| over(()))?;
    outcome.await.map_err(|_| over(()))?
}

/// What the tool `greet` takes.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greeting {
    /// Who is greeted.
    name: String,
    /// How often.
    #[serde(default = "once")]
    times: i64,
}

fn once() -> i64 {
    1
}

async fn greet(call: Invocation, input: Greeting) -> Result<ToolResult, BoxError> {
    let mut greetings = Vec::new();
    for number in 1..=input.times {
        greetings.push(format!("Hello, {}!", input.name));
        let greeted = Map::from_iter([("greeted".to_owned(), json!(number))]);
        call.progress("", &greeted).await;
    }
    Ok(ToolResult {
        title: format!("Greeting {}", input.name),
        ..greetings.join("\n").into()
    })
}

pub(crate) async fn greeter(command: &Arc<Command>) -> Result<Value, Failure> {
    let greet = Tool::new("greet", "Greets somebody.", greet);
    let host = command.client()?.host("greeter").tool(greet);
    Err(report_ready(host, command).run().await.into())
}
