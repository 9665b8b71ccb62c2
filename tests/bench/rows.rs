//! What is measured by `cargo bench --bench ratios`: the measurements with their rows, in the order of the table and of
//! `docs/reference/performance.md`, whose test compiles this file too.
//!
//! *Invariant:* a measurement that yields other rows than these is told as a fault.

/// A measurement.
pub(crate) struct Measured {
    /// By what it is asked for.
    #[allow(dead_code)] // the test of the page asks for none
    pub(crate) name: &'static str,
    /// The heading of its rows on the page.
    pub(crate) title: &'static str,
    pub(crate) rows: &'static [&'static str],
}

const fn of(name: &'static str, title: &'static str, rows: &'static [&'static str]) -> Measured {
    Measured { name, title, rows }
}

/// All of them.
pub(crate) static MEASURED: [Measured; 20] = [
    of(
        "read",
        "Read a small file",
        &[
            "read of 2 KB, whole stream",
            "read of 2 KB, processor time",
            "read of 2 KB by 64 clients, a second",
            "read of 2 KB by 64 clients, processor time",
        ],
    ),
    of(
        "get",
        "Ask for a call",
        &[
            "GetCall of an unknown call",
            "GetCall of an unknown call, processor time",
            "GetCall of a call that has ended",
            "GetCall of a call that has ended, processor time",
            "GetCall of a call that has ended by 64 clients, a second",
        ],
    ),
    of(
        "bash",
        "Run a command",
        &[
            "bash `true`, whole stream",
            "bash `true` by 16 clients, a second",
            "bash `true` by 16 clients, processor time",
            "a bare tonic service that spawns",
            "the process module alone",
        ],
    ),
    of(
        "disk",
        "What stays on the disk",
        &["disk for a read of 50 KB", "the same, over the result as it is"],
    ),
    of(
        "peers",
        "Beside MCP servers",
        &[
            "read of 2 KB over gRPC, beside an MCP server over stdio",
            "read of 2 KB over gRPC, beside an MCP server over HTTP",
            "read of 2 KB over MCP, beside an MCP server over HTTP",
        ],
    ),
    of(
        "filesystem",
        "Beside the official MCP server for files",
        &["read of 2 KB over gRPC, beside the official MCP server for files"],
    ),
    of(
        "gateway",
        "Through a gateway",
        &[
            "gateway: read of 2 KB, whole stream",
            "gateway: bash `true`, whole stream",
        ],
    ),
    of(
        "fleet",
        "Through a gateway with a database",
        &[
            "fleet: read of 2 KB through a gateway with a database",
            "fleet: the least that a gateway with a database adds: two bare calls and a commit",
            "fleet: bash `true` through a gateway with a database",
            "fleet: the same, p99",
            "fleet: reads by 32 clients, a second",
            "fleet: from stored to chained in the audit, p99, meanwhile",
            "fleet: asked at a worker, seen and answered at another gateway, resumed",
            "fleet: from the death of a worker until its call is LOST",
            "fleet: from the death of a gateway until a watcher goes on at the other",
        ],
    ),
    of(
        "durability",
        "Wait for the disk",
        &[
            "durability: read, `power` over `process`",
            "durability: bash `true`, `power` over `process`",
        ],
    ),
    of("latency", "Output as it appears", &["write to event, p99"]),
    of(
        "search",
        "Search files",
        &[
            "grep, 10,000 files, few matches",
            "grep, 10,000 files, matches everywhere",
            "glob *.rs, 10,000 files",
            "glob **/*, 10,000 files",
            "grep, 200 files, matches everywhere",
            "glob *.rs, 200 files",
        ],
    ),
    of(
        "edits",
        "Edit large files",
        &[
            "edit exact, 10,000 lines",
            "edit exact, 10,000 lines, memory for it",
            "edit indentation, 10,000 lines",
            "edit indentation, 10,000 lines, memory for it",
            "edit whitespace, 10,000 lines",
            "edit whitespace, 10,000 lines, memory for it",
            "edit block anchor, 10,000 lines",
            "edit block anchor, 10,000 lines, memory for it",
            "edit not found, 10,000 lines",
            "edit not found, 10,000 lines, memory for it",
            "edit exact, 100,000 lines",
            "edit exact, 100,000 lines, memory for it",
            "edit indentation, 100,000 lines",
            "edit indentation, 100,000 lines, memory for it",
            "edit whitespace, 100,000 lines",
            "edit whitespace, 100,000 lines, memory for it",
            "edit block anchor, 100,000 lines",
            "edit block anchor, 100,000 lines, memory for it",
            "edit not found, 100,000 lines",
            "edit not found, 100,000 lines, memory for it",
        ],
    ),
    of(
        "language",
        "Edit with a language server",
        &[
            "edit, a language server takes 2 s",
            "edit, errors reported in 10 ms are in its result",
        ],
    ),
    of(
        "output",
        "Much output",
        &[
            "200 MB of output, one reader",
            "200 MB of output, memory for it",
            "200 MB of output by a bare tonic service",
        ],
    ),
    of(
        "tail",
        "The end of a large file",
        &[
            "read near the end of 1 GB",
            "read near the end of 1 GB, memory for it",
            "read near the end of 1 GB, over a scan",
        ],
    ),
    of(
        "cancel",
        "Cancel a command",
        &["cancel to last descendant gone, beyond the grace", "survivors"],
    ),
    of(
        "prompt",
        "Ask a person",
        &[
            "call, prompt, approver, reply, call resumes",
            "asked: from the call until the approver sees it",
            "answered: from then until its reply is taken",
            "resumed: from the same moment until the call goes on",
        ],
    ),
    of(
        "start",
        "Start and idle",
        &[
            "start to SERVING",
            "idle memory, after the start",
            "idle memory, after 50,000 calls",
        ],
    ),
    of(
        "crowd",
        "Many running calls",
        &["memory with 1,000 running calls and 2,000 watchers"],
    ),
    of(
        "stored",
        "Many stored calls",
        &[
            "stored calls: start to SERVING",
            "stored calls: the newest 50",
            "stored calls: pages of 500, one after the other",
            "stored calls: those of a session",
            "stored calls: those that failed",
            "stored calls: those that run: none",
            "stored calls: a page of those of a tool that none is of",
            "stored calls: those of one day, long ago",
            "stored calls: the newest 50 sessions",
            "stored calls: search of what many have",
            "stored calls: a page of a search of what one has",
            "stored calls: a page of a search of what none has",
            "stored calls: all pages of a search of what none has",
            "stored calls: one of them",
            "stored calls: one more call: a read",
        ],
    ),
];
