//! The state as a screen: open prompts, the one in hand, what is being done with it, and the keys, which are always in view.
//!
//! *Invariant:* draws what the state says and decides nothing. What has no room is said to be there, of the prompt and of what is done
//! with it.

use std::time::{Duration, SystemTime};

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use toolgate_contract::Prompt;

use super::always::{Always, Limit, Stage};
use super::content::{self, View};
use super::field::Field;
use super::hints;
use super::rows::{GOES_ON, NEXT_LINE, Rows, cut, printable, width_of};
use super::state::{Now, Page, State, Step, Weight};
use super::theme::Theme;
use crate::cli::prompt::subject;
use crate::cli::terminal::counted;

/// Most rows of the list of prompts.
const MOST_LISTED: usize = 5;

/// Most rows of what is wrong with rules.
const MOST_ALERT: usize = 3;

/// Rows that the prompt keeps, whatever else wants room; the last of them tells what of it has no room.
const LEAST: usize = 4;

/// From here on, what is left of the time of a prompt is told loudly.
const SOON: Duration = Duration::from_secs(30);

/// Decisions that are shown where nothing is open.
const RECENT: usize = 8;

/// Rows at the foot.
#[derive(Default)]
struct Panel {
    lines: Vec<Line<'static>>,
    /// The row that is in view, however few there are.
    focus: usize,
    /// The column of the cursor in that row, if something is written.
    cursor: Option<u16>,
}

impl Panel {
    /// Returns the rows around the one in view that have room, of which the first and the last count those that have none; and whether
    /// all are there or counted.
    fn within(mut self, rows: usize, theme: Theme) -> (Self, bool) {
        let all = self.lines.len();
        if all <= rows {
            return (self, true);
        }
        let has_marks = rows > 2;
        let last = if has_marks { rows - 2 } else { rows.saturating_sub(1) };
        let first = self.focus.saturating_sub(last).min(all - rows);
        self.lines = self.lines.split_off(first);
        self.lines.truncate(rows);
        self.focus -= first;
        let below = all - first - rows;
        let count = |sign: &str, count: usize| Line::styled(format!("{sign} {count} more"), theme.warning());
        if has_marks && first > 0 {
            self.lines[0] = count("▲", first + 1);
        }
        if has_marks && below > 0 {
            self.lines[rows - 1] = count("▼", below + 1);
        }
        (self, has_marks)
    }
}

