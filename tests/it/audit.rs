//! The audit: it agrees with what happened, whoever touches it is found, and no secret is in it or in what clients see.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tonic::Code;
use toolgate_contract::*;
use toolgate_model::Timestamp;
use toolgate_store::audit::{Fact, Finding, Head, Kind, Record, Recorder, Verified, Verifier};

use crate::journal;
use crate::support::*;

const SECRET: &str = "s3cr3t/of \"the\" house";

fn toolgate(args: &[&str]) -> (i32, Vec<u8>) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_toolgate"))
        .args(args)
        .env_clear()
        .env("HOME", "/nowhere")
        .output()
        .unwrap();
    (output.status.code().unwrap_or(-1), output.stdout)
}

fn data(server: &Server) -> String {
    server.folder().join("data").display().to_string()
}

/// The export of a data directory, which verifies.
fn exported(server: &Server) -> Vec<u8> {
    let (code, export) = toolgate(&["audit", "export", "--data-dir", &data(server)]);
    assert_eq!(code, 0);
    verify(&export).unwrap();
    export
}

fn verify(export: &[u8]) -> Result<Verified, Finding> {
    Verifier::default().text(export)
}

fn records(export: &[u8]) -> Vec<Record> {
    let text = std::str::from_utf8(export).unwrap();
    let mut records: Vec<&str> = text.lines().collect();
    records.pop().expect("a head");
    records.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn export(server: &Server) -> Vec<u8> {
    let mut client = audit_service_client::AuditServiceClient::new(server.connect().await);
    let mut parts = client
        .export_audit(ExportAuditRequest::default())
        .await
        .unwrap()
        .into_inner();
    let mut lines = String::new();
    while let Some(part) = parts.message().await.unwrap() {
        for record in part.records {
            lines += &(record + "\n");
        }
        if part.head.is_some() {
            lines += &(part.head_line + "\n");
        }
    }
    lines.into_bytes()
}

/// One way of touching an export; what comes out may verify only by the hash that was noted.
fn tamper(lines: &mut Vec<String>, random: &mut Random) -> &'static str {
    let below = |random: &mut Random, bound: usize| usize::try_from(random.below(bound as u64)).unwrap();
    let (records, at) = (lines.len() - 1, below(random, lines.len() - 1));
    match random.below(9) {
        0 => {
            let mut bytes = lines[at].clone().into_bytes();
            let place = below(random, bytes.len());
            bytes[place] ^= 1 << random.below(7);
            lines[at] = String::from_utf8_lossy(&bytes).into_owned();
            "a bit changed"
        }
        1 => {
            lines.remove(at);
            "a line deleted"
        }
        2 => {
            let other = (at + 1 + below(random, records - 1)) % records;
            lines.swap(at, other);
            "two lines swapped"
        }
        3 => {
            let place = below(random, records + 1);
            lines.insert(place, lines[at].clone());
            "a line twice"
        }
        4 => {
            let mut text = lines.concat();
            text.truncate(below(random, text.len() - 1) + 1);
            text.pop();
            *lines = text.split_inclusive('\n').map(str::to_owned).collect();
            "the end cut off"
        }
        5 => {
            let record: Record = serde_json::from_str(&lines[at]).unwrap();
            lines.insert(at + 1, forged(&record).0.line() + "\n");
            "a record inserted"
        }
        6 => {
            let record: Record = serde_json::from_str(&lines[at]).unwrap();
            let before = Record {
                sequence: record.sequence - 1,
                hash: record.previous.clone(),
                ..record
            };
            lines[at] = forged(&before).0.line() + "\n";
            "a record replaced"
        }
        7 => {
            let head = lines.pop().unwrap();
            let (from, to) = *random.pick(&[
                ("\"count\":", "\"count\":1"),
                ("\"sequence\":", "\"sequence\":1"),
                ("\"hash\":\"", "\"hash\":\"0"),
            ]);
            lines.push(head.replace(from, to));
            "the head changed"
        }
        _ => {
            // Behind the last record it would be one record more, which nothing but a key tells from a real one.
            let at = at.min(records - 2);
            let record: Record = serde_json::from_str(&lines[at]).unwrap();
            let chain = serde_json::from_str::<Head>(&lines[records]).unwrap().chain;
            let (record, head) = forged(&record);
            let head = Head { chain, ..head };
            lines.truncate(at + 1);
            lines.push(record.line() + "\n");
            let count = lines.len() as u64;
            lines.push(head.line(count) + "\n");
            "another history from a record on"
        }
    }
}

