//! Connections, lists, calls, outputs and events.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tonic::Code;
use toolgate_client::{CallResult, Client, Credentials, Part, v1};

use crate::{Command, Failure, decode, encode, lock};

pub(crate) fn connect(command: &Command) -> Result<Value, Failure> {
    let mut credentials = Credentials::default();
    if let Some(token) = command.line["token"].as_str().filter(|token| !token.is_empty()) {
        credentials = credentials.token(token.parse()?);
    }
    let client = Client::builder(&command.text("target"))
        .credentials(credentials)
        .connect_lazy()?;
    lock(&command.driver.clients).insert(command.text("client"), client);
    Ok(json!({}))
}

pub(crate) async fn close(command: &Command) -> Result<Value, Failure> {
    let client = command.client()?;
    lock(&command.driver.clients).remove(&command.text("client"));
    client.close().await;
    Ok(json!({}))
}

pub(crate) async fn tools(command: &Command) -> Result<Value, Failure> {
    let tools = command.client()?.list_tools(decode(&command.line["request"])?).await?;
    let tools: Vec<String> = tools.iter().map(encode).collect();
    Ok(json!({ "tools": tools }))
}

pub(crate) async fn formats(command: &Command) -> Result<Value, Failure> {
    let client = command.client()?;
    let request: v1::ListToolsRequest = decode(&command.line["request"])?;
    Ok(json!({
        "openai": client.openai_tools(request.clone()).await?,
        "openai_responses": client.openai_responses_tools(request.clone()).await?,
        "anthropic": client.anthropic_tools(request.clone()).await?,
        "gemini": client.gemini_tools(request).await?,
    }))
}

pub(crate) fn forms(command: &Command) -> Result<Value, Failure> {
    let call: v1::Call = decode(&command.line["call"])?;
    let result = CallResult::from_call(&call).ok_or_else(|| Failure::invalid("the call has not ended"))?;
    let id = command.text("model_call");
    Ok(json!({
        "openai": result.openai(&id),
        "openai_responses": result.openai_responses(&id),
        "anthropic": result.anthropic(&id),
        "gemini": result.gemini(&command.text("tool"), &id),
    }))
}

pub(crate) async fn execute(command: &Command) -> Result<Value, Failure> {
    let client = command.client()?;
    let request: v1::ExecuteToolRequest = decode(&command.line["request"])?;
    if !request.call_id.is_empty() {
        // A host may be told of the call before the library has returned its execution.
        let call = Some((client.clone(), request.call_id.clone()));
        command.call.send_replace(call);
    }
    let mut execution = client.execute_request(request).start().await?;
    let call = Some((client, execution.call_id().to_owned()));
    command.call.send_replace(call);
    while let Some(event) = execution.next().await? {
        command.report(json!({"event": encode(&event)}));
    }
    let result = execution.result().await?;
    let is_ok = result.is_ok();
    let record = v1::Call {
        call_id: result.call_id,
        ending: Some(result.ending),
        ..v1::Call::default()
    };
    Ok(json!({"call": encode(&record), "ok": is_ok}))
}

pub(crate) async fn cancel(command: &Command) -> Result<Value, Failure> {
    let execution = command.other("execution")?;
    let mut known = execution.call.subscribe();
    let call = tokio::select! {
        call = known.wait_for(Option::is_some) => call.ok().and_then(|call| call.clone()),
        () = execution.ended.cancelled() => None,
    };
    let (client, call_id) = call.ok_or_else(|| Failure::new(Code::NotFound, "the execution has ended"))?;
    client.cancel_call(call_id).await?;
    Ok(json!({}))
}

pub(crate) async fn interrupt(command: &Command) -> Result<Value, Failure> {
    let execution = command.other("execution")?;
    execution.stop();
    execution.ended.cancelled().await;
    Ok(json!({}))
}

pub(crate) fn stop(command: &Command) -> Result<Value, Failure> {
    let other = command.other("command")?;
    other.is_stopped.store(true, Ordering::Release);
    other.stop();
    Ok(json!({}))
}

pub(crate) async fn read(command: &Command) -> Result<Value, Failure> {
    let part = Part::Bytes {
        offset: command.line["offset"].as_i64().unwrap_or_default(),
        limit: command.line["limit"].as_i64().unwrap_or_default(),
    };
    let mut reader = command.client()?.output(command.text("output")).read(part);
    while let Some(piece) = reader.next().await? {
        command.report(json!({"data": STANDARD.encode(piece)}));
    }
    Ok(json!({}))
}

pub(crate) async fn search(command: &Command) -> Result<Value, Failure> {
    let request: v1::SearchOutputRequest = decode(&command.line["request"])?;
    let output = command.client()?.output(request.output_id.clone());
    Ok(json!({"response": encode(&output.search(request).await?)}))
}

pub(crate) async fn save(command: &Arc<Command>) -> Result<Value, Failure> {
    let output = command.client()?.output(command.text("output"));
    let progress = |bytes, total| command.report(json!({"progress": {"bytes": bytes, "total": total}}));
    let bytes = output.save(command.text("path"), progress).await?;
    Ok(json!({ "bytes": bytes }))
}

pub(crate) async fn events(command: &Command) -> Result<Value, Failure> {
    let mut events = command
        .client()?
        .watch_events(decode(&command.line["request"])?)
        .await?;
    command.report(json!({"ready": true}));
    loop {
        let response = v1::WatchEventsResponse {
            event: Some(events.next().await?),
            ..v1::WatchEventsResponse::default()
        };
        command.report(json!({"event": encode(&response)}));
    }
}
