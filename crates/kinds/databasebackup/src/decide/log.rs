//! Conditions about log that base backups need, and about log that is never deleted. Pure.

use jiff::Timestamp;

use causeway_api::databasebackup::Method;
use causeway_backup::chain::{self, Gap};
use causeway_backup::manifest::{Contents, id_of};
use causeway_backup::plan::WAL;
use causeway_runtime::{ConditionStatus, ExtraCondition};

use super::super::log::{BASE_BACKUP_MISSING, BROKEN, Base, Bases};
use super::super::names::NOW;
use super::super::retention::{follows_base_backups, max_age};
use super::super::view::View;

/// The log begins after a base backup that needs earlier log.
const TOO_LATE: &str = "LogBeginsTooLate";
/// Log is kept for base backups of which nothing is known.
const NOT_DELETED: &str = "LogNotDeleted";

/// All conditions. One of which nothing is known now stays as before.
pub fn parts(view: &View<'_>) -> Vec<ExtraCondition> {
    if view.object.spec.method != Method::Wal {
        return vec![none(TOO_LATE), none(NOT_DELETED), of_base(view)];
    }
    too_late(view).into_iter().chain(not_deleted(view)).chain(broken(view)).collect()
}

/// Returns what the object that keeps the log says of a hole in it, for base backups that need that log.
fn of_base(view: &View<'_>) -> ExtraCondition {
    let said = view.observed.keeps_log.as_ref().and_then(|log| log.broken.clone());
    match said {
        Some(message) => ExtraCondition { type_: BROKEN, status: ConditionStatus::True, reason: BROKEN, message },
        None => none(BROKEN),
    }
}

/// Reports whether log is missing between the newest backups.
fn broken(view: &View<'_>) -> Option<ExtraCondition> {
    view.observed.catalog.as_ref()?;
    let recent = &view.observed.log.recent;
    let Some((before, after, gap)) = chain::last_gap(recent.iter().map(|(due, it)| (*due, it))) else {
        return Some(none(BROKEN));
    };
    let what = match gap {
        Gap::Missing(end, begin) => format!("ends before segment {end}, and {} begins at {begin}", id_of(after)),
        Gap::OtherServer(was, is) => format!("is of the server {was}, and {} of {is}", id_of(after)),
        Gap::SegmentUnknown(fact) => format!("or {} does not say its {fact} segment", id_of(after)),
    };
    let held = recent.get(&after);
    let Bases::Known(bases) = &view.observed.log.bases else {
        let message = format!("log is missing: backup {} {what}", id_of(before));
        return Some(ExtraCondition { type_: BROKEN, status: ConditionStatus::True, reason: BROKEN, message });
    };
    let is_after = |base: &&Base| {
        held.is_some_and(|held| {
            !chain::is_of_other_server(held, &base.contents) && !chain::begins_too_late(held, &base.contents)
        })
    };
    let advice = match (bases.iter().filter(is_after).min_by_key(|base| base.due), bases.last()) {
        (Some(base), _) => format!("base backups from {} on have all of their log", id_of(base.due)),
        (None, Some(base)) => format!(
            "take a base backup now, from which on all is there again: kubectl annotate dbb {} {NOW}={} --overwrite",
            base.object,
            id_of(after)
        ),
        (None, None) => "take a base backup, from which on all is there again".to_owned(),
    };
    let message = format!(
        "log is missing: backup {} {what}. Earlier base backups can be brought back only up to there; {advice}",
        id_of(before)
    );
    Some(ExtraCondition { type_: BROKEN, status: ConditionStatus::True, reason: BROKEN, message })
}

fn none(type_: &'static str) -> ExtraCondition {
    ExtraCondition { type_, status: ConditionStatus::Absent, reason: "None", message: String::new() }
}

