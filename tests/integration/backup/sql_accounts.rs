//! Users, roles and their rights come back with the databases of a MariaDB: into a new server, beside accounts that it
//! has already, with a login that may create none, and by hand.

use causeway_api::databaserestore::RestorePhase;
use causeway_api::{DatabaseBackup, DatabaseBackupStatus};
use serde_json::{Value, json};

use super::disaster::by_hand;
use super::sql_mariadb::{engines, read_routines};
use super::sql_stage::{Engine, SqlStage};
use super::stage::{NAME, WAIT_TIMEOUT};
use crate::support::Operator;
use crate::support::wait::wait_within;

/// A database whose view has a definer of its own; one of its accounts may read only through a role; and an event
/// changes it each second where events run.
const FILL: &str = r#"CREATE DATABASE shop; CREATE DATABASE bank; USE shop;
CREATE TABLE orders (id INT); INSERT INTO orders VALUES (1), (2), (3); CREATE TABLE ticks (id INT);
CREATE USER app@'%' IDENTIFIED BY 'of app', kept@'%' IDENTIFIED BY 'of the source', reader@'%' IDENTIFIED BY 'of reader',
  'o''dd "`\\u'@'%' IDENTIFIED BY 'of odd';
CREATE USER definer@'%' IDENTIFIED BY 'x' ACCOUNT LOCK;
CREATE USER member@'%' IDENTIFIED BY 'of member' WITH MAX_USER_CONNECTIONS 7;
CREATE ROLE staff; GRANT SELECT ON shop.orders TO staff; GRANT staff TO member@'%'; DEFAULT_ROLE;
GRANT ALL ON shop.* TO app@'%'; GRANT SELECT ON bank.* TO app@'%'; GRANT SELECT (id) ON shop.orders TO definer@'%';
GRANT SELECT ON shop.orders TO 'o''dd "`\\u'@'%'; GRANT SELECT ON shop.* TO kept@'%';
GRANT SELECT, SHOW VIEW, TRIGGER, EVENT, LOCK TABLES ON shop.* TO reader@'%'; GRANT PROCESS ON *.* TO reader@'%';
GRANT READ_ROUTINES TO reader@'%';
CREATE DEFINER=definer@'%' VIEW totals AS SELECT COUNT(id) AS n FROM orders;
SET GLOBAL event_scheduler = OFF;
CREATE EVENT tick ON SCHEDULE EVERY 1 SECOND DO INSERT INTO shop.ticks VALUES (1);"#;

/// The object with backups of one database, by a login that may read accounts.
const ONE: &str = "one-database";

/// Statements to run as an account, and a part of the expected answer: user, password, statements, answer.
const LOGINS: &[(&str, &str, &str, &str)] = &[
    (
        "app",
        "of app",
        "INSERT INTO shop.orders VALUES (4); SELECT (SELECT COUNT(*) FROM shop.orders), n FROM shop.totals;",
        "4\t4",
    ),
    ("app", "of member", "SELECT 1;", "Access denied"),
    ("member", "of member", "SELECT COUNT(*) FROM shop.orders;", "4"),
    ("member", "of member", "SELECT * FROM shop.ticks;", "denied"),
    ("o'dd \"`\\u", "of odd", "SELECT COUNT(*) FROM shop.orders;", "4"),
    ("definer", "x", "SELECT 1;", "locked"),
];

async fn log_in(stage: &SqlStage, logins: &[(&str, &str, &str, &str)]) {
    for (user, password, question, expected) in logins {
        let answer = stage.ask_as(user, password, question).await;
        assert!(answer.contains(expected), "{user} with {password}: {question} {answer}");
    }
}

/// The place of an object's first backup, and the public key.
async fn first_backup(stage: &SqlStage, name: &str) -> (String, String) {
    let api = stage.api::<DatabaseBackup>();
    let look = || async { api.get(name).await.expect("the object").status.unwrap_or_default() };
    let has_one = |status: &DatabaseBackupStatus| !status.recent.is_empty();
    let status = wait_within(WAIT_TIMEOUT, "a backup", look, has_one).await;
    let run = &status.recent[0];
    let place = format!("{}/{}/{}", status.prefix.clone().unwrap_or_default(), run.folder, run.id);
    (place, status.signing_key.expect("a public key"))
}

