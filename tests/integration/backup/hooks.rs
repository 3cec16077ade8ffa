//! SQL statements around a dump: before it, and after it, whether it succeeded or not.

use causeway_api::{DatabaseBackup, DatabaseBackupStatus};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::sql_mariadb::engines;
use super::sql_postgres::POSTGRES;
use super::sql_stage::{Engine, LOGIN, SqlStage};
use super::stage::{NAME, WAIT_TIMEOUT};
use crate::support::Operator;
use crate::support::wait::wait_within;

/// The message about a hook whose second statement is wrong.
const SECOND_OF_THREE: &str = "spec.hooks.before: statement 2 of 3 failed, and nothing was dumped";

/// A statement that adds a row to the table `audit`.
fn note(who: &str, what: &str) -> String {
    format!("INSERT INTO audit (who, what) VALUES ('{who}', '{what}')")
}

/// Asks for a backup of the database `shop` with these hooks.
async fn back_up(stage: &SqlStage, name: &str, hooks: &Value) {
    let shop = stage.server(&json!({ "database": "shop" }));
    stage.back_up_as(name, &shop, &json!({ "hooks": hooks })).await;
}

/// Labels the login's Secret: it allows that hooks run with this login.
async fn agree(stage: &SqlStage) {
    let label =
        Patch::Merge(json!({ "metadata": { "labels": { "causeway.example.com/hooks-by": "databasebackup" } } }));
    stage.api::<Secret>().patch(LOGIN, &PatchParams::default(), &label).await.expect("the label is taken");
}

/// Waits until there is a backup of an object.
async fn backed_up(stage: &SqlStage, name: &str) -> DatabaseBackupStatus {
    let api = stage.api::<DatabaseBackup>();
    let look = || async { api.get(name).await.expect("the object").status.unwrap_or_default() };
    let done = |status: &DatabaseBackupStatus| status.backups > 0 || status.last_failure.is_some();
    let status = wait_within(WAIT_TIMEOUT, &format!("a backup of {name}"), look, done).await;
    assert_eq!((status.backups, &status.last_failure), (1, &None), "{name}");
    status
}