/// Draws the state.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State, theme: Theme, now: Now) {
    let area = frame.area();
    if area.width == 0 || area.height == 0 {
        return;
    }
    // What keys there are depends on what is shown.
    let page = page(state, area.width, theme, now);
    let keys = keys(state, area.width, theme, now);
    let notice = notice(state, area.width, theme);
    let panel = panel(state, area.width, theme);
    let height = usize::from(area.height);
    // The keys first; then the prompt, what is being done with it, what was told, the list, the head.
    let keys_rows = keys.len().min(height.saturating_sub(LEAST).max(1));
    let rest = height - keys_rows;
    let lower_rows = usize::from(rest > 1);
    let least = rest.min(LEAST) - lower_rows;
    let mut free = rest - lower_rows - least;
    let mut take = |wanted: usize| {
        let rows = wanted.min(free);
        free -= rows;
        rows
    };
    let panel_rows = take(panel.lines.len());
    let upper_rows = take(1);
    let alert = alert(state, area.width, theme);
    let alert_rows = take(alert.len());
    let notice_rows = take(notice.len());
    let head_rows = take(1);
    let listed = if state.open.len() > 1 {
        state.open.len().min(MOST_LISTED)
    } else {
        0
    };
    let list_rows = take(listed.min(height / 4));
    let body_rows = least + free;

    let body = match (&page, &state.content) {
        (Some(lines), _) => lines.as_slice(),
        (None, Some((_, content))) => content.lines.as_slice(),
        (None, None) => &[],
    };
    state.drawn = (body.len(), body_rows);
    state.top = state.top.min(body.len().saturating_sub(body_rows));
    if panel_rows > 0
        && let Some(marked) = state.content.as_ref().and_then(|(_, content)| content.marked)
    {
        // What has begun leaves less room, and no keys to scroll with.
        state.top = state.top.max((marked + 1).saturating_sub(body_rows)).min(marked);
    }
    let body: Vec<Line<'static>> = body.iter().skip(state.top).take(body_rows).cloned().collect();

    let mut pen = Pen { frame, area, row: 0 };
    pen.lines(vec![head(state, area.width, theme)], head_rows);
    pen.lines(alert, alert_rows);
    pen.lines(list(state, area.width, theme, now, list_rows), list_rows);
    pen.lines(vec![upper_rule(state, area.width, theme, now)], upper_rows);
    pen.lines(body, body_rows);
    let (panel, is_whole) = panel.within(panel_rows, theme);
    pen.lines(vec![lower_rule(state, is_whole, area.width, theme)], lower_rows);
    let begin = pen.row;
    pen.lines(panel.lines, panel_rows);
    pen.lines(notice, notice_rows);
    pen.lines(keys, keys_rows);
    if let Some(column) = panel.cursor.filter(|_| panel_rows > 0) {
        let row = begin + u16::try_from(panel.focus).unwrap_or(0);
        let column = column.min(area.width - 1);
        pen.frame
            .set_cursor_position(Position::new(area.x + column, area.y + row));
    }
}

/// Writes rows from the top down.
struct Pen<'a, 'b> {
    frame: &'a mut Frame<'b>,
    area: Rect,
    row: u16,
}

impl Pen<'_, '_> {
    /// Writes lines into so many rows; rows without a line stay empty.
    fn lines(&mut self, lines: Vec<Line<'static>>, rows: usize) {
        for line in lines.iter().take(rows) {
            let (x, y) = (self.area.x, self.area.y + self.row);
            if self.row < self.area.height {
                self.frame.buffer_mut().set_line(x, y, line, self.area.width);
            }
            self.row += 1;
        }
        let empty = rows.saturating_sub(lines.len());
        self.row += u16::try_from(empty).unwrap_or(0);
    }
}

/// Puts one text at the left and one at the right of a row.
fn both(left: &str, right: &str, width: u16, style: Style) -> Line<'static> {
    let width = usize::from(width);
    let right = cut(right, width);
    let room = width.saturating_sub(width_of(&right) + 1);
    let left = cut(left, room);
    let blank = width.saturating_sub(width_of(&left) + width_of(&right));
    Line::from(vec![
        Span::styled(left, style),
        Span::raw(" ".repeat(blank)),
        Span::styled(right, style),
    ])
}

fn head(state: &State, width: u16, theme: Theme) -> Line<'static> {
    let open = match state.open.len() {
        0 => "no open prompts".to_owned(),
        count => counted(count, "open prompt"),
    };
    let services = state.services.words().map(|words| format!(" · {words}"));
    let left = format!("toolgate approve · {}", state.name);
    let right = format!("{open}{}", services.unwrap_or_default());
    both(&left, &right, width, theme.bold())
}

/// Returns what is wrong with rules, on a few rows at most.
fn alert(state: &State, width: u16, theme: Theme) -> Vec<Line<'static>> {
    let Some(text) = &state.alert else { return Vec::new() };
    let mut rows = Rows::new(width, theme);
    rows.flow(2, &[(format!("! {text}"), theme.alarm())]);
    rows.lines.truncate(MOST_ALERT);
    rows.lines
}

