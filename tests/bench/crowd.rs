//! Many clients at once, at the service and at its floor in turns.
//!
//! *Invariant:* each client waits for one call before it makes the next one; all share a few connections. Both sides have the same
//! clients, the same calls and the same time.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use crate::cost::{Cost, Meter};
use crate::service::{self, Connection, Serving, Tools};

/// How many connections the clients share.
const CONNECTIONS: usize = 4;

/// In how many parts the time is cut.
const TURNS: u32 = 3;

/// How long both are warmed up.
const WARM_UP: Duration = Duration::from_millis(300);

/// What clients have done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    calls: usize,
    time: Duration,
}

impl Rate {
    /// Returns how many calls there were in a second.
    pub(crate) fn a_second(self) -> f64 {
        self.calls as f64 / self.time.as_secs_f64()
    }

    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.time += other.time;
    }
}

/// Has so many clients work until the time is over. The work is given the numbers of the client and of its round.
pub(crate) async fn crowd<W, F>(
    connect: impl AsyncFn() -> Result<Connection>,
    clients: usize,
    time: Duration,
    work: W,
) -> Result<Rate>
where
    W: Fn(Tools, usize, usize) -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS.min(clients) {
        connections.push(connect().await?);
    }
    let begun = Instant::now();
    let mut all = JoinSet::new();
    for number in 0..clients {
        let client = service::tools(connections[number % connections.len()].clone());
        let work = work.clone();
        all.spawn(async move {
            let mut done = 0_usize;
            while begun.elapsed() < time {
                work(client.clone(), number, done).await?;
                done += 1;
            }
            anyhow::Ok(done)
        });
    }
    let mut calls = 0;
    while let Some(client) = all.join_next().await {
        calls += client??;
    }
    let time = begun.elapsed();
    Ok(Rate { calls, time })
}

/// One side of a comparison: what was done, and what a call of it cost.
pub(crate) type Side = (Rate, Cost);

/// Has the same clients work at a service, which keeps its data in a folder, and at its floor.
pub(crate) async fn both<W, F>(
    ours: (&Serving, &Path),
    floor: &Serving,
    clients: usize,
    time: Duration,
    work: W,
) -> Result<(Side, Side)>
where
    W: Fn(Tools, usize, usize) -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let (ours, data) = ours;
    for side in [ours, floor] {
        crowd(|| side.connect(), clients, WARM_UP, work.clone()).await?;
    }
    let meters = (
        Meter::start(ours.pid()?, Some(data))?,
        Meter::start(floor.pid()?, None)?,
    );
    let mut rates = (Rate::default(), Rate::default());
    for _ in 0..TURNS {
        for (side, rate) in [(ours, &mut rates.0), (floor, &mut rates.1)] {
            rate.add(crowd(|| side.connect(), clients, time / TURNS, work.clone()).await?);
        }
    }
    Ok((
        (rates.0, meters.0.each_of(rates.0.calls)?),
        (rates.1, meters.1.each_of(rates.1.calls)?),
    ))
}
