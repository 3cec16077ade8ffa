//! Databases that take only clients with TLS: the server's certificate is checked for its name.

use serde_json::json;

use super::sql_mariadb::{engines, table_of_a_thousand};
use super::sql_postgres::POSTGRES;
use super::sql_stage::{CERTIFICATE, Engine, SqlStage};
use super::stage::NAME;
use crate::support::Operator;
use crate::support::certificates::give;

/// Statements for one kind of server.
struct Words {
    fill: String,
    look: &'static str,
    wipe: &'static str,
}

async fn comes_back(name: &str, engine: &'static Engine, words: &Words) {
    let stage = SqlStage::secured(name, engine).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(&words.fill).await;
    let before = stage.ask(words.look).await;
    let secured = stage.server(&json!({ "tlsSecretName": CERTIFICATE }));
    stage.back_up(NAME, &secured, true).await;
    assert_eq!(stage.proven().await.recent[0].keys, 1000);
    stage.ask(words.wipe).await;
    assert_eq!(stage.restored("back", &secured, false).await, 1000);
    assert_eq!(stage.ask(words.look).await, before);

    // One object trusts another authority, and one uses a host name that is not in the certificate.
    give(&stage, "strange", std::slice::from_ref(&stage.host)).await;
    let strange = json!({ "tlsSecretName": "strange" });
    let renamed = json!({ "tlsSecretName": CERTIFICATE, "host": format!("{}.cluster.local", stage.host) });
    let cases = [("strange", strange), ("renamed", renamed)];
    for (name, others) in &cases {
        stage.back_up(name, &stage.server(others), false).await;
    }
    for (name, words) in [
        ("strange", "tlsSecretName: ca.crt of the Secret is not the authority"),
        ("renamed", "host: the server's certificate is not for this name"),
    ] {
        let (reason, message) = stage.failure(name).await;
        assert_eq!(reason, "SourceUnreachable", "{message}");
        assert!(message.contains(&format!("spec.source.{}.{words}", engine.field)), "{name}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_with_tls_alone_is_backed_up_and_restored() {
    let words = Words {
        fill:
            "CREATE DATABASE shop;\n\\c shop\nCREATE TABLE a AS SELECT i, md5(i::text) FROM generate_series(1, 1000) i;"
                .into(),
        look: "\\c shop\nSELECT count(*), md5(string_agg(a::text, ',' ORDER BY i)) FROM a;",
        wipe: "DROP DATABASE shop WITH (FORCE);",
    };
    comes_back("sql-postgres-tls", &POSTGRES, &words).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mariadb_with_tls_alone_is_backed_up_and_restored() {
    let words = Words {
        fill: table_of_a_thousand(),
        look: "SET SESSION group_concat_max_len = 1000000; SELECT COUNT(*), SHA2(GROUP_CONCAT(sum ORDER BY seq), 256) FROM shop.a;",
        wipe: "DROP DATABASE shop;",
    };
    for engine in engines() {
        comes_back("sql-mariadb-tls", engine, &words).await;
    }
}
