//! Skills as clients see them: found without a restart, listed for the agent, their folders open to the other tools.

use std::fs;
use std::path::Path;

use serde_json::json;
use toolgate_contract::*;

use crate::support::*;

fn write(folder: &Path, front: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("SKILL.md"), format!("---\n{front}\n---\nDo it.\n")).unwrap();
}

async fn description(server: &Server, agent: &str) -> (String, String) {
    let request = ListToolsRequest {
        agent: agent.to_owned(),
        ..Default::default()
    };
    let listed = server.tools().list_tools(request).await.unwrap().into_inner();
    let skill = listed.tools.into_iter().find(|tool| tool.name == "skill");
    (skill.map(|tool| tool.description).unwrap_or_default(), listed.etag)
}

async fn load(server: &Server, name: &str) -> Call {
    server.run("skill", json!({ "name": name })).await
}

#[test]
fn new_ones_are_there_at_once() {
    test(async {
        let server = Server::start().await;
        let (none, etag) = description(&server, "build").await;
        assert!(none.ends_with("No skills are currently available."), "{none}");
        let folder = server.work().join(".opencode/skill/late");
        write(&folder, "name: late\ndescription: Came later");
        let (text, changed) = description(&server, "build").await;
        assert!(text.contains("<description>Came later</description>"), "{text}");
        assert_ne!(etag, changed);
        assert_eq!(completed(&load(&server, "late").await).title, "Loaded skill: late");
        write(&folder, "name: renamed\ndescription: Came later");
        assert_eq!(
            completed(&load(&server, "renamed").await).title,
            "Loaded skill: renamed"
        );
        let gone = load(&server, "late").await;
        assert_eq!(
            failed(&gone).error,
            "Skill \"late\" not found. Available skills: renamed"
        );
    });
}

#[test]
fn agents_see_what_they_may_load() {
    test(async {
        let config = json!({
            "permission": {"skill": {"*": "allow", "secret*": "deny"}},
            "agent": {"mute": {"permission": {"skill": "deny"}}, "trusted": {"permission": {"skill": {"secret*": "allow"}}}},
        });
        let server = Server::with(Setup {
            config: Some(config),
            ..Setup::default()
        })
        .await;
        for name in ["open", "secret-one"] {
            write(
                &server.work().join(".claude/skills").join(name),
                &format!("name: {name}\ndescription: d"),
            );
        }
        let names = async |agent: &str| {
            let (text, _) = description(&server, agent).await;
            [text.contains("<name>open</name>"), text.contains("secret-one")]
        };
        assert_eq!(names("build").await, [true, false]);
        assert_eq!(names("trusted").await, [true, true]);
        assert_eq!(description(&server, "mute").await.0, "");
        let missing = load(&server, "nosuch").await;
        assert_eq!(
            failed(&missing).error,
            "Skill \"nosuch\" not found. Available skills: open"
        );
        assert_eq!(
            failed(&load(&server, "secret-one").await).reason(),
            FailureReason::Denied
        );
    });
}

/// Only what was there when the service started: a person has put it there, and has seen it.
#[test]
fn what_a_skill_of_the_user_speaks_of_may_be_read() {
    test(async {
        let mut server = Server::start().await;
        let home = server.folder().join("home");
        let skill = home.join(".config/opencode/skills/kit");
        write(&skill, "name: kit\ndescription: d");
        fs::create_dir_all(skill.join("reference")).unwrap();
        fs::write(skill.join("reference/a.md"), "the reference").unwrap();
        fs::write(home.join("private"), "private").unwrap();
        server.stop().await;
        server.restart().await;
        let loaded = load(&server, "kit").await;
        let listed = format!("<file>{}</file>", skill.join("reference/a.md").display());
        assert!(completed(&loaded).output.contains(&listed), "{loaded:?}");
        let read = async |path: &Path| {
            let request = kept("", request("read", json!({"filePath": path.to_str().unwrap()})));
            let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
            let end = |event: &call_event::Event| {
                use call_event::Event;
                matches!(event, Event::Waiting(_) | Event::Completed(_) | Event::Failed(_))
            };
            next_such(&mut stream, end).await.event.unwrap()
        };
        let inside = read(&skill.join("reference/a.md")).await;
        assert!(matches!(inside, call_event::Event::Completed(_)), "{inside:?}");
        let outside = read(&home.join("private")).await;
        assert!(matches!(outside, call_event::Event::Waiting(_)), "{outside:?}");
    });
}

