//! `toolgate output`: the whole text that a call produced.

use clap::Args;
use tonic::Code;
use toolgate_client::Client;
use toolgate_contract::read_output_request::Range as Part;
use toolgate_contract::{
    ByteRange, LineRange, ListOutputsRequest, Output, ReadOutputRequest, SearchOutputRequest, Tail, call,
};

use super::arguments::Range;
use super::connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::terminal::{Look, Terminal, visible};
use super::words;

const MOST_MATCHES: i32 = 1000;

/// Which output, and what to do with it.
#[derive(Debug, Args)]
pub(super) struct OutputArgs {
    /// An output's id, or the id of the call that wrote it.
    #[arg(value_name = "OUTPUT|CALL")]
    id: String,
    /// Bytes: OFFSET:LENGTH, OFFSET: or :LENGTH; the first byte is 0.
    #[arg(long, value_name = "OFFSET:LENGTH", group = "what")]
    bytes: Option<Range>,
    /// Lines: FIRST:COUNT, FIRST: or :COUNT; the first line is 1.
    #[arg(long, value_name = "FIRST:COUNT", group = "what")]
    lines: Option<Range>,
    /// The last N lines.
    #[arg(long, value_name = "N", group = "what", value_parser = clap::value_parser!(i64).range(0..))]
    tail: Option<i64>,
    /// Lines that match a regular expression (Rust syntax; (?i) ignores case).
    #[arg(long, value_name = "REGEX", group = "what")]
    search: Option<String>,
    /// With --search: lines to show before and after each match.
    #[arg(short = 'C', long, value_name = "N", default_value_t = 0, requires = "search",
          value_parser = clap::value_parser!(i32).range(0..=20))]
    context: i32,
    /// Delete it. The call's record stays.
    #[arg(long, group = "what")]
    delete: bool,
    /// Show its details instead of its text.
    #[arg(long, group = "what")]
    info: bool,
}

/// What an id led to.
enum Found {
    Output(Output),
    /// A call that stored no output: its result is all there is.
    Result(String),
}

impl OutputArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let has = async |client: &Client| find(client, &self.id).await.is_ok();
        let client = connection::connect_where(globals, has).await?;
        let output = match find(&client, &self.id).await? {
            Found::Output(output) => output,
            Found::Result(text) if self.reads_everything() => {
                terminal.inform("this call stored no output; this is its result");
                return terminal.bytes(text.as_bytes()).map(|()| Exit::Completed);
            }
            Found::Result(_) => {
                return Err(Failure::Usage(format!(
                    "call {} stored no output; without options its result is shown",
                    self.id
                )));
            }
        };
        if self.delete {
            client.output(&output.output_id).delete().await?;
            terminal.inform(&format!("deleted {}", output.output_id));
        } else if self.info {
            show_info(&output, terminal)?;
        } else if let Some(pattern) = self.search {
            return search(&client, output.output_id, pattern, self.context, terminal).await;
        } else {
            read(&client, output.output_id, self.part(), terminal).await?;
        }
        Ok(Exit::Completed)
    }

    fn reads_everything(&self) -> bool {
        self.part().is_none() && self.search.is_none() && !self.delete && !self.info
    }

    fn part(&self) -> Option<Part> {
        if let Some(range) = self.bytes {
            return Some(Part::Bytes(ByteRange {
                offset: range.start.unwrap_or(0),
                limit: range.count,
            }));
        }
        if let Some(range) = self.lines {
            return Some(Part::Lines(LineRange {
                first_line: range.start.unwrap_or(1),
                limit: range.count,
            }));
        }
        self.tail.map(|lines| Part::Tail(Tail { lines }))
    }
}

async fn find(client: &Client, id: &str) -> Result<Found, Failure> {
    let unknown = match client.output(id).info().await {
        Ok(output) => return Ok(Found::Output(output)),
        Err(error) if matches!(error.code(), Code::NotFound | Code::InvalidArgument) => error,
        Err(error) => return Err(error.into()),
    };
    let request = ListOutputsRequest {
        call_id: id.to_owned(),
        ..ListOutputsRequest::default()
    };
    if let Some(output) = client.list_outputs(request).await?.into_iter().next() {
        return Ok(Found::Output(output));
    }
    match client.get_call(id).await.map(|call| call.ending) {
        Ok(Some(call::Ending::Completed(end))) => Ok(Found::Result(end.output)),
        Ok(Some(call::Ending::Failed(_)) | None) | Err(_) => Err(unknown.into()),
    }
}