/// Returns so many rows of the list of open prompts, around the one in hand.
fn list(state: &State, width: u16, theme: Theme, now: Now, rows: usize) -> Vec<Line<'static>> {
    let place = state.place().unwrap_or(0);
    let first = (place + 1)
        .saturating_sub(rows.div_ceil(2))
        .min(state.open.len().saturating_sub(rows));
    let shown = state.open.iter().enumerate().skip(first).take(rows);
    shown
        .map(|(number, prompt)| {
            let is_here = number == place;
            let mark = if is_here { "▸" } else { " " };
            let style = if is_here { theme.bold() } else { theme.dim() };
            let left = format!("{mark} {} {}", number + 1, subject(prompt));
            let below = state.open.len() - number - 1;
            let mut right = vec![state.summary(prompt).to_owned()];
            right.extend(left_of(prompt, now).map(shortly));
            if number == first && first > 0 {
                right.push(format!("▲ {first} more"));
            } else if number + 1 == first + rows && below > 0 {
                right.push(format!("▼ {below} more"));
            }
            right.retain(|text| !text.is_empty());
            both(&left, &right.join("  "), width, style)
        })
        .collect()
}

/// Returns how long a prompt still waits; none if for ever.
fn left_of(prompt: &Prompt, now: Now) -> Option<Duration> {
    let end = SystemTime::try_from(prompt.expire_time?).ok()?;
    Some(end.duration_since(now.time).unwrap_or_default())
}

/// Says how long something takes, as a clock: `0:42`, `1:00:05`.
fn shortly(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        hours => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Says how long ago something was.
fn ago(then: SystemTime, now: Now) -> String {
    let seconds = now.time.duration_since(then).unwrap_or_default().as_secs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// Returns a rule with words in it.
fn rule(words: Vec<(String, Style)>, width: u16, theme: Theme) -> Line<'static> {
    let width = usize::from(width);
    let mut spans = vec![Span::styled("──".to_owned(), theme.dim())];
    let mut used = 2;
    for (text, style) in words {
        let text = cut(&format!(" {text} "), width.saturating_sub(used + 1));
        used += width_of(&text) + 1;
        spans.push(Span::styled(text, style));
        spans.push(Span::styled("─".to_owned(), theme.dim()));
    }
    spans.push(Span::styled("─".repeat(width.saturating_sub(used)), theme.dim()));
    Line::from(spans)
}

fn upper_rule(state: &State, width: u16, theme: Theme, now: Now) -> Line<'static> {
    let mut words = Vec::new();
    match state.page {
        Page::History => words.push(("the last decisions".to_owned(), theme.plain())),
        Page::Help => words.push(("what the keys do".to_owned(), theme.plain())),
        Page::Prompt => {
            if let (Some(place), true) = (state.place(), state.open.len() > 1) {
                words.push((format!("{} of {}", place + 1, state.open.len()), theme.plain()));
            }
            if let Some(left) = state.prompt().and_then(|prompt| left_of(prompt, now)) {
                let style = if left < SOON { theme.alarm() } else { theme.plain() };
                words.push((format!("expires in {}", shortly(left)), style));
            }
        }
    }
    rule(words, width, theme)
}

/// Returns the rule below what is shown, which counts the rows that have no room; `is_whole` if it need not say that of those below.
fn lower_rule(state: &State, is_whole: bool, width: u16, theme: Theme) -> Line<'static> {
    let (all, room) = state.drawn;
    let mut words = Vec::new();
    if !is_whole {
        words.push(("terminal too small".to_owned(), theme.alarm()));
    }
    let last = (state.top + room).min(all);
    if last < all {
        let mut text = format!("▼ {} more", all - last);
        let content = state.content.as_ref().filter(|_| state.page == Page::Prompt);
        if content.is_some_and(|(_, content)| content.marked.is_some_and(|row| row >= last)) {
            text += ", ! among them";
        }
        words.push((text, theme.warning()));
    }
    if state.top > 0 {
        words.push((format!("▲ {} more", state.top), theme.plain()));
    }
    rule(words, width, theme)
}