/// A record that follows another one properly, and the head that goes with it.
fn forged(after: &Record) -> (Record, Head) {
    let head = Head {
        chain: "a chain".to_owned(),
        sequence: after.sequence,
        hash: after.hash.clone(),
        key: String::new(),
        seal: String::new(),
    };
    let facts = [Fact::new(Kind::Allowed)];
    let (mut records, head) = Recorder::default().chain(head, Timestamp::now(), facts).unwrap();
    (records.remove(0), head)
}

#[test]
fn a_thousand_tamperings_are_found() {
    test(async {
        let mut server = Server::with(Setup::permission(json!({ "bash": "deny" }))).await;
        fs::write(server.work().join("file"), "text\n").unwrap();
        for _ in 0..10 {
            let _ = server
                .run("read", json!({ "filePath": server.work().join("file") }))
                .await;
            let _ = server
                .run("bash", json!({ "command": "true", "description": "x" }))
                .await;
        }
        server.stop().await;
        let export = exported(&server);
        let noted = records(&export).last().unwrap().hash.clone();
        let original: Vec<String> = String::from_utf8(export.clone())
            .unwrap()
            .split_inclusive('\n')
            .map(str::to_owned)
            .collect();
        let mut random = Random::new(7);
        let mut ways = BTreeMap::new();
        for number in 0..1000 {
            let mut lines = original.clone();
            let way = tamper(&mut lines, &mut random);
            assert_ne!(lines, original, "{number}: {way}");
            let found = Verifier::default().expect(&noted).text(lines.concat().as_bytes());
            assert!(found.is_err(), "{number}: {way}");
            *ways.entry(way).or_insert(0) += 1;
        }
        assert_eq!(ways.len(), 9, "{ways:?}");

        let file = server.folder().join("export");
        let path = file.display().to_string();
        fs::write(&file, &export).unwrap();
        let (code, text) = toolgate(&["audit", "verify", &path, "--expect-head", &noted]);
        assert_eq!(code, 0);
        assert!(String::from_utf8(text).unwrap().contains(&noted));
        let mut lines = original.clone();
        lines.remove(5);
        fs::write(&file, lines.concat()).unwrap();
        let (code, text) = toolgate(&["audit", "verify", &path]);
        assert_eq!(code, 1);
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("line 6 (record 7): missing"), "{text}");
        assert_eq!(toolgate(&["audit", "verify", "--data-dir", &data(&server)]).0, 0);
        let (code, head) = toolgate(&["audit", "head", "--data-dir", &data(&server)]);
        assert_eq!(code, 0);
        assert!(String::from_utf8(head).unwrap().contains(&noted));
        assert_eq!(toolgate(&["audit", "verify", "--data-dir", "/nowhere/at/all"]).0, 2);
    });
}

