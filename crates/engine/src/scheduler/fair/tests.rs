//! The queue against a plain model that looks at every call each time.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn limits(max_running: usize) -> RunLimits {
    RunLimits {
        max_running,
        max_per_workspace: None,
        max_per_session: None,
        max_per_principal: None,
        max_queued: 100,
        max_queued_bytes: 1 << 20,
    }
}

fn owner(workspace: &str, session: &str, principal: &str) -> SlotOwner {
    SlotOwner {
        workspace: workspace.into(),
        session: session.into(),
        principal: principal.into(),
    }
}

fn request(owner: SlotOwner) -> SlotRequest {
    SlotRequest {
        owner,
        bytes: 10,
        parent: None,
        is_expected: false,
    }
}

fn below(parent: Ticket, owner: SlotOwner) -> SlotRequest {
    SlotRequest {
        parent: Some(parent),
        ..request(owner)
    }
}

/// Lets calls of these principals come, and returns in which order they run, one at a time.
fn order(comers: &[(&str, &str)]) -> String {
    let mut queue = Queue::new(limits(1));
    let (first, _) = queue.enter(request(owner("w", "first", "first"))).unwrap();
    let mut names = BTreeMap::new();
    for (principal, session) in comers {
        let (ticket, place) = queue.enter(request(owner("w", session, principal))).unwrap();
        assert!(matches!(
            place,
            QueuePosition::Waits {
                limit: Limit::Running,
                ..
            }
        ));
        names.insert(ticket, format!("{principal}{session}"));
    }
    let (mut order, mut running) = (Vec::new(), first);
    while let Some(next) = queue.leave(running).first() {
        order.push(names[next].clone());
        running = *next;
    }
    assert!(queue.is_empty());
    order.join(" ")
}

#[test]
fn turns_go_round() {
    let check = |comers: &[(&str, &str)], expected| assert_eq!(order(comers), expected, "{comers:?}");
    check(&[("a", "1"), ("a", "1"), ("a", "1"), ("b", "2")], "a1 b2 a1 a1");
    check(&[("a", "1"), ("a", "1"), ("a", "2"), ("a", "2")], "a1 a2 a1 a2");
    check(
        &[("a", "1"), ("a", "1"), ("b", "2"), ("b", "3"), ("c", "4")],
        "a1 b2 c4 a1 b3",
    );
}

#[test]
fn whoever_comes_and_goes_does_not_keep_others_waiting() {
    let mut queue = Queue::new(limits(1));
    let (mut running, _) = queue.enter(request(owner("w", "s", "first"))).unwrap();
    let mut patient = Vec::new();
    for _ in 0..2 {
        patient.push(queue.enter(request(owner("w", "s", "patient"))).unwrap().0);
    }
    let mut rounds = 0;
    while !patient.is_empty() {
        for name in ["x", "y"] {
            queue.enter(request(owner("w", name, name))).unwrap();
        }
        running = queue.leave(running)[0];
        patient.retain(|ticket| *ticket != running);
        rounds += 1;
        assert!(rounds < 10, "others were served for ever");
    }
}

#[test]
fn a_limit_says_which_it_is() {
    let check = |limits: RunLimits, expected: Result<Limit, Limit>| {
        let mut queue = Queue::new(limits);
        queue.enter(request(owner("w", "s", "p"))).unwrap();
        let second = queue.enter(request(owner("w", "s", "p")));
        let found = second.map_err(|full| full.limit).map(|(_, place)| match place {
            QueuePosition::Runs => panic!("it should wait"),
            QueuePosition::Waits { limit, ahead } => {
                assert_eq!(ahead, 0);
                limit
            }
        });
        assert_eq!(found, expected);
    };
    let many = limits(10);
    check(limits(1), Ok(Limit::Running));
    check(
        RunLimits {
            max_per_workspace: Some(1),
            ..many
        },
        Ok(Limit::Workspace),
    );
    check(
        RunLimits {
            max_per_session: Some(1),
            ..many
        },
        Ok(Limit::Session),
    );
    check(
        RunLimits {
            max_per_principal: Some(1),
            ..many
        },
        Ok(Limit::Principal),
    );
    check(
        RunLimits {
            max_queued: 0,
            ..limits(1)
        },
        Err(Limit::Running),
    );
    check(
        RunLimits {
            max_queued_bytes: 9,
            ..limits(1)
        },
        Err(Limit::QueuedBytes),
    );
    let mut queue = Queue::new(RunLimits {
        max_queued: 1,
        ..limits(1)
    });
    for _ in 0..2 {
        queue.enter(request(owner("w", "s", "p"))).unwrap();
    }
    let third = queue.enter(request(owner("w", "s", "p")));
    assert_eq!(third, Err(Full { limit: Limit::Queued }));
    let expected = SlotRequest {
        is_expected: true,
        ..request(owner("w", "s", "p"))
    };
    assert!(queue.enter(expected).is_ok());
}

