//! What a caller may see of a workspace's files, and what they are called.
//!
//! *Invariant:* what leads out of the workspace is refused before anything is told of it.

use std::path::Path;

use tonic::Status;
use toolgate_contract::{CallContext, ErrorReason};
use toolgate_engine::{Glance, Unseen};
use toolgate_fs::ResolvedPath;
use toolgate_fs::files::locate;
use toolgate_model::{Ask, CallId};

use crate::grpc::auth::Caller;
use crate::grpc::{Shared, convert, status};

/// What the audit calls whoever looks, in the place of a tool.
const LOOKING: &str = "files";

/// Returns what a caller may look at.
pub(crate) async fn glance(shared: &Shared, caller: &Caller, context: Option<CallContext>) -> Result<Glance, Status> {
    let context = context.unwrap_or_default();
    let place = caller.place(&shared.engine, &context.workspace)?;
    let mut origin = convert::origin(context, &CallId::generate(), place.workspace.name())?;
    shared.sign(caller, &mut origin).await?;
    shared.engine.glance(origin).await.map_err(status::admit)
}

/// Returns the path of a change, which is not empty.
pub(super) fn named<'p>(field: &str, path: &'p str) -> Result<&'p str, Status> {
    if path.is_empty() || path.contains('\0') {
        return Err(status::bad_field(field, "name the path, without a zero byte"));
    }
    Ok(path)
}

/// Resolves a path of a request, which must lie in the workspace.
pub(super) async fn inside(glance: &Glance, written: &str) -> Result<ResolvedPath, Status> {
    if written.contains('\0') {
        return Err(status::bad_field("path", "contains a zero byte"));
    }
    let located = locate(glance.workspace(), written.to_owned()).await;
    let path = located.map_err(|error| status::file(&error, written))?.path;
    if path.is_inside() {
        return Ok(path);
    }
    Err(status::refused(
        ErrorReason::OutsideWorkspace,
        format!(
            "{written:?} leads out of the workspace {}: FileService serves what lies in it; a call of a tool can ask for more",
            glance.workspace().name()
        ),
    ))
}

/// Fails unless something may be shown.
pub(super) async fn may(glance: &Glance, ask: &Ask) -> Result<(), Status> {
    let Ask { permission, title, .. } = ask;
    glance.may(LOOKING, ask).await.map_err(|unseen| match unseen {
        Unseen::Denied { .. } => {
            let problem = format!("a rule denies the permission {permission} for {title}");
            status::refused(ErrorReason::DeniedByRule, problem)
        }
        Unseen::Asked => {
            let problem = format!(
                "the rules want a person asked for the permission {permission} for {title}, and nobody is asked when a file is \
                 shown: allow it by a rule or by a standing approval, or make a call of a tool"
            );
            status::refused(ErrorReason::PermissionNeeded, problem)
        }
        Unseen::Unavailable => status::unavailable("whether it is permitted could not be found out"),
    })
}

/// Returns what is asked before a file is shown.
pub(super) fn read_of(path: &ResolvedPath) -> Ask {
    Ask {
        title: path.relative().to_owned(),
        ..Ask::new("read", path.patterns())
    }
}

/// Returns the path of something as it is shown: relative to the workspace's folder.
pub(super) fn shown(glance: &Glance, path: &Path) -> String {
    let relative = toolgate_fs::path::relative(path, glance.workspace().directory());
    if relative.is_empty() { ".".to_owned() } else { relative }
}