/// Waits until a backup failed because of a hook, with these words in the message.
async fn refused(stage: &SqlStage, name: &str, words: &[&str]) {
    let (reason, text) = stage.failure(name).await;
    assert_eq!(reason, "HookFailed", "{text}");
    for words in words {
        assert!(text.contains(words), "{text}\nshould say: {words}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_run_before_a_dump_of_postgresql_and_behind_it_whatever_became_of_it() {
    let stage = SqlStage::new("hooks-postgres", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    let fill = "CREATE DATABASE shop; CREATE DATABASE copy;
\\c shop
CREATE TABLE audit (id serial PRIMARY KEY, who text, what text);";
    stage.ask(fill).await;
    // Somebody who may write the object may not run any statement with the login.
    back_up(&stage, "unasked", &json!({ "before": [note("unasked", "before")] })).await;
    let api = stage.api::<DatabaseBackup>();
    let look = || async { json!(api.get("unasked").await.expect("the object").status).to_string() };
    wait_within(WAIT_TIMEOUT, "the refusal", look, |status| status.contains("hooks-by=databasebackup")).await;
    stage.delete::<DatabaseBackup>("unasked").await;
    stage.gone::<DatabaseBackup>("unasked").await;
    agree(&stage).await;
    // Nobody reads the rows that a hook returns, and VACUUM does not run in a transaction.
    let good = [note(NAME, "before"), "SELECT i FROM generate_series(1, 1000) i".into(), "VACUUM audit".into()];
    back_up(&stage, NAME, &json!({ "before": good, "after": [note(NAME, "after")] })).await;
    let broken = [note("broken", "first"), "INSERT INTO missing VALUES (1)".into(), note("broken", "never")];
    back_up(&stage, "broken", &json!({ "before": broken, "after": [note("broken", "after")] })).await;
    back_up(&stage, "command", &json!({ "before": ["\\! touch /tmp/owned"], "after": [note("command", "after")] }))
        .await;
    back_up(&stage, "hung", &json!({ "before": ["SELECT pg_sleep(3600)"], "timeout": "1s" })).await;
    back_up(&stage, "late", &json!({ "after": ["SELECT 1 / 0", note("late", "never")] })).await;

    let status = backed_up(&stage, NAME).await;
    assert_eq!(status.recent[0].folder, "postgresql");
    refused(&stage, "broken", &[SECOND_OF_THREE, "relation \"missing\" does not exist"]).await;
    // The server refuses this: there is no `psql` to run it.
    refused(&stage, "command", &["syntax error at or near \"\\\""]).await;
    refused(&stage, "hung", &["statement timeout"]).await;
    backed_up(&stage, "late").await;
    stage.has_event("late", "HookFailed", "succeeded, but spec.hooks.after: statement 1 of 2 failed").await;
    stage.has_event("late", "HookFailed", "division by zero").await;

    let look = "SELECT string_agg(who || ' ' || what, ', ' ORDER BY who, id) FROM audit";
    let there = stage.ask(&format!("\\c shop\n{look};")).await;
    assert_eq!(there, format!("broken first, broken after, command after, {NAME} before, {NAME} after"));
    // The row of the hook before is in the backup, and the row of the hook after is not.
    stage.restored("back", &stage.server(&json!({ "database": "copy" })), false).await;
    let copied = stage.ask(&format!("\\c copy\n{look} WHERE who = '{NAME}';")).await;
    assert_eq!(copied, format!("{NAME} before"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_run_before_a_dump_of_mariadb_and_behind_it_whatever_became_of_it() {
    for engine in engines() {
        Box::pin(run_around_a_dump_of(engine)).await;
    }
}

async fn run_around_a_dump_of(engine: &'static Engine) {
    let stage = SqlStage::new("hooks-mariadb", engine).await;
    let _operator = Operator::start(&stage).await;
    let fill = "CREATE DATABASE shop; USE shop;
                CREATE TABLE audit (id INT AUTO_INCREMENT PRIMARY KEY, who VARCHAR(20), what VARCHAR(20));";
    stage.ask(fill).await;
    agree(&stage).await;
    let good =
        ["SET @what = 'before'".into(), format!("INSERT INTO audit (who, what) VALUES ('{NAME}', @what); -- so")];
    back_up(&stage, NAME, &json!({ "before": good, "after": [note(NAME, "after")] })).await;
    let broken = [note("broken", "first"), "INSERT INTO missing VALUES (1)".into(), note("broken", "never")];
    back_up(&stage, "broken", &json!({ "before": broken, "after": [note("broken", "after")] })).await;
    back_up(&stage, "command", &json!({ "before": ["\\! touch /tmp/owned"], "after": [note("command", "after")] }))
        .await;
    // The client knows these without a backslash, too.
    for (name, command) in [("system", "system touch /tmp/owned"), ("source", "source /etc/passwd")] {
        back_up(&stage, name, &json!({ "before": [command] })).await;
    }
    back_up(&stage, "hung", &json!({ "before": ["DO SLEEP(3600)"], "timeout": "1s" })).await;
    // This would read a file of the container that has the login, such as the password.
    stage.ask("SET GLOBAL local_infile = 1;").await;
    back_up(&stage, "file", &json!({ "before": ["LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE audit (what)"] }))
        .await;

    backed_up(&stage, NAME).await;
    refused(&stage, "broken", &[SECOND_OF_THREE, "'shop.missing' doesn't exist"]).await;
    for name in ["command", "system", "source", "hung", "file"] {
        refused(&stage, name, &["spec.hooks.before: statement 1 of 1 failed"]).await;
    }

    let look = "SELECT GROUP_CONCAT(CONCAT(who, ' ', what) ORDER BY who, id SEPARATOR ', ') FROM";
    let there = stage.ask(&format!("{look} shop.audit;")).await;
    assert_eq!(there, format!("broken first, broken after, command after, {NAME} before, {NAME} after"));
    stage.restored("back", &stage.server(&json!({ "database": "other" })), false).await;
    let copied = stage.ask(&format!("{look} other.audit WHERE who = '{NAME}';")).await;
    assert_eq!(copied, format!("{NAME} before"));
}
