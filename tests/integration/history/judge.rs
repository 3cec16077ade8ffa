//! Runs the judge, a program: a history goes in, a verdict comes out.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::json;

use super::Operation;

/// Where the program is; `cargo xtask` compiles it.
const PROGRAM: &str = "CAUSEWAY_JUDGE";

/// The judge's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// One order explains all calls.
    Kept,
    /// No order explains what the clients saw.
    Broken,
    /// The judge ran out of time, or no outcome is known: this is a failure, too.
    #[serde(rename = "not judged")]
    NotJudged,
}

/// A verdict, and what it is about.
#[derive(Clone, Debug, Deserialize)]
pub struct Judgement {
    pub verdict: Verdict,
    keys: usize,
    pub operations: usize,
    unknown: usize,
    broken: Vec<String>,
    not_judged: Vec<String>,
}

impl Judgement {
    /// The verdict in words.
    pub fn summary(&self) -> String {
        let Self { verdict, keys, operations, unknown, broken, not_judged } = self;
        let verdict = match verdict {
            Verdict::Kept => "one order explains all".to_owned(),
            Verdict::Broken => format!("NO order explains {}", broken.join("; ")),
            Verdict::NotJudged => format!("NOT JUDGED: {}", not_judged.join(", ")),
        };
        format!("{operations} calls of {keys} shared keys, {unknown} of unknown outcome: {verdict}")
    }

    /// Prints the verdict, and panics unless it is [`Verdict::Kept`].
    pub fn must_be_kept(&self, what: &str) {
        println!("» {what}: {}", self.summary());
        assert_eq!(self.verdict, Verdict::Kept, "{what}: {}", self.summary());
    }
}

/// Has a history judged. It is kept in a file under that name, with pages about the keys that no order explains.
pub fn judge(name: &str, operations: &[Operation]) -> Judgement {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("histories").join(name);
    fs::create_dir_all(&folder).expect("a folder for the history");
    let path = folder.join("history.json");
    fs::write(&path, json!({ "operations": operations }).to_string()).expect("the history is kept");
    let program = std::env::var(PROGRAM).unwrap_or_else(|_| panic!("{PROGRAM} is not set: run this by `cargo xtask`"));
    let output = Command::new(&program)
        // On a busy machine, one key may take longer than the program's own limit.
        .args(["-limit", "2m", "-pages"])
        .arg(&folder)
        .stdin(Stdio::from(fs::File::open(&path).expect("the history")))
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    let judgement: Judgement = serde_json::from_slice(&output.stdout).expect("a verdict");
    if judgement.verdict != Verdict::Kept {
        println!("» the history, and pages of what is broken: {}", folder.display());
    }
    judgement
}

/// The judge gets the same form of history here as from clients: it must find a store that breaks its promise.
#[test]
fn lost_writes_stale_reads_and_lost_updates_are_detected() {
    use super::Do::{Add, Cas, Get, Put, Swap};
    let one = |call: u64, operation: Operation| Operation {
        key: "key".into(),
        call: 10 * call,
        returned: Some(10 * call + 5),
        ..operation
    };
    let put = |value| Operation { does: Put, value, ..Operation::default() };
    let get = |seen| Operation { does: Get, seen, ..Operation::default() };
    let swap = |value, seen| Operation { does: Swap, value, seen, ..Operation::default() };
    let cas = |value, expected| Operation { does: Cas, value, expected, done: true, ..Operation::default() };
    let add = |seen| Operation { does: Add, seen, ..Operation::default() };
    let histories = [
        ("good", Verdict::Kept, vec![put(1), get(1), swap(2, 1), cas(3, 2), get(3)]),
        ("sums", Verdict::Kept, vec![add(1), add(2), get(2)]),
        ("lost", Verdict::Broken, vec![put(1), put(2), swap(3, 1)]),
        ("stale", Verdict::Broken, vec![put(1), put(2), get(2), get(1)]),
        ("updates", Verdict::Broken, vec![put(1), cas(2, 1), cas(3, 1)]),
        ("twice", Verdict::Broken, vec![add(1), add(3)]),
        ("nothing", Verdict::NotJudged, Vec::new()),
    ];
    for (name, expected, calls) in histories {
        let operations: Vec<Operation> = (1..).zip(calls).map(|(call, operation)| one(call, operation)).collect();
        let found = judge(&format!("test-{name}"), &operations);
        assert_eq!(found.verdict, expected, "{name}: {}", found.summary());
    }
}