fn not_deleted(view: &View<'_>) -> Option<ExtraCondition> {
    match &view.observed.log.bases {
        _ if !follows_base_backups(view.object) => Some(none(NOT_DELETED)),
        Bases::Unknown => None,
        Bases::Known(_) => Some(none(NOT_DELETED)),
        Bases::InDoubt((reason, why)) => Some(ExtraCondition {
            type_: NOT_DELETED,
            status: ConditionStatus::True,
            reason,
            message: format!("no log is deleted: {why}"),
        }),
    }
}

fn too_late(view: &View<'_>) -> Option<ExtraCondition> {
    let first = view.observed.catalog.as_ref()?.complete(WAL).first().copied();
    let (bases, first) = match (&view.observed.log.bases, first) {
        (Bases::Unknown, _) => return None,
        (Bases::InDoubt((reason, _)), _) => return (*reason == BASE_BACKUP_MISSING).then(|| none(TOO_LATE)),
        (Bases::Known(_), None) => return Some(none(TOO_LATE)),
        (Bases::Known(bases), Some(first)) => (bases, first),
    };
    let held = view.observed.log.held.get(&first)?;
    let is_before = |base: &&Base| chain::begins_too_late(held, &base.contents);
    let before = bases.iter().filter(is_before);
    let Some(oldest) = before.clone().min_by_key(|base| base.due) else { return Some(none(TOO_LATE)) };
    let (reason, cause) = cause(view, oldest, bases, (first, held));
    let more = match before.count() {
        1 => String::new(),
        count => format!(", and so can {} more", count - 1),
    };
    let taken = oldest.contents.facts.get("until").map_or_else(String::new, |until| format!(" (complete at {until})"));
    let message = format!(
        "the log begins with backup {}; base backup {} of DatabaseBackup {}{taken} is older, and can be brought back only as it was \
         when it was taken{more}. {cause}",
        id_of(first),
        id_of(oldest.due),
        oldest.object
    );
    Some(ExtraCondition { type_: TOO_LATE, status: ConditionStatus::True, reason, message })
}

