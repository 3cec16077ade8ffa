//! What backups cost: throughput, memory and calls of a run beside the programs that people pipe into each other, and what
//! hundreds of idle objects do. docs/benchmarks.md says how each figure is taken.

mod databases;
mod idle;
mod pipeline;
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

/// What the pipelines consist of, beside etcd's own tool.
pub const PACKAGES: &[&str] = &["awscli", "redis-tools", "zstd"];

/// Ours and theirs in turns; the middle one counts.
const ROUNDS: usize = 3;
/// No process that Jobs run may have more, however much it moves.
const MEMORY_KIB: f64 = 64.0 * 1024.0;

/// Takes all figures with so much data in each database.
pub fn measure(bench: &Bench, mebibytes: usize) -> Result<Report> {
    let mut steps = Progress::new(2 * databases::KINDS.len() + 2);
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
    drop(store);
    scene.end()?;
    steps.step(format!("{} idle DatabaseBackups", idle::OBJECTS), |step| idle::measure(bench, &mut report, step))?;
    Ok(report)
}

/// Stores and fetches, by us and by the pipeline, in turns.
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
        let (ours, theirs) = (middle(ours)?, middle(theirs)?);
        let rate = |ran: &Ran| amount(mebibytes) / ran.took.as_secs_f64();
        let seconds = |ran: &Ran| format!("{:.1} s, {:.1} s of CPU", ran.took.as_secs_f64(), ran.cpu_seconds);
        let key = |figure: &str| format!("{name}_{way}_{figure}");
        report.add(&key("mib_per_second"), rate(&ours), seconds(&ours));
        report.add(&key("mib_per_second_pipeline"), rate(&theirs), format!("{}; {pipeline}", seconds(&theirs)));
        let ratio = rate(&ours) / rate(&theirs);
        step.note(format!(
            "{way}: {:.0} MiB a second and {:.0} KiB beside {:.0} and {:.0}",
            rate(&ours),
            ours.peak_kib,
            rate(&theirs),
            theirs.peak_kib
        ));
        report.add(&key("speed_by_pipeline"), ratio, "goal: at least 1; the middle ones of 3 rounds in turns");
        report.add_with_goal(&key("rss_peak_kib"), ours.peak_kib, MEMORY_KIB, "of the one process");
        report.add(&key("rss_peak_kib_pipeline"), theirs.peak_kib, "of all its processes");
    }
    report.add_calls(&format!("{name}_backup_aws_calls"), &calls, None);
    Ok(())
}

/// The run of middle length.
fn middle(mut runs: Vec<Ran>) -> Result<Ran> {
    runs.sort_by_key(|ran| ran.took);
    let index = runs.len() / 2;
    runs.into_iter().nth(index).context("no runs")
}

/// A size on disk, in bytes.
fn size(file: &Path) -> Result<u64> {
    Ok(file.metadata().with_context(|| format!("{} is missing", file.display()))?.len())
}

/// Fails when something is smaller than what went in: a figure of that would be worth nothing.
fn whole(what: &str, bytes: u64, mebibytes: usize) -> Result<()> {
    let expected = u64::try_from(mebibytes)? << 20;
    ensure!(bytes >= expected, "{what} has {bytes} bytes; {expected} were written");
    Ok(())
}

/// How long anything may take until a benchmark gives up.
const WAIT_TIMEOUT: Duration = Duration::from_mins(10);