/// Returns the rows of what is no prompt; none if one is shown, whose rows are then in the state.
fn page(state: &mut State, width: u16, theme: Theme, now: Now) -> Option<Vec<Line<'static>>> {
    match state.page {
        Page::History => return Some(history(state, usize::MAX, width, theme, now)),
        Page::Help => return Some(help(width, theme)),
        Page::Prompt => {}
    }
    let Some(prompt) = state.prompt().cloned() else {
        return Some(nothing_open(state, width, theme, now));
    };
    let drawn = state.content.take().filter(|(drawn, _)| *drawn == width);
    let (_, content) = drawn.unwrap_or_else(|| {
        let view = View {
            width,
            theme,
            folds: &state.folds,
            others_of_session: state.others_of_session(),
        };
        (width, content::of(&prompt, state.answers(), &view))
    });
    state.content = Some((width, content));
    None
}

fn nothing_open(state: &State, width: u16, theme: Theme, now: Now) -> Vec<Line<'static>> {
    let mut rows = Rows::new(width, theme);
    let text = if state.services.connected > 0 {
        "No open prompts; new ones appear here."
    } else {
        "Not connected; what is open appears here when the service answers."
    };
    rows.flow(0, &[(text.to_owned(), theme.plain())]);
    if !state.history.is_empty() {
        rows.blank();
    }
    rows.lines.extend(history(state, RECENT, width, theme, now));
    rows.lines
}

fn history(state: &State, most: usize, width: u16, theme: Theme, now: Now) -> Vec<Line<'static>> {
    let mut rows = Rows::new(width, theme);
    if state.history.is_empty() && most > RECENT {
        rows.flow(
            0,
            &[(
                "Nothing has been decided since this approver began.".to_owned(),
                theme.dim(),
            )],
        );
    }
    for past in state.history.iter().take(most) {
        rows.flow(
            10,
            &[
                (format!("{:>9} ", ago(past.when, now)), theme.dim()),
                (format!("{}: ", past.subject), theme.plain()),
                (past.outcome.clone(), theme.bold()),
            ],
        );
    }
    rows.lines
}

fn help(width: u16, theme: Theme) -> Vec<Line<'static>> {
    let mut rows = Rows::new(width, theme);
    for (key, what) in hints::HELP {
        rows.flow(
            8,
            &[(format!("{key:<7} "), theme.bold()), (what.to_owned(), theme.plain())],
        );
    }
    rows.lines
}

fn notice(state: &State, width: u16, theme: Theme) -> Vec<Line<'static>> {
    let Some((weight, text)) = &state.notice else {
        return Vec::new();
    };
    let style = match weight {
        Weight::Note | Weight::Past => theme.good(),
        Weight::Problem => theme.bad(),
    };
    let mut rows = Rows::new(width, theme);
    rows.flow(2, &[(text.clone(), style)]);
    rows.lines
}

/// Returns the rows of the step that a key has begun.
fn panel(state: &State, width: u16, theme: Theme) -> Panel {
    if state.page != Page::Prompt {
        return Panel::default();
    }
    match &state.step {
        Step::Deciding => Panel::default(),
        Step::Answering(answers) => match &answers.writing {
            Some(field) => written("Your answer", None, field, width, theme),
            None => Panel::default(),
        },
        Step::Message(field) => written("What should the model be told?", None, field, width, theme),
        Step::Editing(field, problem) => written("What runs instead", problem.as_deref(), field, width, theme),
        Step::Always(always) => always_panel(always, width, theme),
        Step::Gone(why) => {
            let mut rows = Rows::new(width, theme);
            rows.flow(2, &[(why.clone(), theme.warning())]);
            rows.flow(2, &[("What you had begun was not sent.".to_owned(), theme.bold())]);
            Panel {
                lines: rows.lines,
                ..Panel::default()
            }
        }
    }
}

