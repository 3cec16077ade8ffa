//! Judges a member's data by the last output of its process. Pure.
//!
//! The kubelet keeps the last 2048 bytes of what a container printed before it failed. etcd that cannot open its data says
//! so in a line of level `fatal` or `panic`; or the runtime of Go prints stacks, of which only the end is kept.
//! <https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/>

use super::facts::Pod;

/// The state of a member's data, by its last output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its volume is empty although it was a member.
    Empty,
    /// Its data are damaged; with the evidence.
    Damaged(&'static str),
}

/// Phrases that etcd 3.5 and 3.6 log about data that they cannot read.
const DAMAGE: [&str; 13] = [
    "crc mismatch",
    "failed to open WAL",
    "failed to read WAL",
    "failed to recover v3 backend from snapshot",
    "failed to find database snapshot file",
    "failed to load snapshot",
    "file size mismatch",
    "invalid database",
    "checksum error",
    "file size too small",
    "found data inconsistency with peers",
    // The log is gone or cut off, the database is not.
    "cannot use none as id",
    "Was the raft log corrupted, truncated, or lost?",
];
/// The message of etcd 3.6 if it starts and the list of members in its own data has more learners than it allows. So a list may
/// be left behind by a recovery, or after a member was added and removed meanwhile.
/// <https://github.com/etcd-io/etcd/blob/v3.6.0/server/etcdserver/bootstrap.go> (`ValidateMaxLearnerConfig`)
const LEARNERS: &str = "too many learner members in cluster";
/// Exit code after SIGBUS: 128 and its number. The signal ends a process that reads a part of a mapped file that is not
/// there any more.
const BUS_ERROR: i32 = 128 + 7;
/// Evidence that could be chance counts only after this many restarts.
const STARTS: i32 = 2;

/// Judges the data of a pod, in a trait because the type of pods belongs to another crate.
pub trait DamagedPod {
    /// Judges the data by the last output and the exit code; `None` if they say nothing about the data.
    fn loss(&self) -> Option<Loss>;
}

impl DamagedPod for Pod {
    fn loss(&self) -> Option<Loss> {
        let words = self.last_words.as_deref().unwrap_or_default();
        let last = last_of(words);
        if last.contains("couldn't find local name") {
            return Some(Loss::Empty);
        }
        if let Some(output) = DAMAGE.into_iter().find(|part| last.contains(part)) {
            return Some(Loss::Damaged(output));
        }
        if self.restarts < STARTS {
            return None;
        }
        match self.exit_code {
            // One that has no data yet asks the others for the list, which may be another in a moment.
            Some(_) if last.contains(LEARNERS) => Some(Loss::Damaged(LEARNERS)),
            Some(BUS_ERROR) => Some(Loss::Damaged("it died of SIGBUS, exit code 135: its database is cut off")),
            // bbolt reads the database, and nothing else.
            Some(_) if words.contains("goroutine ") && words.contains("go.etcd.io/bbolt.") => {
                Some(Loss::Damaged("it crashed in bbolt, which reads the database"))
            }
            _ => None,
        }
    }
}

/// etcd's message and error from the output with which it gave up, without what differs at every try.
/// <https://github.com/etcd-io/etcd/blob/main/server/embed/config_logging.go>
pub fn log_message(words: &str) -> Option<String> {
    let line = last_of(words);
    let field = |name: &str| {
        let rest = line.split_once(&format!("\"{name}\":\""))?.1;
        Some(rest.split('"').next().unwrap_or(rest).to_owned()).filter(|text| !text.is_empty())
    };
    match (field("msg"), field("error")) {
        (Some(output), Some(error)) => Some(format!("{output}: {error}")),
        (output, error) => {
            output.or(error).or_else(|| line.strip_prefix("panic: ").map(|text| format!("panic: {}", text.trim())))
        }
    }
}

