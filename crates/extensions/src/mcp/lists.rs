//! Prompts, resources and their templates: what servers list of them, and which server has what is asked for.
//!
//! *Invariant:* an address belongs to the first server that lists it, in the order in which the servers were named; else to
//! the first that has a template it fits. What no server lists is nobody's. Servers are asked at the same time: one that does
//! not answer holds up nobody for longer than its own time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::client::RequestError;
use super::follows::{Follow, Follows};
use super::names::full_name;
use super::passed;
use super::shared::{List, Shared, Unlisted};

/// How long one server may take for something small.
const SMALL_LIMIT: Duration = Duration::from_secs(10);

/// Changes that may wait for whoever follows them.
const MAX_CHANGES: usize = 256;

/// Something of a server has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The workspace that it works for.
    pub workspace: String,
    /// The server.
    pub server: String,
    /// The resource whose content is another; none if the lists are others.
    pub uri: Option<String>,
}

/// What belongs to a server.
pub struct Owned {
    /// The tool by which it is read.
    pub tool: String,
    /// Its name at the server.
    pub name: String,
    /// The pattern that the permission `read` has for it.
    pub pattern: String,
    server: Arc<Shared>,
}

impl Owned {
    fn resource(server: Arc<Shared>, uri: &str) -> Self {
        Self {
            tool: passed::name_of(server.name()),
            name: uri.to_owned(),
            pattern: passed::pattern_of_resource(server.name(), uri),
            server,
        }
    }

    fn prompt(server: Arc<Shared>, name: &str) -> Self {
        Self {
            tool: passed::name_of(server.name()),
            name: name.to_owned(),
            pattern: passed::pattern_of_prompt(server.name(), name),
            server,
        }
    }

    /// Returns its server's name.
    pub fn server(&self) -> &str {
        self.server.name()
    }

    /// Asks the server for something small about it, and returns the raw answer.
    ///
    /// # Errors
    /// There is none; the text says why.
    pub async fn ask(&self, method: &'static str, params: Value) -> Result<Value, String> {
        let (link, offers) = self.server.open().ok_or("the server is not there")?;
        let may = match method {
            "completion/complete" => offers.completions,
            _ => false,
        };
        if !may {
            return Err(format!("the server does not offer {method}"));
        }
        let answer = link.request(method, params, SMALL_LIMIT).await;
        answer.map_err(|error: RequestError| error.to_string())
    }

    /// Has the server tell of it, if it is a resource, until what is returned is dropped: also when the server is lost and back.
    ///
    /// # Errors
    /// It does not; the text says why.
    pub async fn follow(&self) -> Result<Follow, String> {
        let (link, offers) = self.server.open().ok_or("the server is not there")?;
        match offers.watched {
            true => self.server.follows().follow(&link, &self.name).await,
            false => Err("the server does not tell of changes".to_owned()),
        }
    }
}

/// A server of a workspace, as far as it has prompts and resources.
pub struct McpServer(Arc<Shared>);

impl McpServer {
    /// Returns its name, as the configuration has it.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Says whether it has such a list; none if there is no connection to it.
    pub fn has(&self, list: List) -> Option<bool> {
        self.0.open().map(|(_, offers)| list.is_among(offers))
    }

    /// Says whether it completes arguments.
    pub fn completes(&self) -> bool {
        self.0.open().is_some_and(|(_, offers)| offers.completions)
    }

    /// Returns what it lists, prompts under the names that they have there.
    ///
    /// # Errors
    /// It cannot be asked, or does not answer with a list.
    pub async fn listed(&self, list: List) -> Result<Arc<Vec<Value>>, Unlisted> {
        self.0.list(list, SMALL_LIMIT).await
    }

    /// Returns a resource of it, listed or not. A template is one as well.
    pub fn resource(&self, uri: &str) -> Owned {
        Owned::resource(Arc::clone(&self.0), uri)
    }

    /// Returns a prompt of it, listed or not.
    pub fn prompt(&self, name: &str) -> Owned {
        Owned::prompt(Arc::clone(&self.0), name)
    }
}

/// The servers of all workspaces, as far as they can be asked.
pub(super) struct Known {
    /// By workspace, in the order in which they were named. Never held across an await.
    servers: Mutex<HashMap<String, Vec<Arc<Shared>>>>,
    /// What clients follow, by workspace and server. Never held across an await.
    follows: Mutex<HashMap<(String, String), Arc<Follows>>>,
    pub(super) announced: broadcast::Sender<Announced>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            servers: Mutex::default(),
            follows: Mutex::default(),
            announced: broadcast::Sender::new(MAX_CHANGES),
        }
    }
}

