//! Plugins that ask for too much, that never end and that throw.

use crate::support::{in_session, run_request};

use super::*;

/// Does what it is told with the client, and answers with what comes of it.
const ASKS: &str = r#"export default async ({ client }) => ({
  tool: {
    ask: {
      description: "Asks the client",
      args: {},
      async execute(_, { sessionID }) {
        const make = (body) => client.session.create({ body }).then(({ data }) => data.id, ({ message }) => message)
        const below = (count) => Promise.all(Array.from({ length: count }, () => make({ parentID: sessionID })))
        const first = await below(30)
        const children = async () => (await client.session.children({ path: { id: sessionID } })).data.map(({ id }) => id)
        const found = await children()
        const others = await below(100)
        return JSON.stringify({
          lost: first.filter((id) => !found.includes(id)),
          refused: others.filter((answer) => !answer.startsWith("ses_")),
          count: (await children()).length,
          long: await make({ title: "x".repeat(1001) }),
          fits: await make({ title: "x".repeat(1000) }),
        })
      },
    },
    messages: {
      description: "Reads the messages",
      args: {},
      async execute(_, { sessionID }) {
        const { data } = await client.session.messages({ path: { id: sessionID } })
        return JSON.stringify([data.length, JSON.stringify(data).length, data.at(-1).parts[0].tool])
      },
    },
    large: { description: "Answers at length", args: {}, execute: async () => "xxx\n".repeat(2.5e6) },
  },
})
"#;

/// Never ends what it hears of.
const LOOPS: &str = "export default async () => ({ event: async () => { for (;;) {} } })\n";

/// Throws whatever it hears, and what is no error.
const THROWS: &str = r#"let heard = 0
export default async () => ({
  event: async () => { throw heard++ % 2 ? new Error("not again") : undefined },
})
"#;

const HEARS: &str = r#"import fs from "node:fs"
export default async ({ directory }) => ({
  event: async ({ event }) => fs.appendFileSync(directory + "/heard.log", event.type + "\n"),
})
"#;

async fn run_in(server: &Server, session: &str, tool: &str, input: Value) -> Call {
    let request = run_request(in_session(session, request(tool, input)));
    crate::support::run(&mut server.tools(), request).await.unwrap()
}

#[test]
fn sessions_that_a_plugin_makes_at_once_are_all_there_and_bounded() {
    test(async {
        for name in RUNTIMES {
            let server = with_runtime(name, &[(".opencode/plugin/asks.js", ASKS)]).await;
            let told = output(&run_in(&server, "ses_parent", "ask", json!({})).await);
            let told: Value = serde_json::from_str(&told).unwrap();
            assert_eq!(told["lost"], json!([]), "{name}");
            assert_eq!(told["count"], 100, "{name}: {told}");
            let refused = told["refused"].as_array().unwrap();
            assert_eq!(refused.len(), 30, "{name}: {told}");
            let text = "client.session.create: plugins have made 100 sessions below this one, and may make no more";
            assert!(refused.iter().all(|one| one == text), "{name}: {refused:?}");
            assert_eq!(
                told["long"],
                "client.session.create: title has 1001 bytes, and may have 1000"
            );
            assert!(told["fits"].as_str().unwrap().starts_with("ses_"), "{name}: {told}");
        }
    });
}

#[test]
fn long_answers_are_bounded_in_both_directions() {
    test(async {
        let server = with_runtime("bun", &[(".opencode/plugin/asks.js", ASKS)]).await;
        for number in 0..8 {
            let path = server.work().join(format!("{number}.txt"));
            let input = json!({"filePath": path, "content": "x".repeat(1_900_000)});
            run_in(&server, "ses_large", "write", input).await;
        }
        let told = output(&run_in(&server, "ses_large", "messages", json!({})).await);
        let (count, length, last): (usize, usize, String) = serde_json::from_str(&told).unwrap();
        assert!((3..8).contains(&count), "{told}");
        assert!(length < 9 << 20, "{told}");
        assert_eq!(last, "messages");
        let large = run_in(&server, "ses_large", "large", json!({})).await;
        let shown = output(&large);
        assert!(shown.len() < 100_000 && shown.starts_with("xxx\nxxx\n"), "{shown:.300}");
    });
}

#[test]
fn a_plugin_that_never_ends_or_throws_holds_up_no_call_and_no_other_plugin() {
    test(async {
        for name in RUNTIMES {
            let files = [
                (".opencode/plugin/hears.js", HEARS),
                (".opencode/plugin/loops.js", LOOPS),
                (".opencode/plugin/throws.js", THROWS),
            ];
            let server = with_runtime(name, &files).await;
            for number in 0..2 {
                let path = server.work().join(format!("{number}.txt"));
                let input = json!({"filePath": path, "content": "as it was"});
                output(&run_in(&server, "ses_one", "write", input).await);
                assert_eq!(fs::read_to_string(&path).unwrap(), "as it was", "{name}");
            }
            eventually("the other plugin has heard of both", async || {
                let heard = fs::read_to_string(server.work().join("heard.log")).unwrap_or_default();
                heard.lines().filter(|line| *line == "file.edited").count() == 2
            })
            .await;
            eventually("what was thrown is told", async || {
                let log = server.log();
                log.contains("the hook `event` failed") && log.contains("not again")
            })
            .await;
        }
    });
}