/// Returns what the manifest says about accounts.
async fn accounts(stage: &SqlStage, place: &str) -> Value {
    let object = stage.s3.get_object().bucket(stage.bucket()).key(format!("{place}/manifest.json"));
    let bytes = object.send().await.expect("an object").body.collect().await.expect("its bytes").to_vec();
    let manifest: Value = serde_json::from_slice(&bytes).expect("JSON");
    manifest["contents"]["facts"]["accounts"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_and_roles_return_and_existing_ones_stay() {
    for engine in engines() {
        Box::pin(come_back(engine)).await;
    }
}

async fn come_back(engine: &'static Engine) {
    let mut stage = SqlStage::new("sql-accounts", engine).await;
    let _operator = Operator::start(&stage).await;
    let is_mysql = engine.image.starts_with("mysql");
    let default =
        if is_mysql { "SET DEFAULT ROLE staff TO member@'%'" } else { "SET DEFAULT ROLE staff FOR member@'%'" };
    let fill = FILL.replace("DEFAULT_ROLE", default).replace("READ_ROUTINES", read_routines(engine));
    stage.ask(&fill).await;
    stage.back_up(NAME, &stage.server(&json!({})), true).await;
    stage.proven().await;
    // A login that may not read accounts backs up the databases without them.
    let reader = stage.login("reader", "of reader").await;
    let mut narrow = reader.clone();
    narrow["database"] = "shop".into();
    stage.back_up("narrow", &stage.server(&narrow), false).await;
    let (place, key) = first_backup(&stage, NAME).await;
    stage.back_up(ONE, &stage.server(&json!({ "database": "shop" })), false).await;
    first_backup(&stage, ONE).await;
    assert_eq!(accounts(&stage, &place).await, "7");
    assert_eq!(accounts(&stage, &first_backup(&stage, "narrow").await.0).await, "left out");

    // A new server, which already has one of the accounts, and runs events.
    stage.replace().await;
    stage.ask("CREATE USER kept@'%' IDENTIFIED BY 'of the target'; SET GLOBAL event_scheduler = ON;").await;
    let planned = stage.restore_as("look", &stage.server(&json!({})), &json!({ "dryRun": true })).await;
    let changes = planned.outlook.expect("an outlook").changes;
    let changes: Vec<_> =
        changes.iter().filter(|it| it.what == "accounts").map(|it| (it.count, it.names.clone())).collect();
    assert_eq!((changes[0].0, &changes[1]), (6, &(1, vec!["kept@%".to_owned()])));
    assert_eq!(stage.restored("back", &stage.server(&json!({})), false).await, 3);
    log_in(&stage, LOGINS).await;
    let stays = [
        ("kept", "of the target", "SELECT 'in';", "in"),
        ("kept", "of the target", "SELECT * FROM shop.orders;", "denied"),
        ("kept", "of the source", "SELECT 1;", "Access denied"),
    ];
    log_in(&stage, &stays).await;
    let look = "SELECT @@GLOBAL.event_scheduler; SELECT max_user_connections FROM mysql.user WHERE user = 'member';
        SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'causeway_restore';";
    assert_eq!(stage.ask(look).await, "ON\n7\n0");

    // Another new server, which is restored by hand.
    stage.replace().await;
    stage.has_signatures(3).await;
    for file in ["dump", "users"] {
        let then = format!("{file}() {{ tar -xf plain; find {file} -type f | sort | xargs cat; }}; {file}");
        stage.ask(&by_hand(&stage, &place, &key, &then)).await;
    }
    log_in(&stage, LOGINS).await;

    // A login that may create no accounts restores the data, and the message lists the accounts that are left out.
    let gone = "SET @@global.event_scheduler = OFF; DROP DATABASE shop; DROP DATABASE bank; DROP ROLE staff; DROP USER app@'%', definer@'%',
        member@'%', 'o''dd \"`\\\\u'@'%', kept@'%', reader@'%'; CREATE USER restorer@'%' IDENTIFIED BY 'of restorer';
        GRANT ALL ON shop.* TO restorer@'%'; GRANT ALL ON bank.* TO restorer@'%';
        GRANT ALL ON `causeway\\_restore`.* TO restorer@'%'; GRANT SELECT ON mysql.* TO restorer@'%'; GRANT GLOBAL ON *.* TO restorer@'%';";
    // A login that may write into `mysql` could create accounts, too, so it may only read there.
    let global = if is_mysql { "SET_ANY_DEFINER, ALLOW_NONEXISTENT_DEFINER, SYSTEM_USER" } else { "SET USER" };
    let gone = gone.replace("GLOBAL", global);
    stage.ask(&gone).await;
    let restorer = stage.login("restorer", "of restorer").await;
    let status = stage.restore("unprivileged", &stage.server(&restorer), false).await;
    let text = status.message.unwrap_or_default();
    assert_eq!((status.phase, status.keys), (RestorePhase::Succeeded, Some(3)), "{text}");
    for words in ["accounts left out: ", "staff", "app@%", "o'dd \"`\\u@%", "CREATE USER"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(
        stage.ask("SELECT COUNT(*) FROM shop.orders; SELECT COUNT(*) FROM mysql.user WHERE user = 'app';").await,
        "3\n0"
    );

    // One database under another name, with the rights on that database.
    stage.replace().await;
    let other = stage.server(&json!({ "database": "other_shop" }));
    let status = stage.restore_as("one", &other, &json!({ "from": { "backup": ONE } })).await;
    assert_eq!(status.phase, RestorePhase::Succeeded, "{:?}", status.message);
    let may = stage.ask("SHOW GRANTS FOR app@'%';").await;
    assert!(may.contains("ON `other\\\\_shop`.*") && !may.contains("bank"), "{may}");
    log_in(&stage, &[("member", "of member", "SELECT COUNT(*) FROM other_shop.orders;", "3")]).await;
}