#[test]
fn calls_below_a_call_take_no_slot() {
    let mut queue = Queue::new(limits(2));
    let of = || owner("w", "s", "p");
    let (batch, _) = queue.enter(request(of())).unwrap();
    let (busy, _) = queue.enter(request(of())).unwrap();
    let mut children = Vec::new();
    for expected in [true, true, false] {
        let (child, position) = queue.enter(below(batch, of())).unwrap();
        assert_eq!(position == QueuePosition::Runs, expected, "as many as may run at all");
        children.push(child);
    }
    let (deeper, position) = queue.enter(below(children[0], of())).unwrap();
    assert_eq!(position, QueuePosition::Runs);
    let (other, _) = queue.enter(request(owner("w", "o", "o"))).unwrap();
    assert!(queue.leave(deeper).is_empty());
    assert_eq!(queue.leave(children[0]), [children[2]]);
    // What outlives the call above it counts from then on.
    assert!(queue.leave(batch).is_empty());
    assert!(queue.leave(busy).is_empty());
    assert!(queue.leave(children[1]).contains(&other));
    assert!(queue.leave(children[2]).is_empty());
    assert!(queue.leave(other).is_empty());
    assert!(queue.is_empty());
}

#[test]
fn a_call_has_no_more_running_below_it_than_a_batch() {
    let mut queue = Queue::new(limits(100));
    let (parent, _) = queue.enter(request(owner("w", "s", "p"))).unwrap();
    for _ in 0..MAX_RUNNING_PER_CALL {
        let (_, position) = queue.enter(below(parent, owner("w", "s", "p"))).unwrap();
        assert_eq!(position, QueuePosition::Runs);
    }
    let (_, position) = queue.enter(below(parent, owner("w", "s", "p"))).unwrap();
    let limit = Limit::Call;
    assert_eq!(position, QueuePosition::Waits { limit, ahead: 0 });
    // Beside it there is room.
    let (_, position) = queue.enter(request(owner("w", "s", "p"))).unwrap();
    assert_eq!(position, QueuePosition::Runs);
}

#[test]
fn what_waited_below_a_waiting_call_runs_with_it() {
    let mut queue = Queue::new(limits(1));
    let (busy, _) = queue.enter(request(owner("w", "b", "b"))).unwrap();
    let (task, _) = queue.enter(request(owner("w", "s", "p"))).unwrap();
    let (child, _) = queue.enter(below(task, owner("w", "s", "p"))).unwrap();
    let (deeper, _) = queue.enter(below(child, owner("w", "s", "p"))).unwrap();
    assert_eq!(queue.leave(busy), [task, child, deeper]);
    for ticket in [deeper, child, task] {
        assert!(queue.leave(ticket).is_empty());
    }
    assert!(queue.is_empty());
}

