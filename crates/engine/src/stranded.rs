//! Why a call that waited for a person cannot go on in the next run of the service, said to whoever made it and to whoever was asked.
//!
//! *Invariant:* plain data and sentences. They say what was done so far only where that is known.

use toolgate_model::CallRecord;

/// Why a call cannot go on here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stranded {
    /// No workspace of that name takes calls.
    NoWorkspace,
    /// The workspace of that name is another folder by now.
    OtherFolder {
        /// Which.
        now: String,
        /// Whether the tool changes nothing before its last question is answered.
        is_untouched: bool,
    },
    /// The folder in the workspace that it was made in is gone.
    NoDirectory,
    /// Its agent is not there any more.
    NoAgent,
    /// Its tool is not there any more, or its agent may not call it.
    NoTool,
    /// Calls of the tool cannot be run again.
    NotResumable,
    /// It has asked something in the middle of its work.
    AskedLate,
}

impl Stranded {
    /// Says it of a call.
    pub(crate) fn told_of(&self, record: &CallRecord) -> String {
        let (workspace, agent, tool) = (&record.origin.workspace, &record.origin.agent, &record.tool);
        let (why, then) = match self {
            Self::NoWorkspace => (
                format!("the service has no workspace {workspace} any more"),
                "Open the workspace again before you repeat the call.",
            ),
            Self::OtherFolder { now, .. } => (
                format!(
                    "the workspace {workspace} is another folder now, {now} instead of {}",
                    record.directory
                ),
                "Repeat the call if it is meant for the folder of now, or have the service started with the earlier one.",
            ),
            Self::NoDirectory => (
                format!(
                    "the folder {} of the workspace {workspace} is gone",
                    record.origin.directory
                ),
                "Repeat the call in a folder that is there.",
            ),
            Self::NoAgent => (
                format!("the service has no agent {agent} any more"),
                "Repeat the call with an agent that is there.",
            ),
            Self::NoTool => (
                format!("the service has no tool {tool} any more that the agent {agent} may call"),
                "Repeat the call when the tool is there again.",
            ),
            Self::NotResumable => (
                format!("calls of the tool {tool} cannot be taken up by another run of the service"),
                "Repeat the call if it is still wanted.",
            ),
            Self::AskedLate => (
                "it asked in the middle of its work, which another run of the service cannot take up".to_owned(),
                "Repeat the call if it is still wanted.",
            ),
        };
        let done = match self.has_done_nothing(record) {
            true => "It has done nothing.",
            false => "What it did before it asked is not known: look at the present state first.",
        };
        format!(
            "The service ended while this call waited for a person, and the call cannot go on: {why}. {done} {then}"
        )
    }

    /// Says it of its prompts.
    pub(crate) fn why_withdrawn(&self) -> &'static str {
        match self {
            Self::NoWorkspace => "the call cannot go on: its workspace is not open any more",
            Self::OtherFolder { .. } => "the call cannot go on: its workspace is another folder now",
            Self::NoDirectory => "the call cannot go on: its folder is gone",
            Self::NoAgent => "the call cannot go on: its agent is not there any more",
            Self::NoTool => "the call cannot go on: its tool is not there any more",
            Self::NotResumable | Self::AskedLate => {
                "the service ended while the call waited, and another run cannot take it up"
            }
        }
    }

    fn has_done_nothing(&self, record: &CallRecord) -> bool {
        let is_untouched = matches!(self, Self::OtherFolder { is_untouched: true, .. });
        record.started.is_none() || is_untouched
    }
}
