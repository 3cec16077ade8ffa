//! Many objects: created at once, waited for together, left idle, and deleted.

use std::collections::HashSet;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use super::aws::{Account, Call};
use super::kubernetes::{Event, Watch};
use super::scene::{Scene, shows_dns};
use crate::progress::Step;

/// How many apply calls run at the same time, so that applying does not dominate the measured time.
const APPLIERS: usize = 8;

/// Sweeps in an hour by default: one every five minutes.
pub const SWEEPS_PER_HOUR: f64 = 12.0;

/// The times from the first apply until all objects reached a state.
pub struct Took {
    /// All were applied.
    pub applied: Duration,
    /// All showed a DNS name.
    pub named: Duration,
}

/// Applies many objects of one spec at once, and waits until each is `good`.
pub fn create(
    scene: &Scene,
    watch: &Watch,
    range: Range<usize>,
    spec: &Value,
    timeout: Duration,
    good: fn(&Event) -> bool,
) -> Result<Took> {
    let begun = Instant::now();
    let applied = apply(scene, range.clone(), spec)?.duration_since(begun);
    let (mut with_name, mut done) = (HashSet::new(), HashSet::new());
    let mut last_named = begun;
    let last = watch.wait_until(&format!("{} objects to be ready", range.len()), timeout, |event| {
        if shows_dns(event) && with_name.insert(event.name().to_owned()) {
            last_named = event.at;
        }
        if good(event) {
            done.insert(event.name().to_owned());
        }
        done.len() == range.len()
    });
    last.with_context(|| format!("{} are", done.len()))?;
    Ok(Took { applied, named: last_named.duration_since(begun) })
}

fn apply(scene: &Scene, range: Range<usize>, spec: &Value) -> Result<Instant> {
    let names: Vec<String> = range.map(|index| format!("object-{index}")).collect();
    thread::scope(|scope| {
        let appliers: Vec<_> = names
            .chunks(names.len().div_ceil(APPLIERS))
            .map(|names| scope.spawn(move || names.iter().try_for_each(|name| scene.apply_spec(name, spec))))
            .collect();
        appliers.into_iter().try_for_each(|applier| applier.join().map_err(|_| anyhow!("an applier panicked"))?)
    })?;
    Ok(Instant::now())
}

/// Deletes all objects, `count` of them. Returns how long it took until the last one was gone.
pub fn remove(scene: &Scene, watch: &Watch, count: usize, timeout: Duration) -> Result<Duration> {
    let begun = Instant::now();
    scene.delete_all()?;
    let mut left = count;
    let end = watch.wait_until("all to be gone", timeout, |event| {
        left -= usize::from(event.deleted);
        left == 0
    });
    Ok(end.with_context(|| format!("{left} are left"))?.duration_since(begun))
}

/// The calls of the next sweep. It is over after three seconds without a call.
pub fn next_sweep(account: &Account, step: &Step) -> Result<Vec<Call>> {
    let quiet = Duration::from_secs(3);
    let mut calls: Vec<Call> = Vec::new();
    let mut last = Instant::now();
    step.wait_for("a sweep and its end", Duration::from_mins(5), || {
        let more = account.calls()?;
        if !more.is_empty() {
            last = Instant::now();
            calls.extend(more);
        }
        Ok((!calls.is_empty() && last.elapsed() > quiet).then_some(()))
    })?;
    Ok(calls)
}
