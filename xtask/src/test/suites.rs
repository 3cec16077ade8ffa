//! The test suites: how each is run, and how its results are counted.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::processors::Moment;
use super::queue::{self, Done};
use super::report::{Outcome, Tests};
use super::{cargo as in_checkout, directory, log, nice_cargo, turns};
use crate::cluster::Cluster;
use crate::localstack::LocalStack;
use crate::progress::Step;
use crate::{clients, host, judge, rights};

/// A line of a test's output that begins with this is shown even if the test passes.
const FIGURE: &str = "» ";

/// How many lines of a suite's failures are shown. Its log has the rest.
pub const SHOWN_LINES: usize = 300;
/// How many lines of one failed integration test are shown: the first ones are its panic, and the last ones describe
/// its objects.
const SHOWN_OF_ONE: usize = 60;
/// How many characters of each of these lines are shown.
const SHOWN_OF_LINE: usize = 400;
/// How many of the slowest tests are named.
const SLOWEST: usize = 10;

/// The tests that Cargo runs.
pub enum Suite<'a> {
    /// The tests beside the code, in all crates.
    Unit {
        /// True if other work has priority.
        behind: bool,
    },
    /// The tests of `tests/`, in the cluster's network.
    Integration {
        /// The program with the tests.
        program: &'a Path,
        /// The cluster in which they run.
        cluster: &'a Cluster,
        /// The server that they use as AWS.
        localstack: &'a LocalStack<'a>,
        /// True if all cases run instead of a sample.
        thorough: bool,
    },
}

/// Keeps other pods away from the nodes that tests take away.
const TAINT: &str = "causeway.example.com/spare=:NoSchedule";

/// The prefix of the test for `cargo xtask soak`, which has a cluster of its own.
const SOAK: &str = "soak::all";

/// Runs a suite, or those of its tests whose names contain `filter`.
pub fn cargo(suite: &Suite, filter: Option<&str>, step: &Step) -> Result<Outcome> {
    let tests = match suite {
        Suite::Unit { behind } => {
            let cargo = nice_cargo(if *behind { 10 } else { 0 }, ["test", "--workspace", "--lib", "--bins"])?;
            run(cargo, filter, step)?
        }
        Suite::Integration { program, cluster, localstack, thorough } => {
            side_by_side(program, cluster, localstack, *thorough, filter, step)?
        }
    };
    Ok(Outcome::Tests(tests))
}

/// The longest that one test may take.
const LONGEST: Duration = Duration::from_mins(12);
/// The longest that one test may take if all cases run.
const LONGEST_THOROUGH: Duration = Duration::from_hours(6);

