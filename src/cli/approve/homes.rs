//! Which services tell of a prompt: those that share a data directory tell of the same ones, and each can take the reply.
//!
//! *Invariant:* each prompt comes up once and ends once, however many services tell of it, and in whatever order.

use std::collections::{HashMap, VecDeque};

/// Prompts that are remembered after their end.
const MOST_ENDED: usize = 4096;

#[derive(Default)]
struct Home {
    /// The places of the services, the one that told first at the front.
    services: Vec<usize>,
    has_ended: bool,
}

/// The prompts that services have told of.
#[derive(Default)]
pub(super) struct Homes {
    known: HashMap<String, Home>,
    /// Those that have ended, in the order of their ends.
    ended: VecDeque<String>,
}

impl Homes {
    /// Returns the service that a reply to a prompt goes to.
    pub(super) fn of(&self, prompt: &str) -> Option<usize> {
        self.known.get(prompt)?.services.first().copied()
    }

    /// Notes that a service tells of an open prompt; says whether that is news.
    pub(super) fn add(&mut self, prompt: &str, service: usize) -> bool {
        let home = self.known.entry(prompt.to_owned()).or_default();
        let is_first = home.services.is_empty();
        if !home.services.contains(&service) {
            home.services.push(service);
        }
        is_first
    }

    /// Says whether what a service tells of a prompt beside its beginning and its end is news: one of them is enough.
    pub(super) fn is_told_by(&self, prompt: &str, service: usize) -> bool {
        self.of(prompt).is_none_or(|first| first == service)
    }

    /// Notes that a prompt has ended; says whether that is news.
    pub(super) fn end(&mut self, prompt: &str) -> bool {
        let Some(home) = self.known.get_mut(prompt) else {
            return true;
        };
        let is_news = !home.has_ended;
        // A reply that comes too late still finds its service.
        home.has_ended = true;
        if is_news {
            self.ended.push_back(prompt.to_owned());
            if self.ended.len() > MOST_ENDED
                && let Some(earliest) = self.ended.pop_front()
            {
                self.known.remove(&earliest);
            }
        }
        is_news
    }

    /// Notes that a service is away, and will tell of its prompts again when it is back.
    pub(super) fn forget(&mut self, service: usize) {
        self.known.retain(|_, home| {
            if !home.has_ended {
                home.services.retain(|one| *one != service);
            }
            !home.services.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_two_services_tell_of_is_one() {
        let mut homes = Homes::default();
        assert!(homes.add("p", 1));
        assert!(!homes.add("p", 0), "another service tells of it");
        assert!(homes.add("q", 0));
        assert_eq!((homes.of("p"), homes.of("q"), homes.of("r")), (Some(1), Some(0), None));
        assert!(homes.is_told_by("p", 1) && !homes.is_told_by("p", 0) && homes.is_told_by("r", 0));
        homes.forget(1);
        assert_eq!(homes.of("p"), Some(0), "the other one takes the reply");
        assert!(!homes.add("p", 1), "it is back");
        assert!(homes.end("p") && !homes.end("p"));
        assert!(!homes.add("p", 1), "one of them did not know yet");
        homes.forget(0);
        homes.forget(1);
        assert_eq!(
            (homes.of("p"), homes.of("q")),
            (Some(0), None),
            "a late reply finds a service"
        );
        assert!(homes.add("q", 0));
        for number in 0..MOST_ENDED {
            homes.add(&number.to_string(), 0);
            homes.end(&number.to_string());
        }
        assert_eq!(homes.of("p"), None, "it ended first, and is forgotten first");
        assert_eq!((homes.of("q"), homes.of("0")), (Some(0), Some(0)));
    }
}
