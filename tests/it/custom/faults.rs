//! Custom tools and plugins that go wrong in every way, under each runtime: only the call that does ends.

use std::time::Duration;

use super::*;

/// Tools of one file, whose calls must not harm each other.
const TRAPS: &str = r#"
const of = (execute) => ({ description: "d", args: {}, execute })
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))
let calls = 0
export const fine = of(async () => `fine ${++calls}`)
export const slow = of(async (_, c) => { while (!c.abort.aborted) await sleep(20); throw new Error("stopped") })
export const loop = of(async () => { for (;;) {} })
export const bytes = of(async () => { const all = []; for (;;) all.push(new Uint8Array(1 << 22).fill(1), new Array(1 << 16).fill(0.5)) })
export const objects = of(async () => { const all = []; for (;;) { all.push(new Array(1 << 20).fill(all.length)); if (all.length % 8 === 0) await sleep(1) } })
export const exits = of(async () => process.exit(7))
export const later = of(() => new Promise(() => setTimeout(() => { throw new Error("thrown later") }, 10)))
export const nobody = of(async () => { Promise.reject(new Error("nobody waits")); await sleep(30); return "went on" })
export const odd = of(async () => { throw Object.create(null) })
export const half = of(async () => ({ output: "a\u{1F600}".slice(0, 2) + "\\ud83d", title: "\ud83d" }))
export const deep = of(async () => { let m = {}; for (let i = 0; i < 500; i++) m = { m }; return { output: "x", metadata: m } })
export const cycle = of(async () => { const m = {}; m.m = m; return { output: "x", metadata: m } })
export const large = of(async () => "x".repeat(100e6))
export const wide = of(async () => ({ output: "x", metadata: { m: "x".repeat(1e6) } }))
export const escaped = of(async () => "\u0001".repeat(20e6))
export const loud = of(async () => { for (let i = 0; i < 100; i++) { console.log("x".repeat(1e6)); await sleep(0) } return "said" })
export const flood = of(async (_, c) => {
  const m = {}; m.m = m
  c.metadata({ metadata: m }); c.metadata({ metadata: m }); c.metadata({ metadata: { n: 1n } }); c.metadata(null)
  for (let i = 0; i < 20000; i++) { c.metadata({ metadata: { ["k" + i]: "x".repeat(1000) } }); if (i % 500 === 0) await sleep(1) }
  c.metadata({ metadata: { big: "x".repeat(100e6) } })
  await sleep(120)
  c.metadata({ title: "last", metadata: { last: true } })
  await sleep(1000)
  return "flooded"
})
export const stray = of(async () => {
  const { parentPort, workerData } = await import("node:worker_threads")
  for (const message of [null, "text", { op: "done", id: 1 }]) parentPort?.postMessage(message)
  await sleep(30)
  return Object.keys(workerData).join()
})
export const tricks = of(async () => {
  JSON.stringify = () => "no JSON"
  Object.prototype.toJSON = () => undefined
  setTimeout(() => { delete Object.prototype.toJSON }, 200)
  return "x"
})
export const asks = of(async (_, c) => { c.ask({ permission: "never", patterns: ["x"], always: [] }).catch(() => {}); return "asked" })
export const programs = of(async () => {
  const { spawn } = await import("node:child_process")
  spawn("sh", ["-c", "sleep MARK; true"])
  spawn("sleep", ["MARK"], { detached: true })
  if (globalThis.Bun) { Bun.spawn(["sleep", "MARK"]); await Bun.$`sleep MARK` }
  await sleep(1e6)
})
"#;

const PLUGIN: &str = r#"
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))
export const Plugin = async ({ client }, options = { none: true }) => {
  const seen = []
  return {
    "tool.execute.before": async (input, output) => {
      if (input.tool === "trap_fine") { seen.push(output.args.how); output.args.seen = true; output.args = {} }
      if (output.args.how === "hang") await new Promise(() => {})
    },
    tool: {
      seen: { description: "d", execute: async () => JSON.stringify([seen, options]) },
      asks_server: { description: "d", execute: async () => client.session.prompt({ path: { id: "x" } }) },
      blocks: { description: "d", execute: async () => { for (;;) {} } },
      exits: { description: "d", execute: async () => process.exit(1) },
      waits: { description: "d", execute: async () => { await sleep(500); return "waited" } },
    },
  }
}
"#;

async fn with_traps(runtime: &str) -> (Server, String) {
    let mark = format!(
        "{}.{}",
        std::process::id(),
        RUNTIMES.iter().position(|name| *name == runtime).unwrap()
    );
    let traps = TRAPS.replace("MARK", &mark);
    let server = with_runtime(runtime, &[(".opencode/tool/trap.js", &traps)]).await;
    (server, mark)
}

/// Starts a call that goes on until it is cancelled, in the same file as what goes wrong.
async fn innocent(server: &Server) {
    let request = kept("innocent", request("trap_slow", json!({})));
    drop(server.tools().execute_tool(request).await.unwrap());
}

/// Checks that the innocent call has seen nothing of what happened, and ends it.
async fn unharmed(server: &Server) {
    assert_eq!(server.get("innocent").await.state(), CallState::Running);
    cancel(server, "innocent").await;
}