#[test]
fn ten_thousand_wait_and_leave_in_no_time() {
    let mut queue = Queue::new(RunLimits {
        max_per_session: Some(1),
        max_queued: 10_000,
        ..limits(2)
    });
    let mut tickets = Vec::new();
    for index in 0..10_000 {
        let owner = owner("w", &format!("s{}", index % 5000), &format!("p{}", index % 7));
        tickets.push(queue.enter(request(owner)).unwrap().0);
    }
    let from = std::time::Instant::now();
    let mut running: Vec<Ticket> = tickets[..2].to_vec();
    let mut ran = 0;
    while let Some(ticket) = running.pop() {
        ran += 1;
        running.extend(queue.leave(ticket));
    }
    assert_eq!(ran, 10_000);
    assert!(queue.is_empty());
    // Many times what it takes; looking at all of them each time takes longer.
    assert!(
        from.elapsed() < std::time::Duration::from_secs(5),
        "{:?}",
        from.elapsed()
    );
}

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    Enter {
        owner: SlotOwner,
        parent: Option<usize>,
        is_expected: bool,
    },
    Resume(SlotOwner),
    Leave(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let owner = (0..2, 0..4, 0..3).prop_map(|(w, s, p)| owner(&format!("w{w}"), &format!("s{s}"), &format!("p{p}")));
    let enter = (owner.clone(), prop::option::weighted(0.3, 0..40_usize), any::<bool>());
    prop_oneof![
        5 => enter.prop_map(|(owner, parent, is_expected)| Step::Enter { owner, parent, is_expected }),
        1 => owner.prop_map(Step::Resume),
        4 => (0..40_usize).prop_map(Step::Leave),
    ]
}

fn any_limits() -> impl Strategy<Value = RunLimits> {
    let few = || prop::option::of(1..3_usize);
    (1..4_usize, few(), few(), few(), 0..8_usize).prop_map(|(max_running, w, s, p, max_queued)| RunLimits {
        max_running,
        max_per_workspace: w,
        max_per_session: s,
        max_per_principal: p,
        max_queued,
        max_queued_bytes: 60,
    })
}

/// How many calls have a slot, by what they share.
fn counts(queue: &Queue, name: impl Fn(&SlotOwner) -> &Name) -> BTreeMap<Name, usize> {
    let mut counts = BTreeMap::new();
    for entry in queue.entries.values().filter(|entry| entry.state == SlotState::Runs) {
        *counts.entry(name(&entry.owner).clone()).or_default() += 1;
    }
    counts
}

/// What must hold between operations.
fn check(queue: &Queue) {
    let waits = |entry: &&Entry| entry.state == SlotState::Waits;
    let waiting: Vec<&Entry> = queue.entries.values().filter(waits).collect();
    assert_eq!(waiting.len(), queue.waiting);
    assert_eq!(
        waiting.iter().map(|entry| entry.bytes).sum::<usize>(),
        queue.waiting_bytes
    );
    let running = queue
        .entries
        .values()
        .filter(|entry| entry.state == SlotState::Runs)
        .count();
    assert_eq!(running, queue.order.running);
    for (name, count) in counts(queue, |owner| &owner.principal) {
        assert_eq!(queue.order.principals[&name].running, count);
    }
    for (name, count) in counts(queue, |owner| &owner.session) {
        assert_eq!(queue.order.sessions[&name].running, count);
    }
    for (name, count) in counts(queue, |owner| &owner.workspace) {
        assert_eq!(queue.order.workspaces[&name].running, count);
    }
    for entry in waiting {
        let held = match entry.parent {
            Some(parent) => queue.held_below(&queue.entries[&parent]),
            None => queue.order.held(&entry.owner),
        };
        assert!(held.is_some(), "nothing keeps it from running: {entry:?}");
    }
    let most = queue.limits.value(queue.limits.below_call());
    for (ticket, entry) in &queue.entries {
        let is_below = |state| move |child: &Ticket| queue.entries[child].state == state;
        assert!(entry.running_below.iter().all(is_below(SlotState::RunsBelow)));
        assert!(entry.waiting_below.iter().all(is_below(SlotState::Waits)));
        assert!(entry.running_below.len() <= most);
        let Some(parent) = entry.parent.map(|parent| &queue.entries[&parent]) else {
            assert_ne!(entry.state, SlotState::RunsBelow);
            continue;
        };
        assert!(parent.running_below.contains(ticket) || parent.waiting_below.contains(ticket));
        assert_ne!(entry.state, SlotState::Runs);
    }
}

