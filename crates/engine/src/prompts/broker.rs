//! The two halves of what stands between calls and people, in one process and over one store: the one that asks, and the one
//! that takes replies.
//!
//! *Invariant:* the halves know nothing of each other. They meet in the store, and in the board where one tells the other at
//! once what it would find there.

use std::sync::Arc;

use toolgate_model::InstanceId;
use toolgate_store::{Store, StoreError};

pub use super::approvals::ApprovalPolicy;
use super::asking::Asking;
use super::board::Board;
pub use super::board::Listener;
pub use super::exchange::{ApproverReply, Change, PromptPolicy, ReplyOutcome, Subscription, Unattended};
use super::inbox::Inbox;

/// Both halves of one run of the service.
#[derive(Clone)]
pub struct Broker {
    /// Judges what calls ask, opens prompts and waits for them.
    pub asking: Arc<Asking>,
    /// Takes the replies.
    pub inbox: Arc<Inbox>,
}

impl Broker {
    /// Makes both halves, with the grants that outlast a run of the service.
    ///
    /// # Errors
    /// The store failed.
    pub async fn open(
        store: Arc<dyn Store>,
        instance: InstanceId,
        policy: PromptPolicy,
        approvals: ApprovalPolicy,
    ) -> Result<Self, StoreError> {
        let board = Arc::new(Board::new(store, instance));
        board.load().await?;
        Ok(Self::over(board, policy, approvals))
    }

    /// Makes both halves, over a store in which nothing is granted yet.
    pub fn new(store: Arc<dyn Store>, instance: InstanceId, policy: PromptPolicy, approvals: ApprovalPolicy) -> Self {
        Self::over(Arc::new(Board::new(store, instance)), policy, approvals)
    }

    fn over(board: Arc<Board>, policy: PromptPolicy, approvals: ApprovalPolicy) -> Self {
        let approvals = Arc::new(approvals);
        Self {
            asking: Arc::new(Asking::new(board.clone(), policy, approvals.clone())),
            inbox: Arc::new(Inbox::new(board, approvals)),
        }
    }
}
