//! The tests of LocalStack's extension, which pytest runs.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::report::{Outcome, Tests};
use super::suites::{SHOWN_LINES, count, read};
use super::unchanged::{self, Inputs};
use super::{log, nice};
use crate::progress::Step;
use crate::{host, localstack};

/// The inputs of these tests: they read the published policies, and the regions that the operator knows.
const INPUTS: Inputs = Inputs {
    paths: &[
        "localstack",
        "iam",
        "crates/backup/src/jobs/regions.rs",
        "xtask/src/localstack/install.rs",
        "xtask/src/python.rs",
        "xtask/src/test/pytest.rs",
    ],
    // It fails if one of them is not installed, and prints the others all the same.
    versions: &[&["dpkg-query", "--show", "haproxy", "iproute2", "libssl3", "python3.11"]],
};

/// Runs these tests, unless they passed as they are. With `always`, they run in any case.
pub fn run(step: &Step, always: bool) -> Result<Outcome> {
    unchanged::unless_passed("python", &INPUTS, always, || {
        let tests = tests(step)?;
        ensure!(tests.passed > 0 || !tests.failures.is_empty(), "pytest counted no test");
        Ok(Outcome::Tests(tests))
    })
}

/// Runs them on two servers of their own, because some wait seconds for health checks to fail.
fn tests(step: &Step) -> Result<Tests> {
    let python = localstack::prepare(step)?.join("bin/python");
    // A separate directory, which no other run of pytest cleans up. Its name is short, because HAProxy accepts socket
    // paths of at most 97 bytes.
    let files = std::env::temp_dir().join(format!("causeway-{}", std::process::id()));
    // A higher priority than the cluster's tests: these end soon, and some fail if a request gets no processor time.
    let mut command = nice(4, python);
    command
        .args(["-m", "pytest", "-p", "no:cacheprovider", "--numprocesses", "2", "--dist", "loadfile", "--basetemp"])
        .arg(&files)
        .current_dir(host::repo_root()?.join("localstack"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let log = log("python")?;
    let result = step.run(&mut command, &log);
    if files.exists() {
        fs::remove_dir_all(&files).with_context(|| format!("cannot remove {}", files.display()))?;
    }
    Ok(counts(&read(&log)?).judged(result))
}

/// Counts the results in pytest's last line: `1 failed, 30 passed, 2 skipped in 8.05s`.
fn counts(output: &str) -> Tests {
    let Some(last) = output.lines().rfind(|line| is_last(line)) else { return Tests::default() };
    let failed = count(last, "failed") + count(last, "error") + count(last, "errors");
    let failures = output.find("= FAILURES =").or_else(|| output.find("= ERRORS =")).map_or("", |at| &output[at..]);
    Tests {
        passed: count(last, "passed"),
        failed,
        ignored: count(last, "skipped"),
        failures: failures.lines().take(SHOWN_LINES).collect::<Vec<_>>().join("\n"),
        failing: output.lines().filter_map(failing_in).map(str::to_owned).collect(),
        ..Tests::default()
    }
}

/// Returns true if a line ends with the duration of the tests: `in 8.05s`, and from a minute on `in 65.10s (0:01:05)`.
fn is_last(line: &str) -> bool {
    let took = line.rsplit_once(" in ").and_then(|(_, took)| took.split(' ').next()?.strip_suffix('s'));
    took.is_some_and(|seconds| seconds.parse::<f64>().is_ok())
}

/// The test in a line of pytest's summary: `FAILED tests/test_a.py::test_b - assert …`.
fn failing_in(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "))?;
    rest.split(" - ").next().filter(|name| name.contains("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_passed_failed_and_skipped() {
        let tests =
            counts("..F\n==== FAILURES ====\nwhy\nFAILED a.py::b[c] - why\n1 failed, 30 passed, 2 skipped in 8.05s\n");
        assert_eq!((tests.passed, tests.failed, tests.ignored), (30, 1, 2));
        assert!(tests.failures.contains("why"));
        assert_eq!(tests.failing, ["a.py::b[c]"]);
        assert_eq!(counts("31 passed in 8.05s\n").passed, 31);
        assert_eq!(counts("== 2 passed, 1 error in 0.10s ==\n").failed, 1);
        assert_eq!(counts("nothing\n"), Tests::default());
    }

    #[test]
    fn counts_tests_that_take_longer_than_a_minute() {
        assert_eq!(counts("..... [100%]\n558 passed in 404.83s (0:06:44)\n").passed, 558);
        assert_eq!(counts("= 1 failed, 557 passed in 90061.10s (1 day, 1:01:01) =\n").failed, 1);
    }
}