impl Known {
    pub(super) fn add(&self, workspace: &str, server: Arc<Shared>) {
        self.servers
            .lock()
            .entry(workspace.to_owned())
            .or_default()
            .push(server);
    }

    pub(super) fn forget(&self, workspace: &str) {
        self.servers.lock().remove(workspace);
        self.follows.lock().retain(|(of, _), _| of != workspace);
    }

    /// Returns what clients follow at a server, which may have been another one of this name until now.
    pub(super) fn follows(&self, workspace: &str, name: &str) -> Arc<Follows> {
        let mut all = self.follows.lock();
        all.retain(|_, follows| Arc::strong_count(follows) > 1 || !follows.is_empty());
        Arc::clone(all.entry((workspace.to_owned(), name.to_owned())).or_default())
    }

    pub(super) fn forget_one(&self, workspace: &str, name: &str) {
        if let Some(servers) = self.servers.lock().get_mut(workspace) {
            servers.retain(|server| server.name() != name);
        }
    }

    pub(super) fn arrange(&self, workspace: &str, names: &[String]) {
        if let Some(servers) = self.servers.lock().get_mut(workspace) {
            servers.sort_by_key(|server| names.iter().position(|name| name == server.name()));
        }
    }

    pub(super) fn of(&self, workspace: &str) -> Vec<Arc<Shared>> {
        self.servers.lock().get(workspace).cloned().unwrap_or_default()
    }

    /// Returns the servers of a workspace, in their order.
    pub(super) fn servers(&self, workspace: &str) -> Vec<McpServer> {
        self.of(workspace).into_iter().map(McpServer).collect()
    }

    /// Returns the servers of a workspace, each with what it lists.
    async fn each(&self, workspace: &str, list: List) -> Vec<(Arc<Shared>, Arc<Vec<Value>>)> {
        let listed = self.of(workspace).into_iter().map(|server| async move {
            let listed = server.listed(list, SMALL_LIMIT).await;
            (server, listed)
        });
        future::join_all(listed).await
    }

    /// Returns all that the servers of a workspace list, prompts under the names that they have here.
    pub(super) async fn listed(&self, workspace: &str, list: List) -> Vec<Value> {
        let mut all = Vec::new();
        for (server, listed) in self.each(workspace, list).await {
            for item in listed.iter() {
                let mut item = item.clone();
                if list == List::Prompts {
                    let Some(name) = item["name"].as_str() else { continue };
                    item["name"] = json!(full_name(server.name(), name));
                }
                all.push(item);
            }
        }
        all
    }

    /// Finds the server of a resource.
    pub(super) async fn resource(&self, workspace: &str, uri: &str) -> Option<Owned> {
        for (server, resources) in self.each(workspace, List::Resources).await {
            if resources.iter().any(|item| item["uri"] == uri) {
                return Some(Owned::resource(server, uri));
            }
        }
        for (server, templates) in self.each(workspace, List::Templates).await {
            let fits = |item: &Value| item["uriTemplate"].as_str().is_some_and(|template| fits(template, uri));
            if templates.iter().any(fits) {
                return Some(Owned::resource(server, uri));
            }
        }
        None
    }

    /// Finds the server of a prompt.
    pub(super) async fn prompt(&self, workspace: &str, wanted: &str) -> Option<Owned> {
        for (server, prompts) in self.each(workspace, List::Prompts).await {
            for item in prompts.iter() {
                let name = item["name"].as_str().unwrap_or_default();
                if full_name(server.name(), name) == wanted {
                    return Some(Owned::prompt(server, name));
                }
            }
        }
        None
    }
}

/// Says whether an address may come from a template: whether what is outside of its braces is there, in order.
fn fits(template: &str, uri: &str) -> bool {
    if template == uri {
        return true;
    }
    let mut parts = template.split('{');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = uri.strip_prefix(first) else {
        return false;
    };
    let literals: Vec<&str> = parts
        .map(|part| part.split_once('}').map_or("", |(_, literal)| literal))
        .collect();
    let Some((last, middle)) = literals.split_last() else {
        return false;
    };
    for literal in middle {
        let Some(at) = rest.find(literal) else { return false };
        rest = &rest[at + literal.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_fit_templates() {
        let check =
            |template: &str, uri: &str, expected: bool| assert_eq!(fits(template, uri), expected, "{template} {uri}");
        check("test://template/{id}/data", "test://template/123/data", true);
        check("test://template/{id}/data", "test://template/123", false);
        check("file:///{+path}", "file:///a/b", true);
        check("a://{x}/b/{y}/c{?z}", "a://1/b/2/c?z=3", true);
        check("a://{x}/b/{y}", "b://1/b/2", false);
        check("a://x", "a://x", true);
        check("a://x", "a://y", false);
        check("{x}", "anything", true);
        check("a{x", "ab", true);
    }
}
