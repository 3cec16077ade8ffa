//! What backups cost: throughput, memory and calls of a run, in comparison with the usual shell pipelines, and the
//! calls of hundreds of idle objects. docs/benchmarks.md describes how each figure is taken.

mod databases;
mod idle;
mod pipeline;
mod postgresql;
mod store;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use self::databases::Source;
use self::pipeline::Ran;
use self::store::Store;
use super::report::{Report, amount};
use super::scene::Bench;
use crate::progress::{Progress, Step};

/// The programs of the pipelines, except etcd's own tool.
pub const PACKAGES: &[&str] = &["awscli", "postgresql-client", "redis-tools", "zstd"];

/// How often our run and the pipeline alternate. The median counts.
const ROUNDS: usize = 3;
/// The most memory that a process of a Job may use, however much data it moves.
const MEMORY_KIB: f64 = 64.0 * 1024.0;
/// PostgreSQL gets only one part in this many of the data: it writes its log and indexes as well, and the data are
/// restored, not only fetched.
const POSTGRESQL_PART: usize = 4;

/// Takes all figures with `mebibytes` of data in each database.
pub fn measure(bench: &Bench, mebibytes: usize) -> Result<Report> {
    let mut steps = Progress::new(2 * databases::KINDS.len() + 3);
    let mut report = Report::default();
    let scene = bench.scene(1, 0)?;
    let store = steps.step("A bucket", |step| Store::new(bench, &scene, step))?;
    for kind in databases::KINDS {
        let name = kind.name();
        let source =
            steps.step(format!("{name} with {mebibytes} MiB"), |step| Source::filled(&scene, kind, mebibytes, step))?;
        steps.step(format!("Backups of {name} and back"), |step| {
            compare(&store, &source, mebibytes, &mut report, step)
        })?;
        source.remove(&scene)?;
    }
    let part = mebibytes / POSTGRESQL_PART;
    steps.step(format!("PostgreSQL with {part} MiB"), |step| {
        postgresql::measure(&scene, &store, part, &mut report, step)
    })?;
    drop(store);
    scene.end()?;
    steps.step(format!("{} idle DatabaseBackups", idle::OBJECTS), |step| idle::measure(bench, &mut report, step))?;
    Ok(report)
}

/// Stores and fetches the data, alternating between our run and the pipeline.
fn compare(store: &Store, source: &Source, mebibytes: usize, report: &mut Report, step: &Step) -> Result<()> {
    let (mut stored, mut piped, mut fetched, mut piped_back) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut calls = Vec::new();
    for round in 1..=ROUNDS {
        step.note(format!("round {round} of {ROUNDS}"));
        store.calls()?;
        stored.push(store.back_up(source, round)?);
        calls = store.calls()?;
        piped.push(store.pipe_out(source)?);
        fetched.push(store.fetch(source)?);
        piped_back.push(store.pipe_in(source)?);
        store.empty()?;
    }
    let name = source.kind.name();
    let ways =
        [("backup", stored, piped, source.kind.pipeline()), ("fetch", fetched, piped_back, store::PIPELINE_BACK)];
    for (way, ours, theirs, pipeline) in ways {
        let rates = Rates { ours: middle(ours)?, theirs: middle(theirs)?, mebibytes: amount(mebibytes) };
        rates.tell(&format!("{name}_{way}"), pipeline, report, step);
        let (key, kib) = (format!("{name}_{way}_rss_peak_kib"), rates.ours.peak_kib);
        report.add_with_goal(&key, kib, MEMORY_KIB, "of the one process");
        report.add(&format!("{key}_pipeline"), rates.theirs.peak_kib, "of all its processes");
    }
    report.add_calls(&format!("{name}_backup_aws_calls"), &calls, None);
    Ok(())
}

/// The run and the pipeline for the same data in one direction.
struct Rates {
    ours: Ran,
    theirs: Ran,
    mebibytes: f64,
}

impl Rates {
    fn tell(&self, key: &str, pipeline: &str, report: &mut Report, step: &Step) {
        let rate = |ran: &Ran| self.mebibytes / ran.took.as_secs_f64();
        let seconds = |ran: &Ran| format!("{:.1} s, {:.1} s of CPU", ran.took.as_secs_f64(), ran.cpu_seconds);
        let (ours, theirs) = (rate(&self.ours), rate(&self.theirs));
        report.add(&format!("{key}_mib_per_second"), ours, seconds(&self.ours));
        let described = format!("{}; {pipeline}", seconds(&self.theirs));
        report.add(&format!("{key}_mib_per_second_pipeline"), theirs, described);
        let (our_kib, their_kib) = (self.ours.peak_kib, self.theirs.peak_kib);
        step.note(format!("{key}: {ours:.0} MiB a second and {our_kib:.0} KiB beside {theirs:.0} and {their_kib:.0}"));
        let note = "goal: at least 1; the middle ones of 3 rounds in turns";
        report.add(&format!("{key}_speed_by_pipeline"), ours / theirs, note);
    }
}

/// The run with the median duration.
fn middle(mut runs: Vec<Ran>) -> Result<Ran> {
    runs.sort_by_key(|ran| ran.took);
    let index = runs.len() / 2;
    runs.into_iter().nth(index).context("no runs")
}

/// A size on disk, in bytes.
fn size(file: &Path) -> Result<u64> {
    Ok(file.metadata().with_context(|| format!("{} is missing", file.display()))?.len())
}

/// Fails if something is smaller than the data: a figure from that would be useless.
fn whole(what: &str, bytes: u64, mebibytes: usize) -> Result<()> {
    let expected = u64::try_from(mebibytes)? << 20;
    ensure!(bytes >= expected, "{what} has {bytes} bytes; {expected} were written");
    Ok(())
}

/// The longest wait of a benchmark.
const WAIT_TIMEOUT: Duration = Duration::from_mins(10);
