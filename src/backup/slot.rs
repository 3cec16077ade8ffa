//! Which backup a Job is to make: the one that was due when Kubernetes made the Job. Pure.

use jiff::Timestamp;

use super::Error;
use super::manifest::{due_of, id_of};

/// Minutes since the epoch have so many digits from 1989 to 2160.
const DIGITS: usize = 8;

/// The ID of the backup. Every try of a Job gets the same one, so that a second one goes on where the first ended.
///
/// `due` is an ID or an instant. Without it the name of the Job tells: those that a `CronJob` makes end in the minute
/// they were due. A Job that somebody made by hand is due `now`.
pub fn id(due: Option<&str>, job: Option<&str>, now: Timestamp) -> Result<String, Error> {
    match due.filter(|due| !due.is_empty()) {
        Some(due) if due_of(due).is_some() => Ok(due.to_owned()),
        Some(due) => due.parse().map(id_of).map_err(|_| Error::Due(due.to_owned())),
        None => Ok(id_of(job.and_then(slot).unwrap_or(now))),
    }
}

/// The instant in the name of a `CronJob`'s Job.
/// <https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#job-name>
fn slot(job: &str) -> Option<Timestamp> {
    let (_, minutes) = job.rsplit_once('-')?;
    if minutes.len() != DIGITS || !minutes.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Timestamp::from_second(minutes.parse::<i64>().ok()? * 60).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(due: Option<&str>, job: Option<&str>) -> String {
        id(due, job, "2026-11-22T01:02:03Z".parse().unwrap()).unwrap()
    }

    #[test]
    fn a_cron_jobs_job_is_due_in_the_minute_of_its_name() {
        let due: Timestamp = "2026-11-22T00:05:00Z".parse().unwrap();
        let name = format!("nightly-{}", due.as_second() / 60);
        assert_eq!(of(None, Some(&name)), "20261122T000500Z");
    }

    #[test]
    fn what_is_asked_for_goes_before_the_name() {
        assert_eq!(of(Some("20261121T000000Z"), Some("nightly-29500000")), "20261121T000000Z");
        assert_eq!(of(Some("2026-11-21T02:00:00+02:00"), None), "20261121T000000Z");
    }

    #[test]
    fn a_job_by_hand_is_due_now() {
        for name in ["by-hand", "by-hand-1", "nightly-2950000x", "nightly-295000000"] {
            assert_eq!(of(None, Some(name)), "20261122T010203Z", "{name}");
        }
        assert_eq!(of(Some(""), None), "20261122T010203Z");
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        let told = id(Some("yesterday"), None, Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(told.to_string().contains("yesterday"), "{told}");
    }
}
