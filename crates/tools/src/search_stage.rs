//! A workspace on disk where everything is allowed, for the tests of the search tools.
//!
//! *Invariant:* compiled for tests only.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;
use toolgate_fs::Workspace;
use toolgate_model::{OutputText, ToolOutput};
use toolgate_tool::testing::Fakes;
use toolgate_tool::{Tool, ToolContext, ToolError};

/// A workspace and a folder beside it.
pub(super) struct Stage {
    _folder: tempfile::TempDir,
    root: PathBuf,
    outside: PathBuf,
    fakes: Fakes,
    ctx: ToolContext,
}

impl Stage {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (root, outside) = (base.join("workspace"), base.join("outside"));
        std::fs::create_dir(&root).unwrap();
        std::fs::create_dir(&outside).unwrap();
        let workspace = Workspace::open("test", &root, None).unwrap();
        let fakes = Fakes::default();
        let ctx = fakes.context(Arc::new(workspace), CancellationToken::new());
        Self {
            _folder: folder,
            root,
            outside,
            fakes,
            ctx,
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn outside(&self) -> &Path {
        &self.outside
    }

    pub(super) fn folder(&self, path: &str) {
        std::fs::create_dir_all(self.root.join(path)).unwrap();
    }

    /// Writes a file that was last modified so many seconds ago.
    pub(super) fn file(&self, path: &str, text: &str, seconds_ago: u64) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds_ago))
            .unwrap();
    }

    pub(super) fn link(&self, target: &str, path: &str) {
        std::os::unix::fs::symlink(target, self.root.join(path)).unwrap();
    }

    pub(super) fn pipe(&self, path: &str) {
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            self.root.join(path),
            rustix::fs::FileType::Fifo,
            mode,
            0,
        )
        .unwrap();
    }

    pub(super) fn cancel(&self) {
        self.ctx.cancelled.cancel();
    }

    pub(super) async fn run(&self, tool: &dyn Tool, input: &str) -> Result<ToolOutput, ToolError> {
        tool.call(serde_json::from_str(input).unwrap(), &self.ctx).await
    }

    pub(super) fn text(&self, output: &ToolOutput) -> String {
        match &output.output {
            OutputText::Text(text) => text.clone(),
            OutputText::Stored => panic!("a search keeps its output in memory"),
        }
    }

    /// Returns what was asked for, as permission and patterns.
    pub(super) fn asked(&self) -> Vec<String> {
        let asks = self.fakes.permission.asks.lock();
        asks.iter()
            .map(|ask| format!("{} {}", ask.permission, ask.patterns.join(" ")))
            .collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.fakes.has_only_asked_for_permissions());
        }
    }
}
