//! The paths of what SDKs of agent-sandbox are served, and what each of them needs.
//!
//! *Invariant:* a leaf: who lets requests in, and who passes them on, know no more of it.

use tonic::codegen::http::Method;
use toolgate_contract::Scope;

pub(super) const EXECUTE: &str = "/execute";
pub(super) const UPLOAD: &str = "/upload";
pub(super) const DOWNLOAD: &str = "/download/";
pub(super) const LIST: &str = "/list/";
pub(super) const EXISTS: &str = "/exists/";
pub(super) const FILES: &str = "/v1/files/";

pub(super) const PROCESS: &str = "/process.v1.ProcessService/";

/// The RPC whose answer is a stream.
const START: &str = "/process.v1.ProcessService/Start";

/// Those which are about a process that runs, and what does the same.
const OF_RUNNING: [(&str, &str); 3] = [
    (
        "/process.v1.ProcessService/WriteStdin",
        "/toolgate.v1.ToolService/SendInput",
    ),
    (
        "/process.v1.ProcessService/SendSignal",
        "/toolgate.v1.ToolService/SignalCall",
    ),
    (
        "/process.v1.ProcessService/ResizeTTY",
        "/toolgate.v1.ToolService/ResizeTerminal",
    ),
];

/// Says whether a path is one of these doors.
pub fn is_for(path: &str) -> bool {
    is_http(path) || is_process(path)
}

/// Returns the RPC of the contract that does the same as a request for these doors.
pub fn as_rpc(method: &Method, path: &str) -> &'static str {
    if let Some((_, rpc)) = OF_RUNNING.iter().find(|(known, _)| *known == path) {
        return rpc;
    }
    match (scope(method, path), method) {
        (Some(Scope::CallsExecute), _) if path == START => "/toolgate.v1.ToolService/ExecuteTool",
        (Some(Scope::CallsExecute), _) => "/toolgate.v1.ToolService/RunTool",
        (Some(Scope::FilesWrite), &Method::DELETE) => "/toolgate.v1.FileService/DeleteFile",
        (Some(Scope::FilesWrite), _) => "/toolgate.v1.FileService/UploadFile",
        _ => "/toolgate.v1.FileService/ReadFile",
    }
}

/// Says whether a path is one of the gRPC service.
pub(super) fn is_process(path: &str) -> bool {
    path.starts_with(PROCESS)
}

/// Says whether a path is one of the HTTP APIs.
pub(super) fn is_http(path: &str) -> bool {
    [EXECUTE, UPLOAD].contains(&path)
        || [DOWNLOAD, LIST, EXISTS, FILES]
            .iter()
            .any(|start| path.starts_with(start))
}

/// Returns what a request for these doors needs: the scope of the same work by the contract.
pub(super) fn scope(method: &Method, path: &str) -> Option<Scope> {
    if is_process(path) || path == EXECUTE {
        return Some(Scope::CallsExecute);
    }
    let is_shown = [DOWNLOAD, LIST, EXISTS].iter().any(|start| path.starts_with(start));
    let is_read = path.starts_with(FILES) && [Method::GET, Method::HEAD].contains(method);
    match is_http(path) {
        true if is_shown || is_read => Some(Scope::FilesRead),
        true => Some(Scope::FilesWrite),
        false => None,
    }
}

/// Says whether what is asked for is a stream: that of a process, or a content that comes or goes.
pub(super) fn is_stream(method: &Method, path: &str) -> bool {
    let has_content = ![Method::DELETE, Method::HEAD].contains(method);
    [START, UPLOAD].contains(&path) || path.starts_with(DOWNLOAD) || (path.starts_with(FILES) && has_content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scopes_are_those_of_the_contract() {
        let check = |method: Method, path: &str, expected: Option<Scope>| {
            assert_eq!(scope(&method, path), expected, "{method} {path}");
        };
        check(Method::POST, "/execute", Some(Scope::CallsExecute));
        check(Method::POST, "/upload", Some(Scope::FilesWrite));
        check(Method::GET, "/download/a", Some(Scope::FilesRead));
        check(Method::GET, "/list/.", Some(Scope::FilesRead));
        check(Method::GET, "/exists/a", Some(Scope::FilesRead));
        check(Method::HEAD, "/v1/files/a", Some(Scope::FilesRead));
        check(Method::PUT, "/v1/files/a", Some(Scope::FilesWrite));
        check(Method::DELETE, "/v1/files/a", Some(Scope::FilesWrite));
        check(
            Method::POST,
            "/process.v1.ProcessService/Execute",
            Some(Scope::CallsExecute),
        );
        check(Method::POST, "/execute/x", None);
        check(Method::GET, "/v1/health", None);
        check(Method::POST, "/toolgate.v1.ToolService/RunTool", None);
    }

    #[test]
    fn contents_are_streams() {
        let check = |method: Method, path: &str, expected: bool| {
            assert_eq!(is_stream(&method, path), expected, "{method} {path}");
        };
        check(Method::POST, START, true);
        check(Method::POST, "/upload", true);
        check(Method::GET, "/download/a", true);
        check(Method::GET, "/v1/files/a", true);
        check(Method::PUT, "/v1/files/a", true);
        check(Method::HEAD, "/v1/files/a", false);
        check(Method::DELETE, "/v1/files/a", false);
        check(Method::POST, "/execute", false);
        check(Method::GET, "/list/.", false);
    }

    #[test]
    fn only_what_makes_a_call_counts_as_one() {
        let check = |method: Method, path: &str, expected: &str| {
            assert_eq!(as_rpc(&method, path), format!("/toolgate.v1.{expected}"), "{path}");
        };
        check(Method::POST, "/execute", "ToolService/RunTool");
        check(
            Method::POST,
            "/process.v1.ProcessService/Execute",
            "ToolService/RunTool",
        );
        check(Method::POST, START, "ToolService/ExecuteTool");
        check(
            Method::POST,
            "/process.v1.ProcessService/WriteStdin",
            "ToolService/SendInput",
        );
        check(
            Method::POST,
            "/process.v1.ProcessService/SendSignal",
            "ToolService/SignalCall",
        );
        check(
            Method::POST,
            "/process.v1.ProcessService/ResizeTTY",
            "ToolService/ResizeTerminal",
        );
        check(Method::PUT, "/v1/files/a", "FileService/UploadFile");
        check(Method::DELETE, "/v1/files/a", "FileService/DeleteFile");
        check(Method::GET, "/list/.", "FileService/ReadFile");
    }
}