/// The output with which a process gave up. What it logged before is not the reason.
fn last_of(words: &str) -> &str {
    let starts = |line: &str| {
        line.contains(r#""level":"fatal""#) || line.contains(r#""level":"panic""#) || line.starts_with("panic: ")
    };
    let Some(line) = words.lines().rfind(|line| starts(line)) else { return "" };
    if !line.starts_with("panic: ") {
        return line;
    }
    // The log line before the panic has the reason; its beginning may be cut off. The stacks that follow have none.
    let at = words.rfind(line).unwrap_or_default();
    let before = words[..at].trim_end().rfind('\n').map_or(0, |end| end + 1);
    let is_reason = words[before..at].contains(r#""stacktrace":"#);
    &words[if is_reason { before } else { at }..at + line.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(words: &str, exit_code: i32, restarts: i32) -> Pod {
        Pod { last_words: Some(words.into()), exit_code: Some(exit_code), restarts, ..Pod::default() }
    }

    /// As etcd 3.5.9 and 3.6.16 print it where pages of the database are overwritten.
    #[test]
    fn a_database_that_cannot_be_opened_is_damaged() {
        let words = concat!(
            r#"nterval":"1m0s","downgrade-check-interval":"5s"}"#,
            "\n",
            r#"{"level":"panic","ts":"2026-11-23T17:25:48Z","caller":"backend/backend.go:189","msg":"failed to open database","#,
            r#""path":"/data/member/snap/db","error":"invalid database","stacktrace":"go.etcd.io/etcd/server/v3/mvcc"}"#,
            "\npanic: failed to open database\n\ngoroutine 123 [running]:\n",
        );
        assert_eq!(pod(words, 2, 0).loss(), Some(Loss::Damaged("invalid database")));
        let cut = words.split_once(r#""path""#).unwrap().1;
        assert_eq!(pod(cut, 2, 0).loss(), Some(Loss::Damaged("invalid database")));
    }

    #[test]
    fn other_reasons_for_an_unopened_database_are_no_damage() {
        for reason in ["permission denied", "no space left on device", "timeout"] {
            let words = format!(
                "{{\"level\":\"panic\",\"msg\":\"failed to open database\",\"error\":\"open db: {reason}\",\"stacktrace\":\"x\"}}\n\
                 panic: failed to open database\n\ngoroutine 1 [running]:\n"
            );
            assert_eq!(pod(&words, 2, 9).loss(), None, "{reason}");
        }
    }

    #[test]
    fn a_log_that_is_gone_is_a_loss() {
        let words = "{\"level\":\"info\",\"msg\":\"bootstrapping raft\"}\npanic: cannot use none as id\n\ngoroutine 1 [running]:\n";
        assert_eq!(pod(words, 2, 0).loss(), Some(Loss::Damaged("cannot use none as id")));
        let without =
            r#"{"level":"panic","msg":"failed to recover v3 backend from snapshot","error":"failed to find"}"#;
        assert!(matches!(pod(without, 2, 0).loss(), Some(Loss::Damaged(_))));
    }

    /// Go then prints so many stacks that the reason before them is not kept.
    #[test]
    fn a_repeated_crash_while_reading_counts_as_damage() {
        let words = "identifies as 0\n\ngoroutine 136 [running]:\ngo.etcd.io/bbolt._assert(...)\n\tgo.etcd.io/bbolt/db.go:1359\n";
        assert_eq!(pod(words, 2, 1).loss(), None);
        assert!(matches!(pod(words, 2, 2).loss(), Some(Loss::Damaged(_))));
        assert!(matches!(pod("", 135, 2).loss(), Some(Loss::Damaged(_))));
        assert_eq!(pod("", 137, 9).loss(), None, "killed, for want of memory");
        assert_eq!(pod("goroutine 1 [running]:\nmain.main()\n", 2, 9).loss(), None);
    }

    /// As etcd 3.6 prints it; it never starts again from these data.
    #[test]
    fn too_many_learners_in_its_list_count_when_repeated() {
        let words = concat!(
            r#"{"level":"fatal","ts":"2026-11-27T10:00:00Z","caller":"etcdmain/etcd.go:183","msg":"discovery failed","#,
            r#""error":"membership: too many learner members in cluster","stacktrace":"go.etcd.io/etcd"}"#,
        );
        assert_eq!(pod(words, 1, 1).loss(), None);
        assert_eq!(pod(words, 1, 2).loss(), Some(Loss::Damaged("too many learner members in cluster")));
    }

    #[test]
    fn its_message_is_reported_without_what_changes_at_every_try() {
        let words = concat!(
            "{\"level\":\"info\",\"ts\":\"2026-11-23T17:25:48Z\",\"msg\":\"starting\"}\n",
            r#"{"level":"fatal","ts":"2026-11-23T17:25:48Z","caller":"etcdmain/etcd.go:204","msg":"discovery failed","#,
            r#""error":"member count is unequal","stacktrace":"go.etcd.io/etcd"}"#,
        );
        assert_eq!(log_message(words).as_deref(), Some("discovery failed: member count is unequal"));
        assert_eq!(
            log_message("panic: out of range\n\ngoroutine 1 [running]:").as_deref(),
            Some("panic: out of range")
        );
        assert_eq!(log_message("{\"level\":\"info\",\"msg\":\"well\"}"), None);
    }

    #[test]
    fn what_was_logged_before_is_no_reason() {
        let words =
            "{\"level\":\"warn\",\"msg\":\"crc mismatch\"}\n{\"level\":\"fatal\",\"msg\":\"listen tcp: in use\"}";
        assert_eq!(pod(words, 1, 9).loss(), None);
    }
}