/// The audit has each call's admission and end, and each prompt's beginning and decision, once and no others.
pub(crate) async fn agrees(server: &Server) -> usize {
    let mut calls = BTreeMap::new();
    let mut page = String::new();
    loop {
        let request = ListCallsRequest {
            page_size: 500,
            page_token: page,
            ..Default::default()
        };
        let answer = server.tools().list_calls(request).await.unwrap().into_inner();
        calls.extend(answer.calls.into_iter().map(|call| (call.call_id.clone(), call)));
        page = answer.next_page_token;
        if page.is_empty() {
            break;
        }
    }
    let mut prompts = BTreeMap::new();
    for call in calls.keys() {
        let request = ListPromptsRequest {
            call_id: call.clone(),
            states: [
                PromptState::Open,
                PromptState::Resolved,
                PromptState::Expired,
                PromptState::Withdrawn,
            ]
            .map(i32::from)
            .into(),
            ..Default::default()
        };
        let list = server.prompts(request).await;
        prompts.extend(list.into_iter().map(|prompt| (prompt.prompt_id.clone(), prompt)));
    }
    let export = export(server).await;
    verify(&export).unwrap();
    let (mut admitted, mut ended) = (BTreeSet::new(), BTreeSet::new());
    let (mut opened, mut decided) = (BTreeSet::new(), BTreeMap::new());
    for record in records(&export) {
        let fact = record.fact;
        let call = fact.call.as_ref().map(ToString::to_string).unwrap_or_default();
        let prompt = fact.prompt.as_ref().map(ToString::to_string).unwrap_or_default();
        match fact.kind {
            Kind::Admitted => {
                assert_eq!(fact.input_digest, calls[&call].input_digest);
                assert!(admitted.insert(call), "admitted once");
            }
            Kind::Ended => {
                assert_eq!(
                    fact.decision == "failed",
                    calls[&call].state() == CallState::Failed,
                    "{call}"
                );
                assert!(ended.insert(call), "ended once");
            }
            Kind::Prompted => assert!(opened.insert(prompt), "asked once"),
            Kind::Decided => {
                let decision = (fact.decision, fact.by);
                assert!(decided.insert(prompt, decision).is_none(), "decided once");
            }
            _ => {}
        }
    }
    let all: BTreeSet<String> = calls.keys().cloned().collect();
    assert_eq!(admitted, all);
    let ends = calls
        .iter()
        .filter(|(_, call)| call.end_time.is_some())
        .map(|(id, _)| id.clone());
    assert_eq!(ended, ends.collect());
    assert_eq!(opened, prompts.keys().cloned().collect());
    let decisions = prompts.iter().filter(|(_, prompt)| prompt.state() != PromptState::Open);
    let decisions: BTreeMap<String, (String, String)> = decisions
        .map(|(id, prompt)| {
            let word = match (prompt.state(), prompt.resolution.as_ref().map(|end| end.decision())) {
                (PromptState::Expired, _) => "expired",
                (PromptState::Withdrawn, _) => "withdrawn",
                (_, Some(PromptDecision::Once)) => "once",
                (_, Some(PromptDecision::Always)) => "always",
                (_, Some(PromptDecision::Reject)) => "reject",
                (_, Some(PromptDecision::Instead)) => "instead",
                (_, Some(PromptDecision::Answer)) => "answers",
                other => panic!("{other:?}"),
            };
            let by = prompt.resolution.as_ref().map(|end| end.resolved_by.clone());
            (id.clone(), (word.to_owned(), by.unwrap_or_default()))
        })
        .collect();
    assert_eq!(decided, decisions);
    all.len()
}

async fn answer_some(server: &Server, random: &mut Random) {
    let open = list_all();
    let prompts = server.prompts(open).await;
    for prompt in prompts {
        let decision = *random.pick(&[PromptDecision::Once, PromptDecision::Reject]);
        let request = ReplyPromptRequest {
            reply: Some(reply(&prompt, decision)),
            name: "somebody".to_owned(),
        };
        let _ = server.permissions().reply_prompt(request).await;
    }
}

#[test]
fn the_audit_agrees_with_what_happened_whatever_is_killed() {
    test(async {
        let rules = json!({ "bash": { "*": "allow", ": ask*": "ask", ": deny*": "deny" } });
        let mut server = Server::with(Setup::permission(rules)).await;
        let mut random = Random::new(11);
        let mut number = 0;
        for round in 0..5 {
            let mut calls = JoinSet::new();
            for _ in 0..40 {
                number += 1;
                let command = *random.pick(&["true", ": ask", ": ask; false", ": deny", "sleep 30", "echo x"]);
                let request = in_session(&format!("s{number}"), kept(&format!("c{number}"), bash(command)));
                let mut tools = server.tools();
                calls.spawn(async move {
                    if let Ok(stream) = tools.execute_tool(request).await {
                        let _ = collect(stream.into_inner()).await;
                    }
                });
            }
            let enough = 5 + random.below(30);
            for _ in 0..enough {
                answer_some(&server, &mut random).await;
            }
            if round < 4 {
                server.kill9().await;
                calls.shutdown().await;
                server.restart().await;
            }
        }
        // Everything comes to its end, so that nothing changes while it is compared.
        for call in (1..=number).map(|number| format!("c{number}")) {
            let cancelled = server.tools().cancel_call(CancelCallRequest { call_id: call }).await;
            if let Err(status) = cancelled {
                assert_eq!(status.code(), Code::NotFound, "{status:?}");
            }
        }
        let calls = agrees(&server).await;
        assert!(calls > 50, "{calls} calls");
        server.stop().await;
        exported(&server);
        journal::agrees(&server);
    });
}

