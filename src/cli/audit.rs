//! `toolgate audit`: export the chain of records, verify it, show its head.
//!
//! *Invariant:* a server is asked only with `--server` or where nothing else is named; a data directory is read without
//! one, whether a service runs on it or not. Nothing is written.

#![allow(clippy::disallowed_methods)] // reads the export that the command line names

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use toolgate_client::Error;
use toolgate_contract::{ExportAuditRequest, GetAuditHeadRequest};
use toolgate_model::audit_key::Key;
use toolgate_server::app::AuditFile;
use toolgate_server::grpc::audit_head;
use toolgate_store::audit::{Finding, Verified, Verifier};

use super::connection;
use super::exit::{Exit, Failure, with_causes};
use super::globals::Globals;
use super::service;
use super::terminal::Terminal;

/// Records read at once.
const BATCH: usize = 256;

/// A longer line is no record; more of it is not read.
const MAX_LINE: u64 = 1 << 20;

/// More than this is no key.
const MAX_KEY: u64 = 64 << 10;

/// What to do with the audit.
#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Write the records to standard output, one JSON object per line, and the head as the last.
    Export(ExportArgs),
    /// Find any change, deletion or reordering. Exit code 0 if there is none, 1 with the first that is found.
    Verify(VerifyArgs),
    /// Show the number and the hash of the last record. Note them in a place that whoever can write here cannot change.
    Head(HeadArgs),
}

#[derive(Debug, Args)]
struct ExportArgs {
    /// Read this data directory instead of asking a server.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Begin with this record.
    #[arg(long, value_name = "N", default_value_t = 0)]
    from: u64,
}

#[derive(Debug, Args)]
struct VerifyArgs {
    /// The export; - for standard input. Without it, the data directory is verified.
    #[arg(value_name = "FILE", conflicts_with = "data_dir")]
    file: Option<PathBuf>,
    /// Verify this data directory; without it and FILE, the configured one.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The export begins with this record; without it, it must begin where the chain does or where retention left it.
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// A record of this hash must be there: one that `audit head` showed before. May be given more than once.
    #[arg(long, value_name = "HASH")]
    expect_head: Vec<String>,
    /// The key that the records must be made with; without it, the configured one. May be given more than once.
    #[arg(long, value_name = "FILE")]
    key_file: Vec<PathBuf>,
}

#[derive(Debug, Args)]
struct HeadArgs {
    /// Read this data directory instead of asking a server.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl AuditArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        match self.command {
            AuditCommand::Export(args) => args.run(globals, terminal).await,
            AuditCommand::Verify(args) => args.run(globals, terminal),
            AuditCommand::Head(args) => args.run(globals, terminal).await,
        }
    }
}

impl ExportArgs {
    async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        if let Some(folder) = &self.data_dir {
            for_each_line(&open(folder)?, self.from, |line| {
                terminal.bytes(format!("{line}\n").as_bytes())
            })?;
            return Ok(Exit::Completed);
        }
        let client = connection::connect(globals, None, terminal).await?;
        let request = ExportAuditRequest {
            from_sequence: i64::try_from(self.from).unwrap_or(i64::MAX),
            from_time: None,
        };
        let mut parts = client.audit_service().export_audit(request).await?.into_inner();
        let mut complete = false;
        while let Some(part) = parts.message().await? {
            let head = part.head.map(|_| part.head_line);
            complete = head.is_some();
            let lines = part.records.into_iter().chain(head).map(|line| line + "\n");
            terminal.bytes(lines.collect::<String>().as_bytes())?;
        }
        if complete {
            Ok(Exit::Completed)
        } else {
            Err(Error::Protocol("head of the audit").into())
        }
    }
}

impl VerifyArgs {
    fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let keys = if self.key_file.is_empty() {
            service::audit_key(globals.config.clone()).into_iter().collect()
        } else {
            self.key_file.iter().map(|path| key(path)).collect::<Result<_, _>>()?
        };
        let mut verifier = Verifier::new(keys);
        if let Some(from) = self.from {
            verifier = verifier.from(from);
        }
        for hash in &self.expect_head {
            verifier = verifier.expect(hash);
        }
        let verified = match &self.file {
            Some(path) if path == Path::new("-") => verify_export(std::io::stdin().lock(), path, verifier)?,
            Some(path) => verify_export(open_export(path)?, path, verifier)?,
            None if self.data_dir.is_none() && service::is_gateway(globals.config.clone())? => {
                return Err(Failure::Configuration(
                    "a gateway has no audit in a data folder: verify what `toolgate audit export` has written, as FILE"
                        .to_owned(),
                ));
            }
            None => {
                let file = open(&service::data_dir(self.data_dir, globals.config.clone())?)?;
                verify_file(&file, self.from.unwrap_or(0), verifier)?
            }
        };
        report(verified, terminal)
    }
}

