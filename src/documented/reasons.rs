//! Checks that the pages of docs/ name every reason of a condition, of a failed Job and of a refused restore.
//!
//! The source has no list of reasons: the test looks for words in quotes in the places where reasons are given.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The parts of `crates` that give reasons.
const PLACES: [&str; 7] = [
    "backup/src/error.rs",
    "backup/src/instant/mod.rs",
    "backup/src/store/error.rs",
    "backup/src/transfer/error.rs",
    "databases/src",
    "kinds",
    "runtime/src",
];

/// Files with these in their path give no reasons of conditions. Events of normal actions are in `action`, and names
/// of calls of AWS in `plan`.
const NOT_READ: [&str; 5] = ["tests", "simulation", "fixtures", "/action", "/plan/"];

/// A reason is the first argument of these.
const CALLS: [&str; 14] = [
    "called(",
    "closed(",
    "complaint(",
    "progressing(",
    "ready(",
    "retrying(",
    "stalled(",
    "trouble(",
    "unknown(",
    "wait(",
    "Held(",
    "Refused(",
    "Usable(",
    "Waiting(",
];

/// Words in such places that are no reasons: kinds, and words of Kubernetes and AWS.
const OTHER_WORDS: [&str; 16] = [
    "CausewayPolicies",
    "ConfigMap",
    "CreateContainerError",
    "DatabaseBackup",
    "DescribeTargetHealth",
    "IPv4",
    "IPv6",
    "Insufficient",
    "InvalidIdentityToken",
    "ManagedBy",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "PodInitializing",
    "RunContainerError",
    "Secret",
    "ToBeDeletedByClusterAutoscaler",
];

/// Reasons that nobody needs to look up.
const UNEXPLAINED: [(&str, &str); 6] = [
    ("Gone", "the object is deleted, so nothing is written to its status"),
    ("None", "of a condition that is removed"),
    ("NotAsked", "of a condition that is removed"),
    ("RestoreBegun", "an event whose note says all"),
    ("RestoreSkipped", "an event whose note says all"),
    ("TargetGroupNotFound", "a code of AWS that the operator handles itself"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files of a folder and of those in it; the file itself if it is none.
fn files(path: PathBuf) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path];
    }
    let entries = fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    entries.flat_map(|entry| files(entry.expect("an entry").path())).collect()
}

/// The code of the program: no comments, and no tests at the end of a file.
fn program(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    lines.join("\n")
}

fn is_word(text: &str) -> bool {
    text.len() > 3
        && text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric())
        && text.contains(|letter: char| letter.is_ascii_lowercase())
}

/// Reports whether a word between `before` and `after`, both without blanks and quotes beside it, is in the place of a reason.
fn is_reason(before: &str, after: &str) -> bool {
    let line = before.lines().next_back().unwrap_or_default();
    let of_function = || before.rfind("fn ").is_some_and(|at| before[at..].starts_with("fn reason("));
    let is_constant = line.trim_start().trim_start_matches("pub ").starts_with("const ") && line.ends_with("str =");
    if CALLS.iter().any(|call| before.ends_with(call))
        || is_constant
        || line.contains("reason:")
        || line.contains("reason = ")
        || line.ends_with("reason =")
        || (before.ends_with('{') && after.starts_with('}'))
        || (before.ends_with("=>") && of_function())
    {
        return true;
    }
    // Reason and message beside each other, as a pair or as further arguments of a function.
    let is_first = |called: &str| !called.ends_with(|last: char| last.is_ascii_alphanumeric() || "_!>".contains(last));
    after.starts_with(',') && (before.ends_with(',') || before.strip_suffix('(').is_some_and(is_first))
}

/// The reasons that the text of a program gives.
fn reasons(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut start = 0;
    for piece in text.split('"') {
        let end = start + piece.len();
        let is_quoted = start > 0 && end < text.len();
        if is_quoted && is_word(piece) && is_reason(text[..start - 1].trim_end(), text[end + 1..].trim_start()) {
            found.insert(piece.to_owned());
        }
        start = end + 1;
    }
    found
}

/// The reasons of the whole program.
fn all() -> BTreeSet<String> {
    let source = root().join("crates");
    let of_place = PLACES.iter().flat_map(|place| files(source.join(place)));
    let is_read = |file: &PathBuf| {
        let place = file.strip_prefix(&source).expect("a file of the program").display().to_string();
        file.extension().is_some_and(|it| it == "rs") && !NOT_READ.iter().any(|part| place.contains(part))
    };
    of_place.filter(is_read).flat_map(|file| reasons(&program(&file))).collect()
}

#[test]
fn the_pages_name_every_reason() {
    let pages = files(root().join("docs")).into_iter().filter(|file| file.extension().is_some_and(|it| it == "md"));
    let text: String = pages.map(|page| fs::read_to_string(page).expect("a page")).collect();
    let excused: BTreeSet<&str> = OTHER_WORDS.into_iter().chain(UNEXPLAINED.map(|(reason, _)| reason)).collect();
    let found = all();
    assert!(found.len() > 300, "only {} reasons were found", found.len());
    let is_named = |reason: &&String| text.contains(&format!("`{reason}`"));
    let missing: Vec<&String> = found.iter().filter(|it| !is_named(it) && !excused.contains(it.as_str())).collect();
    assert!(missing.is_empty(), "no page of docs/ says what these reasons mean and what to do: {missing:?}");
    let stale: Vec<&&str> = excused.iter().filter(|it| !found.contains(**it)).collect();
    assert!(stale.is_empty(), "these words are no reasons any more: {stale:?}");
}

#[test]
fn reasons_are_found_where_they_are_given() {
    let text = r#"
        Health::stalled("ByHealth", text)
        Choice::Refused(
            "ByChoice",
            message,
        )
        Step::act(actions, "ByStep", "words")
        ExtraCondition { reason: if all { "ByCondition" } else { "ByOther" } }
        Err(("ByPair", message.into()))
        fn reason(&self) -> &str { match self { Self::This => "ByMatch", } }
        fn word(&self) -> &str { match self { Self::This => "NoReason", } }
        self.call("NoCall", call.send())
    "#;
    let found = reasons(text);
    let wanted = ["ByChoice", "ByCondition", "ByHealth", "ByMatch", "ByOther", "ByPair", "ByStep"];
    assert_eq!(found, BTreeSet::from(wanted.map(str::to_owned)));
}
