//! An address with several servers behind it: a backup is of one of them, or none.

use serde_json::json;

use super::sql_postgres::POSTGRES;
use super::sql_stage::SqlStage;
use super::stage::NAME;
use crate::support::Operator;

/// So many that connections reach both servers.
const DATABASES: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_two_servers_fail_a_backup() {
    let mut stage = SqlStage::new("sql-servers", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    let fill = |server: &str| -> String {
        let one = |number: usize| {
            format!("CREATE DATABASE d{number};\n\\c d{number}\nCREATE TABLE t AS SELECT '{server}' AS server;\n")
        };
        (0..DATABASES).map(one).collect()
    };
    stage.ask(&fill("first")).await;
    let (second, both) = stage.second().await;
    let first = std::mem::replace(&mut stage.host, second);
    stage.ask(&fill("second")).await;

    stage.host = both;
    stage.back_up(NAME, &stage.server(&json!({})), false).await;
    let (reason, text) = stage.failure(NAME).await;
    assert!(
        text.contains("reached different servers") && text.contains("spec.source.postgresql.host"),
        "{reason}: {text}"
    );

    stage.host = first;
    stage.back_up("of-one", &stage.server(&json!({})), false).await;
    stage.becomes_of("of-one", "a backup", |status| status.backups == 1).await;
}
