//! What this run has changed, and which of its prompts have ended, as a journal tells of it: for plugins of its workspaces. The journal itself
//! is the gateways'.
//!
//! *Invariant:* a change is told once, and not before it is stored; a note is told when it is queued. Nothing is kept before somebody asks
//! for the first time, nor beyond this run, and no more than fits: what is gone leaves a gap in the numbers.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use tokio::sync::watch;
use toolgate_model::{CallEvent, CallRecord, Prompt, PromptId, PromptState, ServiceEvent, Timestamp};
use toolgate_store::events;

/// Events that are kept at most, and their bytes as JSON.
const MOST: (usize, usize) = (4_096, 4 << 20);

/// Prompts that are remembered. Beyond that those that have ended are forgotten.
const MOST_PROMPTS: usize = 10_000;

/// The events of one run of a worker.
pub struct Told {
    state: Mutex<State>,
    /// The number of the last event.
    last: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// Somebody has asked.
    is_wanted: bool,
    /// The last ones, each with its bytes.
    events: VecDeque<(ServiceEvent, usize)>,
    bytes: usize,
    /// Prompts, and whether their end was told: one that was read before it ended may be seen after that.
    prompts: HashMap<PromptId, bool>,
}

impl Default for Told {
    fn default() -> Self {
        // The time, so that plugins meet no number a second time after a restart.
        let begun = u64::try_from(Timestamp::now().millis()).unwrap_or_default();
        Self {
            state: Mutex::default(),
            last: watch::Sender::new(begun),
        }
    }
}

impl Told {
    /// Returns the number of the last event. The receiver sees later ones.
    pub fn last(&self) -> watch::Receiver<u64> {
        self.state.lock().is_wanted = true;
        self.last.subscribe()
    }

    /// Returns at most `limit` events with a number above `after`, in order.
    pub fn since(&self, after: u64, limit: usize) -> Vec<(u64, ServiceEvent)> {
        let state = self.state.lock();
        let first = *self.last.borrow() + 1 - state.events.len() as u64;
        let known = usize::try_from((after + 1).saturating_sub(first)).unwrap_or(usize::MAX);
        let numbered = (first..).zip(&state.events).skip(known).take(limit);
        numbered.map(|(number, (event, _))| (number, event.clone())).collect()
    }

    /// Takes note of what was stored of a call.
    pub(crate) fn changed(&self, record: &CallRecord, events: &[CallEvent]) {
        self.tell(&mut self.state.lock(), || events::of_call(record, events));
    }

    /// Takes note of something that the store does not see by itself.
    pub(crate) fn noted(&self, event: &ServiceEvent) {
        self.tell(&mut self.state.lock(), || vec![event.clone()]);
    }

    /// Takes note that a prompt was opened.
    pub(crate) fn opened(&self, prompt: &Prompt) {
        let mut state = self.state.lock();
        self.see(&mut state, prompt);
        self.tell(&mut state, || vec![events::prompt_opened(prompt)]);
    }

    /// Takes note of a prompt as it was read: also one that an earlier run has opened, and whoever has ended it.
    pub(crate) fn saw(&self, prompt: &Prompt) {
        self.see(&mut self.state.lock(), prompt);
    }

    fn see(&self, state: &mut State, prompt: &Prompt) {
        if prompt.state == PromptState::Open {
            if state.prompts.len() >= MOST_PROMPTS {
                state.prompts.retain(|_, has_ended| !*has_ended);
            }
            state.prompts.entry(prompt.id.clone()).or_default();
        } else if let Some(has_ended @ false) = state.prompts.get_mut(&prompt.id) {
            *has_ended = true;
            self.tell(state, || vec![events::prompt_ended(prompt)]);
        }
    }

    fn tell(&self, state: &mut State, events: impl FnOnce() -> Vec<ServiceEvent>) {
        if !state.is_wanted {
            return;
        }
        let events = events();
        let count = events.len() as u64;
        for event in events {
            let bytes = serde_json::to_string(&event).map_or(0, |json| json.len());
            state.bytes += bytes;
            state.events.push_back((event, bytes));
        }
        // The last one stays, however large: who waits for its number is to find it.
        while state.events.len() > MOST.0 || (state.bytes > MOST.1 && state.events.len() > 1) {
            let Some((_, bytes)) = state.events.pop_front() else {
                break;
            };
            state.bytes -= bytes;
        }
        if count > 0 {
            self.last.send_modify(|last| *last += count);
        }
    }
}

#[cfg(test)]
mod tests {
    use toolgate_model::{CallId, ServiceEventKind, SessionId, SessionKey};

    use super::*;

    fn edited(path: &str) -> ServiceEvent {
        let kind = ServiceEventKind::FileEdited {
            path: path.to_owned(),
            call: CallId::from("call"),
        };
        ServiceEvent::in_session(SessionKey::new("w", &SessionId::from("s")), kind)
    }

    #[test]
    fn what_is_wanted_is_kept_as_far_as_it_fits() {
        let told = Told::default();
        told.noted(&edited("nobody asked"));
        let last = told.last();
        let begun = *last.borrow();
        assert_eq!(told.since(begun, 10), []);
        let few: Vec<ServiceEvent> = ["a", "b", "c"].map(edited).into();
        few.iter().for_each(|event| told.noted(event));
        assert_eq!(*last.borrow(), begun + 3);
        assert_eq!(
            told.since(begun + 1, 1),
            [(begun + 2, few[1].clone())],
            "one, behind the one that is known"
        );
        for _ in 0..MOST.0 - 1 {
            told.noted(&few[0]);
        }
        let kept = told.since(begun, usize::MAX);
        assert_eq!((kept.len(), &kept[0]), (MOST.0, &(begun + 3, few[2].clone())));
        let large = edited(&"x".repeat(MOST.1));
        told.noted(&large);
        assert_eq!(
            told.since(begun, usize::MAX),
            [(*last.borrow(), large)],
            "one that is larger than all may be is kept alone"
        );
        told.noted(&few[0]);
        assert_eq!(told.since(begun, 10), [(*last.borrow(), few[0].clone())]);
    }
}