/// Runs the integration tests whose names contain the filter, in the cluster's network.
fn side_by_side(
    program: &Path,
    cluster: &Cluster,
    localstack: &LocalStack,
    thorough: bool,
    filter: Option<&str>,
    step: &Step,
) -> Result<Tests> {
    let (sample, judge) = (sample()?, judge::build(step)?);
    let wanted = |name: &String| !name.starts_with(SOAK) && filter.is_none_or(|filter| name.contains(filter));
    let names: Vec<_> = names_in(program)?.into_iter().filter(wanted).collect();
    let (names, left) = if thorough || filter.is_some() {
        (names, 0)
    } else {
        let seed = usize::from_str_radix(&sample, 16).with_context(|| format!("{SAMPLE}={sample} is no number"))?;
        turns::of_this_run(names, seed)
    };
    if names.iter().any(|name| name.starts_with(queue::LOST_NODES)) {
        (2..=3).try_for_each(|number| cluster.add_node(number, Some(TAINT), step))?;
    }
    // Times are shared by all checkouts, so that even a fresh clone knows which tests take longest.
    let kept = host::cache_dir()?.join("test-times.json");
    let mut times: BTreeMap<String, f64> =
        fs::read(&kept).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let clients = clients::prepare(step)?;
    let start = |name: &str| {
        // Tests end with the run. Their priority is below that of the cluster and LocalStack, because many tests wait
        // for these.
        let mut command = cluster.in_network("setpriv");
        command
            .args(["--pdeathsig", "KILL", "nice", "-n", "5"])
            .arg(program)
            .args(["--exact", name, "--nocapture"])
            .current_dir(host::repo_root()?)
            .env("KUBECONFIG", cluster.kubeconfig())
            .env(rights::VARIABLE, cluster.operators_kubeconfig())
            .env("CAUSEWAY_TEST_NODE", cluster.root())
            .env("AWS_ENDPOINT_URL", &localstack.endpoint)
            .env("AWS_REGION", "us-east-1")
            .env(SAMPLE, &sample)
            .envs(clients.clone())
            .env(judge::VARIABLE, &judge)
            // A failed wait names its place and the last state. A backtrace would hide that.
            .env("RUST_BACKTRACE", "0")
            .envs(thorough.then_some(("CAUSEWAY_THOROUGH", "yes")));
        Ok(command)
    };
    let longest = if thorough { LONGEST_THOROUGH } else { LONGEST };
    let order = queue::order(names, &times);
    let begin = Moment::now(cluster);
    // Nodes that are no longer needed would still receive every change in the cluster.
    let no_more_nodes = || {
        if let Err(error) = (2..=3).try_for_each(|number| cluster.end_node(number)) {
            step.note(format!("the nodes that tests have lost stay: {error:#}"));
        }
    };
    let done = queue::run(order, longest, &directory()?.join("integration"), step, start, no_more_nodes)?;
    let end = Moment::now(cluster);
    times.extend(done.iter().map(|test| (test.name.clone(), test.took.as_secs_f64())));
    fs::write(&kept, serde_json::to_vec_pretty(&times)?).with_context(|| format!("cannot write {}", kept.display()))?;
    let mut tests = counted(&done);
    let seen = end.times_since(&begin, &done).into_iter();
    let chosen = format!("cases chosen by {SAMPLE}={sample}, which leaves {left} tests to other commits");
    tests.figures.extend(seen.chain([chosen]).map(|line| format!("{FIGURE}{line}")));
    Ok(tests)
}

/// The variable with the number that chooses a sample of cases. It is the commit, so that many commits together run all
/// cases, and one commit always runs the same. To repeat a failure, set it to the number of the failed run.
const SAMPLE: &str = "CAUSEWAY_SAMPLE";

fn sample() -> Result<String> {
    if let Ok(given) = env::var(SAMPLE) {
        return Ok(given);
    }
    let mut git = Command::new("git");
    let output = git.args(["rev-parse", "--short=8", "HEAD"]).current_dir(host::repo_root()?).output();
    let commit = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    // If there is no git, or if git needs more than eight digits to make the hash unique.
    Ok(commit.get(..8).unwrap_or("0").to_owned())
}