#[test]
fn a_call_that_goes_wrong_ends_alone() {
    test(async {
        for name in RUNTIMES {
            let (server, _) = with_traps(name).await;
            innocent(&server).await;
            let run = async |tool: &str| server.run(&format!("trap_{tool}"), json!({})).await;
            let fails = async |tool: &str, with: &str| {
                let error = error(&run(tool).await);
                assert!(error.contains(with), "{name} {tool}: {error}");
            };
            assert_eq!(output(&run("fine").await), "fine 1");
            fails("exits", "process.exit(7) was called (at .opencode/tool/trap.js:").await;
            fails("later", "thrown later (at .opencode/tool/trap.js:").await;
            fails("odd", "something was thrown that is no error").await;
            fails("deep", "What it returned cannot be read: recursion limit exceeded").await;
            fails(
                "cycle",
                "the metadata that trap_cycle returned cannot be written as JSON",
            )
            .await;
            fails("large", "returned more than 33554432 bytes").await;
            fails("wide", "the metadata that trap_wide returned has 1000").await;
            fails("escaped", "the result has 120000").await;
            assert_eq!(output(&run("nobody").await), "went on");
            let half = run("half").await;
            assert_eq!(
                (output(&half).as_str(), half.title.as_str()),
                ("a\u{fffd}\\ud83d", "\u{fffd}")
            );
            assert_eq!(output(&run("stray").await), "spec");
            assert_eq!(output(&run("loud").await), "said");
            fails("tricks", "cannot be written as JSON").await;
            unharmed(&server).await;
        }
    });
}

#[test]
fn updates_are_bounded_and_replace_each_other() {
    test(async {
        for name in RUNTIMES {
            let (server, _) = with_traps(name).await;
            let events = server.execute(request("trap_flood", json!({}))).await.unwrap();
            let mut shown = serde_json::Map::new();
            for event in &events {
                if let Some(call_event::Event::Metadata(update)) = &event.event {
                    let Value::Object(patch) = json_of(update.metadata.as_ref().unwrap()) else {
                        panic!()
                    };
                    shown.extend(patch);
                    shown.retain(|_, value| !value.is_null());
                    assert!(shown.len() < 3, "{name}: {shown:?}");
                }
            }
            assert_eq!(Value::Object(shown), json!({"last": true}), "{name}");
            let bytes: usize = events.iter().map(|event| format!("{event:?}").len()).sum();
            assert!(bytes < 1 << 20, "{name}: {bytes}");
        }
    });
}

#[test]
fn a_full_memory_and_an_endless_loop_end_one_call() {
    test(async {
        // Where the runtime has a limit of its own, and where the host has to look.
        for (name, hog) in [("node-22", "trap_objects"), ("bun", "trap_bytes")] {
            let (server, _) = with_traps(name).await;
            innocent(&server).await;
            let error = error(&server.run(hog, json!({})).await);
            assert!(error.to_lowercase().contains("memory"), "{name}: {error}");
            let looping = kept("loop", request("trap_loop", json!({})));
            drop(server.tools().execute_tool(looping).await.unwrap());
            // Goes on at once, wherever the loop is.
            assert!(output(&server.run("trap_fine", json!({})).await).starts_with("fine"));
            cancel(&server, "loop").await;
            unharmed(&server).await;
        }
    });
}

#[test]
fn programs_end_with_a_call_that_is_cancelled() {
    test(async {
        for name in RUNTIMES {
            let (server, mark) = with_traps(name).await;
            let marker = format!("sleep\0{mark}");
            let request = kept("programs", request("trap_programs", json!({})));
            drop(server.tools().execute_tool(request).await.unwrap());
            let expected = if name == "bun" { 4 } else { 2 };
            eventually("the programs run", async || processes(&marker).len() == expected).await;
            cancel(&server, "programs").await;
            gone(&marker).await;
        }
    });
}

#[test]
fn questions_that_nobody_waits_for_do_not_add_up() {
    test(async {
        for name in RUNTIMES {
            let mut setup = Setup::permission(json!({"never": "ask"}));
            setup.env = trusted().env("TOOLGATE_EXTENSIONS_RUNTIME", &runtime(name)).env;
            let mut server = Server::with(setup).await;
            project(&server, &[(".opencode/tool/trap.js", TRAPS)]);
            server.kill9().await;
            server.restart().await;
            for _ in 0..70 {
                assert_eq!(output(&server.run("trap_asks", json!({})).await), "asked", "{name}");
            }
            let mut tools = server.tools();
            let asking = r#"export default { description: "d", args: {}, execute: async (_, c) => { await c.ask({ permission: "never", patterns: ["x"], always: [] }); return "allowed" } }"#;
            write(&server.work().join(".opencode/tool/really.js"), asking);
            eventually("the tool is there", async || {
                names(&server).await.contains(&"really".to_owned())
            })
            .await;
            let mut stream = tools
                .execute_tool(kept("really", request("really", json!({}))))
                .await
                .unwrap()
                .into_inner();
            let prompt = waiting(&mut stream).await;
            let Some(prompt::Request::Permission(asked)) = &prompt.request else {
                panic!("{prompt:?}");
            };
            assert_eq!((asked.permission.as_str(), asked.patterns[0].as_str()), ("never", "x"));
        }
    });
}

