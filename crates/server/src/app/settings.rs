//! What the configuration says to the engine, in its words.
//!
//! *Invariant:* pure: nothing is opened or read here.

use toolgate_config::Config;
use toolgate_engine::prompts::broker::{ApprovalPolicy, PromptPolicy};
use toolgate_engine::{Limits, RunLimits};

use super::upkeep::Sweep;

/// Returns how prompts are treated.
pub(super) fn prompts(config: &Config) -> PromptPolicy {
    PromptPolicy {
        timeout: config.permission.timeout,
        unattended: config.permission.unattended,
        max_open: config.limits.max_open_prompts as usize,
        max_open_per_session: config.limits.max_open_prompts_per_session.map(|most| most as usize),
    }
}

/// Returns what calls may use.
pub(super) fn limits(config: &Config) -> Limits {
    Limits {
        running: RunLimits {
            max_running: config.limits.max_running_calls as usize,
            max_per_workspace: config.limits.max_running_calls_per_workspace.map(|most| most as usize),
            max_per_session: config.limits.max_running_calls_per_session.map(|most| most as usize),
            max_per_principal: config.limits.max_running_calls_per_principal.map(|most| most as usize),
            max_queued: config.limits.max_queued_calls as usize,
            max_queued_bytes: bytes(config.limits.max_queued_bytes),
        },
        max_input_bytes: bytes(config.limits.max_input_bytes),
        max_output_bytes: config.limits.max_output_bytes,
        max_undo_bytes: config.limits.max_undo_bytes,
    }
}

/// Returns whose replies count.
pub(super) fn approvals(config: &Config) -> ApprovalPolicy {
    let workspaces = config.workspaces.iter();
    ApprovalPolicy {
        self_approval: config.permission.self_approval,
        self_approval_in: workspaces
            .filter_map(|workspace| Some((workspace.name.clone(), workspace.self_approval?)))
            .collect(),
        second_approver: config.permission.second_approver.clone(),
    }
}

/// Returns what is kept, and for how long.
pub(super) fn retention(config: &Config) -> Sweep {
    Sweep {
        keep: config.retention,
        audit: config.audit.retention,
        max_total_bytes: config.limits.max_total_output_bytes,
    }
}

/// Returns a number of bytes as memory is counted.
pub(super) fn bytes(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
