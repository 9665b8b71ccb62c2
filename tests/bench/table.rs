//! The table of figures.
//!
//! *Invariant:* every row says what was measured, against what, the absolute figures, and the target of the design.

#![allow(dead_code)] // two benchmarks share this, and each has its own part of it

use std::time::Duration;

use crate::cost::Cost;
use crate::measure::Samples;

/// One figure.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    what: String,
    ours: String,
    floor: String,
    figure: String,
    target: String,
    is_met: Option<bool>,
    /// What a call cost, here and at the floor.
    costs: Option<(Cost, Option<Cost>)>,
}

impl Row {
    /// Returns what was measured.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// Says what a call of this work cost, and what it cost at the floor.
    pub(crate) fn costing(self, ours: Cost, floor: Option<Cost>) -> Self {
        let costs = Some((ours, floor));
        Self { costs, ..self }
    }

    /// Says in the place of a floor what the work is done with.
    pub(crate) fn beside(self, what: &str) -> Self {
        let floor = what.to_owned();
        Self { floor, ..self }
    }

    /// A row whose figure is the processor time of a call.
    pub(crate) fn processor(what: &str, ours: &Cost, floor: (&str, &Cost), target: Duration) -> Self {
        Self {
            figure: show_processor(ours.processor),
            target: show_processor(target),
            is_met: Some(ours.processor <= target),
            ..Self::processor_ratio(what, ours, floor, f64::INFINITY)
        }
    }

    /// A row whose figure is the ratio of the processor times of two calls.
    pub(crate) fn processor_ratio(what: &str, ours: &Cost, floor: (&str, &Cost), target: f64) -> Self {
        let (name, floor) = floor;
        let ratio = ours.processor.as_secs_f64() / floor.processor.as_secs_f64();
        Self {
            what: what.to_owned(),
            ours: show_processor(ours.processor),
            floor: format!("{name} {}", show_processor(floor.processor)),
            figure: format!("{ratio:.2} x"),
            target: format!("{target} x"),
            is_met: Some(ratio <= target),
            costs: None,
        }
    }

    /// A row whose figure is what stays on the disk, as a multiple of what would have to.
    pub(crate) fn disk(what: &str, ours: u64, floor: (&str, u64), target: f64) -> Self {
        let ratio = ours as f64 / floor.1 as f64;
        Self {
            what: what.to_owned(),
            ours: show_size(ours),
            floor: format!("{} {}", floor.0, show_size(floor.1)),
            figure: format!("{ratio:.2} x"),
            target: format!("{target} x"),
            is_met: Some(ratio <= target),
            costs: None,
        }
    }

    /// A row whose figure is the ratio of two medians. Without a target the row is there to explain another one.
    pub(crate) fn ratio(what: &str, ours: &Samples, floor: (&str, &Samples), target: Option<f64>) -> Self {
        let (name, floor) = floor;
        let ratio = ours.median().as_secs_f64() / floor.median().as_secs_f64();
        Self {
            what: what.to_owned(),
            ours: ours.to_string(),
            floor: format!("{name} {floor}"),
            figure: format!("{ratio:.2} x"),
            target: target.map_or_else(String::new, |target| format!("{target} x")),
            is_met: target.map(|target| ratio <= target),
            costs: None,
        }
    }

    /// A row whose figure is a time.
    pub(crate) fn time(what: &str, ours: &Samples, figure: Duration, target: Duration) -> Self {
        Self {
            what: what.to_owned(),
            ours: ours.to_string(),
            floor: String::new(),
            figure: show_time(figure),
            target: show_time(target),
            is_met: Some(figure <= target),
            costs: None,
        }
    }

    /// A row that is there to be known, and is not judged.
    pub(crate) fn told(what: &str, detail: String, figure: String) -> Self {
        Self {
            what: what.to_owned(),
            ours: detail,
            floor: String::new(),
            figure,
            target: String::new(),
            is_met: None,
            costs: None,
        }
    }

    /// A row whose figure is an amount of memory.
    pub(crate) fn memory(what: &str, detail: String, bytes: u64, target: u64) -> Self {
        Self {
            what: what.to_owned(),
            ours: detail,
            floor: String::new(),
            figure: show_bytes(bytes),
            target: show_bytes(target),
            is_met: Some(bytes <= target),
            costs: None,
        }
    }

    /// The same of little memory.
    pub(crate) fn kib(what: &str, detail: String, bytes: u64, target: u64) -> Self {
        Self {
            figure: show_size(bytes),
            target: show_size(target),
            ..Self::memory(what, detail, bytes, target)
        }
    }

    /// A row whose figure is a share of one core, in per cent.
    pub(crate) fn share(what: &str, share: f64, target: f64) -> Self {
        Self {
            what: what.to_owned(),
            ours: String::new(),
            floor: String::new(),
            figure: format!("{share:.1} %"),
            target: format!("{target} %"),
            is_met: Some(share <= target),
            costs: None,
        }
    }

