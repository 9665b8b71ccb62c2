//! The files that redirections open.
//!
//! *Invariant:* a target that is not fixed makes the command unclear.

use super::context::Context;
use super::findings::Findings;
use crate::parse::Simple;
use crate::paths;

/// Finds what the redirections of a command open, and what speaks against knowing that.
pub(super) fn redirects(simple: &Simple, context: &Context, findings: &mut Findings) {
    for redirect in &simple.redirects {
        let targets = context.variables.resolve(std::slice::from_ref(&redirect.target));
        for target in targets.into_iter().flatten() {
            let uses = paths::of_redirect(&target, redirect.writes, &context.from);
            findings.record_written(&uses, true, context);
            findings.paths.extend(uses);
            if target.value.is_none() && !target.is_stream() {
                findings.mark_opaque(Some("which file it opens is only known when it runs"));
            }
            let is_network = |path: &str| path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/");
            if target.value.as_deref().is_some_and(is_network) {
                findings.mark_opaque(Some("it opens a network connection"));
            }
        }
    }
}
