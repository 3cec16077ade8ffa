//! Tests of the commands that a restore sends, and of their order.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::compare::without_mark;
use super::*;

/// Returns the words with which a node refuses a command; none if it takes it.
type Refuses = fn(&[&str]) -> Option<&'static str>;

/// Commands that a node received, in order.
type Asked = Arc<Mutex<Vec<String>>>;

/// A node in memory.
struct Fake {
    /// The keys that it has.
    keys: BTreeSet<String>,
    refuses: Refuses,
    /// Fields that it reports besides its keys.
    info: &'static str,
    /// True if it evicts at once what is restored into it.
    evicts: bool,
    evicted: u32,
    mark: Option<String>,
    /// The command before which another restore writes its mark.
    rival: &'static str,
}

impl Fake {
    fn new(key: &str, refuses: Refuses) -> Self {
        let keys = BTreeSet::from([key.to_owned()]);
        Self { keys, refuses, info: "", evicts: false, evicted: 0, mark: None, rival: "" }
    }

    /// Serves one client. Returns its address.
    async fn serve(mut self) -> (String, Asked) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, asked) = (listener.local_addr().unwrap().to_string(), Asked::default());
        let noted = asked.clone();
        tokio::spawn(async move {
            let mut client = BufReader::new(listener.accept().await.unwrap().0);
            while let Some(parts) = command_of(&mut client).await {
                let words: Vec<&str> = parts.iter().map(String::as_str).collect();
                let reply = (self.refuses)(&words).map_or_else(|| self.answer(&words), |why| format!("-{why}\r\n"));
                noted.lock().push(parts.join(" "));
                client.write_all(reply.as_bytes()).await.unwrap();
            }
        });
        (address, asked)
    }

    fn answer(&mut self, words: &[&str]) -> String {
        let bytes = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        if words[0] == self.rival {
            self.mark = Some("rival".into());
        }
        match words {
            ["INFO"] => bytes(&format!(
                "redis_version:7.2.4\r\nrole:master\r\nloading:0\r\nrun_id:a\r\nevicted_keys:{}\r\n{}db0:keys={},expires=0\r\n",
                self.evicted,
                self.info,
                self.keys.len()
            )),
            ["GET", _] => self.mark.as_ref().map_or("$-1\r\n".into(), |mark| bytes(mark)),
            ["SET", _, _, "NX"] if self.mark.is_some() => "$-1\r\n".into(),
            ["SET", _, run, ..] => {
                self.mark = Some((*run).to_owned());
                "+OK\r\n".into()
            }
            ["EXISTS", asked] => format!(":{}\r\n", u8::from(self.keys.contains(*asked))),
            ["PTTL", asked] => format!(":{}\r\n", if self.keys.contains(*asked) { -1 } else { -2 }),
            ["PEXPIRETIME", _] => ":-1\r\n".into(),
            ["DUMP", _] => bytes("value"),
            ["FUNCTION", "DUMP"] => bytes("functions"),
            ["SCAN", ..] => {
                let keys: String = self.keys.iter().map(|key| bytes(key)).collect();
                format!("*2\r\n{}*{}\r\n{keys}", bytes("0"), self.keys.len())
            }
            ["UNLINK", key] => format!(":{}\r\n", u8::from(self.keys.remove(*key))),
            ["RESTORE", _, ..] if self.evicts => {
                self.evicted += 1;
                "+OK\r\n".into()
            }
            ["RESTORE", key, ..] => {
                self.keys.insert((*key).to_owned());
                "+OK\r\n".into()
            }
            _ => "+OK\r\n".into(),
        }
    }
}

/// The next command; none when the client is gone.
async fn command_of(client: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    for _ in 0..number_of(client).await? {
        let length = number_of(client).await?;
        let mut bytes = vec![0; length + 2];
        client.read_exact(&mut bytes).await.ok()?;
        parts.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
    }
    Some(parts)
}

/// The number of a line such as `*3`.
async fn number_of(client: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    client.read_line(&mut line).await.ok()?;
    line.get(1..)?.trim_end().parse().ok()
}

/// Restores with `force` into a node. Returns whether that succeeded, and what the node was asked.
async fn restored(from: Fake, into: Fake) -> (Result<u64, Error>, Vec<String>) {
    restored_as("noon", true, from, into).await
}

async fn restored_as(run: &str, force: bool, from: Fake, into: Fake) -> (Result<u64, Error>, Vec<String>) {
    let ((scratch, _), (target, asked)) = (from.serve().await, into.serve().await);
    let server = Server::Redis { addresses: vec![target], login: None, tls: None };
    let target = Source { folder: "redis-cache".into(), title: "Redis cache".into(), server };
    let done = restore(&scratch, &target, force, run).await;
    let asked = asked.lock().clone();
    (done, asked)
}

/// Restores with `force` into a node that refuses something. Returns whether that succeeded, and what the node was asked
/// that drops or loads anything but a key.
async fn restored_into(refuses: Refuses) -> (Result<u64, Error>, Vec<String>) {
    let (done, asked) = restored(Fake::new("a", |_| None), Fake::new("b", refuses)).await;
    (done, asked.into_iter().filter(|it| it.starts_with("FUNCTION") || it.starts_with("UNLINK")).collect())
}

/// The report of a node that may take 1 MiB and evicts keys.
const SMALL: &str = "maxmemory:1048576\r\nmaxmemory_policy:allkeys-lru\r\nused_memory:900000\r\n";

