//! When verifications are due by their schedule. The status has the next instant, and a verification is due once that has
//! come. So nothing is due from before the schedule was set, and after an outage one verification makes up for all.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use causeway_api::DatabaseBackupStatus;

use super::super::accepted::When;
use super::super::view::View;

/// How near the next instant is when the controller requeues for it. The sweep notices later ones, and must go on
/// meanwhile.
const NEAR: Duration = Duration::from_mins(5);

/// When verifications are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agenda {
    /// When they were due last. They stay due until each database had its turn.
    due: Option<Timestamp>,
    /// When they are due next.
    next: Option<Timestamp>,
}

/// When verifications are due; never where no schedule says so.
pub fn agenda(view: &View<'_>, when: Option<&When>) -> Agenda {
    let Some(When::On(schedule)) = when else { return Agenda::default() };
    let promised = view.before.next_verification.as_ref().map(|time| time.0).filter(|promised| *promised <= view.now);
    // If the schedule was changed meanwhile, no instant of the new one may have come yet.
    let come = promised.and_then(|promised| schedule.last_before(view.now).filter(|last| *last >= promised));
    let due = come.or_else(|| view.before.verification_due.as_ref().map(|time| time.0));
    Agenda { due, next: schedule.next_after(view.now) }
}

impl Agenda {
    /// When verifications were due last.
    pub fn due(&self) -> Option<Timestamp> {
        self.due
    }

    /// When they are due next.
    pub fn next(&self) -> Option<Timestamp> {
        self.next
    }

    /// How long it is until the next verification, where that is soon.
    pub fn wake(&self, now: Timestamp) -> Option<Duration> {
        let left = Duration::try_from(self.next?.duration_since(now)).ok()?;
        (left <= NEAR).then_some(left)
    }

    /// The status with these instants.
    pub fn noted_in(&self, status: DatabaseBackupStatus) -> DatabaseBackupStatus {
        DatabaseBackupStatus { verification_due: self.due.map(Time), next_verification: self.next.map(Time), ..status }
    }
}
