//! Lists over all workers, in the order that the contract promises of each.
//!
//! *Invariant:* all workers or none: a list without what one of them has would be a wrong one, so it fails while a worker is away. At
//! most one page of each worker is held.

use std::sync::Arc;

use futures_util::future::join_all;
use prost::Message;
use prost_types::Timestamp;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::http::{HeaderValue, Response};
use tonic::{Code, Status};
use toolgate_contract::*;
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::status;

use crate::pages::{Moment, Place, Places, Shown};
use crate::parts::Parts;
use crate::registry::ASK_TIMEOUT;
use crate::wire::{decode, gone, unary};
use crate::worker::Worker;

/// Bytes of one page, beyond its first entry.
const PAGE_BYTES: usize = 2 * 1024 * 1024;

/// Pages of a worker that are read for one of the gateway's, should all that is on them have been shown already.
const MAX_PAGES: usize = 50;

/// A list of the contract.
pub(crate) trait List {
    /// What is asked.
    type Question: Message + Default + Clone + 'static;
    /// What is answered.
    type Answer: Message + Default + 'static;
    /// What is listed.
    type Entry: Message;

    /// The RPC.
    const PATH: &'static str;
    /// How many entries a page has by itself, and at most.
    const SIZES: (i32, i32);
    /// Whether the newest one comes first.
    const NEWEST_FIRST: bool;

    /// Returns how many entries are asked for, and from where on.
    fn page(question: &mut Self::Question) -> (&mut i32, &mut String);
    /// Takes an answer apart: its entries, and the token of the next page.
    fn open(answer: Self::Answer) -> (Vec<Self::Entry>, String);
    /// Makes an answer.
    fn close(entries: Vec<Self::Entry>, next: String) -> Self::Answer;
    /// Returns what identifies an entry at its worker, its workspace, and its moment.
    fn facts(entry: &Self::Entry) -> (String, String, Option<&Timestamp>);
}