/// The program with the integration tests, which is already compiled.
pub fn integration_tests() -> Result<PathBuf> {
    // Without `--workspace` dependencies would have fewer features, and would be compiled again.
    let mut command =
        in_checkout(["test", "--workspace", "--no-run", "--test", "integration", "--message-format", "json"])?;
    let output = command.arg("--offline").output().context("cannot start cargo")?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut executables = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_test = message["target"]["name"] == "integration";
        message["executable"].as_str().filter(|_| is_test).map(PathBuf::from)
    });
    match executables.next_back() {
        Some(executable) => Ok(executable),
        None => bail!("cargo names no integration tests: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// The names of all tests of a program.
fn names_in(binary: &Path) -> Result<Vec<String>> {
    let mut list = Command::new(binary);
    let output = list.args(["--list", "--format", "terse"]).output();
    let output = output.with_context(|| format!("cannot start {}", binary.display()))?;
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Counts tests that each ran in a process of their own. Contains the first and last output lines of each failed one.
fn counted(done: &[Done]) -> Tests {
    let failed: Vec<_> = done.iter().filter(|test| !test.passed).collect();
    let mut tests = Tests { passed: done.len() - failed.len(), failed: failed.len(), ..Tests::default() };
    let printed = |test: &Done| read(&test.output).unwrap_or_else(|error| format!("{error:#}"));
    for test in done {
        tests.figures.extend(printed(test).lines().filter(|line| line.starts_with(FIGURE)).map(str::to_owned));
    }
    let mut slowest: Vec<_> = done.iter().collect();
    slowest.sort_by_key(|test| std::cmp::Reverse(test.took));
    for test in slowest.into_iter().take(SLOWEST) {
        let (took, used) = (test.took.as_secs_f64(), test.processor.as_secs_f64());
        tests.figures.push(format!("{FIGURE}slowest: {took:>5.0} s, {used:>4.0} s of a processor: {}", test.name));
    }
    for test in failed {
        let why = if test.timed_out { "ended, as it ran for too long" } else { "failed" };
        let took = test.took.as_secs_f64();
        let output = printed(test);
        let mut lines: Vec<_> = output.lines().filter(|line| !line.trim().is_empty()).collect();
        let from = lines.iter().position(|line| line.starts_with("thread '")).unwrap_or_default();
        let text = format!("{} {why} after {took:.0} s ({}):\n", test.name, test.output.display());
        tests.failures.push_str(&text);
        tests.failing.push(test.name.clone());
        let mut shown: Vec<&str> = lines.split_off(from);
        if let Some(more) = shown.len().checked_sub(SHOWN_OF_ONE).filter(|more| *more > 0) {
            shown.splice(SHOWN_OF_ONE / 2..SHOWN_OF_ONE / 2 + more, ["[…]"]);
        }
        for line in shown {
            tests.failures.push_str("    ");
            tests.failures.extend(line.chars().take(SHOWN_OF_LINE));
            tests.failures.push('\n');
        }
    }
    tests
}

fn run(mut command: Command, filter: Option<&str>, step: &Step) -> Result<Tests> {
    command.arg("--no-fail-fast").args(filter).args(["--", "--show-output"]);
    let log = log("unit")?;
    let result = step.run(&mut command, &log);
    Ok(cargo_counts(&read(&log)?).judged(result))
}

/// Reads the log of a suite.
pub fn read(log: &Path) -> Result<String> {
    let bytes = fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Tests {
    /// A suite that failed without a reason in its output (a crash, a timeout) counts as failed, with the error as the
    /// reason.
    pub fn judged(mut self, result: Result<()>) -> Self {
        match result {
            Ok(()) => {
                self.failures.clear();
                self.failing.clear();
            }
            Err(error) if self.failures.is_empty() => self.failures = format!("{error:#}"),
            Err(_) => {}
        }
        self
    }
}

/// Counts the results in the output of `cargo test`, over all its binaries.
fn cargo_counts(output: &str) -> Tests {
    let mut tests = Tests::default();
    let mut shown = 0;
    let mut failing = false;
    for line in output.lines() {
        if let Some(counts) = line.strip_prefix("test result: ") {
            failing = false;
            tests.passed += count(counts, "passed");
            tests.failed += count(counts, "failed");
            tests.ignored += count(counts, "ignored");
        } else if line.starts_with(FIGURE) {
            tests.figures.push(line.to_owned());
        }
        // Count the line with the verdict, not the later output of the test.
        let verdict = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED"));
        tests.failing.extend(verdict.map(str::to_owned));
        failing |= line == "failures:";
        if failing && shown < SHOWN_LINES {
            shown += 1;
            tests.failures.push_str(line);
            tests.failures.push('\n');
        }
    }
    tests
}

/// The number before `word`.
pub fn count(line: &str, word: &str) -> usize {
    let words: Vec<&str> = line.split([' ', ';', ',', '=']).filter(|word| !word.is_empty()).collect();
    words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    const TWO_BINARIES: &str = "
running 2 tests
test a ... ok
test b ... FAILED

successes:

---- a stdout ----
» 12 crash points tried

failures:

---- b stdout ----
thread 'b' panicked at src/lib.rs:1:1: it broke

failures:
    b

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

running 3 tests
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 1.00s
";

    #[test]
    fn counts_all_binaries_and_keeps_why_tests_failed() {
        let tests = cargo_counts(TWO_BINARIES).judged(Err(anyhow!("cargo ended with 101")));
        assert_eq!((tests.passed, tests.failed, tests.ignored), (3, 1, 1));
        assert!(tests.failures.contains("it broke") && !tests.failures.contains("test a"), "{}", tests.failures);
        assert_eq!(tests.failing, ["b"]);
        assert_eq!(tests.figures, ["» 12 crash points tried"]);
    }

    #[test]
    fn a_suite_that_ends_badly_without_a_word_has_failed() {
        let tests = cargo_counts("error: could not compile\n").judged(Err(anyhow!("cargo ended with 101")));
        assert_eq!(tests.failures, "cargo ended with 101");
        assert_eq!(cargo_counts("").judged(Ok(())), Tests::default());
    }
}
