//! Runs Cargo with its output in a file, and still shows its progress.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::progress::Step;

/// Runs Cargo with its output in `log`. Meanwhile the step shows how much of `what` is compiled.
pub fn run(command: &mut Command, what: &str, log: &Path, step: &Step) -> Result<()> {
    // https://doc.rust-lang.org/cargo/reference/config.html#termprogresswhen
    command.env("CARGO_TERM_PROGRESS_WHEN", "always").env("CARGO_TERM_PROGRESS_WIDTH", "200");
    step.run_telling(command, log, |log| {
        let bytes = fs::read(log).unwrap_or_default();
        describe(what, &String::from_utf8_lossy(&bytes))
    })
}

/// Cargo's progress, from the last line of its output or its progress bar. The bar begins with a carriage return each
/// time: `Building [=====>      ] 346/512: kube-client, aws-sdk-s3`.
fn describe(what: &str, log: &str) -> String {
    let last = log.split(['\n', '\r']).map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let bar = log.split(['\n', '\r']).rev().find_map(|line| {
        let (counts, crates) = line.trim().strip_prefix("Building [")?.split_once("] ")?.1.split_once(':')?;
        let (done, total) = counts.split_once('/')?;
        Some((done.parse::<usize>().ok()?, total.parse::<usize>().ok().filter(|total| *total > 0)?, crates.trim()))
    });
    match bar {
        Some((done, total, crates)) => {
            format!("{what}: {} %, {} of {total} crates are left, now {crates}", done * 100 / total, total - done)
        }
        None => last.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_the_percentage_and_what_is_left() {
        let bar = "   Compiling a v1\n    Building [==>   ] 1/8: a     \r    Building [====> ] 6/8: b, c    \r";
        assert_eq!(describe("the operator", bar), "the operator: 75 %, 2 of 8 crates are left, now b, c");
    }

    #[test]
    fn before_anything_is_compiled_it_tells_what_cargo_says() {
        assert_eq!(describe("the operator", "  Blocking waiting for file lock\n"), "Blocking waiting for file lock");
        assert_eq!(describe("the operator", ""), "");
    }
}
