//! Which backup a Job is to make: the one that was due when Kubernetes made the Job. Pure.

use jiff::{SignedDuration, Timestamp};

use super::Error;
use super::manifest::{due_of, id_of};

/// Digits of the minutes since the epoch, from 1989 to 2160.
const DIGITS: usize = 8;
/// A Job of a `CronJob` never runs this long after it was due: it begins at most seven days late (the most that
/// `spec.startingDeadline` may be), and has failed a day later (`spec.retry.deadline`).
pub const LATEST: SignedDuration = SignedDuration::from_hours(9 * 24);
/// How far the clock of a node may be behind.
const EARLIEST: SignedDuration = SignedDuration::from_mins(10);

/// The ID of the backup. Every try of a Job gets the same ID: a second try goes on where the first one ended.
///
/// `due` is an ID or an instant. Without it, the ID comes from the name of the Job: the name of a Job that a `CronJob` made
/// ends in the minute when it was due. A Job that a user made by hand is due `now`, even if its name ends in other digits, such
/// as a date.
pub fn id(due: Option<&str>, job: Option<&str>, now: Timestamp) -> Result<String, Error> {
    match due.filter(|due| !due.is_empty()) {
        Some(due) if due_of(due).is_some() => Ok(due.to_owned()),
        Some(due) => due.parse().map(id_of).map_err(|_| Error::Due(due.to_owned())),
        None => Ok(id_of(job.and_then(|job| time_of(job, now)).unwrap_or(now))),
    }
}

/// The instant in the name of a `CronJob`'s Job.
/// <https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#job-name>
fn time_of(job: &str, now: Timestamp) -> Option<Timestamp> {
    let (_, minutes) = job.rsplit_once('-')?;
    if minutes.len() != DIGITS || !minutes.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let due = Timestamp::from_second(minutes.parse::<i64>().ok()? * 60).ok()?;
    let late = now.duration_since(due);
    (-EARLIEST..=LATEST).contains(&late).then_some(due)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due_id(due: Option<&str>, job: Option<&str>) -> String {
        id(due, job, "2026-11-22T01:02:03Z".parse().unwrap()).unwrap()
    }

    #[test]
    fn a_scheduled_job_is_due_in_its_names_minute() {
        let due: Timestamp = "2026-11-22T00:05:00Z".parse().unwrap();
        let name = format!("nightly-{}", due.as_second() / 60);
        assert_eq!(due_id(None, Some(&name)), "20261122T000500Z");
    }

    #[test]
    fn what_is_asked_for_goes_before_the_name() {
        assert_eq!(due_id(Some("20261121T000000Z"), Some("nightly-29500000")), "20261121T000000Z");
        assert_eq!(due_id(Some("2026-11-21T02:00:00+02:00"), None), "20261121T000000Z");
    }

    #[test]
    fn a_job_by_hand_is_due_now() {
        let at = |instant: &str| {
            let due: Timestamp = instant.parse().unwrap();
            format!("nightly-{}", due.as_second() / 60)
        };
        let (ahead, long_ago) = (at("2026-11-22T01:13:00Z"), at("2026-11-13T01:02:00Z"));
        for name in
            ["by-hand", "by-hand-1", "nightly-2950000x", "nightly-295000000", "nightly-20261122", &ahead, &long_ago]
        {
            assert_eq!(due_id(None, Some(name)), "20261122T010203Z", "{name}");
        }
        assert_eq!(due_id(None, Some(&at("2026-11-22T01:12:00Z"))), "20261122T011200Z", "a clock that is behind");
        assert_eq!(
            due_id(None, Some(&at("2026-11-13T01:03:00Z"))),
            "20261113T010300Z",
            "a Job that was tried for long"
        );
        assert_eq!(due_id(Some(""), None), "20261122T010203Z");
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        let message = id(Some("yesterday"), None, Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(message.to_string().contains("yesterday"), "{message}");
    }
}