    /// A row whose figure is the ratio of two medians, and which is judged by a time.
    pub(crate) fn ratio_within(what: &str, ours: &Samples, floor: (&str, &Samples), target: Duration) -> Self {
        Self {
            target: show_time(target),
            is_met: Some(ours.median() <= target),
            ..Self::ratio(what, ours, floor, None)
        }
    }

    /// A row whose figure is by how much one percentile is above the same one of the floor.
    pub(crate) fn more(what: &str, percent: usize, ours: &Samples, floor: (&str, &Samples), target: Duration) -> Self {
        let more = ours.percentile(percent).saturating_sub(floor.1.percentile(percent));
        Self {
            figure: format!("+ {}", show_time(more)),
            target: format!("+ {}", show_time(target)),
            is_met: Some(more <= target),
            ..Self::ratio(what, ours, floor, None)
        }
    }

    /// A row whose figure is how often the growth of memory contains something of `size` bytes.
    pub(crate) fn multiple(what: &str, before: u64, peak: u64, size: u64, target: f64) -> Self {
        let multiple = peak.saturating_sub(before) as f64 / size as f64;
        Self {
            what: what.to_owned(),
            ours: format!("{} to {}", show_bytes(before), show_bytes(peak)),
            floor: format!("file {}", show_bytes(size)),
            figure: format!("{multiple:.1} x"),
            target: format!("{target} x"),
            is_met: Some(multiple <= target),
            costs: None,
        }
    }

    /// A row whose figure is a count.
    pub(crate) fn count(what: &str, detail: String, count: usize, target: usize) -> Self {
        Self {
            what: what.to_owned(),
            ours: detail,
            floor: String::new(),
            figure: count.to_string(),
            target: target.to_string(),
            is_met: Some(count <= target),
            costs: None,
        }
    }

    /// A row whose figure is how often something is done in a second.
    pub(crate) fn rate(what: &str, ours: f64, floor: (&str, f64), target: Option<f64>) -> Self {
        Self {
            what: what.to_owned(),
            ours: format!("{:.2} x", ours / floor.1),
            floor: format!("{} {:.0}", floor.0, floor.1),
            figure: format!("{ours:.0}"),
            target: target.map_or_else(String::new, |target| format!("{target:.0}")),
            is_met: target.map(|target| ours >= target),
            costs: None,
        }
    }

    /// Returns its cells, in the order of [`HEAD`].
    pub(crate) fn cells(&self) -> [String; COLUMNS] {
        let verdict = match self.is_met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        let both = |show: &dyn Fn(&Cost) -> Option<String>| match &self.costs {
            None => String::new(),
            Some((ours, floor)) => {
                let shown = show(ours).into_iter().chain(floor.as_ref().and_then(show));
                shown.collect::<Vec<_>>().join(" / ")
            }
        };
        [
            self.what.clone(),
            self.ours.clone(),
            self.floor.clone(),
            both(&|cost| Some(show_processor(cost.processor))),
            both(&|cost| cost.disk.map(show_size)),
            both(&|cost| Some(show_bytes(cost.peak))),
            self.figure.clone(),
            self.target.clone(),
            verdict.to_owned(),
        ]
    }
}

/// How many columns there are.
pub(crate) const COLUMNS: usize = 9;

/// What the columns are about.
pub(crate) const HEAD: [&str; COLUMNS] = [
    "work",
    "Toolgate: p50 / p99",
    "floor: p50 / p99",
    "processor a call / floor",
    "disk a call / floor",
    "peak memory / floor",
    "figure",
    "target",
    "",
];

/// Writes a time with three digits that count.
pub(crate) fn show_time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..0.001 => format!("{:.0} us", seconds * 1e6),
        ..0.010 => format!("{:.2} ms", seconds * 1e3),
        ..1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

/// Writes processor time in microseconds, unless it is much.
fn show_processor(time: Duration) -> String {
    if time < Duration::from_millis(10) {
        format!("{} us", time.as_micros())
    } else {
        show_time(time)
    }
}

/// Writes a number of bytes in MiB.
pub(crate) fn show_bytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Writes a number of bytes in KiB.
pub(crate) fn show_size(bytes: u64) -> String {
    format!("{:.1} KiB", bytes as f64 / 1024.0)
}

/// Renders the rows.
pub(crate) fn render(rows: &[Row]) -> String {
    let head = HEAD.map(str::to_owned);
    let lines: Vec<[String; COLUMNS]> = std::iter::once(head).chain(rows.iter().map(Row::cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        for (column, cell) in line.iter().enumerate() {
            let pad = widths[column] - cell.chars().count();
            // Figures and targets are compared by eye, so they stand under one another.
            let is_figure = column == 6 || column == 7;
            let (before, after) = if is_figure { (pad, 0) } else { (0, pad) };
            text.push_str(&" ".repeat(before));
            text.push_str(cell);
            text.push_str(&" ".repeat(after + 2));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}
