//! The service through a client library, by its driver.
//!
//! *Invariant:* what the library gives is held against the contract here as the raw streams are elsewhere: events without
//! gaps, and a final result that says what the terminal event said.

use anyhow::{Context as _, Result, bail, ensure};
use prost::Message;
use serde_json::{Value, json};
use toolgate_contract::{
    Call, CallEvent, ExecuteToolRequest, HostHello, HostRefused, HostReport, HostRunSubagent, ListToolsRequest,
    PromptReply, ReplyResult, ToolDefinition, WatchEventsRequest, WatchEventsResponse, call, call_event,
};

use super::Notice;
use crate::driver::{Driver, DriverError, Reports, pack, unpack};

pub(super) async fn close(driver: &Driver, client: &str) -> Result<()> {
    driver.ask("close", json!({"client": client})).await?;
    Ok(())
}

pub(super) async fn unary<M: Message + Default>(
    driver: &Driver,
    client: &str,
    method: &str,
    request: &impl Message,
) -> Result<M> {
    let command = json!({"client": client, "method": method, "request": pack(request)});
    unpack(&driver.ask("unary", command).await?["response"])
}

pub(super) async fn tools(driver: &Driver, client: &str, request: &ListToolsRequest) -> Result<Vec<ToolDefinition>> {
    let command = json!({"client": client, "request": pack(request)});
    let done = driver.ask("tools", command).await?;
    let tools = done["tools"].as_array().context("a list of tools")?;
    tools.iter().map(unpack).collect()
}

/// A call through the library.
pub(crate) struct Execution {
    driver: Driver,
    reports: Reports,
    last_sequence: i64,
    last: Option<call_event::Event>,
}

pub(super) fn execute(driver: &Driver, client: &str, request: &ExecuteToolRequest) -> Execution {
    let command = json!({"client": client, "request": pack(request)});
    Execution {
        driver: driver.clone(),
        reports: driver.begin("execute", command),
        last_sequence: 0,
        last: None,
    }
}

impl Execution {
    pub(super) async fn next(&mut self) -> Result<Option<CallEvent>> {
        let Some(report) = self.reports.next().await? else {
            return Ok(None);
        };
        if let Some(done) = report.get("done") {
            self.agrees(&unpack(&done["call"])?)?;
            return Ok(None);
        }
        let event: CallEvent = unpack(&report["event"])?;
        let expected = match &event.event {
            Some(call_event::Event::Heartbeat(_)) => bail!("a library shows a heartbeat"),
            Some(call_event::Event::Gap(gap)) if gap.first_sequence == self.last_sequence + 1 => gap.last_sequence,
            Some(_) | None => self.last_sequence + 1,
        };
        ensure!(
            event.sequence == expected,
            "event {} came where {expected} was due",
            event.sequence
        );
        self.last_sequence = event.sequence;
        self.last.clone_from(&event.event);
        Ok(Some(event))
    }

    fn agrees(&self, result: &Call) -> Result<()> {
        let said = match &self.last {
            Some(call_event::Event::Completed(end)) => Some(call::Ending::Completed(end.clone())),
            Some(call_event::Event::Failed(end)) => Some(call::Ending::Failed(end.clone())),
            Some(_) | None => None,
        };
        ensure!(
            said.is_some() && said == result.ending,
            "the result is not the terminal event\nresult: {result:?}\nevent:  {:?}",
            self.last
        );
        Ok(())
    }

    pub(super) async fn cancel(&mut self) -> Result<()> {
        self.driver.ask("cancel", json!({"execution": self.reports.id})).await?;
        Ok(())
    }
}

/// An approver through the library.
pub(crate) struct Approvals {
    driver: Driver,
    reports: Reports,
}

pub(super) async fn approvals(driver: &Driver, client: &str, name: &str) -> Result<Approvals> {
    let mut reports = driver.begin("approvals", json!({"client": client, "name": name, "everybody": true}));
    reports.until("ready").await?;
    Ok(Approvals {
        driver: driver.clone(),
        reports,
    })
}

impl Approvals {
    pub(super) async fn next(&mut self) -> Result<Notice> {
        loop {
            let report = self.reports.next().await?.context("the approvals have ended")?;
            if let Some(prompt) = report.get("prompt") {
                return Ok(Notice::Added(Box::new(unpack(prompt)?)));
            }
            if let Some(result) = report.get("result") {
                let name = format!("REPLY_RESULT_{}", result["result"].as_str().unwrap_or_default());
                let kind = ReplyResult::from_str_name(&name).with_context(|| name.clone())?;
                return Ok(Notice::Replied(kind, result.to_string()));
            }
            ensure!(report.get("done").is_none(), "the approvals have ended");
        }
    }

    pub(super) async fn reply(&mut self, reply: &PromptReply) -> Result<()> {
        let command = json!({"approvals": self.reports.id, "reply": pack(reply)});
        match self.driver.ask("reply", command).await {
            // Its handler is gone: another reply, or the end of the call, has settled it.
            Err(error) if code(&error) == Some("NOT_FOUND") => Ok(()),
            other => other.map(drop),
        }
    }
}

fn code(error: &anyhow::Error) -> Option<&str> {
    Some(error.downcast_ref::<DriverError>()?.code.as_str())
}

/// A host through the library.
pub(crate) struct Hosting {
    driver: Driver,
    reports: Reports,
    pub(super) refused: Vec<HostRefused>,
}

pub(super) async fn host(driver: &Driver, client: &str, hello: &HostHello) -> Result<Hosting> {
    let mut reports = driver.begin("host", json!({"client": client, "hello": pack(hello)}));
    let ready = reports.until("ready").await?;
    let refused = ready["refused"].as_array().context("a list of what was refused")?;
    let refused = refused.iter().map(unpack).collect::<Result<_>>()?;
    Ok(Hosting {
        driver: driver.clone(),
        reports,
        refused,
    })
}

impl Hosting {
    pub(super) async fn next(&mut self) -> Result<HostRunSubagent> {
        loop {
            let report = self.reports.next().await?.context("the host has ended")?;
            if let Some(run) = report.get("subagent") {
                return unpack(run);
            }
            let is_expected = report.get("cancelled").is_some() || report.get("ready").is_some();
            ensure!(is_expected, "the host was told {report}");
        }
    }

    pub(super) async fn report(&mut self, report: &HostReport) -> Result<()> {
        let command = json!({"host": self.reports.id, "report": pack(report)});
        self.driver.ask("report", command).await?;
        Ok(())
    }
}

/// Events through the library.
pub(crate) struct Events(Reports);

pub(super) async fn events(driver: &Driver, client: &str, request: &WatchEventsRequest) -> Result<Events> {
    let mut reports = driver.begin("events", json!({"client": client, "request": pack(request)}));
    let ready: Value = reports.until("ready").await?;
    ensure!(ready == json!(true), "the events are not ready: {ready}");
    Ok(Events(reports))
}

impl Events {
    pub(super) async fn next(&mut self) -> Result<Option<WatchEventsResponse>> {
        let Some(report) = self.0.next().await? else {
            return Ok(None);
        };
        report.get("event").map(unpack).transpose()
    }
}
