//! What a restore asks the target for, and in which order.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// What a node refuses, and in which words.
type Refuses = fn(&[&str]) -> Option<&'static str>;

/// What a node was asked, in order.
type Asked = Arc<Mutex<Vec<String>>>;

/// A node that has one key, and serves one client. Returns its address.
async fn node(key: &'static str, refuses: Refuses) -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, asked) = (listener.local_addr().unwrap().to_string(), Asked::default());
    let noted = asked.clone();
    tokio::spawn(async move {
        let mut client = BufReader::new(listener.accept().await.unwrap().0);
        while let Some(parts) = command_of(&mut client).await {
            let words: Vec<&str> = parts.iter().map(String::as_str).collect();
            let reply = refuses(&words).map_or_else(|| answer(&words, key), |why| format!("-{why}\r\n"));
            noted.lock().unwrap().push(parts.join(" "));
            client.write_all(reply.as_bytes()).await.unwrap();
        }
    });
    (address, asked)
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

fn answer(words: &[&str], key: &str) -> String {
    let bytes = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    match words {
        ["INFO"] => bytes("redis_version:7.2.4\r\nrole:master\r\nloading:0\r\ndb0:keys=1,expires=0\r\n"),
        ["GET", _] => "$-1\r\n".into(),
        ["EXISTS", asked] => format!(":{}\r\n", u8::from(*asked == key)),
        ["PTTL", _] => ":-2\r\n".into(),
        ["PEXPIRETIME", _] => ":-1\r\n".into(),
        ["DUMP", _] => bytes("value"),
        ["FUNCTION", "DUMP"] => bytes("functions"),
        ["SCAN", ..] => format!("*2\r\n{}*1\r\n{}", bytes("0"), bytes(key)),
        ["UNLINK", ..] => ":1\r\n".into(),
        _ => "+OK\r\n".into(),
    }
}

/// Restores with `force` into a node that refuses something. Returns whether that succeeded, and what the node was asked
/// that drops or loads anything but a key.
async fn restored_into(refuses: Refuses) -> (Result<u64, Error>, Vec<String>) {
    let ((scratch, _), (target, asked)) = (node("a", |_| None).await, node("b", refuses).await);
    let server = Server::Redis { addresses: vec![target], login: None, tls: None };
    let target = Source { folder: "redis-cache".into(), title: "Redis cache".into(), server };
    let done = restore(&scratch, &target, true, "noon").await;
    let asked = asked.lock().unwrap().clone();
    (done, asked.into_iter().filter(|it| it.starts_with("FUNCTION") || it.starts_with("UNLINK")).collect())
}

const ADDED: &str = "FUNCTION RESTORE functions REPLACE";
const FLUSHED: &str = "FUNCTION RESTORE functions FLUSH";

#[tokio::test]
async fn functions_that_the_backup_lacks_go_after_all_is_copied() {
    let (done, asked) = restored_into(|_| None).await;
    assert_eq!((done.unwrap(), asked), (1, vec![ADDED.into(), "UNLINK b".into(), FLUSHED.into()]));
}

#[tokio::test]
async fn a_target_that_runs_out_of_memory_keeps_the_functions_that_the_backup_lacks() {
    let full = |words: &[&str]| (words[0] == "RESTORE").then_some("OOM command not allowed");
    let (done, asked) = restored_into(full).await;
    assert_eq!((done.unwrap_err().reason(), asked), ("TargetFailed", vec![ADDED.to_owned()]));
}

#[tokio::test]
async fn functions_that_others_of_the_target_prevent_are_loaded_in_their_place() {
    let taken = |words: &[&str]| {
        (words[0] == "FUNCTION" && words.last() == Some(&"REPLACE")).then_some("ERR Function f already exists")
    };
    let (done, asked) = restored_into(taken).await;
    assert_eq!((done.unwrap(), asked), (1, vec![ADDED.into(), "UNLINK b".into(), FLUSHED.into()]));
}

#[test]
fn a_failover_of_the_target_is_waited_for_and_a_full_one_is_told() {
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
