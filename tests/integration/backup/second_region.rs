//! A region is gone with its bucket: the copies in another region can be restored.

use std::fs;
use std::process::Command;

use causeway_api::databaserestore::RestorePhase;
use serde_json::json;

use super::disaster::{account, restored};
use super::stage::{Stage, redis_command};
use crate::support::{Operator, role};

const ELSEWHERE: &str = "eu-central-1";
/// The line before the commands in the documentation.
const MARK: &str = "run by tests/integration/backup/second_region.rs. -->\n```console\n";

/// The commands of docs/databasebackup.md that make the bucket and the rule, as a script.
fn documented() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/databasebackup.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, commands) = page.split_once(MARK).expect("the commands");
    let (commands, _) = commands.split_once("```").expect("their end");
    commands.lines().map(|line| line.strip_prefix("$ ").unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// Runs a script with all rights in the account; returns what it prints.
fn run(stage: &Stage, copy: &str, script: &str) -> String {
    let done = Command::new("sh")
        .args(["-euc", script])
        .envs(account(stage))
        .env("ACCOUNT_ID", stage.emulator.account())
        .env("CLUSTER_NAME", &stage.namespace)
        .env("BUCKET", stage.bucket())
        .env("REPLICA", copy)
        .env("REPLICA_REGION", ELSEWHERE)
        .output()
        .expect("a shell");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_in_another_region_restores() {
    let stage = Stage::new("second-region").await;
    let issuer = role::trust_cluster(&stage).await;
    role::put_jobs_of(&stage, &issuer, &stage.namespace, &["us-east-1", ELSEWHERE]).await;
    let _operator = Operator::start(&stage).await;
    let address = stage.redis("cache").await;
    let () = redis_command(&address, &["SET", "greeting", "hello"]).await;
    stage.backed_up(json!({ "redis": { "name": "cache" } })).await;
    stage.has_signatures(1).await;

    let copy = stage.bucket().replace("us-east-1", ELSEWHERE);
    run(&stage, &copy, &documented());
    let rule = run(&stage, &copy, "aws s3api get-bucket-replication --bucket $BUCKET --output json");
    assert!(rule.contains(&format!("arn:aws:s3:::{copy}")), "{rule}");
    // S3 would do this itself.
    let replicate =
        "aws s3 sync --only-show-errors --source-region us-east-1 --region $REPLICA_REGION s3://$BUCKET s3://$REPLICA";
    run(&stage, &copy, replicate);
    run(&stage, &copy, "aws s3 rm --only-show-errors --recursive s3://$BUCKET");
    let () = redis_command(&address, &["FLUSHALL"]).await;

    let from = |s3| json!({ "s3": s3, "source": "Redis/cache" });
    let target = || json!({ "redis": { "name": "cache" } });
    let (phase, reason, message) = restored(&stage, "near", from(json!({ "bucket": stage.bucket() })), target()).await;
    assert_eq!(phase, RestorePhase::Failed, "nothing is left there: {reason}: {message}");
    let far = json!({ "bucket": copy, "region": ELSEWHERE });
    let (phase, reason, message) = restored(&stage, "far", from(far), target()).await;
    assert_eq!(phase, RestorePhase::Succeeded, "{reason}: {message}");
    assert_eq!(redis_command::<String>(&address, &["GET", "greeting"]).await, "hello");
}
