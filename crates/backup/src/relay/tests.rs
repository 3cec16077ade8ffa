//! Both sides together, and one side against an impostor.

use std::path::{Path, PathBuf};

use tokio::net::UnixListener;
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::frame::{End, Failure, Frame};
use super::{Relayed, serve};
use crate::Error;
use crate::manifest::Contents;
use crate::plan::{BackupPlan, Hooks, Source};

fn plan() -> BackupPlan {
    let text = r#"{"destination":{"bucket":"b","owner":"0","region":"r","prefix":"p"},"sources":[
        {"folder":"redis-cache","title":"Redis cache","server":{"type":"redis","addresses":["127.0.0.1:1"]}}]}"#;
    serde_json::from_str(text).expect("a plan")
}

fn socket(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("causeway-relay-{}-{name}", std::process::id()));
    std::fs::remove_file(&path).ok();
    path
}

/// Answers one request with these frames, whatever is asked for.
fn impostor(name: &str, frames: Vec<Frame>) -> PathBuf {
    let path = socket(name);
    let listener = UnixListener::bind(&path).expect("a socket");
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        Frame::read(&mut stream).await.expect("a request");
        for frame in frames {
            frame.write(&mut stream).await.ok();
        }
    });
    path
}

async fn received(path: &Path) -> Result<(Vec<u8>, Option<u64>, (String, Contents)), Error> {
    let mut relayed = Relayed::open(path, &plan().sources[0]).await?;
    let mut all = Vec::new();
    while let Some(data) = relayed.next().await? {
        assert!(!data.is_empty(), "nothing is no data");
        all.extend_from_slice(&data);
    }
    assert_eq!(relayed.kind(), "redis");
    let expected = relayed.expected();
    let (version, contents, _) = relayed.finish();
    Ok((all, expected, (version, contents)))
}

#[tokio::test]
async fn errors_of_a_dump_pass_through_the_relay() {
    let (path, stop) = (socket("serve"), CancellationToken::new());
    let (serving, stopping) = (path.clone(), stop.clone());
    let server = tokio::spawn(async move { serve(&plan(), &serving, &stopping).await });
    let error = received(&path).await.expect_err("no listener there");
    assert_eq!((error.reason(), error.is_final()), ("SourceUnreachable", false));
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    let other = Source { folder: "redis-other".into(), ..plan().sources[0].clone() };
    let mut relayed = Relayed::open(&path, &other).await.expect("it still listens");
    let error = relayed.next().await.expect_err("it is not in the plan");
    assert_eq!((error.reason(), error.is_final()), ("Unsupported", true));
    stop.cancel();
    server.await.expect("no panic").expect("it ends well");
}

#[tokio::test]
async fn data_are_complete_only_when_that_is_said() {
    let data = || Frame::Data(Bytes::from_static(b"data"));
    let contents = Contents { keys: 1, ..Contents::default() };
    let end = End { version: "7.0.15".into(), contents, ..End::default() };
    // While tables are counted, only heartbeats come.
    let beat = || Frame::Data(Bytes::new());
    let whole = vec![beat(), data(), Frame::Expected(8), data(), beat(), beat(), Frame::End(end.clone())];
    let (all, expected, finished) = received(&impostor("whole", whole)).await.expect("all of it");
    assert_eq!((all.as_slice(), expected, finished), (b"datadata".as_slice(), Some(8), (end.version, end.contents)));
    let error = received(&impostor("cut", vec![data()])).await.expect_err("it lacks its end");
    assert_eq!(error.reason(), "SourceFailed");
}

#[tokio::test]
async fn a_hostile_image_can_say_nothing_but_that_it_failed() {
    let failure = |reason: &str| Failure { reason: reason.into(), message: "a\nb".into(), is_final: false };
    for (name, frame, reason) in [
        ("word", Frame::Failed(failure("ToolMissing")), "ToolMissing"),
        ("words", Frame::Failed(failure("Ready\n{}")), "SourceFailed"),
        ("nothing", Frame::Failed(failure("")), "SourceFailed"),
        ("request", Frame::Request("redis-cache".into()), "SourceFailed"),
        ("receipt", Frame::Complete, "SourceFailed"),
        ("version", Frame::End(End { version: "9".repeat(1000), ..End::default() }), "SourceFailed"),
    ] {
        let error = received(&impostor(name, vec![frame])).await.expect_err("no dump");
        assert_eq!(error.reason(), reason, "{name}");
        assert!(!error.describe().contains('\n'), "{name}");
    }
}

#[tokio::test]
async fn notes_beside_a_dump_are_one_short_line() {
    for (name, note, expected) in [
        ("none", None, None),
        ("note", Some("spec.hooks.after: a\n\u{1b}[31m b"), Some("spec.hooks.after: a [31m b".to_owned())),
        ("long", Some("x".repeat(1000).as_str()), Some("x".repeat(300))),
    ] {
        let end = End { note: note.map(str::to_owned), ..End::default() };
        let mut relayed = Relayed::open(&impostor(name, vec![Frame::End(end)]), &plan().sources[0]).await.expect("it");
        assert_eq!(relayed.note(), None, "nothing came yet");
        assert_eq!(relayed.next().await.expect("the end"), None);
        assert_eq!(relayed.note(), expected);
    }
}

/// Redis runs no statements: both lists fail, and their errors are reported as those of a SQL server would be.
#[tokio::test]
async fn hooks_behind_a_dump_run_whatever_became_of_it() {
    let (path, stop) = (socket("hooks"), CancellationToken::new());
    let (serving, stopping) = (path.clone(), stop.clone());
    let hooks = Hooks { before: vec!["SELECT 1".into()], after: vec!["SELECT 2".into()], timeout_seconds: 5 };
    let plan = BackupPlan { hooks: Some(hooks), ..plan() };
    let server = tokio::spawn(async move { serve(&plan, &serving, &stopping).await });
    let error = received(&path).await.expect_err("no SQL runs there");
    assert_eq!((error.reason(), error.is_final()), ("Unsupported", true));
    let text = error.to_string();
    assert_eq!(text.matches("Redis cache runs no SQL around a dump").count(), 2, "nothing was dumped between: {text}");
    stop.cancel();
    server.await.expect("no panic").expect("it ends well");
}

#[tokio::test]
async fn a_server_that_is_stopped_waits_for_no_client() {
    let (path, stop) = (socket("stop"), CancellationToken::new());
    let (serving, stopping) = (path.clone(), stop.clone());
    let server = tokio::spawn(async move { serve(&plan(), &serving, &stopping).await });
    while !path.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let silent = tokio::net::UnixStream::connect(&path).await.expect("it listens");
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    stop.cancel();
    server.await.expect("no panic").expect("it ends well");
    drop(silent);
}
