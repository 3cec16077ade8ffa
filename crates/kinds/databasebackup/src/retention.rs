//! Which backups are kept. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

use causeway_api::DatabaseBackup;
use causeway_api::databasebackup::{KeptBy, Method, Retention};

/// The reason why each of the backups that stay is kept.
pub type Reasons = BTreeMap<Timestamp, BTreeSet<KeptBy>>;

/// The complete backups of one database that are kept, by the instants at which they were due. The newest is always kept.
pub fn kept_by_rules(rules: &Retention, complete: &BTreeSet<Timestamp>, zone: &TimeZone, now: Timestamp) -> Reasons {
    let youngest_first: Vec<Timestamp> = complete.iter().rev().copied().collect();
    let age = max_age(rules);
    let by = |reason: KeptBy| move |due: Timestamp| (due, BTreeSet::from([reason]));
    let mut kept: Reasons = match age {
        Some(_) if rule_count(rules) == 0 => complete.iter().copied().map(by(KeptBy::MaxAge)).collect(),
        _ => youngest_first.iter().copied().take(count(rules.keep_last)).map(by(KeptBy::Last)).collect(),
    };
    let mut one_of_each = |reason: KeptBy, number: i32, span: fn(&Zoned) -> (i16, i16)| {
        let mut spans = BTreeSet::new();
        for due in &youngest_first {
            if spans.len() == count(number) {
                break;
            }
            if spans.insert(span(&due.to_zoned(zone.clone()))) {
                kept.entry(*due).or_default().insert(reason);
            }
        }
    };
    one_of_each(KeptBy::Hourly, rules.keep_hourly, |at| (at.year(), at.day_of_year() * 24 + i16::from(at.hour())));
    one_of_each(KeptBy::Daily, rules.keep_daily, |at| (at.year(), at.day_of_year()));
    one_of_each(KeptBy::Weekly, rules.keep_weekly, |at| {
        let week = at.date().iso_week_date();
        (week.year(), week.week().into())
    });
    one_of_each(KeptBy::Monthly, rules.keep_monthly, |at| (at.year(), at.month().into()));
    one_of_each(KeptBy::Yearly, rules.keep_yearly, |at| (at.year(), 0));
    if let Some(age) = age {
        let oldest = now.checked_sub(age).unwrap_or(Timestamp::MIN);
        kept.retain(|due, _| *due >= oldest);
    }
    if let Some(newest) = youngest_first.first() {
        kept.entry(*newest).or_default().insert(KeptBy::Newest);
    }
    kept
}

/// The results of proving the backups of one database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proofs {
    /// The newest one that was proven.
    pub proven: Option<Timestamp>,
    /// Those that failed.
    pub failed: BTreeSet<Timestamp>,
}

/// The same as [`kept_by_rules`], where backups are proven. The rules apply twice, and what either result keeps stays. Once they
/// apply without the backups that failed, so a failed one does not take the place of a good one. Once they apply to all
/// backups: a failure never deletes more, because its cause may not be the backup. The newest proven backup is always
/// kept.
pub fn kept_proven(
    rules: &Retention,
    complete: &BTreeSet<Timestamp>,
    proofs: &Proofs,
    zone: &TimeZone,
    now: Timestamp,
) -> Reasons {
    let good: BTreeSet<Timestamp> = complete.difference(&proofs.failed).copied().collect();
    let mut all = kept_by_rules(rules, complete, zone, now);
    for (due, reasons) in kept_by_rules(rules, &good, zone, now) {
        all.entry(due).or_default().extend(reasons);
    }
    if let Some(proven) = proofs.proven.filter(|proven| complete.contains(proven)) {
        all.entry(proven).or_default().insert(KeptBy::Proven);
    }
    all
}

/// How many backups the rules ask for.
fn rule_count(rules: &Retention) -> usize {
    let Retention { keep_last, keep_hourly, keep_daily, keep_weekly, keep_monthly, keep_yearly, max_age: _ } = rules;
    [keep_last, keep_hourly, keep_daily, keep_weekly, keep_monthly, keep_yearly].into_iter().map(|it| count(*it)).sum()
}

/// Reports whether the rules keep anything.
pub fn keeps_something(rules: &Retention) -> bool {
    rules.max_age.is_some() || rule_count(rules) > 0
}

/// Reports whether base backups alone decide what is kept: the object keeps log, and has no rule.
pub fn follows_base_backups(object: &DatabaseBackup) -> bool {
    object.spec.method == Method::Wal && !keeps_something(&object.spec.retention)
}

/// The age from which nothing is kept but the newest.
pub fn max_age(rules: &Retention) -> Option<SignedDuration> {
    rules.max_age.as_deref().and_then(age)
}

