//! What a `Redis` costs to create, and what two hundred idle ones cost. docs/benchmarks.md describes how each figure is
//! taken.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::databases::{DATABASE_TIMEOUT, Database, idle, is_ready};
use super::report::{Report, amount};
use super::scene::Bench;
use crate::progress::{Progress, Step};

const REDIS: Database = Database { api: "example.com/v1", kind: "Redis", plural: "redises", pods: "redis" };
const PORT: u16 = 6379;
const NAME: &str = "cache";
const ROUNDS: usize = 5;
/// A node that sends nothing for this long does not answer any more.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Takes all figures.
pub fn measure(bench: &Bench) -> Result<Report> {
    let mut steps = Progress::new(2);
    let mut report = Report::default();
    steps.step("From the apply to a master and its replicas", |step| begin(bench, &mut report, step))?;
    let asked = idle::Asked { calls: "commands", served, asking: 1.0, others: connections };
    steps.step(format!("{} idle masters", idle::OBJECTS), |step| {
        idle::measure(bench, &mut report, step, (&REDIS, &spec(0)), &asked)
    })?;
    Ok(report)
}

/// A master with `replicas` replicas.
fn spec(replicas: usize) -> Value {
    json!({ "replicas": replicas, "storage": { "size": "1Gi" } })
}

fn begin(bench: &Bench, report: &mut Report, step: &Step) -> Result<()> {
    for replicas in [0, 3] {
        step.note(format!("{replicas} replicas"));
        let mut took = Vec::new();
        // The first round opens connections and unpacks the image, so it is not counted.
        for round in 0..=ROUNDS {
            let scene = bench.scene(u64::try_from(replicas * 10 + round)?, 0)?;
            let mut operator = scene.operator("1h")?;
            operator.ready()?;
            let watch = REDIS.watch(&scene)?;
            let begun = Instant::now();
            REDIS.apply(&scene, NAME, spec(replicas))?;
            let ready = watch.until("all nodes to serve", DATABASE_TIMEOUT, is_ready)?;
            took.push(ready.duration_since(begun));
            scene.delete_other(&REDIS.path(), &format!("{}/{NAME}", REDIS.plural))?;
            watch.until("the set to be gone", DATABASE_TIMEOUT, |event| event.deleted)?;
            operator.stop()?;
            scene.end()?;
        }
        took.remove(0);
        let how = "server-side apply to the condition Ready in a watch";
        report.add_median(&format!("apply_to_ready_ms_p50_{replicas}_replicas"), &mut took, how);
    }
    Ok(())
}

/// How many commands the nodes have executed so far.
fn served(nodes: &[String]) -> Result<f64> {
    nodes.iter().try_fold(0.0, |sum, node| Ok(sum + figure(node, "stats", "total_commands_processed")?))
}

fn connections(nodes: &[String], report: &mut Report) -> Result<()> {
    // Without our own connection.
    let of = |node: &String| Ok(figure(node, "clients", "connected_clients")? - 1.0);
    let all: f64 = nodes.iter().map(of).sum::<Result<f64>>()?;
    report.add("connections_per_idle_node", all / amount(nodes.len()), "of the operator, held open");
    Ok(())
}

/// A number in a node's answer to INFO. <https://redis.io/docs/latest/commands/info/>
fn figure(node: &str, section: &str, name: &str) -> Result<f64> {
    let mut line = TcpStream::connect((node, PORT)).with_context(|| format!("{node} does not answer"))?;
    line.set_read_timeout(Some(READ_TIMEOUT))?;
    write!(line, "INFO {section}\r\n")?;
    let mut reader = BufReader::new(line);
    let mut head = String::new();
    reader.read_line(&mut head)?;
    let Some(length) = head.trim_end().strip_prefix('$').and_then(|length| length.parse().ok()) else {
        bail!("{node} answers {head:?}");
    };
    let mut text = vec![0; length];
    reader.read_exact(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.parse().ok()).with_context(|| format!("{node} tells no {name}"))
}
