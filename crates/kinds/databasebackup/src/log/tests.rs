//! Which log is kept, whatever is known of the base backups.

use proptest::prelude::*;
use serde_json::{Value, json};

use causeway_backup::jobs::End;
use causeway_backup::record::Evidence;

use super::*;

fn due_at(number: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + number * 300).expect("an instant")
}

fn contents(system: &str, facts: &[(&str, (u8, u32))]) -> Contents {
    let segment = |(timeline, number): (u8, u32)| format!("{timeline:08X}00000000{number:08X}");
    let facts = facts.iter().map(|(name, at)| ((*name).to_owned(), segment(*at)));
    Contents { keys: 0, facts: facts.chain([("system".to_owned(), system.to_owned())]).collect() }
}

fn contents_between(from: u32, to: u32) -> Contents {
    contents("7", &[("first", (1, from)), ("next", (1, to))])
}

fn base(object: &str, number: i64, first: u32) -> Base {
    Base { object: object.into(), due: due_at(number), contents: contents("7", &[("first", (1, first))]) }
}

/// Ten backups of the log, of ten segments each.
fn ten() -> BTreeMap<Timestamp, Contents> {
    (0..10_u32).map(|number| (due_at(number.into()), contents_between(number * 10, number * 10 + 10))).collect()
}

/// Which of them stay, by number.
fn stay(held: BTreeMap<Timestamp, Contents>, bases: Bases) -> Vec<i64> {
    let all: BTreeSet<Timestamp> = (0..10).map(due_at).collect();
    let kept = kept_by_need(&Log { bases, held, ..Log::default() }, &all);
    kept.keys().map(|due| (due.as_second() - 1_800_000_000) / 300).collect()
}

fn all() -> Vec<i64> {
    (0..10).collect()
}

