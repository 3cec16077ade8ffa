//! Which base backup and log are found of a server, and what is said when they are not.

use serde_json::{Value, json};

use super::*;

fn backup(name: &str, method: &str, host: &str, port: Option<u16>) -> DatabaseBackup {
    let mut server = json!({ "host": host, "image": "postgres:15", "authSecretName": "login" });
    if let Some(port) = port {
        server["port"] = json!(port);
    }
    let object: Value = json!({
        "apiVersion": "example.com/v1", "kind": "DatabaseBackup", "metadata": { "name": name, "namespace": "shop" },
        "spec": { "schedule": "@daily", "method": method, "source": { "postgresql": server } },
    });
    serde_json::from_value(object).expect("an object")
}

fn log_name_beside(all: &[DatabaseBackup]) -> Result<Option<String>, &'static str> {
    let found = log_beside(&backup("base", "BaseBackup", "db", None), all);
    found.map(|it| it.map(|it| it.name_any())).map_err(|no| match no {
        Choice::Refused(reason, _) => reason,
        _ => "another",
    })
}

#[test]
fn the_log_is_that_of_the_same_server() {
    let log = backup("log", "Wal", "db", Some(5432));
    let others = [
        backup("base", "BaseBackup", "db", None),
        backup("dump", "Dump", "db", None),
        backup("other", "Wal", "db", Some(5433)),
        backup("far", "Wal", "db2", None),
    ];
    assert_eq!(log_name_beside(&others), Ok(None));
    let with_log: Vec<DatabaseBackup> = others.into_iter().chain([log.clone()]).collect();
    assert_eq!(log_name_beside(&with_log), Ok(Some("log".into())), "5432 is the port where none is given");
    assert_eq!(log_name_beside(&[log.clone(), backup("again", "Wal", "db", None)]), Err("LogAmbiguous"));
}

pub fn origin(prefix: &str) -> Destination {
    Destination {
        bucket: "b".into(),
        owner: "111122223333".into(),
        region: "eu-west-1".into(),
        endpoint: None,
        prefix: prefix.into(),
        storage_class: None,
        kms_key: None,
        bucket_encrypts: false,
    }
}

#[test]
fn base_backups_of_several_servers_are_not_mixed() {
    let base = |prefix: &str, id: &str, system: &str| {
        let mut manifest = Manifest { id: id.into(), ..Manifest::sample(BASE, "15.18") };
        manifest.contents.facts.insert("system".into(), system.into());
        (origin(prefix), Document { manifest, sha256: String::new() })
    };
    let (old, new) = (base("shop/a/u1", "20261121T000000Z", "7"), base("shop/a/u2", "20261122T000000Z", "7"));
    let other = base("shop/b/u3", "20261122T010000Z", "8");
    assert_eq!(newest(vec![new.clone(), old.clone()]), Ok(Some(new.clone())));
    let Err(Choice::Refused("SourceAmbiguous", text)) = newest(vec![new, other, old]) else { panic!("refused") };
    assert!(text.contains("a database under shop/b/u3") && text.contains("spec.from.s3.prefix"), "{text}");
    assert_eq!(newest(Vec::new()), Ok(None));
}

#[test]
fn what_is_missing_is_refused_unless_it_may_come() {
    let no_base = Missing::Base { until: None, earliest: None };
    assert!(matches!(refused(&no_base, &origin("p"), None), Choice::Waiting("BaseBackupMissing", _)));
    let Choice::Refused("LogTooShort", text) = refused(&Missing::End("noon".into()), &origin("p"), Some("x")) else {
        panic!("refused")
    };
    assert!(text.starts_with("under s3://b/p/, the log ends at noon") && text.ends_with("count: x"), "{text}");
}

#[test]
fn only_without_log_a_base_backup_goes_alone() {
    let why = |is_asked_for, cut| needs_log(is_asked_for, cut, &origin("shop"), &origin("shop/base/u1"));
    assert_eq!(why(false, false), None);
    for (is_asked_for, cut) in [(true, false), (true, true), (false, true)] {
        let Some(Choice::Refused("LogMissing", text)) = why(is_asked_for, cut) else { panic!("refused") };
        assert!(text.starts_with("under s3://b/shop/, no log of that server "), "{text}");
        // With the whole namespace, the command would find log of other servers.
        assert_eq!(text.contains("causeway backups recover --prefix shop/base/u1 "), !is_asked_for, "{text}");
    }
}

#[test]
fn a_cut_listing_is_not_the_end_of_log() {
    let until = Some("2026-11-22T12:00:00Z".parse().expect("an instant"));
    let found = || Ok(vec![Document { manifest: Manifest::sample(WAL, "15.18"), sha256: String::new() }]);
    assert_eq!(as_far_as_read(found(), None, None), found(), "all was read");
    assert_eq!(as_far_as_read(found(), Some(5001), until), found(), "the instant was reached");
    assert_eq!(as_far_as_read(found(), Some(5001), None), Err(Missing::Many(5001)));
    let end = || Err(Missing::End("noon".into()));
    assert_eq!(as_far_as_read(end(), None, until), end());
    assert_eq!(as_far_as_read(end(), Some(5001), until), Err(Missing::Many(5001)));
    let hole = || Err(Missing::Log);
    assert_eq!(as_far_as_read(hole(), Some(5001), None), hole());
}
