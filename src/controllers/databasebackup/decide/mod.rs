//! Decides what to do about backups. Pure.
//!
//! Whether there is a backup, only S3 says; Jobs say why there is none. Kubernetes starts the Jobs, also while we are away.

mod accepted;
mod bucket;
mod children;
mod pruning;
mod removal;
mod runs;
mod status;
#[cfg(test)]
mod tests;
mod verification;

use jiff::Timestamp;
use kube::ResourceExt;

use super::action::Action;
use super::facts::Observed;
use super::resources;
use crate::api::{DatabaseBackup, DatabaseBackupStatus};
use crate::backup::jobs::prefix_of;
use crate::runtime::{Health, Part, Plan};

pub use accepted::{Accepted, When, accepted};
pub use bucket::is_ours;
pub use removal::{are_overdue, decide_removal, written_under};
pub use status::newest;
pub use verification::{candidate, untold};

use accepted::ENDPOINT_NOT_ALLOWED;
use bucket::{BUCKET_FOREIGN, Verdict};

/// What is looked at.
struct View<'a> {
    object: &'a DatabaseBackup,
    observed: &'a Observed,
    /// The status as it was told last.
    before: DatabaseBackupStatus,
    /// What all keys begin with, without a slash at the end.
    prefix: String,
    now: Timestamp,
}

/// What to do so that backups are taken, kept and told of as the object says.
pub fn decide(object: &DatabaseBackup, observed: &Observed, now: Timestamp) -> Plan<Action, DatabaseBackupStatus> {
    let view = View::of(object, observed, now);
    // Whatever else is wrong.
    if object.spec.suspend {
        return view.suspended();
    }
    match accepted(object, &observed.settings) {
        Ok(accepted) => view.decide(&accepted),
        Err((reason, told)) => {
            // A mistake in other fields or options is no reason to stop backups.
            let hold = children::hold(&view).filter(|_| reason == ENDPOINT_NOT_ALLOWED);
            let status = DatabaseBackupStatus { next_run: None, ..view.before };
            plan(hold.into_iter().collect(), status, Health::stalled(reason, told), Vec::new())
        }
    }
}

/// What all keys of an object begin with, without a slash at the end.
pub fn prefix(object: &DatabaseBackup) -> String {
    let (namespace, uid) = (object.namespace().unwrap_or_default(), object.uid().unwrap_or_default());
    prefix_of(&object.spec.destination, &namespace, &object.name_any(), &uid)
}

impl<'a> View<'a> {
    fn of(object: &'a DatabaseBackup, observed: &'a Observed, now: Timestamp) -> Self {
        Self { object, observed, before: object.status.clone().unwrap_or_default(), prefix: prefix(object), now }
    }

    /// The schedule stands still, and nothing else happens.
    fn suspended(&self) -> Plan<Action, DatabaseBackupStatus> {
        let status = DatabaseBackupStatus { next_run: None, next_verification: None, ..self.before.clone() };
        let mut parts = vec![status::not_overdue()];
        parts.extend(self.object.spec.verify.is_none().then(verification::not_asked));
        plan(children::hold(self).into_iter().collect(), status, Health::Suspended, parts)
    }

    fn decide(&self, accepted: &Accepted) -> Plan<Action, DatabaseBackupStatus> {
        let Accepted { schedule, verify } = accepted;
        let told = resources::plan(self.object, self.observed, &self.prefix);
        let (mut actions, mut health) = (runs::tell(self), self.health());
        actions.extend(verification::tell(self));
        let record_first = !actions.is_empty();
        let results = verification::results(self);
        let agenda = verification::agenda(self, verify.as_ref());
        let mut parts = vec![status::overdue(self, schedule)];
        parts.push(verification::part(self, verify.as_ref(), &agenda, &results));
        let verdict =
            self.observed.bucket.as_ref().and_then(|bucket| bucket::verdict(self.object, self.observed, bucket));
        // What is somebody else's is not written into any more.
        if matches!(verdict, Some(Verdict::Refused(BUCKET_FOREIGN, _))) {
            actions.extend(children::hold(self));
        }
        if let Some(told) = children::foreign(self) {
            health = Health::stalled("NameTaken", told);
        } else if let (Some(verdict), Some(told), Some(bucket)) = (verdict, told, &self.observed.bucket) {
            let name = &bucket.place.bucket;
            parts.push(status::bucket_part(name, &verdict));
            match verdict {
                Verdict::Change(change) => {
                    actions.push(change);
                    health = Health::progressing("PreparingBucket", format!("bucket {name} is made ready"));
                }
                Verdict::Refused(reason, told) => health = Health::stalled(reason, told),
                Verdict::Usable(_) => {
                    let children = children::step(self, &told);
                    // What is written before they are applied must not be what is true after that.
                    if !children.is_empty() && matches!(health, Health::Ready(_)) {
                        health = Health::progressing("Applying", "the schedule is brought up to date");
                    }
                    actions.extend(children);
                    actions.extend(runs::now(self, &told));
                    actions.extend(verification::step(self, verify.as_ref(), &told));
                    actions.extend(verification::tidy(self));
                    actions.extend(pruning::step(self, schedule, bucket, &results));
                }
            }
        } else {
            health = Health::progressing("PreparingBucket", "the bucket was not looked at yet");
        }
        let requeue = agenda.wake(self.now);
        let status = agenda.noted_in(status::status(self, schedule, results));
        // Whoever removes the object goes by the status: no bucket is made of which it says nothing.
        let record_first = record_first || status.bucket != self.before.bucket;
        Plan { record_first, requeue, ..plan(actions, status, health, parts) }
    }

    /// Whether backups can be taken.
    fn health(&self) -> Health {
        let titles: Vec<&str> = self.observed.sources.iter().map(|it| it.access.source.title.as_str()).collect();
        let source = self.object.spec.source.as_ref();
        let named = source.and_then(|source| {
            let cluster = source.etcd_cluster.as_ref().map(|it| ("etcdCluster", "EtcdCluster", &it.name));
            cluster.or_else(|| source.redis.as_ref().map(|it| ("redis", "Redis", &it.name)))
        });
        match named.filter(|_| titles.is_empty()) {
            Some((field, kind, name)) => {
                let told = format!(
                    "spec.source.{field}: there is no {kind} {name} in this namespace: make it, or name another"
                );
                Health::progressing("SourceMissing", told)
            }
            None if titles.is_empty() => {
                Health::ready("NothingToBackUp", "there is no EtcdCluster and no Redis in this namespace yet")
            }
            None => {
                let bucket = self.observed.bucket.as_ref().map_or("", |bucket| bucket.place.bucket.as_str());
                Health::ready("Scheduled", format!("{} to s3://{bucket}/{}", titles.join(", "), self.prefix))
            }
        }
    }
}

fn plan(
    actions: Vec<Action>,
    status: DatabaseBackupStatus,
    health: Health,
    parts: Vec<Part>,
) -> Plan<Action, DatabaseBackupStatus> {
    Plan { actions, status, health, parts, record_first: false, requeue: None }
}
