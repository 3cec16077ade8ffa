//! Compiles Go programs, and shows their progress.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::host;
use crate::progress::Step;

/// The modules in a folder.
pub fn modules(home: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(home).with_context(|| format!("cannot read {}", home.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The version of Go that a module needs.
pub fn needed_by(module: &Path) -> Result<String> {
    let text = go_mod(module)?;
    let wanted = text.lines().find_map(|line| line.strip_prefix("go "));
    wanted.map(str::to_owned).with_context(|| format!("{} names no version of Go", module.display()))
}

/// The version in which a module requires another one.
pub fn required(module: &Path, other: &str) -> Result<String> {
    let text = go_mod(module)?;
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // The line may be inside of `require ( … )`, and may end with a comment.
    let version = lines.find_map(|words| match words[..] {
        [name, version, ..] if name == other => Some(version.to_owned()),
        _ => None,
    });
    version.with_context(|| format!("{} does not require {other}", module.display()))
}

fn go_mod(module: &Path) -> Result<String> {
    let path = module.join("go.mod");
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Compiles packages of a module, statically linked and stripped, into a folder, which also gets the log.
pub fn compile(module: &Path, packages: &[&str], link_flags: &str, into: &Path, step: &Step) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
    let log = into.join("build.log");
    step.note("finding the packages it is made of");
    let go = |subcommand: &str| {
        // Crates are compiled at the same time. They get a higher priority, because waiting would delay the end of the
        // whole build.
        let mut command = Command::new("nice");
        command.args(["-n", "10", "go", "-C"]).arg(module).arg(subcommand).env("CGO_ENABLED", "0");
        command
    };
    step.run(go("list").arg("-deps").args(packages), &log)?;
    let total = count_packages(&log);
    step.note(format!("compiling {total} packages"));
    let mut build = go("build");
    build.args(["-v", "-trimpath", "-buildvcs=false", "-ldflags", &format!("-s -w {link_flags}"), "-o"]);
    step.run_telling(build.arg(into).args(packages), &log, |log| match count_packages(log) {
        0 => String::new(),
        done => format!("compiled {done} of {total} packages"),
    })
}

/// Counts packages in Go's output. Lines about downloads are skipped, because they contain spaces.
fn count_packages(log: &Path) -> usize {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().filter(|line| !line.is_empty() && !line.contains(' ')).count()
}

/// All files of a module that affect its programs.
pub fn sources(module: &Path) -> Result<Vec<PathBuf>> {
    host::files_below(module, |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !name.ends_with("_test.go") && !name.ends_with(".md")
    })
}
