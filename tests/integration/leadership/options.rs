//! Bad options end the process with one clear line.

use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::Mutex;

use super::process::command;
use crate::support::role::Session;
use crate::support::{Scene, wait_for};

/// Returns the output of the process when one variable is changed, or removed.
async fn complaint(scene: &Scene, session: &Session, variable: &str, value: Option<&str>) -> String {
    let mut command = command("options", scene, session);
    match value {
        Some(value) => command.env(variable, value),
        None => command.env_remove(variable),
    };
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let child = Mutex::new(Bad(child));
    let look = || async { child.lock().unwrap().0.try_wait().expect("its status") };
    let ended = wait_for(&format!("the process to refuse {variable}={value:?}"), look, Option::is_some).await;
    assert!(!ended.expect("a status").success());
    let mut answer = String::new();
    child.lock().unwrap().0.stderr.take().expect("its log").read_to_string(&mut answer).expect("a text");
    answer
}

/// A process that ought to end by itself, and is killed if it does not.
struct Bad(Child);

impl Drop for Bad {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_bad_option_is_told_in_one_clear_line() {
    let scene = Scene::new("options").await;
    let session = Session::of(&scene, "options").await;
    for (variable, value, words) in [
        ("CLUSTER_NAME", None, "--cluster-name"),
        ("CLUSTER_NAME", Some("two words"), "give 1 to 100 letters, digits"),
        ("SWEEP_INTERVAL", Some("0s"), "give at least 1s"),
        ("SWEEP_INTERVAL", Some("often"), "--sweep-interval"),
        ("DATABASE_LEASE_DURATION", Some("2s"), "give a duration from 5s to 1m"),
        ("METRICS_ADDRESS", Some("everywhere"), "--metrics-address"),
        ("CONCURRENCY", Some("0"), "--concurrency"),
        ("KINDS", Some("MyIngress,Pod"), "possible values: MyApp, MyIngress"),
        ("LOG_FORMAT", Some("xml"), "possible values: json, text"),
        ("LOG_LEVEL", Some("what=ever=x"), "use error, warn, info, debug, trace"),
        ("KUBECONFIG", Some("/does/not/exist"), "set KUBECONFIG"),
        ("METRICS_ADDRESS", Some("192.0.2.1:80"), "cannot listen on METRICS_ADDRESS 192.0.2.1:80"),
        ("AWS_REGION", None, "set AWS_REGION"),
    ] {
        let answer = complaint(&scene, &session, variable, value).await;
        assert!(
            answer.lines().any(|line| line.contains(words)),
            "{variable}={value:?} gives:\n{answer}\nand should say: {words}"
        );
        assert!(!answer.contains("panicked"), "{answer}");
    }
}