#[test]
fn a_plugin_is_as_in_opencode() {
    test(async {
        for name in RUNTIMES {
            let files = [(".opencode/tool/trap.js", TRAPS), (".opencode/plugin/p.js", PLUGIN)];
            let server = with_runtime(name, &files).await;
            // Not what the hook put in the place of the arguments, but what it changed in them.
            let fine = server.run("trap_fine", json!({"how": "well"})).await;
            assert_eq!(
                serde_json::from_str::<Value>(&fine.input_json).unwrap(),
                json!({"how": "well", "seen": true})
            );
            let server_asked = error(&server.run("asks_server", json!({})).await);
            assert!(
                server_asked.starts_with("client.session.prompt is not available"),
                "{server_asked}"
            );
            let hanging = kept("hanging", request("trap_nobody", json!({"how": "hang"})));
            // Whoever calls has gone before the hook has answered; the plugin goes on.
            let mut tools = server.tools();
            let given_up = tokio::time::timeout(Duration::from_secs(1), tools.execute_tool(hanging)).await;
            assert!(given_up.is_err());
            let (waits, exits) = tokio::join!(server.run("waits", json!({})), server.run("exits", json!({})));
            assert!(error(&exits).contains("process.exit(1) was called"));
            assert_eq!(output(&waits), "waited", "{name}");
            // It is the same plugin still.
            assert_eq!(
                output(&server.run("seen", json!({})).await),
                r#"[["well"],{"none":true}]"#,
                "{name}"
            );
            // What has not begun does not wait for a loop for ever.
            drop(
                server
                    .tools()
                    .execute_tool(kept("blocks", request("blocks", json!({}))))
                    .await
                    .unwrap(),
            );
            assert!(output(&server.run("trap_fine", json!({})).await).starts_with("fine"));
            cancel(&server, "blocks").await;
        }
    });
}

#[test]
fn a_file_that_hangs_holds_up_no_other() {
    test(async {
        let files = [
            (
                ".opencode/tool/hangs.js",
                "await new Promise(() => {})\nexport default {}\n",
            ),
            (".opencode/tool/exits.js", "process.exit(1)\n"),
            (".opencode/tool/trap.js", TRAPS),
        ];
        let server = with_runtime("bun", &files).await;
        assert_eq!(output(&server.run("trap_fine", json!({})).await), "fine 1");
        let sources = sources(&server).await;
        let of = |name: &str| sources.iter().find(|source| source.name.ends_with(name)).unwrap();
        assert_eq!(
            of("hangs.js").state(),
            ToolSourceState::Connecting,
            "it is still being loaded"
        );
        assert!(
            of("exits.js").problem.contains("process.exit(1) was called"),
            "{}",
            of("exits.js").problem
        );
    });
}

#[test]
fn a_file_that_ends_the_host_takes_no_other_with_it() {
    test(async {
        for name in RUNTIMES {
            let files = [
                (
                    ".opencode/tool/ends.js",
                    "process.kill(process.pid, \"SIGKILL\")\nexport default {}\n",
                ),
                (".opencode/tool/trap.js", TRAPS),
            ];
            let server = with_runtime(name, &files).await;
            eventually("the other tools are there", async || {
                names(&server).await.contains(&"trap_fine".to_owned())
            })
            .await;
            eventually("the file is given up", async || {
                let run = server.run("trap_fine", json!({})).await;
                matches!(run.ending, Some(call::Ending::Completed(_)))
            })
            .await;
            let sources = sources(&server).await;
            let ends = sources.iter().find(|source| source.name.ends_with("ends.js")).unwrap();
            assert_eq!(ends.state(), ToolSourceState::Failed);
            assert!(ends.problem.contains("ended by signal 9"), "{}", ends.problem);
        }
    });
}

#[test]
fn a_project_answers_for_nothing_of_the_users_own() {
    test(async {
        let touch = "import fs from \"node:fs\"\nfs.writeFileSync(\"ran\", \"\")\nexport default async () => ({})\n";
        let spawn = r#"export default { description: "d", args: {}, execute: async () => new Response(Bun.spawn(["sh", "-c", "echo $FROM_PROJECT"]).stdout).text() }"#;
        let mut setup = Setup::default().env("TOOLGATE_EXTENSIONS_RUNTIME", &runtime("bun"));
        setup.config = Some(json!({"plugin": ["./own.js", "package"]}));
        let mut server = Server::with(setup).await;
        project(
            &server,
            &[
                ("own.js", touch),
                ("node_modules/package/index.js", touch),
                (".env", "FROM_PROJECT=yes\n"),
                ("../home/.config/opencode/tool/spawn.js", spawn),
            ],
        );
        server.kill9().await;
        server.restart().await;
        assert_eq!(output(&server.run("spawn", json!({})).await), "\n");
        assert!(!server.work().join("ran").exists());
        let sources = sources(&server).await;
        assert_eq!(sources.len(), 3, "{sources:?}");
    });
}
