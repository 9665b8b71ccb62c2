//! A person at a terminal, full screen: the list of open prompts, the one in hand, and the keys.
//!
//! The files in reading order: `state` is what is shown and done, `keys` how keys change it, `hints` which keys there are, `always`
//! and `questions` the steps that take more than one key, `field` a text that is written; `draw` makes a picture of the state,
//! `content` of a prompt, with `risk`, all in `rows` and in the looks of `theme`; `tty` is the terminal, and `editor` the
//! program that a person edits with.
//!
//! *Invariant:* only this file, `tty` and `editor` touch anything; what the state becomes and what is drawn of it is computed.

mod always;
mod content;
mod draw;
mod editor;
mod field;
mod hints;
mod keys;
mod questions;
mod risk;
mod rows;
mod state;
mod theme;
mod tty;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use crossterm::event::{Event, KeyEventKind};
use toolgate_client::Decision;

use self::state::{Effect, Now, State};
use self::tty::Tty;
use super::desk::Desk;
use super::plain;
use super::sources::{LOOK_EVERY, News, Sources};
use crate::cli::call::pending_if_none;
use crate::cli::exit::{Exit, Failure};
use crate::cli::interrupts::Interrupts;
use crate::cli::prompt;
use crate::cli::terminal::Terminal;

pub(super) use self::tty::can_show;

/// How long a person who leaves waits until services have taken the last replies.
const LAST_REPLIES: Duration = Duration::from_secs(3);

type Editing = Pin<Box<dyn Future<Output = io::Result<String>> + Send>>;

enum Step {
    News(usize, News),
    Event(io::Result<Event>),
    Edited(io::Result<String>),
    Look,
    Time,
    Interrupt,
    /// Whoever leaves does not wait any longer.
    Late,
}

/// Answers until the person leaves, or no service is left that takes replies.
pub(super) async fn serve(
    terminal: &Terminal,
    name: String,
    mut sources: Sources,
    mut interrupts: Interrupts,
) -> Result<Exit, Failure> {
    let mut desk = Desk::default();
    let mut state = State::new(name, Now::read());
    let mut tty = Tty::take(terminal.out.0, terminal.shows_notes).map_err(Failure::Terminal)?;
    let mut editing: Option<Editing> = None;
    let mut look = tokio::time::interval(LOOK_EVERY);
    let mut leaving: Option<(Exit, Pin<Box<tokio::time::Sleep>>)> = None;
    loop {
        if let Some((exit, _)) = leaving.as_ref().filter(|_| !desk.expects_results()) {
            return Ok(*exit);
        }
        let connected = sources.list.iter().filter(|source| source.requests.is_some());
        let wanted = sources.list.iter().filter(|source| !source.is_over());
        state.services.set(connected.count(), wanted.count());
        tty.draw(&mut state).map_err(Failure::Terminal)?;
        let change = state.changes_in(Now::read());
        let mut change = change.map(|pause| Box::pin(tokio::time::sleep(pause)));
        let mut late = leaving.as_mut().map(|(_, late)| late);
        let step = tokio::select! {
            Some((index, news)) = sources.next() => Step::News(index, news),
            event = tty.event() => Step::Event(event),
            edited = pending_if_none(&mut editing) => Step::Edited(edited),
            () = pending_if_none(&mut change) => Step::Time,
            _ = look.tick() => Step::Look,
            () = interrupts.next() => Step::Interrupt,
            () = pending_if_none(&mut late) => Step::Late,
        };
        let now = Now::read();
        let effect = match step {
            Step::News(index, news) => {
                for told in desk.hear(&mut sources, index, news).await? {
                    state.tell(&told, now);
                }
                state.set_open(desk.open(), now);
                None
            }
            Step::Event(event) => match event.map_err(Failure::Terminal)? {
                Event::Key(key) if key.kind != KeyEventKind::Release => state.key(key, now),
                Event::Paste(text) => {
                    state.paste(&text, now);
                    None
                }
                // The next picture has the new size.
                Event::Key(_) | Event::Resize(..) | Event::FocusGained | Event::FocusLost | Event::Mouse(_) => None,
            },
            Step::Edited(text) => {
                editing = None;
                tty.resume().map_err(Failure::Terminal)?;
                state.edited(text, now);
                None
            }
            Step::Look => {
                if tty::is_gone() {
                    return Ok(Exit::Interrupted);
                }
                sources.look();
                desk.give_up(&sources);
                None
            }
            Step::Time => None,
            Step::Interrupt => Some(Effect::Leave(Exit::Interrupted)),
            Step::Late => {
                drop(tty);
                terminal.inform("left before the service said that it took the last reply");
                return Ok(leaving.map_or(Exit::Interrupted, |(exit, _)| exit));
            }
        };
        match effect {
            None => {}
            Some(Effect::Decide(id, decision)) => {
                decide(&mut desk, &mut state, &sources, &id, &decision).await;
                state.set_open(desk.open(), now);
            }
            Some(Effect::Editor { text, is_command }) => {
                tty.pause();
                editing = Some(Box::pin(editor::edit(text, is_command)));
            }
            // What was decided last is on its way; whoever does not want to wait for that leaves again.
            Some(Effect::Leave(exit)) if leaving.is_none() && desk.expects_results() => {
                state.note("Leaving when the service has taken the last reply.");
                leaving = Some((exit, Box::pin(tokio::time::sleep(LAST_REPLIES))));
            }
            Some(Effect::Leave(exit)) => return Ok(exit),
            Some(Effect::Suspend) => {
                tty.suspend().await.map_err(Failure::Terminal)?;
                state.comes_up(Now::read());
            }
            Some(Effect::Redraw) => tty.clear().map_err(Failure::Terminal)?,
        }
    }
}

async fn decide(desk: &mut Desk, state: &mut State, sources: &Sources, id: &str, decision: &Decision) {
    let subject = state.prompt().map(|prompt| prompt::subject(prompt)).unwrap_or_default();
    if let Some(reply) = desk.decide(id, decision) {
        state.past(format!("{}: {subject}", plain::said(&reply)));
        desk.send(sources, reply).await;
    }
}

#[cfg(test)]
mod fixtures;