/// Whose turn it is, by looking at all: fewest of the principal, its turn, fewest of the session, its turn, first come.
fn model_next(queue: &Queue) -> Option<Ticket> {
    let eligible = queue
        .entries
        .iter()
        .filter(|(_, entry)| entry.state == SlotState::Waits && queue.order.held(&entry.owner).is_none());
    let ranked = eligible.map(|(ticket, entry)| {
        let (principal, session) = (
            &queue.order.principals[&entry.owner.principal],
            &queue.order.sessions[&entry.owner.session],
        );
        let rank = (
            principal.running,
            principal.turn,
            session.running,
            session.turn,
            *ticket,
        );
        (rank, *ticket)
    });
    ranked.min().map(|(_, ticket)| ticket)
}

proptest! {
    #[test]
    fn nothing_waits_in_vain_and_nothing_stays(limits in any_limits(), steps in prop::collection::vec(any_step(), 1..80)) {
        let mut queue = Queue::new(limits);
        let mut inside: Vec<Ticket> = Vec::new();
        let mut runs: BTreeMap<Ticket, bool> = BTreeMap::new();
        let start = |runs: &mut BTreeMap<Ticket, bool>, started: Vec<Ticket>| {
            for ticket in started {
                assert_eq!(runs.insert(ticket, true), Some(false), "it ran already");
            }
        };
        for step in steps {
            match step {
                Step::Enter { owner, parent, is_expected } => {
                    let parent = parent.and_then(|index| inside.get(index)).copied();
                    let request = SlotRequest { parent, is_expected, ..request(owner) };
                    if let Ok((ticket, place)) = queue.enter(request) {
                        inside.push(ticket);
                        runs.insert(ticket, place == QueuePosition::Runs);
                    }
                }
                Step::Resume(owner) => {
                    let ticket = queue.enter_anyway(owner);
                    inside.push(ticket);
                    runs.insert(ticket, true);
                }
                Step::Leave(index) if index < inside.len() => {
                    let started = queue.leave(inside.remove(index));
                    start(&mut runs, started);
                }
                Step::Leave(_) => {}
            }
            check(&queue);
            for ticket in &inside {
                prop_assert_eq!(runs[ticket], queue.entries[ticket].state != SlotState::Waits);
            }
        }
        while let Some(ticket) = inside.pop() {
            let started = queue.leave(ticket);
            start(&mut runs, started);
            check(&queue);
        }
        prop_assert!(queue.is_empty(), "{:?}", queue);
    }

    #[test]
    fn whose_turn_it_is(limits in any_limits(), steps in prop::collection::vec(any_step(), 1..60)) {
        let mut queue = Queue::new(RunLimits { max_queued: 100, max_queued_bytes: 10_000, ..limits });
        let mut inside: Vec<Ticket> = Vec::new();
        for step in steps {
            match step {
                Step::Enter { owner, .. } => inside.push(queue.enter(request(owner)).unwrap().0),
                Step::Resume(owner) => inside.push(queue.enter_anyway(owner)),
                Step::Leave(index) if index < inside.len() => {
                    // One step of `leave` at a time, so that the model can be asked in between.
                    let ticket = inside.remove(index);
                    if queue.entries[&ticket].state == SlotState::Waits {
                        queue.leave(ticket);
                        continue;
                    }
                    queue.remove(ticket, &mut Vec::new());
                    loop {
                        let expected = model_next(&queue);
                        let found = queue.order.next();
                        let rank = |ticket: Option<Ticket>| ticket.map(|ticket| {
                            let owner = &queue.entries[&ticket].owner;
                            (queue.order.principals[&owner.principal].running, queue.order.principals[&owner.principal].turn)
                        });
                        // A principal that waits in two workspaces has its sessions compared in each.
                        prop_assert_eq!(rank(found), rank(expected));
                        let Some(ticket) = found else { break };
                        queue.start_waiting(ticket, &mut Vec::new());
                    }
                }
                Step::Leave(_) => {}
            }
        }
    }
}
