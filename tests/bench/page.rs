//! `docs/reference/performance.md`: the table as a page, with the machine that it is of.
//!
//! *Invariant:* the page names no host, no user and no path. What could not be measured stands there without figures.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::Plan;
use crate::rows::Measured;
use crate::table::{HEAD, Row, show_bytes};

/// The variable that has the page written.
pub(crate) const UPDATE: &str = "TOOLGATE_UPDATE_DOCS";

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/performance.md");

const INTRODUCTION: &str = "\
# Performance

<!-- Written by `TOOLGATE_UPDATE_DOCS=1 cargo bench --bench ratios`; a test compares its rows with those of the benchmark. -->

What Toolgate costs, measured on one machine by `make bench`, which you can run on yours. Every figure stands beside a floor or a peer
that was measured in the same run, in turns with it: the least that such a service needs, or another program that does the same work.

- Times are those of a client, from the request to the end of the answer: half of the calls took no longer than the first time, 99 of 100
  no longer than the second.
- *Processor a call* is what the service itself used, in user mode and in the kernel, as the kernel counts it; programs that it starts are
  not in it.
- *Disk a call* is what is on the disk afterwards, with the log of the database written back. In the place of a floor is the size of
  what was answered.
- *Peak memory* is the most that the service occupied during that measurement, for all calls together.
- *Figure* is what is compared with the *target*, if there is one. A row without a target explains another row.
";

/// Writes the page.
pub(crate) fn write(all: &[(&Measured, Vec<Row>)], plan: Plan) -> Result<()> {
    fs::write(PAGE, render(all, plan)?).context(PAGE)
}

fn render(all: &[(&Measured, Vec<Row>)], plan: Plan) -> Result<String> {
    let mut page = format!("{INTRODUCTION}\n{}", machine()?);
    if plan.quick {
        page.push_str("\nFew samples were taken (`--quick`): these figures are for a look only.\n");
    }
    for (one, rows) in all {
        write!(page, "\n## {}\n\n| {} |\n|", one.title, HEAD.join(" | "))?;
        page.push_str(&"---|".repeat(HEAD.len()));
        page.push('\n');
        for (number, what) in one.rows.iter().enumerate() {
            let cells = match rows.get(number) {
                Some(row) => row.cells().to_vec(),
                None => [*what, "not measured"]
                    .into_iter()
                    .chain(std::iter::repeat(""))
                    .take(HEAD.len())
                    .map(str::to_owned)
                    .collect(),
            };
            let cells = cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>();
            writeln!(page, "| {} |", cells.join(" | "))?;
        }
    }
    Ok(page)
}

/// Says what the figures are of.
fn machine() -> Result<String> {
    let read = |path: &str| fs::read_to_string(Path::new("/proc").join(path)).with_context(|| format!("/proc/{path}"));
    let after = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let processor = after(&read("cpuinfo")?, "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cores = std::thread::available_parallelism()?;
    let kernel = read("sys/kernel/osrelease")?;
    let memory = after(&read("meminfo")?, "MemTotal").context("the size of the memory")?;
    let kib: u64 = memory
        .trim_end_matches(" kB")
        .parse()
        .context("the size of the memory")?;
    Ok(format!(
        "| the machine | |\n|---|---|\n| processor | {processor} |\n| cores | {cores}, which service, floors and clients share |\n\
         | memory | {} |\n| kernel | Linux {} |\n| Toolgate | {}, {} build |\n",
        show_bytes(kib * 1024),
        kernel.trim(),
        env!("CARGO_PKG_VERSION"),
        if cfg!(debug_assertions) { "debug" } else { "release" },
    ))
}