#[test]
fn a_service_and_commands_beside_it_keep_one_chain_while_it_is_exported() {
    test(async {
        let mut server = Server::start().await;
        let mut calls = JoinSet::new();
        for _ in 0..4 {
            let mut tools = server.tools();
            calls.spawn(async move {
                for _ in 0..15 {
                    let request = run_request(request("bash", json!({ "command": "true", "description": "x" })));
                    run(&mut tools, request).await.unwrap();
                }
            });
        }
        // Each with a service of its own, on the same data.
        for _ in 0..2 {
            let commands: Vec<_> = (0..3)
                .map(|_| server.command_aside(&["call", "bash", "command=true", "description=x"]))
                .collect();
            calls.spawn(async move {
                for mut command in commands {
                    let output = command.output().await.unwrap();
                    assert!(output.status.success(), "{output:?}");
                }
            });
        }
        let mut sizes = Vec::new();
        while !calls.is_empty() {
            let verified = verify(&export(&server).await).unwrap();
            sizes.push(verified.count);
            if let Ok(Some(ended)) = tokio::time::timeout(Duration::from_millis(20), calls.join_next()).await {
                ended.unwrap();
            }
        }
        assert!(sizes.is_sorted());
        assert_eq!(agrees(&server).await, 66);
        server.stop().await;
        let instances: BTreeSet<String> = records(&exported(&server))
            .into_iter()
            .filter(|record| record.fact.kind == Kind::Admitted)
            .map(|record| record.fact.instance.unwrap().to_string())
            .collect();
        assert_eq!(instances.len(), 7);
        journal::agrees(&server);
    });
}

#[test]
fn decisions_name_their_rule_and_refusals_are_recorded_but_no_flood() {
    test(async {
        let rules = json!({ "bash": { "*": "ask", "echo *": "allow", ": deny*": "deny" } });
        let mut server = Server::with(Setup::permission(rules)).await;
        server
            .run("bash", json!({ "command": "echo x", "description": "x" }))
            .await;
        server
            .run("bash", json!({ "command": ": deny", "description": "x" }))
            .await;
        let mut stream = server
            .tools()
            .execute_tool(kept("always", bash("ls a b")))
            .await
            .unwrap()
            .into_inner();
        let prompt = waiting(&mut stream).await;
        let mut wrong = reply(&prompt, PromptDecision::Once);
        wrong.input_digest = "0".repeat(64);
        for reply in [wrong, reply(&prompt, PromptDecision::Always)] {
            let request = ReplyPromptRequest {
                reply: Some(reply),
                name: "anna".to_owned(),
            };
            let _ = server.permissions().reply_prompt(request).await;
        }
        server.watch("always", 0).await.unwrap();
        server
            .run("bash", json!({ "command": "ls c", "description": "x" }))
            .await;
        for _ in 0..300 {
            let mut request = bash("true");
            request.context = Some(CallContext {
                agent: "nobody".to_owned(),
                ..CallContext::default()
            });
            assert!(server.execute(request).await.is_err());
        }
        server.stop().await;
        let records = records(&exported(&server));
        let of = |kind: Kind| {
            records
                .iter()
                .map(|record| &record.fact)
                .filter(move |fact| fact.kind == kind)
        };
        let rule = |fact: &Fact| fact.rules.first().map(|rule| rule.pattern.clone()).unwrap_or_default();
        let allowed = |pattern: &str| of(Kind::Allowed).find(|fact| fact.patterns.iter().any(|one| one == pattern));
        assert_eq!(rule(allowed("echo x").unwrap()), "echo *");
        assert_eq!(rule(of(Kind::Denied).next().unwrap()), ": deny*");
        let decided = of(Kind::Decided).next().unwrap();
        assert_eq!((decided.decision.as_str(), decided.by.as_str()), ("always", "anna"));
        assert_eq!(allowed("ls c").unwrap().grants, decided.grants);
        assert_eq!(
            of(Kind::Refused)
                .filter(|fact| fact.reason == "digest_mismatch")
                .count(),
            1
        );
        let refused: Vec<&Fact> = of(Kind::Refused)
            .filter(|fact| fact.reason == "unknown_agent")
            .collect();
        assert!(refused.len() < 30, "{} records", refused.len());
        let counted: u64 = refused.iter().map(|fact| fact.count.unwrap_or(1)).sum();
        assert_eq!(counted, 300);
    });
}