#[test]
fn log_before_the_oldest_base_backup_goes() {
    let bases = |firsts: &[u32]| Bases::Known(firsts.iter().map(|first| base("base", 0, *first)).collect());
    assert_eq!(stay(ten(), bases(&[45])), [3, 4, 5, 6, 7, 8, 9], "4 spans its begin, and 3 is the one before");
    assert_eq!(stay(ten(), bases(&[40])), [3, 4, 5, 6, 7, 8, 9], "3 ends where it begins");
    assert_eq!(stay(ten(), bases(&[39])), [2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(stay(ten(), bases(&[80, 25, 60])), [1, 2, 3, 4, 5, 6, 7, 8, 9], "the one that needs most decides");
    assert_eq!(stay(ten(), bases(&[900])), [9], "the newest stays");
    assert_eq!(stay(ten(), bases(&[5])), all());
}

#[test]
fn in_doubt_all_of_it_stays() {
    assert_eq!(stay(ten(), Bases::Unknown), all());
    assert_eq!(stay(ten(), Bases::InDoubt((BASE_BACKUP_UNKNOWN, String::new()))), all());
    assert_eq!(stay(ten(), Bases::Known(Vec::new())), all());
    assert_eq!(stay(BTreeMap::new(), Bases::Known(vec![base("base", 0, 900)])), all(), "nothing of it was read");
    let of = |contents: Contents| Base { contents, ..base("base", 0, 900) };
    let other = of(contents("8", &[("first", (1, 900))]));
    assert_eq!(stay(ten(), Bases::Known(vec![other.clone()])), all(), "no base backup is of its server");
    assert_eq!(stay(ten(), Bases::Known(vec![other, base("base", 0, 45)]))[0], 3, "those of others need none of it");
    let unclear = [Contents::default(), contents("7", &[]), contents("7", &[("first", (2, 5))])];
    for doubtful in unclear {
        let bases = Bases::Known(vec![base("base", 0, 900), of(doubtful.clone())]);
        assert_eq!(stay(ten(), bases), all(), "{doubtful:?}");
    }
    let mut earlier = contents("7", &[("first", (1, 900))]);
    earlier.facts.insert("first".into(), "somewhere".into());
    assert_eq!(stay(ten(), Bases::Known(vec![base("base", 0, 900), of(earlier)])), all());
}

#[test]
fn unread_log_stays() {
    let bases = || Bases::Known(vec![base("base", 0, 45)]);
    let mut some = ten();
    some.remove(&due_at(1));
    some.insert(due_at(2), Contents::default());
    assert_eq!(stay(some, bases()), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    // After a server was brought back, its log goes on in a new timeline, at an earlier place.
    let mut back = ten();
    back.insert(due_at(0), contents("7", &[("first", (2, 0)), ("next", (2, 10))]));
    assert_eq!(stay(back, bases()), [0, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn retried_log_is_judged_by_its_contents() {
    let mut late = ten();
    late.insert(due_at(1), contents_between(10, 50));
    assert_eq!(stay(late, Bases::Known(vec![base("base", 0, 45)])), [1, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn the_end_of_the_log_stays() {
    let mut late = ten();
    late.insert(due_at(7), contents_between(90, 110));
    late.insert(due_at(9), contents_between(70, 90));
    assert_eq!(stay(late, Bases::Known(vec![base("base", 0, 900)])), [7, 9]);
}

#[test]
fn the_reason_why_log_stays_is_given() {
    let kept = kept_by_need(
        &Log { bases: Bases::Known(vec![base("base", 0, 45)]), held: ten(), ..Log::default() },
        &ten().into_keys().collect(),
    );
    assert_eq!(kept[&due_at(4)], BTreeSet::from([KeptBy::BaseBackup]));
    assert_eq!(kept[&due_at(9)], BTreeSet::from([KeptBy::Newest, KeptBy::BaseBackup]));
}

fn object(name: &str, method: &str, change: &Value) -> DatabaseBackup {
    let server = json!({ "host": "db", "image": "postgres:15", "authSecretName": "login" });
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "DatabaseBackup",
        "metadata": { "name": name, "namespace": "shop", "uid": format!("uid-{name}") },
        "spec": { "schedule": "@daily", "method": method, "source": { "postgresql": server }, "retention": {} },
    });
    for (pointer, value) in change.as_object().into_iter().flatten() {
        *object.pointer_mut(pointer).expect("a field") = value.clone();
    }
    serde_json::from_value(object).expect("an object")
}

/// The names of those that are found, or the reason why not.
fn found_names(all: &[DatabaseBackup]) -> Result<Vec<String>, &'static str> {
    let log = object("log", "Wal", &json!({}));
    let all = all.iter().cloned().chain([log.clone()]).map(Arc::new).collect();
    base_backup_objects(&log, all)
        .map(|found| found.iter().map(|it| it.name_any()).collect())
        .map_err(|(reason, _)| reason)
}

#[test]
fn base_backups_have_the_same_namespace_host_and_port() {
    let base = |name: &str, change: Value| object(name, "BaseBackup", &change);
    let server = |host: &str, port: u16| json!({ "host": host, "port": port, "image": "i", "authSecretName": "l" });
    let others = [
        base("port", json!({ "/spec/source/postgresql": server("db", 5433) })),
        base("host", json!({ "/spec/source/postgresql": server("db2", 5432) })),
        base("far", json!({ "/metadata/namespace": "other" })),
        object("dump", "Dump", &json!({})),
    ];
    assert_eq!(found_names(&others), Err(BASE_BACKUP_MISSING));
    let its = base("its", json!({ "/spec/source/postgresql": server("db", 5432) }));
    let with = |more: &[DatabaseBackup]| [&others[..], more].concat();
    assert_eq!(found_names(&with(&[its.clone(), base("also", json!({}))])), Ok(vec!["also".into(), "its".into()]));
    let mut going = base("going", json!({}));
    going.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-22T00:00:00Z")).expect("a time");
    assert_eq!(found_names(&with(&[its.clone(), going])), Err(BASE_BACKUP_UNKNOWN));
    let mut strange = base("strange", json!({}));
    strange.metadata.annotations = Some([("causeway.example.com/not decoded".into(), "spec.source".into())].into());
    strange.spec.source = None;
    assert_eq!(found_names(&with(&[its, strange])), Err(BASE_BACKUP_UNKNOWN));
}

#[test]
fn only_own_records_tell_the_base_backups() {
    let mut base = object("base", "BaseBackup", &json!({}));
    assert_eq!(uids(&base), ["uid-base"]);
    let bases = BTreeMap::from([(due_at(0), Evidence::Listed(due_at(0)))]);
    let record = |folder: &str| Record {
        namespace: "shop".into(),
        name: "base".into(),
        backups: [(folder.to_owned(), bases.clone())].into(),
        ..Record::default()
    };
    assert!(recorded(&base, "uid-base", Some(record(BASE))).is_ok());
    let renamed = Record { name: "other".into(), ..record(BASE) };
    let foreign = Record { namespace: "other".into(), ..record(BASE) };
    let empty = Record { backups: [(BASE.to_owned(), BTreeMap::new())].into(), ..record(BASE) };
    for doubtful in
        [None, Some(Record::default()), Some(record("postgresql")), Some(renamed), Some(foreign), Some(empty)]
    {
        let (reason, message) = recorded(&base, "uid-base", doubtful).expect_err("a doubt");
        assert_eq!(
            (reason, message.contains("DatabaseBackup base has no base backup yet")),
            (BASE_BACKUP_MISSING, true)
        );
    }
    base.spec.adopt_from = serde_json::from_value(json!({ "uid": "uid-before" })).expect("a UID");
    assert_eq!(uids(&base), ["uid-base", "uid-before"]);
    let (_, message) = recorded(&base, "uid-before", None).expect_err("a doubt");
    assert!(message.contains("leave out its spec.adoptFrom"), "{message}");
}

#[test]
fn nothing_is_settled_while_base_backups_run() {
    let end = || Some(End { at: due_at(0), failure: None });
    let job = |uid: &str, end: Option<End>| Job { uid: uid.into(), end, ..Job::default() };
    let record = Record { jobs: ["known".to_owned()].into(), ..Record::default() };
    assert!(is_settled(&[], &record) && is_settled(&[job("known", end())], &record));
    assert!(!is_settled(&[job("known", end()), job("new", end())], &record), "its report is not recorded yet");
    assert!(!is_settled(&[job("known", None)], &record), "it runs");
}

fn system() -> impl Strategy<Value = String> {
    prop_oneof![4 => Just("7".to_owned()), 1 => Just("8".to_owned())]
}

fn some_base() -> impl Strategy<Value = Base> {
    (system(), 1..3_u8, 0..100_u32).prop_map(|(system, timeline, first)| Base {
        contents: contents(&system, &[("first", (timeline, first))]),
        ..base("base", 0, 0)
    })
}

/// Log in the order in which it was written, of which some was read; its backups may have been due in another order.
fn some_log() -> impl Strategy<Value = Vec<(Timestamp, Contents, bool)>> {
    let one = (0..12_u32, prop_oneof![9 => Just(false), 1 => Just(true)], any::<bool>());
    proptest::collection::vec(one, 1..30).prop_map(|all| {
        let (mut from, mut log) = (0, Vec::new());
        for (number, (length, swap, was_read)) in (0..).zip(all) {
            log.push((due_at(number), contents_between(from, from + length), was_read));
            from += length;
            if swap && let [.., before, last] = log.as_mut_slice() {
                std::mem::swap(&mut before.0, &mut last.0);
            }
        }
        log
    })
}

proptest! {
    #[test]
    fn base_backups_keep_the_log_that_they_need(
        bases in proptest::collection::vec(some_base(), 0..5),
        log in some_log(),
    ) {
        let complete: BTreeSet<Timestamp> = log.iter().map(|it| it.0).collect();
        let read = log.iter().filter(|it| it.2).map(|it| (it.0, it.1.clone())).collect();
        let known = Log { bases: Bases::Known(bases.clone()), held: read, ..Log::default() };
        let once = kept_by_need(&known, &complete);
        let place = |contents: &Contents, fact: &str| contents.facts[fact][8..].to_owned();
        let of_server = bases.iter().filter(|base| base.contents.facts["system"] == "7");
        for (_, held, was_read) in log.iter().filter(|it| !once.contains_key(&it.0)) {
            prop_assert!(was_read);
            prop_assert!(bases.iter().any(|base| base.contents.facts["system"] == "7"));
            prop_assert!(of_server.clone().all(|base| place(held, "next") <= place(&base.contents, "first")));
        }
        prop_assert_eq!(once.keys().last(), complete.last());
        let stays: BTreeSet<Timestamp> = once.keys().copied().collect();
        // Each look keeps the last one that no base backup needs, and it is the same one each time.
        prop_assert_eq!(kept_by_need(&known, &stays), once);
    }

    #[test]
    fn a_base_backup_more_never_keeps_less(
        bases in proptest::collection::vec(some_base(), 1..5),
        more in some_base(),
        log in some_log(),
    ) {
        let complete: BTreeSet<Timestamp> = log.iter().map(|it| it.0).collect();
        let held: BTreeMap<Timestamp, Contents> = log.into_iter().map(|it| (it.0, it.1)).collect();
        let its = |bases: &[Base]| bases.iter().any(|base| base.contents.facts["system"] == "7");
        prop_assume!(its(&bases));
        let kept = |bases: Vec<Base>| {
            kept_by_need(&Log { bases: Bases::Known(bases), held: held.clone(), ..Log::default() }, &complete).into_keys().collect::<BTreeSet<_>>()
        };
        let fewer = kept(bases.clone());
        let all = kept(bases.into_iter().chain([more]).collect());
        prop_assert!(fewer.is_subset(&all));
    }
}

#[test]
fn the_object_with_a_servers_log_is_found() {
    let object = |name: &str, method: &str, host: &str| -> DatabaseBackup {
        serde_json::from_value(serde_json::json!({
            "apiVersion": "example.com/v1", "kind": "DatabaseBackup",
            "metadata": { "name": name, "namespace": "shop", "uid": format!("uid-{name}") },
            "spec": {
                "schedule": "0 1 * * *", "method": method, "retention": {},
                "source": { "postgresql": { "host": host, "image": "postgres:15", "authSecretName": "login" } },
            },
            "status": { "conditions": [{
                "type": "LogBroken", "status": "True", "reason": "LogBroken", "message": "log is missing",
                "lastTransitionTime": "2026-11-22T02:00:00Z",
            }] },
        }))
        .expect("an object")
    };
    let base = object("base", "BaseBackup", "db");
    let all = [object("dump", "Dump", "db"), object("other", "Wal", "db-2"), object("log", "Wal", "db")].map(Arc::new);
    let expected =
        KeepsLog { slot: "causeway_uid_log".into(), broken: Some("DatabaseBackup log: log is missing".into()) };
    assert_eq!(keeps_log(&base, all.to_vec()), Some(expected));
    assert_eq!(keeps_log(&base, all[..2].to_vec()), None);
}