#[test]
fn where_they_are_looked_for_may_change() {
    test(async {
        let site = Site::answering(move |head| match head.split(' ').nth(1).unwrap() {
            "/s/index.json" => page(
                "application/json",
                json!({"skills": [{"name": "far", "files": ["SKILL.md"]}]})
                    .to_string()
                    .as_bytes(),
            ),
            "/s/far/SKILL.md" => page("text/plain", b"---\nname: far\ndescription: Far\n---\nGo.\n"),
            _ => page("text/plain", b"no"),
        })
        .await;
        let mut server = Server::with(Setup::default().env("TOOLGATE_NETWORK_ALLOW", "127.0.0.1")).await;
        let (near, outside) = (server.work().join("near/kit"), server.folder().join("shared/tools"));
        write(&near, "name: kit\ndescription: Near");
        write(&outside, "name: tools\ndescription: Shared");
        fs::write(outside.join("notes.md"), "notes").unwrap();
        // A project that is not trusted has nothing fetched.
        let rules = server.folder().join("home/.config/opencode/opencode.json");
        let becomes = async |expected: [bool; 3]| {
            eventually(&format!("the skills are {expected:?}"), async || {
                let (text, _) = description(&server, "build").await;
                ["Near", "Shared", "Far"].map(|part| text.contains(&format!("<description>{part}<"))) == expected
            })
            .await;
        };
        becomes([false; 3]).await;
        let skills = json!({"skills": {"paths": ["near", server.folder().join("shared")], "urls": [site.url("/s")]}});
        fs::write(&rules, skills.to_string()).unwrap();
        becomes([true; 3]).await;
        assert_eq!(completed(&load(&server, "far").await).title, "Loaded skill: far");
        // What lies beside them may be read, as if they had been named at the start.
        eventually("the notes may be read", async || {
            let call = request("read", json!({"filePath": outside.join("notes.md")}));
            let evaluated = crate::evaluated::evaluated(&server, call).await.unwrap();
            evaluated.action() == PermissionAction::Allow
        })
        .await;
        fs::write(&rules, r#"{"skills": {"paths": ["near", "nowhere"]}}"#).unwrap();
        becomes([true, false, false]).await;
        // What is left out is told to people, too.
        write(&near, "description: Near");
        let told = async |part: &str| {
            eventually(&format!("{part:?} is told"), async || {
                description(&server, "build").await;
                let info = server
                    .info()
                    .get_server_info(GetServerInfoRequest {})
                    .await
                    .unwrap()
                    .into_inner();
                info.workspaces[0].warnings.iter().any(|text| text.contains(part))
            })
            .await;
        };
        told("nowhere is not a folder").await;
        told("kit/SKILL.md is left out of the skills: its front matter has no name").await;
        fs::write(&rules, "{}").unwrap();
        becomes([false; 3]).await;
        server.stop().await;
    });
}

#[test]
fn hostile_ones_harm_nobody() {
    test(async {
        let server = Server::start().await;
        let root = server.work().join(".opencode/skill");
        write(&root.join("good"), "name: good\ndescription: d");
        let mut bomb = "name: bomb\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..20 {
            let below = format!("*a{}, ", level - 1).repeat(10);
            bomb += &format!("a{level}: &a{level} [{below}]\n");
        }
        write(&root.join("bomb"), &bomb);
        write(
            &root.join("huge"),
            &format!("name: huge\ndescription: {}", "x".repeat(2 << 20)),
        );
        fs::create_dir_all(root.join("latin")).unwrap();
        fs::write(root.join("latin/SKILL.md"), b"---\nname: latin\n---\ncaf\xe9").unwrap();
        fs::create_dir_all(root.join("folder/SKILL.md")).unwrap();
        fs::create_dir_all(root.join("fifo")).unwrap();
        let fifo = root.join("fifo/SKILL.md");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let link = |to: &Path, name: &str| {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(to, root.join(name)).unwrap();
        };
        link(&root, "loop");
        link(Path::new("/dev/zero"), "device/SKILL.md");
        fs::write(server.folder().join("notes.md"), "---\nname: notes\n---\nprivate").unwrap();
        link(&server.folder().join("notes.md"), "notes/SKILL.md");
        let missing = load(&server, "nosuch").await;
        assert_eq!(
            failed(&missing).error,
            "Skill \"nosuch\" not found. Available skills: good, latin"
        );
        assert!(completed(&load(&server, "latin").await).output.contains("caf\u{fffd}"));
        let log = server.log();
        for name in ["bomb", "huge", "folder", "fifo", "device", "notes"] {
            assert!(log.contains(&format!("{name}/SKILL.md is left out")), "{name}: {log}");
        }
    });
}

#[test]
fn published_ones_are_fetched_once() {
    test(async {
        let index = json!({"skills": [
            {"name": "release", "files": ["SKILL.md", "scripts/tag it.sh"]},
            {"name": "broken", "files": ["README.md"]},
        ]});
        let site = Site::answering(move |head| match head.split(' ').nth(1).unwrap() {
            "/s/index.json" => page("application/json", index.to_string().as_bytes()),
            "/s/release/SKILL.md" => page("text/plain", b"---\nname: release\ndescription: Far\n---\nTag it.\n"),
            "/s/release/scripts/tag%20it.sh" => page("text/plain", b"git tag\n"),
            _ => page("text/plain", b"no"),
        })
        .await;
        let config = json!({"skills": {"urls": [site.url("/s")]}});
        let setup = Setup {
            config: Some(config),
            ..Setup::default()
        };
        // Servers of this machine are reached only if they are listed.
        let server = Server::with(setup.clone()).await;
        eventually("a warning", async || {
            server.log().contains("leads to a loopback address")
        })
        .await;
        assert_eq!(site.connections(), 0);
        let mut server = Server::with(setup.env("TOOLGATE_NETWORK_ALLOW", "127.0.0.1")).await;
        eventually("the skill", async || {
            description(&server, "build").await.0.contains("Far")
        })
        .await;
        let loaded = load(&server, "release").await;
        assert!(completed(&loaded).output.contains("Tag it."));
        let fetched = site.heads().len();
        assert_eq!(fetched, 3);
        server.stop().await;
        server.restart().await;
        assert!(
            completed(&load(&server, "release").await)
                .output
                .contains("scripts/tag it.sh")
        );
        assert_eq!(site.heads().len(), fetched);
    });
}