#[tokio::test]
async fn a_target_that_evicts_what_is_restored_fails_the_restore() {
    let into = Fake { info: SMALL, evicts: true, ..Fake::new("b", |_| None) };
    let (done, _) = restored(Fake::new("a", |_| None), into).await;
    let error = done.unwrap_err();
    assert_eq!(error.reason(), "KeysEvicted");
    assert!(error.to_string().contains("lacks 1 of the backup's 1: set spec.config.maxmemory to"), "{error}");
}

#[tokio::test]
async fn a_target_without_memory_is_refused_before_writes() {
    let from = Fake { info: "used_memory:9000000\r\nused_memory_startup:1000000\r\n", ..Fake::new("a", |_| None) };
    let (done, asked) = restored(from, Fake { info: SMALL, ..Fake::new("b", |_| None) }).await;
    assert_eq!(done.unwrap_err().reason(), "MemoryTooSmall");
    let is_write = |it: &&String| ["SET ", "RESTORE", "FUNCTION", "UNLINK"].iter().any(|word| it.starts_with(word));
    assert_eq!(asked.iter().find(is_write), None);
}

#[tokio::test]
async fn a_database_that_the_target_lacks_is_told_before_writing() {
    let out = |words: &[&str]| (words == ["SELECT", "9"]).then_some("ERR DB index is out of range");
    let from = Fake { info: "db9:keys=1,expires=0\r\n", ..Fake::new("a", |_| None) };
    let (done, asked) = restored(from, Fake::new("b", out)).await;
    let error = done.unwrap_err();
    assert_eq!(error.reason(), "ServerUnfit");
    assert!(error.to_string().contains("database 9") && error.to_string().contains("to 10 or more"), "{error}");
    assert!(!asked.iter().any(|it| it.starts_with("SET ") || it.starts_with("RESTORE")), "{asked:?}");
}

/// A node without keys.
fn empty() -> Fake {
    Fake { keys: BTreeSet::new(), ..Fake::new("", |_| None) }
}

#[tokio::test]
async fn of_two_restores_at_once_one_writes() {
    for force in [false, true] {
        let into = Fake { rival: "SET", ..empty() };
        let (done, asked) = restored_as("noon", force, Fake::new("a", |_| None), into).await;
        let error = done.unwrap_err();
        assert_eq!((error.reason(), error.is_final()), ("TargetHalfRestored", true), "force {force}");
        let is_write = |it: &&String| ["RESTORE", "FUNCTION", "UNLINK"].iter().any(|word| it.starts_with(word));
        assert_eq!(asked.iter().find(is_write), None, "force {force}");
    }
    let (done, _) = restored(Fake::new("a", |_| None), Fake { rival: "RESTORE", ..empty() }).await;
    assert_eq!(done.unwrap_err().reason(), "TargetHalfRestored", "another one took the target over");
}

#[tokio::test]
async fn the_mark_of_another_restore_is_passed_with_force_alone() {
    for (mark, run, force, refused) in [
        ("morning", "noon", false, true),
        ("morning", "noon", true, false),
        ("noon", "noon", false, false),
        ("done:morning", "noon", false, false),
    ] {
        let into = Fake { mark: Some(mark.to_owned()), ..empty() };
        let (done, _) = restored_as(run, force, Fake::new("a", |_| None), into).await;
        let reason = done.as_ref().err().map(Error::reason);
        assert_eq!(reason, refused.then_some("TargetHalfRestored"), "{mark} {force} {done:?}");
    }
}

const ADDED: &str = "FUNCTION RESTORE functions REPLACE";
const FLUSHED: &str = "FUNCTION RESTORE functions FLUSH";

#[tokio::test]
async fn functions_that_the_backup_lacks_go_after_all_is_copied() {
    let (done, asked) = restored_into(|_| None).await;
    assert_eq!((done.unwrap(), asked), (1, vec![ADDED.into(), "UNLINK b".into(), FLUSHED.into()]));
}

#[tokio::test]
async fn a_full_target_keeps_its_own_functions() {
    let full = |words: &[&str]| (words[0] == "RESTORE").then_some("OOM command not allowed");
    let into = Fake { info: SMALL, ..Fake::new("b", full) };
    let (done, mut asked) = restored(Fake::new("a", |_| None), into).await;
    asked.retain(|it| it.starts_with("FUNCTION") || it.starts_with("UNLINK"));
    assert_eq!((done.unwrap_err().reason(), asked), ("MemoryTooSmall", vec![ADDED.to_owned()]));
}

#[tokio::test]
async fn conflicting_functions_are_replaced() {
    let taken = |words: &[&str]| {
        (words[0] == "FUNCTION" && words.last() == Some(&"REPLACE")).then_some("ERR Function f already exists")
    };
    let (done, asked) = restored_into(taken).await;
    assert_eq!((done.unwrap(), asked), (1, vec![ADDED.into(), "UNLINK b".into(), FLUSHED.into()]));
}

#[test]
fn a_failover_is_waited_for_and_fullness_reported() {
    let message = |text: &str| Trouble::Into(LinkError::Refused(text.into()));
    assert!(passes(&message("READONLY You can't write against a read only replica.")));
    assert!(passes(&message("NOREPLICAS Not enough good replicas to write.")));
    assert!(!passes(&message("OOM command not allowed when used memory > 'maxmemory'.")));
    assert!(!passes(&message("ERR DUMP payload version or checksum are wrong")));
}

#[test]
fn a_mark_is_no_key_of_either_end() {
    let spaces = |first: u64| {
        let space = |keys| Keyspace { keys, expiring: 2 };
        BTreeMap::from([(0, space(first)), (3, space(5)), (4, space(2))])
    };
    assert_eq!(without_mark(&spaces(7), true), without_mark(&spaces(6), false));
    assert_eq!(without_mark(&spaces(3), true), BTreeMap::from([(3, 3)]));
}