/// Every file below a folder that has a text in it.
fn files_with(folder: &Path, needle: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_with(&path, needle, found);
        } else if path.is_file() {
            let bytes = fs::read(&path).unwrap_or_default();
            if memchr::memmem::find(&bytes, needle.as_bytes()).is_some() {
                found.push(path.display().to_string());
            }
        }
    }
}

#[test]
fn secrets_are_shown_to_nobody() {
    test(async {
        let setup = Setup::permission(json!({ "edit": "ask" }))
            .env("HOUSE_SECRET", SECRET)
            .env("TOOLGATE_REDACT_VALUES_FROM_ENV", "HOUSE_SECRET")
            .env("TOOLGATE_LOG", "debug");
        let mut server = Server::with(setup).await;
        fs::write(server.work().join("outside"), format!("one\n{SECRET}\nthree\n")).unwrap();
        let pieces = "for i in 1 2 3; do printf 's3cr3t/o'; sleep 0.2; printf 'f \"the\"'; sleep 0.2; \
                      printf ' house\\n'; done; printf 's3cr3t/of'";
        let mut seen = Vec::new();
        for request in [
            kept("pieces", bash(pieces)),
            kept(
                "whole",
                bash("cat outside; cat outside | base64 -w0; echo $HOUSE_SECRET >&2; exit 3"),
            ),
            kept(
                "read",
                request("read", json!({ "filePath": server.work().join("outside") })),
            ),
            kept("input", bash(&format!("echo '{SECRET}'"))),
            kept("unknown", request(&format!("tool {SECRET}"), json!({ "x": SECRET }))),
        ] {
            let id = request.call_id.clone();
            let events = server.execute(request).await.unwrap();
            seen.push(format!("{events:?}"));
            seen.push(String::from_utf8_lossy(&output_of(&events)).into_owned());
            seen.push(format!("{:?}", server.get(&id).await));
            seen.push(format!("{:?}", server.watch(&id, 0).await.unwrap()));
        }
        let write = json!({ "filePath": server.work().join("kept"), "content": format!("key = {SECRET}\n") });
        let mut stream = server
            .tools()
            .execute_tool(kept("write", request("write", write)))
            .await
            .unwrap()
            .into_inner();
        let prompt = waiting(&mut stream).await;
        seen.push(format!("{prompt:?}"));
        let request = ReplyPromptRequest {
            reply: Some(reply(&prompt, PromptDecision::Once)),
            name: String::new(),
        };
        server.permissions().reply_prompt(request).await.unwrap();
        seen.push(format!("{:?}", server.watch("write", 0).await.unwrap()));
        let kept = fs::read_to_string(server.work().join("kept")).unwrap();
        assert_eq!(kept, format!("key = {SECRET}\n"), "what runs is what was asked for");
        server.stop().await;
        seen.push(server.log());
        seen.push(String::from_utf8(exported(&server)).unwrap());

        let quoted: Value = json!(SECRET);
        let quoted = quoted.to_string().trim_matches('"').to_owned();
        let debug = format!("{quoted:?}").trim_matches('"').to_owned();
        for (number, text) in seen.iter().enumerate() {
            for form in [SECRET, quoted.as_str(), debug.as_str()] {
                assert!(!text.contains(form), "text {number} shows it: {text}");
            }
        }
        assert!(
            seen[0].contains("[redacted]") && seen[0].contains("s3cr3t/of"),
            "{}",
            seen[0]
        );
        assert!(
            seen[1].ends_with("s3cr3t/of"),
            "what is no secret comes out: {}",
            seen[1]
        );
        let mut files = Vec::new();
        files_with(&server.output_folder(), SECRET, &mut files);
        assert!(files.is_empty(), "{files:?}");
    });
}