async fn read(client: &Client, output_id: String, range: Option<Part>, terminal: &Terminal) -> Result<(), Failure> {
    let mut pieces = client
        .output_service()
        .read_output(ReadOutputRequest { output_id, range })
        .await?
        .into_inner();
    while let Some(piece) = pieces.message().await? {
        if terminal.json {
            terminal.message(&piece)?;
        } else {
            terminal.bytes(&piece.data)?;
        }
    }
    Ok(())
}

/// Shows matching lines; like grep, it ends with 1 if there are none.
async fn search(
    client: &Client,
    output_id: String,
    pattern: String,
    context: i32,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let request = SearchOutputRequest {
        pattern,
        before_context: context,
        after_context: context,
        max_matches: MOST_MATCHES,
        ..SearchOutputRequest::default()
    };
    let found = client.output(output_id).search(request).await?;
    let mut previous = None;
    for line in &found.lines {
        if terminal.json {
            terminal.message(line)?;
            continue;
        }
        if context > 0 && previous.is_some_and(|previous| previous + 1 < line.line) {
            terminal.line("--")?;
        }
        previous = Some(line.line);
        let number = terminal.out.text(Look::Green, &line.line.to_string());
        let mark = if line.is_match { ':' } else { '-' };
        terminal.line(&format!("{number}{mark}{}", visible(&line.text)))?;
    }
    if found.truncated {
        terminal.inform(&format!("there are more than {MOST_MATCHES} matching lines"));
    }
    Ok(if found.matches > 0 {
        Exit::Completed
    } else {
        Exit::Failed
    })
}

fn show_info(output: &Output, terminal: &Terminal) -> Result<(), Failure> {
    if terminal.json {
        return terminal.message(output);
    }
    let mut facts = vec![
        ("output", output.output_id.clone()),
        ("call", output.call_id.clone()),
        ("session", output.session_id.clone()),
        ("workspace", output.workspace.clone()),
        ("path", output.path.clone()),
        ("bytes", output.total_bytes.to_string()),
    ];
    // What is being written has no digest yet.
    let state = match (output.complete, output.sha256.is_empty()) {
        (true, _) => None,
        (false, true) => Some("being written"),
        (false, false) => Some("cut off: its writer died before it was done"),
    };
    if state != Some("being written") {
        facts.push(("lines", output.total_lines.to_string()));
        facts.push(("sha256", output.sha256.clone()));
    }
    facts.extend(state.map(|state| ("state", state.to_owned())));
    let times = [("created", output.create_time), ("expires", output.expire_time)];
    facts.extend(
        times
            .into_iter()
            .filter_map(|(name, at)| Some((name, words::time(at?)))),
    );
    let rows: Vec<_> = facts
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    terminal.whole_table(&[], &rows)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        output: OutputArgs,
    }

    #[test]
    fn options_become_parts() {
        fn check(options: &[&str], expected: Option<Part>) {
            let words = ["output", "id"].into_iter().chain(options.iter().copied());
            assert_eq!(
                Line::try_parse_from(words).unwrap().output.part(),
                expected,
                "{options:?}"
            );
        }
        check(&[], None);
        check(
            &["--bytes", "10:5"],
            Some(Part::Bytes(ByteRange { offset: 10, limit: 5 })),
        );
        check(&["--bytes", ":5"], Some(Part::Bytes(ByteRange { offset: 0, limit: 5 })));
        check(
            &["--lines", ":5"],
            Some(Part::Lines(LineRange {
                first_line: 1,
                limit: 5,
            })),
        );
        check(
            &["--lines", "7"],
            Some(Part::Lines(LineRange {
                first_line: 7,
                limit: 0,
            })),
        );
        check(&["--tail", "3"], Some(Part::Tail(Tail { lines: 3 })));
    }

    #[test]
    fn options_exclude_each_other() {
        fn check(options: &[&str]) {
            let words = ["output", "id"].into_iter().chain(options.iter().copied());
            assert!(Line::try_parse_from(words).is_err(), "{options:?}");
        }
        check(&["--bytes", "1", "--tail", "3"]);
        check(&["--delete", "--info"]);
        check(&["-C", "3"]);
        check(&["--search", "x", "-C", "21"]);
        check(&["--lines", "x"]);
    }
}