fn count(number: i32) -> usize {
    usize::try_from(number).unwrap_or_default()
}

/// `36h`, `30d` or `8w`.
fn age(text: &str) -> Option<SignedDuration> {
    let unit = text.chars().next_back()?;
    let hours = match unit {
        'h' => 1,
        'd' => 24,
        'w' => 7 * 24,
        _ => return None,
    };
    let number: i64 = text.strip_suffix(unit)?.parse().ok()?;
    Some(SignedDuration::from_hours(number.checked_mul(hours)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: i64 = 3600;
    const NOW: i64 = 1_800_000_000;

    fn before_now(hours_ago: i64) -> Timestamp {
        Timestamp::from_second(NOW - hours_ago * HOUR).unwrap()
    }

    fn dues(kept: &Reasons) -> BTreeSet<Timestamp> {
        kept.keys().copied().collect()
    }

    fn ages(rules: &Retention, complete: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let complete = complete.into_iter().map(before_now).collect();
        let kept = kept_by_rules(rules, &complete, &TimeZone::UTC, before_now(0));
        kept.keys().rev().map(|due| (NOW - due.as_second()) / HOUR).collect()
    }

    #[test]
    fn the_last_ones_are_kept() {
        assert_eq!(ages(&Retention { keep_last: 2, ..Retention::default() }, [1, 2, 3, 50]), [1, 2]);
    }

    #[test]
    fn each_rule_that_keeps_a_backup_is_named() {
        let rules = Retention { keep_last: 2, keep_daily: 2, ..Retention::default() };
        let proofs = Proofs { proven: Some(before_now(50)), failed: BTreeSet::new() };
        let all =
            kept_proven(&rules, &[0, 1, 24, 25, 50].map(before_now).into(), &proofs, &TimeZone::UTC, before_now(0));
        let named: Vec<Vec<KeptBy>> = all.into_values().rev().map(|reasons| reasons.into_iter().collect()).collect();
        let expected = [
            vec![KeptBy::Last, KeptBy::Daily, KeptBy::Newest],
            vec![KeptBy::Last],
            vec![KeptBy::Daily],
            vec![KeptBy::Proven],
        ];
        assert_eq!(named, expected);
    }

    #[test]
    fn the_newest_of_each_day_is_kept() {
        let rules = Retention { keep_daily: 3, ..Retention::default() };
        assert_eq!(ages(&rules, [0, 1, 24, 25, 72, 96]), [0, 24, 72]);
    }

    #[test]
    fn days_are_those_of_the_time_zone() {
        let rules = Retention { keep_daily: 9, ..Retention::default() };
        let due = |text: &str| text.parse::<Timestamp>().unwrap();
        let complete: BTreeSet<Timestamp> = [due("2026-11-21T22:30:00Z"), due("2026-11-21T23:30:00Z")].into();
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        assert_eq!(kept_by_rules(&rules, &complete, &berlin, due("2026-11-22T00:00:00Z")).len(), 2);
        assert_eq!(kept_by_rules(&rules, &complete, &TimeZone::UTC, due("2026-11-22T00:00:00Z")).len(), 1);
    }

    #[test]
    fn max_age_alone_keeps_and_beside_rules_bounds() {
        let alone = Retention { max_age: Some("2d".into()), ..Retention::default() };
        assert_eq!(ages(&alone, [1, 47, 49, 500]), [1, 47]);
        let both = Retention { keep_last: 9, max_age: Some("36h".into()), ..Retention::default() };
        assert_eq!(ages(&both, [1, 35, 37]), [1, 35]);
        assert_eq!(ages(&both, [700, 800]), [700], "the newest stays whatever its age");
    }

    #[test]
    fn ages_are_hours_days_and_weeks() {
        assert_eq!(age("36h"), Some(SignedDuration::from_hours(36)));
        assert_eq!(age("30d"), Some(SignedDuration::from_hours(720)));
        assert_eq!(age("8w"), Some(SignedDuration::from_hours(1344)));
        assert_eq!((age("8"), age(""), age("xd")), (None, None, None));
    }

    fn rules() -> impl Strategy<Value = Retention> {
        let number = || prop_oneof![Just(0), 0..8_i32];
        let age = prop_oneof![Just(None), (1..400_i64).prop_map(|hours| Some(format!("{hours}h")))];
        (number(), number(), number(), number(), number(), number(), age).prop_map(
            |(keep_last, keep_hourly, keep_daily, keep_weekly, keep_monthly, keep_yearly, max_age)| Retention {
                keep_last,
                keep_hourly,
                keep_daily,
                keep_weekly,
                keep_monthly,
                keep_yearly,
                max_age,
            },
        )
    }

    #[test]
    fn failed_backups_displace_none_and_proven_ones_stay() {
        let rules = Retention { keep_last: 1, ..Retention::default() };
        let ages = |proven: Option<i64>, failed: &[i64]| -> Vec<i64> {
            let proofs =
                Proofs { proven: proven.map(before_now), failed: failed.iter().copied().map(before_now).collect() };
            let kept =
                kept_proven(&rules, &[1, 2, 3, 4].map(before_now).into(), &proofs, &TimeZone::UTC, before_now(0));
            kept.keys().rev().map(|due| (NOW - due.as_second()) / HOUR).collect()
        };
        assert_eq!(ages(None, &[]), [1]);
        assert_eq!(ages(Some(1), &[]), [1]);
        assert_eq!(ages(Some(3), &[]), [1, 3], "the newer ones are not proven yet");
        assert_eq!(ages(Some(3), &[1]), [1, 2, 3], "the newest that did not fail counts as the last");
        assert_eq!(ages(None, &[1, 2, 3, 4]), [1], "the newest stays even if none is good");
        assert_eq!(ages(Some(9), &[1]), [1, 2], "what is gone is not kept");
    }

    proptest! {
        #[test]
        fn proofs_keep_the_newest_good_backup(
            rules in rules(),
            minutes in proptest::collection::btree_map(0..2_000_000_i64, any::<bool>(), 1..60),
            proven in any::<proptest::sample::Index>(),
        ) {
            let due = |minute: &i64| Timestamp::from_second(NOW - minute * 60).unwrap();
            let complete: BTreeSet<Timestamp> = minutes.keys().map(due).collect();
            let failed = minutes.iter().filter(|(_, failed)| **failed).map(|(minute, _)| due(minute)).collect();
            let proven = *proven.get(&complete.iter().copied().collect::<Vec<_>>());
            let proofs = Proofs { proven: Some(proven), failed };
            let kept_proven = |all: &BTreeSet<Timestamp>| dues(&kept_proven(&rules, all, &proofs, &TimeZone::UTC, before_now(0)));
            let once = kept_proven(&complete);
            prop_assert!(once.is_subset(&complete));
            prop_assert!(once.is_superset(&dues(&kept_by_rules(&rules, &complete, &TimeZone::UTC, before_now(0)))));
            prop_assert!(once.contains(&proven));
            let good = complete.difference(&proofs.failed).last();
            prop_assert!(good.is_none_or(|good| once.contains(good)));
            prop_assert_eq!(&kept_proven(&once), &once);
        }

        #[test]
        fn the_newest_stays_and_retention_is_idempotent(
            rules in rules(),
            minutes in proptest::collection::btree_set(0..2_000_000_i64, 0..60),
        ) {
            let complete: BTreeSet<Timestamp> =
                minutes.iter().map(|it| Timestamp::from_second(NOW - it * 60).unwrap()).collect();
            let kept = |all: &BTreeSet<Timestamp>| dues(&kept_by_rules(&rules, all, &TimeZone::UTC, before_now(0)));
            let once = kept(&complete);
            prop_assert!(once.is_subset(&complete));
            prop_assert_eq!(once.last(), complete.last());
            prop_assert_eq!(&kept(&once), &once);
        }

        /// Of many backups, only some may have been read.
        #[test]
        fn a_partial_catalog_keeps_no_less(
            rules in rules(),
            minutes in proptest::collection::btree_map(0..2_000_000_i64, any::<bool>(), 0..60),
        ) {
            let due = |minute: &i64| Timestamp::from_second(NOW - minute * 60).unwrap();
            let all: BTreeSet<Timestamp> = minutes.keys().map(due).collect();
            let read: BTreeSet<Timestamp> = minutes.iter().filter(|(_, read)| **read).map(|(it, _)| due(it)).collect();
            let kept = |some: &BTreeSet<Timestamp>| dues(&kept_by_rules(&rules, some, &TimeZone::UTC, before_now(0)));
            let (of_all, of_read) = (kept(&all), kept(&read));
            prop_assert!(of_all.intersection(&read).all(|due| of_read.contains(due)));
        }

        #[test]
        fn a_rule_more_never_keeps_less(rules in rules(), minutes in proptest::collection::btree_set(0..2_000_000_i64, 0..60)) {
            let complete: BTreeSet<Timestamp> =
                minutes.iter().map(|it| Timestamp::from_second(NOW - it * 60).unwrap()).collect();
            let some = Retention { max_age: None, ..rules };
            let more = Retention { keep_last: some.keep_last + 1, keep_daily: some.keep_daily + 1, ..some.clone() };
            let kept = |rules: &Retention| dues(&kept_by_rules(rules, &complete, &TimeZone::UTC, before_now(0)));
            prop_assert!(kept(&some).is_subset(&kept(&more)));
        }
    }
}
