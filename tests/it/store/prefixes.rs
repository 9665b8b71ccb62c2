//! Listings of several workspaces: by names, by prefixes, and of none.

use toolgate_model::{CallId, InstanceId, PromptState, SessionId, WorkspaceSet};
use toolgate_store::{
    CallFilter, CallLog, OutputFilter, OutputOwner, Outputs, PageRequest, PromptFilter, SessionFilter, Store,
};

use super::{Fixture, create, prompt, record};

/// Where each has a call, a session, a prompt and an output, in the order in which they come.
const WORKSPACES: [&str; 11] = [
    "main",
    "acme",
    "acme/web",
    "acme-b/web",
    "acme0",
    "acme/web/17",
    "beta/web",
    "ACME/web",
    "acme.b",
    "x/acme/web",
    "acme/-z",
];

/// What a listing has to go on with.
type Listed = (Vec<String>, Option<String>);

async fn calls(store: &dyn Store, workspaces: WorkspaceSet, page: &PageRequest) -> Listed {
    let filter = CallFilter {
        workspaces,
        ..CallFilter::default()
    };
    let listed = CallLog::list_calls(store, &filter, page).await.unwrap();
    let names = listed.items.into_iter().map(|call| call.origin.workspace);
    (names.collect(), listed.next)
}

async fn sessions(store: &dyn Store, workspaces: WorkspaceSet, page: &PageRequest) -> Listed {
    let filter = SessionFilter {
        workspaces,
        ..SessionFilter::default()
    };
    let listed = CallLog::list_sessions(store, &filter, page).await.unwrap();
    let names = listed.items.into_iter().map(|one| one.session.workspace);
    (names.collect(), listed.next)
}

async fn outputs(store: &dyn Store, workspaces: WorkspaceSet, page: &PageRequest) -> Listed {
    let filter = OutputFilter {
        workspaces,
        ..OutputFilter::default()
    };
    let listed = Outputs::list_outputs(store, &filter, page).await.unwrap();
    let names = listed.items.into_iter().map(|output| output.owner.workspace);
    (names.collect(), listed.next)
}

/// Lists by pages, whichever way `list` does it.
async fn all(size: usize, mut list: impl AsyncFnMut(&PageRequest) -> Listed) -> Vec<String> {
    let (mut page, mut found) = (PageRequest { size, after: None }, Vec::new());
    for _ in 0..=WORKSPACES.len() {
        let (names, next) = list(&page).await;
        found.extend(names);
        page.after = next;
        if page.after.is_none() {
            return found;
        }
    }
    panic!("the listing does not end");
}

pub(crate) async fn workspaces_by_prefix(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let store = &*store;
    for (number, workspace) in WORKSPACES.into_iter().enumerate() {
        let id = format!("call {number}");
        let mut call = record(&id, &instance);
        call.origin.workspace = workspace.to_owned();
        create(store, call).await;
        let mut asked = prompt(&format!("prompt {number}"), &id, &instance);
        asked.workspace = workspace.to_owned();
        store.open(asked, None, None).await.unwrap();
        let owner = OutputOwner {
            call: CallId::from(id.as_str()),
            session: SessionId::from("ses_1"),
            workspace: workspace.to_owned(),
        };
        let mut writer = Outputs::create_output(store, owner).await.unwrap();
        writer.append(workspace.into()).await.unwrap();
        writer.finish().await.unwrap();
    }
    let check = async |workspaces: &WorkspaceSet, expected: &[&str]| {
        let newest: Vec<&str> = expected.iter().rev().copied().collect();
        for size in [1, 2, 100] {
            let found = all(size, async |page| calls(store, workspaces.clone(), page).await).await;
            assert_eq!(found, newest, "calls of {workspaces:?}, pages of {size}");
            let found = all(size, async |page| sessions(store, workspaces.clone(), page).await).await;
            assert_eq!(found, newest, "sessions of {workspaces:?}, pages of {size}");
            let found = all(size, async |page| outputs(store, workspaces.clone(), page).await).await;
            assert_eq!(found, newest, "outputs of {workspaces:?}, pages of {size}");
        }
        for states in [Vec::new(), vec![PromptState::Open]] {
            let filter = PromptFilter {
                workspaces: workspaces.clone(),
                states,
                ..PromptFilter::default()
            };
            let found = store.prompts(&filter, 100).await.unwrap();
            let found: Vec<&str> = found.iter().map(|prompt| prompt.workspace.as_str()).collect();
            assert_eq!(found, expected, "prompts of {workspaces:?}");
        }
    };
    let set = |entries: &[&str]| WorkspaceSet::parse(entries.iter().copied()).unwrap();
    check(&WorkspaceSet::ALL, &WORKSPACES).await;
    check(&set(&["acme/*"]), &["acme/web", "acme/web/17", "acme/-z"]).await;
    check(&set(&["acme/web/*"]), &["acme/web/17"]).await;
    check(
        &set(&["acme/*", "acme"]),
        &["acme", "acme/web", "acme/web/17", "acme/-z"],
    )
    .await;
    check(
        &set(&["beta/*", "x/*", "main", "acme/web"]),
        &["main", "acme/web", "beta/web", "x/acme/web"],
    )
    .await;
    check(&set(&["main", "acme0"]), &["main", "acme0"]).await;
    check(&set(&["acme/web"]), &["acme/web"]).await;
    check(&set(&["gamma/*"]), &[]).await;
    check(
        &set(&["acme/*"]).and(&set(&["acme/web/*", "beta/*", "main"])),
        &["acme/web/17"],
    )
    .await;
    check(&set(&["acme/*"]).and(&set(&["beta/*", "main"])), &[]).await;
    let many: Vec<String> = (0..99).map(|number| format!("t{number}/*")).collect();
    let many = many.iter().map(String::as_str).chain(["beta/*", "main"]);
    check(&WorkspaceSet::parse(many).unwrap(), &["main", "beta/web"]).await;
    let names = (0..50_000).map(|number| format!("acme/{number}"));
    check(
        &WorkspaceSet::of_names(names.chain(["acme/web".to_owned()])),
        &["acme/web"],
    )
    .await;
}
