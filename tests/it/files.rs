//! FileService: what front ends see of files and do to them, through the whole service.

mod archives;
mod changes;
mod looks;
mod watches;

use serde_json::{Value, json};
use tonic::transport::Channel;
use toolgate_contract::file_service_client::FileServiceClient;
use toolgate_contract::*;

use crate::support::*;

/// A service with rules, and a client of its files.
struct Place {
    server: Server,
    client: FileServiceClient<Channel>,
}

impl Place {
    async fn new() -> Self {
        Self::with(Setup::permission(json!({}))).await
    }

    async fn ruled(permission: Value) -> Self {
        Self::with(Setup::permission(permission)).await
    }

    async fn with(setup: Setup) -> Self {
        let server = Server::with(setup).await;
        let client = FileServiceClient::new(server.channel());
        Self { server, client }
    }

    fn client(&self) -> FileServiceClient<Channel> {
        self.client.clone()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.server.work().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.server.work().join(name)).unwrap()
    }

    fn link(&self, name: &str, target: &str) {
        std::os::unix::fs::symlink(target, self.server.work().join(name)).unwrap();
    }

    fn pipe(&self, name: &str) {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, self.server.work().join(name), mode).unwrap();
    }

    fn is_there(&self, name: &str) -> bool {
        self.server.work().join(name).symlink_metadata().is_ok()
    }
}

/// Paths that lead out of the workspace, given a link `link` to a folder beside it and a link `file` to a file there.
const OUTSIDE: [&str; 8] = [
    "../secret",
    "/etc/passwd",
    "link/secret",
    "file",
    "a/../../secret",
    "link/../secret/../../secret",
    "./a/.././../secret",
    "..",
];

/// Makes what [`OUTSIDE`] speaks of.
fn tempt(place: &Place) {
    let beside = place.server.folder().join("beside");
    std::fs::create_dir(&beside).unwrap();
    std::fs::write(beside.join("secret"), "secret").unwrap();
    std::fs::write(place.server.folder().join("secret"), "secret").unwrap();
    place.link("link", "../beside");
    place.link("file", "../beside/secret");
    place.write("a/b", "b");
}