/// Makes a list of the parts of its messages.
macro_rules! list {
    ($(#[$about:meta])* $name:ident, $path:literal, $question:ident, $answer:ident.$entries:ident: $entry:ident, $sizes:expr, $newest:literal, $facts:expr) => {
        $(#[$about])*
        pub(crate) struct $name;

        impl List for $name {
            type Question = $question;
            type Answer = $answer;
            type Entry = $entry;

            const PATH: &'static str = concat!("/toolgate.v1.", $path);
            const SIZES: (i32, i32) = $sizes;
            const NEWEST_FIRST: bool = $newest;

            fn page(question: &mut $question) -> (&mut i32, &mut String) {
                (&mut question.page_size, &mut question.page_token)
            }

            fn open(answer: $answer) -> (Vec<$entry>, String) {
                (answer.$entries, answer.next_page_token)
            }

            fn close(entries: Vec<$entry>, next: String) -> $answer {
                $answer { $entries: entries, next_page_token: next }
            }

            fn facts(entry: &$entry) -> (String, String, Option<&Timestamp>) {
                let facts: fn(&$entry) -> (String, String, Option<&Timestamp>) = $facts;
                facts(entry)
            }
        }
    };
}

list!(
    /// Calls.
    Calls, "ToolService/ListCalls", ListCallsRequest, ListCallsResponse.calls: Call, (50, 500), true,
    |call| {
        let workspace = call.context.as_ref().map(|context| context.workspace.clone()).unwrap_or_default();
        (format!("{}~{workspace}", call.call_id), workspace, call.create_time.as_ref())
    }
);
list!(
    /// Prompts.
    Prompts, "PermissionService/ListPrompts", ListPromptsRequest, ListPromptsResponse.prompts: Prompt, (100, 1000), false,
    |prompt| (prompt.prompt_id.clone(), prompt.workspace.clone(), prompt.create_time.as_ref())
);
list!(
    /// Grants.
    Grants, "PermissionService/ListGrants", ListGrantsRequest, ListGrantsResponse.grants: Grant, (100, 1000), false,
    |grant| (grant.grant_id.clone(), grant.workspace.clone(), grant.create_time.as_ref())
);
list!(
    /// Sessions.
    Sessions, "SessionService/ListSessions", ListSessionsRequest, ListSessionsResponse.sessions: SessionSummary, (50, 500), true,
    |session| {
        let id = format!("{}~{}", session.session_id, session.workspace);
        (id, session.workspace.clone(), session.last_activity_time.as_ref())
    }
);
list!(
    /// Outputs.
    Outputs, "OutputService/ListOutputs", ListOutputsRequest, ListOutputsResponse.outputs: Output, (50, 500), true,
    |output| (output.output_id.clone(), output.workspace.clone(), output.create_time.as_ref())
);

/// What a worker has for a page.
struct Page<E> {
    /// The entries that were not shown yet, the next one last.
    entries: Vec<(Shown, E)>,
    /// From where it was read, and what was shown of it.
    place: Place,
    /// The token of the page behind it.
    next: String,
}

/// What each worker has; none of those whose list is read to its end.
type Pages<L> = [(Arc<Worker>, Option<Page<<L as List>::Entry>>)];

/// Answers with one page of the lists of all workers.
pub(crate) async fn merged<L: List>(parts: &Parts, caller: &OnBehalf, first: &[u8]) -> Result<Response<Body>, Status> {
    let mut question: L::Question = decode(first)?;
    let (page_size, page_token) = L::page(&mut question);
    if *page_size < 0 {
        return Err(status::bad_field("page_size", "expected 0 or more"));
    }
    let (usual, most) = L::SIZES;
    let size = if *page_size == 0 { usual } else { (*page_size).min(most) };
    *page_size = size;
    let mut places = Places::read(page_token)?;
    let entry = caller.entry();
    let workers = parts.registry.workers_for(caller);
    let read = workers.iter().map(|worker| {
        let (place, question, entry) = (places.of(&worker.name), question.clone(), &entry);
        async move {
            match place {
                None => Ok(None),
                Some(place) => page::<L>(parts, worker, question, place, entry).await.map(Some),
            }
        }
    });
    let (mut pages, mut missing) = (Vec::new(), None);
    for (worker, page) in workers.iter().zip(join_all(read).await) {
        match page {
            Ok(page) => pages.push((worker.clone(), page)),
            // It knows nothing of the workspace that is meant.
            Err(status) if status.code() == Code::NotFound => missing = Some(status),
            Err(status) => return Err(status),
        }
    }
    if let (true, Some(missing)) = (pages.is_empty(), missing) {
        return Err(missing);
    }
    let entries = put_together::<L>(&mut pages, usize::try_from(size).unwrap_or_default());
    places.0 = pages
        .into_iter()
        .map(|(worker, page)| (worker.name.clone(), page.and_then(Page::rest)))
        .collect();
    Ok(unary(&L::close(entries, places.token())))
}

impl<E> Page<E> {
    /// Returns where the list goes on.
    fn rest(self) -> Option<Place> {
        match (self.entries.is_empty(), self.next.is_empty()) {
            (false, _) => Some(self.place),
            (true, true) => None,
            (true, false) => Some(Place {
                token: self.next,
                shown: None,
            }),
        }
    }
}

/// Takes as many entries as a page has.
fn put_together<L: List>(pages: &mut Pages<L>, size: usize) -> Vec<L::Entry> {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    while taken.len() < size {
        let heads = pages.iter_mut().filter_map(|(_, page)| page.as_mut());
        let head = heads
            .filter(|page| !page.entries.is_empty() || !page.next.is_empty())
            .min_by_key(|page| {
                let moment = page.entries.last().map(|(shown, _)| shown.moment);
                // Of one whose page is used up it is not known what comes next: the page of the gateway ends there.
                moment.map(|(seconds, nanos)| match L::NEWEST_FIRST {
                    true => (-seconds, -nanos),
                    false => (seconds, nanos),
                })
            });
        let Some(page) = head else { break };
        let Some((shown, entry)) = page.entries.pop() else {
            break;
        };
        bytes += entry.encoded_len();
        if !taken.is_empty() && bytes > PAGE_BYTES {
            page.entries.push((shown, entry));
            break;
        }
        page.place.shown = Some(shown);
        taken.push(entry);
    }
    taken
}

/// Reads what a worker has from a place on.
async fn page<L: List>(
    parts: &Parts,
    worker: &Worker,
    mut question: L::Question,
    mut place: Place,
    entry: &HeaderValue,
) -> Result<Page<L::Entry>, Status> {
    for _ in 0..MAX_PAGES {
        place.token.clone_into(L::page(&mut question).1);
        let asked = worker.ask::<L::Question, L::Answer>(L::PATH, question.clone(), Some(entry));
        let answer = timeout(ASK_TIMEOUT, asked)
            .await
            .unwrap_or_else(|_| Err(gone(&worker.name)))?;
        let (entries, next) = L::open(answer);
        if entries.is_empty() && place.shown.is_none() {
            // The worker has looked for a moment and found nothing: so ends the page of the gateway.
            return Ok(Page {
                entries: Vec::new(),
                place,
                next,
            });
        }
        let entries = entries.into_iter().filter_map(|entry| {
            let (id, workspace, moment) = L::facts(&entry);
            let moment: Moment = moment.map(|time| (time.seconds, time.nanos)).unwrap_or_default();
            parts
                .registry
                .counts(worker, &workspace)
                .then_some((Shown { id, moment }, entry))
        });
        let mut entries: Vec<_> = entries.collect();
        take_out_shown(&mut entries, &mut place, L::NEWEST_FIRST);
        if !entries.is_empty() || next.is_empty() {
            entries.reverse();
            return Ok(Page { entries, place, next });
        }
        place.token = next;
    }
    Err(status::bad_field("page_token", "it is too old: begin again"))
}

/// Takes out of a page what was shown of it. What is behind one that was shown to its end has not been shown at all.
fn take_out_shown<E>(entries: &mut Vec<(Shown, E)>, place: &mut Place, is_newest_first: bool) {
    let Some(shown) = &place.shown else { return };
    // It may be gone, or have moved to the front.
    let was_shown = |entry: &Shown| match is_newest_first {
        true => entry.moment >= shown.moment,
        false => entry.moment <= shown.moment,
    };
    match entries.iter().position(|(entry, _)| entry.id == shown.id) {
        Some(at) if at + 1 == entries.len() => {
            entries.clear();
            place.shown = None;
        }
        Some(at) => drop(entries.drain(..=at)),
        None => entries.retain(|(entry, _)| !was_shown(entry)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_page() {
        let entry = |(id, second): (&str, i64)| Shown {
            id: id.to_owned(),
            moment: (second, 0),
        };
        let left = |page: &[(&str, i64)], place: &mut Place| {
            let mut entries: Vec<_> = page.iter().map(|&one| (entry(one), ())).collect();
            take_out_shown(&mut entries, place, true);
            entries.into_iter().map(|(entry, ())| entry.id).collect::<Vec<_>>()
        };
        let mut place = Place::default();
        assert_eq!(left(&[("a", 9), ("b", 8)], &mut place), ["a", "b"]);
        place.shown = Some(entry(("b", 8)));
        assert_eq!(left(&[("a", 9), ("b", 8), ("c", 8), ("d", 7)], &mut place), ["c", "d"]);
        assert_eq!(left(&[("a", 9), ("x", 8), ("d", 7)], &mut place), ["d"], "it is gone");
        assert_eq!(
            left(&[("z", 9), ("a", 9)], &mut place),
            [""; 0],
            "it is on the next page"
        );
        assert_eq!(left(&[("a", 9), ("b", 8)], &mut place), [""; 0]);
        assert_eq!(
            left(&[("c", 8), ("d", 7)], &mut place),
            ["c", "d"],
            "of the same moment, on the next page"
        );
    }
}