/// Explains why the log begins too late, and what to do: a reason and a message.
fn cause(
    view: &View<'_>,
    oldest: &Base,
    bases: &[Base],
    (first, held): (Timestamp, &Contents),
) -> (&'static str, String) {
    let rules = &view.object.spec.retention;
    let kept_since = max_age(rules).map(|age| view.now.checked_sub(age).unwrap_or(Timestamp::MIN));
    if let (Some(since), Some(age)) = (kept_since, &rules.max_age)
        && oldest.due < since
    {
        let message = format!(
            "Log is kept for less time than base backups: make spec.retention.maxAge longer than {age}, or give \
             spec.retention: {{}}, which keeps log as long as a base backup needs it; what is deleted does not come back"
        );
        return ("MaxAgeTooShort", message);
    }
    let is_served =
        |base: &Base| !chain::is_of_other_server(held, &base.contents) && !chain::begins_too_late(held, &base.contents);
    if bases.iter().any(is_served) {
        return (
            "BaseBackupOlder",
            "This ends when that base backup is deleted; later ones have all of their log".into(),
        );
    }
    let message = format!(
        "The next base backup has all of its log: wait for it, or take one now: kubectl annotate dbb {} {NOW}={} --overwrite",
        oldest.object,
        id_of(first)
    );
    ("BaseBackupOlder", message)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::super::super::action::{Action, Change};
    use super::super::super::facts::Observed;
    use super::super::super::fixtures::backup;
    use super::super::super::log::{BASE_BACKUP_UNKNOWN, KeepsLog, Log};
    use super::super::tests::{catalog, decided, now, settled};
    use super::*;
    use causeway_api::DatabaseBackup;
    use causeway_api::databasebackup::KeptBy;
    use causeway_backup::manifest::due_of;
    use causeway_runtime::Health;

    const LOG: [&str; 3] = ["20261120T020000Z", "20261121T020000Z", "20261122T020000Z"];

    fn object(retention: Value) -> DatabaseBackup {
        let mut object = backup();
        let server = json!({ "postgresql": { "host": "db", "image": "postgres:15", "authSecretName": "login" } });
        object.spec.method = Method::Wal;
        object.spec.source = serde_json::from_value(server).expect("a source");
        object.spec.retention = serde_json::from_value(retention).expect("rules");
        object
    }

    fn contents(facts: &[(&str, u32)]) -> Contents {
        let facts = facts.iter().map(|(name, number)| ((*name).to_owned(), format!("0000000100000000{number:08X}")));
        Contents { keys: 0, facts: facts.chain([("system".to_owned(), "7".to_owned())]).collect() }
    }

    fn base(id: &str, first: u32) -> Base {
        let mut contents = contents(&[("first", first)]);
        contents.facts.insert("until".into(), "2026-11-20T01:04:11Z".into());
        Base { object: "shop-base".into(), due: due_of(id).expect("an ID"), contents }
    }

    /// Three backups of the log, from segment 10 to 40.
    fn observed(object: &DatabaseBackup, bases: Bases) -> Observed {
        let mut found = catalog(&LOG, &[], now());
        let folder = found.folders.remove("redis-cache").expect("a folder");
        found.folders.insert(WAL.into(), folder);
        let held: BTreeMap<Timestamp, Contents> = (1..)
            .zip(LOG)
            .map(|(number, id)| {
                (due_of(id).expect("an ID"), contents(&[("first", number * 10), ("next", number * 10 + 10)]))
            })
            .collect();
        Observed { catalog: Some(found), log: Log { bases, held, ..Log::default() }, ..settled(object) }
    }

    fn deleted(object: &DatabaseBackup, observed: &Observed) -> Vec<String> {
        let actions = decided(object, observed).actions.into_iter();
        let keys = actions.filter_map(|action| match action {
            Action::Bucket { change: Change::DeleteObjects { keys, .. }, .. } => Some(keys),
            _ => None,
        });
        keys.flatten().collect()
    }

    fn condition(
        object: &DatabaseBackup,
        bases: Bases,
        type_: &str,
    ) -> Option<(ConditionStatus, &'static str, String)> {
        let parts = decided(object, &observed(object, bases)).parts.into_iter();
        parts.filter(|it| it.type_ == type_).map(|it| (it.status, it.reason, it.message)).next()
    }

    #[test]
    fn unneeded_log_is_deleted_unless_in_doubt() {
        let follows = object(json!({}));
        let bases = |first| Bases::Known(vec![base("20261122T010000Z", first)]);
        let key = |file: &str| format!("shop/nightly/uid-1/{WAL}/{}/{file}", LOG[0]);
        assert_eq!(deleted(&follows, &observed(&follows, bases(35))), [key("manifest.json"), key("data")]);
        let doubt = Bases::InDoubt((BASE_BACKUP_UNKNOWN, "why".into()));
        for bases in [bases(15), Bases::Unknown, doubt, Bases::Known(Vec::new())] {
            assert_eq!(deleted(&follows, &observed(&follows, bases.clone())), Vec::<String>::new(), "{bases:?}");
        }
        let plan = decided(&follows, &observed(&follows, bases(35)));
        assert!(!matches!(plan.health, Health::Stalled(_)), "{:?}", plan.health);
        // With maxAge, the age alone decides.
        let aged = object(json!({ "maxAge": "20d" }));
        assert_eq!(deleted(&aged, &observed(&aged, bases(35))), Vec::<String>::new());
        let short = object(json!({ "maxAge": "40h" }));
        assert_eq!(deleted(&short, &observed(&short, bases(15))).len(), 2);
    }

    #[test]
    fn the_newest_and_the_last_written_log_stay() {
        let aged = object(json!({ "maxAge": "5h" }));
        let with = |last: &str| {
            let mut observed = observed(&aged, Bases::Unknown);
            let folder = observed.catalog.as_mut().and_then(|found| found.folders.get_mut(WAL)).expect("the log");
            for (due, stored) in folder {
                stored.modified = if id_of(*due) == last { now() } else { *due };
            }
            observed
        };
        let keys = |ids: &[&str]| -> Vec<String> {
            let keys = |file: &'static str| ids.iter().map(move |id| format!("shop/nightly/uid-1/{WAL}/{id}/{file}"));
            keys("manifest.json").chain(keys("data")).collect()
        };
        assert_eq!(deleted(&aged, &with(LOG[2])), keys(&LOG[..2]));
        assert_eq!(deleted(&aged, &with(LOG[1])), keys(&LOG[..1]), "its Job was retried until after the next one");
    }

    #[test]
    fn no_rule_that_counts_deletes_log_whatever_the_spec_says() {
        let counting = json!({ "keepLast": 1, "maxAge": "40h" });
        for method in [Method::Dump, Method::BaseBackup] {
            let changed = DatabaseBackup {
                spec: causeway_api::DatabaseBackupSpec { method, ..object(counting.clone()).spec },
                ..object(counting.clone())
            };
            let observed = Observed { log: Log::default(), ..observed(&changed, Bases::Unknown) };
            assert_eq!(deleted(&changed, &observed), Vec::<String>::new(), "{method:?}");
        }
        let counts = object(json!({ "keepLast": 1 }));
        let known = Bases::Known(vec![base("20261122T010000Z", 15)]);
        assert_eq!(
            deleted(&counts, &observed(&counts, known)),
            Vec::<String>::new(),
            "the schema refuses this, so it keeps all"
        );
    }

    #[test]
    fn the_status_says_that_base_backups_keep_log() {
        let mut follows = object(json!({}));
        let run = |id: &str| {
            json!({
                "id": id, "source": "PostgreSQL db:5432", "folder": WAL, "finished": "2026-11-22T02:00:00Z", "seconds": 1,
                "bytes": 1, "storedBytes": 1, "keys": 0,
            })
        };
        let recent: Vec<Value> = LOG.iter().map(|id| run(id)).collect();
        follows.status = serde_json::from_value(json!({ "recent": recent })).expect("a status");
        let bases = Bases::Known(vec![base("20261122T010000Z", 35)]);
        let recent = decided(&follows, &observed(&follows, bases)).status.recent;
        let kept: Vec<Vec<KeptBy>> = recent.into_iter().map(|run| run.kept_by).collect();
        assert_eq!(kept, [vec![KeptBy::Newest, KeptBy::BaseBackup], vec![KeptBy::BaseBackup], vec![]]);
    }

    #[test]
    fn log_that_is_not_deleted_is_reported() {
        let doubt = || Bases::InDoubt((BASE_BACKUP_MISSING, "there is no base backup".into()));
        let not_deleted = |object: &DatabaseBackup, bases: Bases| condition(object, bases, NOT_DELETED);
        let follows = object(json!({}));
        let message = "no log is deleted: there is no base backup".to_owned();
        assert_eq!(not_deleted(&follows, doubt()), Some((ConditionStatus::True, BASE_BACKUP_MISSING, message)));
        assert_eq!(not_deleted(&follows, Bases::Unknown), None, "as before");
        let gone = Some((ConditionStatus::Absent, "None", String::new()));
        assert_eq!(not_deleted(&follows, Bases::Known(vec![base("20261122T010000Z", 35)])), gone);
        assert_eq!(not_deleted(&object(json!({ "maxAge": "20d" })), doubt()), gone);
        assert_eq!(not_deleted(&backup(), Bases::Unknown), gone, "it keeps no log");
    }

    #[test]
    fn a_hole_in_the_log_is_told_by_both_objects() {
        let follows = object(json!({}));
        let held = |first: u32, next: u32| contents(&[("first", first), ("next", next)]);
        let told = |bases: Vec<Base>, holds: [(u32, u32); 2]| {
            let mut observed = observed(&follows, Bases::Known(bases));
            let dues = LOG.iter().map(|id| due_of(id).expect("an ID"));
            observed.log.recent = dues.zip(holds.map(|(first, next)| held(first, next))).collect();
            let part = decided(&follows, &observed).parts.into_iter().find(|it| it.type_ == BROKEN).expect("it");
            (part.status, part.message)
        };
        let early = base("20261119T010000Z", 10);
        assert_eq!(told(vec![early.clone()], [(10, 20), (20, 30)]).0, ConditionStatus::Absent);
        let (status, message) = told(vec![early.clone()], [(10, 20), (25, 30)]);
        assert_eq!(status, ConditionStatus::True);
        for words in
            ["backup 20261120T020000Z ends before segment", "20261121T020000Z begins at", "annotate dbb shop-base"]
        {
            assert!(message.contains(words), "{words}: {message}");
        }
        let (_, message) = told(vec![early, base("20261121T030000Z", 28)], [(10, 20), (25, 30)]);
        assert!(message.contains("from 20261121T030000Z on have all of their log"), "{message}");
        // The object with base backups says it, too.
        let bases = backup();
        let said =
            KeepsLog { slot: "causeway_1".into(), broken: Some("DatabaseBackup shop-log: log is missing".into()) };
        let observed = Observed { keeps_log: Some(said), ..settled(&bases) };
        let part = decided(&bases, &observed).parts.into_iter().find(|it| it.type_ == BROKEN).expect("it");
        assert_eq!(
            (part.status, part.message.as_str()),
            (ConditionStatus::True, "DatabaseBackup shop-log: log is missing")
        );
    }

    #[test]
    fn late_log_is_reported_with_cause_and_fix() {
        let (before, later) = (base("20261119T010000Z", 5), base("20261121T010000Z", 15));
        let say =
            |retention: Value, bases: &[Base]| condition(&object(retention), Bases::Known(bases.to_vec()), TOO_LATE);
        let gone = Some((ConditionStatus::Absent, "None", String::new()));
        assert_eq!(say(json!({}), std::slice::from_ref(&later)), gone, "it has all of its log");
        let (status, reason, message) = say(json!({ "maxAge": "2d" }), &[before.clone(), later.clone()]).expect("it");
        assert_eq!((status, reason), (ConditionStatus::True, "MaxAgeTooShort"));
        for words in [
            "the log begins with backup 20261120T020000Z; base backup 20261119T010000Z of DatabaseBackup shop-base",
            "(complete at 2026-11-20T01:04:11Z) is older, and can be brought back only as it was when it was taken. ",
            "make spec.retention.maxAge longer than 2d, or give spec.retention: {}",
        ] {
            assert!(message.contains(words), "{words}: {message}");
        }
        // The log is younger than the base backup, and no rule is to blame.
        for retention in [json!({}), json!({ "maxAge": "20d" })] {
            let (_, reason, message) = say(retention, &[before.clone(), later.clone()]).expect("it");
            assert!(reason == "BaseBackupOlder" && message.contains("This ends when that base backup"), "{message}");
        }
        let both = [base("20261119T020000Z", 6), before];
        let (_, reason, message) = say(json!({}), &both).expect("it");
        assert_eq!(reason, "BaseBackupOlder");
        for words in [
            "base backup 20261119T010000Z",
            ", and so can 1 more. ",
            "wait for it, or take one now: kubectl annotate dbb shop-base",
        ] {
            assert!(message.contains(words), "{words}: {message}");
        }
        let other = Base { contents: Contents::default(), ..later };
        assert_eq!(say(json!({}), &[other]), gone, "what does not say where it began is not judged");
        let follows = object(json!({}));
        assert_eq!(condition(&follows, Bases::Unknown, TOO_LATE), None, "as before");
        assert_eq!(condition(&follows, Bases::InDoubt((BASE_BACKUP_UNKNOWN, String::new())), TOO_LATE), None);
        assert_eq!(condition(&follows, Bases::InDoubt((BASE_BACKUP_MISSING, String::new())), TOO_LATE), gone);
    }
}
