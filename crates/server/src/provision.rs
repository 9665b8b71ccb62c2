//! Where workspaces that clients create come from: a seam, since it differs from one operator to the other whether that is a
//! folder, a machine or a pod.
//!
//! Whoever keeps track of created workspaces knows what is wanted, and asks a [`Provisioner`] (`provision/seam`) for it as often as it takes: after
//! a failure, after a restart, from several processes. In `provision/`: `source`, what may be asked for; `folders`, below a root on
//! this machine, filled by `git` and `archive`.
//!
//! *Invariant:* a provisioner does the same however often it is asked, and knows neither calls nor prompts nor who asks. It keeps
//! no record: what there is, is looked at, and whoever keeps records is told of what was put where (`Placements`).

mod archive;
mod folders;
mod git;
mod seam;
mod source;

pub(crate) use self::folders::Folders;
pub use self::seam::{Observed, Placements, ProvisionError, Provisioner, Wanted};
pub use self::source::problem_of;
