//! Skips tests and checks that passed with the same inputs before, as `go test` does.
//!
//! The inputs are all files that the tests read, and the versions of the programs that they use. A record of tests that
//! passed is valid for a week, so that tests that depend on the date are repeated, too.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use super::report::Outcome;
use crate::host;

/// How long a record is valid.
const VALID: Duration = Duration::from_hours(7 * 24);

/// Everything that decides whether tests pass.
pub struct Inputs<'a> {
    /// Files and folders in the checkout.
    pub paths: &'a [&'a str],
    /// Commands that print the versions of the programs that the tests use. Whether they succeed does not matter.
    pub versions: &'a [&'a [&'a str]],
}

impl Inputs<'_> {
    /// A name for these inputs. It changes with the contents and paths of files, and with the versions of programs.
    fn name(&self) -> Result<String> {
        let root = host::repo_root()?;
        let mut files = Vec::new();
        for path in self.paths.iter().map(|path| root.join(path)) {
            files.extend(if path.is_dir() { host::files_below(&path, is_source)? } else { vec![path] });
        }
        let mut versions = String::new();
        for command in self.versions {
            let [program, arguments @ ..] = command else { continue };
            let printed = Command::new(program).args(arguments).current_dir(&root).output();
            let printed = printed.with_context(|| format!("cannot start {program}"))?.stdout;
            versions.push_str(&String::from_utf8_lossy(&printed));
        }
        Ok(format!("{}-{}", host::hash_of_path(Path::new(&versions)), host::hash_of(&files)?))
    }
}

/// Runs tests, unless they passed with these inputs within the last week, or `always` is set.
pub fn unless_passed(
    suite: &str,
    inputs: &Inputs,
    always: bool,
    run: impl FnOnce() -> Result<Outcome>,
) -> Result<Outcome> {
    let home = host::cache_dir()?.join("passed");
    let record = home.join(format!("{suite}-{}", inputs.name()?));
    if let Some(passed) = passed_before(&record).filter(|_| !always) {
        return Ok(Outcome::Unchanged(passed));
    }
    let outcome = run()?;
    let passed = match &outcome {
        Outcome::Tests(tests) if !tests.failures.is_empty() || tests.failed > 0 => return Ok(outcome),
        Outcome::Tests(tests) => tests.passed,
        _ => 0,
    };
    fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
    fs::write(&record, passed.to_string()).with_context(|| format!("cannot write {}", record.display()))?;
    Ok(outcome)
}

/// How many tests passed, if the record exists and is valid.
fn passed_before(record: &Path) -> Option<usize> {
    let written = fs::metadata(record).ok()?.modified().ok()?;
    let age = SystemTime::now().duration_since(written).ok()?;
    if age > VALID {
        return None;
    }
    fs::read_to_string(record).ok()?.parse().ok()
}

/// Returns true unless Python or pip write such a file or folder beside sources.
fn is_source(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name != "__pycache__" && name != "build" && !name.ends_with(".egg-info") && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_while_it_is_valid() {
        let folder = std::env::temp_dir().join(format!("causeway-passed-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let record = folder.join("python-1");
        assert_eq!(passed_before(&record), None);
        fs::write(&record, "531").unwrap();
        assert_eq!(passed_before(&record), Some(531));
        let old = SystemTime::now() - VALID - Duration::from_mins(1);
        fs::File::options().write(true).open(&record).unwrap().set_modified(old).unwrap();
        assert_eq!(passed_before(&record), None);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn inputs_are_all_files_but_what_python_writes_beside_them() {
        let folder = std::env::temp_dir().join(format!("causeway-inputs-{}", std::process::id()));
        for path in ["a/b.py", "a/__pycache__/b.pyc", "c.egg-info/PKG-INFO", "d.json"] {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let found = host::files_below(&folder, is_source).unwrap();
        assert_eq!(found, ["a/b.py", "d.json"].map(|path| folder.join(path)));
        fs::remove_dir_all(&folder).unwrap();
    }
}