/// Returns a text that is written, below what is asked and what is wrong with it.
fn written(asked: &str, problem: Option<&str>, field: &Field, width: u16, theme: Theme) -> Panel {
    let mut rows = Rows::new(width, theme);
    rows.flow(2, &[(asked.to_owned(), theme.bold())]);
    if let Some(problem) = problem {
        rows.flow(2, &[(problem.to_owned(), theme.bad())]);
    }
    let mut lines = rows.lines;
    let shown = field.show(width.saturating_sub(2));
    let begin = lines.len();
    for (number, row) in shown.rows.into_iter().enumerate() {
        let margin = match number {
            0 => "> ",
            _ if shown.goes_on.contains(&number) => GOES_ON,
            _ => NEXT_LINE,
        };
        lines.push(Line::from(vec![
            Span::styled(margin.to_owned(), theme.dim()),
            Span::styled(row, theme.command()),
        ]));
    }
    let (column, row) = shown.cursor;
    Panel {
        lines,
        focus: begin + usize::from(row),
        cursor: Some(column + 2),
    }
}

fn always_panel(always: &Always, width: u16, theme: Theme) -> Panel {
    let mut rows = Rows::new(width, theme);
    rows.flow(
        2,
        &[(
            "Allow this call, and from now on what matches:".to_owned(),
            theme.bold(),
        )],
    );
    let mut focus = 0;
    for (number, choice) in always.choices.iter().enumerate() {
        let is_here = number == always.at;
        let here = if is_here { "▸" } else { " " };
        let chosen = if choice.is_chosen { "[x]" } else { "[ ]" };
        let style = if choice.is_chosen { theme.bold() } else { theme.plain() };
        let mut row = vec![(format!("{here} {chosen} {}", printable(&choice.pattern)), style)];
        if choice.is_broad {
            row.push(("  broad".to_owned(), theme.warning()));
        }
        rows.flow(6, &row);
        if is_here {
            focus = rows.lines.len() - 1;
        }
    }
    if let Some(problem) = &always.problem {
        rows.flow(2, &[(problem.clone(), theme.bad())]);
    }
    let mut panel = Panel {
        focus,
        ..Panel::default()
    };
    match &always.stage {
        Stage::Choosing => {}
        Stage::ForGood => {
            let text = "For good means: in every later run of the service, until somebody revokes it.";
            rows.flow(2, &[(text.to_owned(), theme.warning())]);
            panel.focus = rows.lines.len() - 1;
        }
        Stage::Limit(limit, field) => {
            let asked = match limit {
                Limit::Time => "For how long? (30m, 2h)",
                Limit::Uses => "How many further times? (a number)",
            };
            let below = written(asked, None, field, width, theme);
            panel.focus = rows.lines.len() + below.focus;
            panel.cursor = below.cursor;
            rows.lines.extend(below.lines);
        }
    }
    panel.lines = rows.lines;
    panel
}

/// Returns the keys in as many rows as they need; dim as long as none of them decides.
fn keys(state: &State, width: u16, theme: Theme, now: Now) -> Vec<Line<'static>> {
    let width = usize::from(width);
    let is_ready = state.is_ready(now) || state.prompt().is_none();
    let mut lines = Vec::new();
    let mut row: Vec<Span<'static>> = Vec::new();
    let mut used = 0;
    for (key, what) in hints::of(state) {
        let size = width_of(key) + 1 + width_of(what);
        if used > 0 && used + 2 + size > width {
            lines.push(Line::from(std::mem::take(&mut row)));
            used = 0;
        }
        if used > 0 {
            row.push(Span::raw("  "));
            used += 2;
        }
        let (key_style, style) = if is_ready {
            (theme.key(), theme.plain())
        } else {
            (theme.dim(), theme.dim())
        };
        row.push(Span::styled(key, key_style));
        row.push(Span::styled(format!(" {what}"), style));
        used += size;
    }
    lines.push(Line::from(row));
    lines
}

#[cfg(test)]
mod tests;