fn report(verified: Result<Verified, Finding>, terminal: &Terminal) -> Result<Exit, Failure> {
    match verified {
        Ok(Verified { count, first, head }) => {
            if terminal.json {
                let head =
                    json!({ "chain": head.chain, "sequence": head.sequence, "hash": head.hash, "key": head.key });
                terminal.record(&json!({ "verified": count, "first": first, "head": head }))?;
            } else {
                let (sequence, hash) = (head.sequence, head.hash);
                terminal.line(&format!(
                    "verified {count} records, {first} to {sequence}; head {sequence} {hash}"
                ))?;
            }
            Ok(Exit::Completed)
        }
        Err(finding) => {
            if terminal.json {
                let Finding {
                    line,
                    sequence,
                    problem,
                    detail,
                } = &finding;
                let problem =
                    json!({ "problem": problem.as_str(), "line": line, "sequence": sequence, "detail": detail });
                terminal.record(&problem)?;
            } else {
                let told = if finding.problem.as_str() == "anchor" {
                    format!("verification failed: {} (--expect-head)", finding.detail)
                } else {
                    format!("not as it was written: {finding}")
                };
                terminal.line(&told)?;
            }
            Ok(Exit::Failed)
        }
    }
}

/// Verifies an export. The outer error means that it cannot be read.
fn verify_export(export: impl Read, path: &Path, mut verifier: Verifier) -> Result<Result<Verified, Finding>, Failure> {
    let mut export = BufReader::new(export);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut export)
            .take(MAX_LINE)
            .read_until(b'\n', &mut line)
            .map_err(|source| read_failure(path, source))?;
        if read == 0 {
            return Ok(verifier.finish());
        }
        let checked = match line.strip_suffix(b"\n") {
            Some(line) => verifier.line(line),
            None => return Ok(Err(verifier.cut())),
        };
        if let Err(finding) = checked {
            return Ok(Err(finding));
        }
    }
}

/// Verifies what a data directory has.
fn verify_file(file: &AuditFile, from: u64, mut verifier: Verifier) -> Result<Result<Verified, Finding>, Failure> {
    let mut found = None;
    for_each_line(file, from, |line| {
        if found.is_none() {
            found = verifier.line(line.as_bytes()).err();
        }
        Ok(())
    })?;
    Ok(match found {
        Some(finding) => Err(finding),
        None => verifier.finish(),
    })
}

/// Hands out the lines of an export: the records from one on, and the head.
fn for_each_line(
    file: &AuditFile,
    from: u64,
    mut each: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut next, mut count) = (from, 0);
    loop {
        let lines = file.lines(next, BATCH).map_err(unreadable)?;
        let Some(last) = lines.last() else { break };
        next = last.sequence + 1;
        for line in &lines {
            each(&line.json)?;
            count += 1;
        }
    }
    each(&file.end().head.line(count))
}

fn open_export(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|source| read_failure(path, source))
}

fn read_failure(path: &Path, source: std::io::Error) -> Failure {
    let path = path.to_path_buf();
    Failure::Read { path, source }
}

/// Reads a key.
pub(super) fn key(path: &Path) -> Result<Key, Failure> {
    let mut content = Vec::new();
    let read = open_export(path)?.take(MAX_KEY).read_to_end(&mut content);
    read.map_err(|source| read_failure(path, source))?;
    Key::new(&content).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

fn open(data_dir: &Path) -> Result<AuditFile, Failure> {
    AuditFile::open(data_dir).map_err(unreadable)
}

fn unreadable(error: impl std::error::Error) -> Failure {
    Failure::Usage(format!("the audit cannot be read: {}", with_causes(&error)))
}

impl HeadArgs {
    async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let head = match &self.data_dir {
            Some(folder) => audit_head(open(folder)?.end()),
            None => {
                let client = connection::connect(globals, None, terminal).await?;
                let answer = client.audit_service().get_audit_head(GetAuditHeadRequest {}).await?;
                answer.into_inner().head.ok_or(Error::Protocol("head of the audit"))?
            }
        };
        if terminal.json {
            terminal.message(&head)?;
        } else {
            terminal.line(&format!("{} {}", head.sequence, head.hash))?;
        }
        Ok(Exit::Completed)
    }
}
