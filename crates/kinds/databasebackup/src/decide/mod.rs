//! Decides what to do about backups. Pure.
//!
//! Only S3 says whether there is a backup; Jobs say why there is none. Kubernetes starts the Jobs, also while the
//! operator is down.

mod bucket;
mod children;
mod listing;
mod log;
mod pruning;
mod removal;
mod runs;
mod signing;
mod states;
mod status;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(super) use tests::{catalog, decided, manifest, now, settled, words};

use std::time::Duration;

use jiff::Timestamp;

use causeway_api::{DatabaseBackup, DatabaseBackupStatus};
use causeway_runtime::consent::Refusal;
use causeway_runtime::{ExtraCondition, Health, Plan, SUSPENDED};

use super::accepted::{Accepted, ENDPOINT_NOT_ALLOWED, PREFIX_INVALID, accepted};
use super::action::Action;
use super::facts::{Job, Observed, Signing};
use super::resources;
use super::signing::RETRY_INTERVAL;
use super::unkept;
use super::verification;
use super::view::View;

pub use removal::decide_removal;

use bucket::{BUCKET_FOREIGN, Verdict};

/// How often Secrets and a bucket that may not be used are checked again.
const REFUSED: Duration = Duration::from_secs(30);

/// How often a Job is looked at of which no pod runs.
const SILENT: Duration = Duration::from_secs(15);

/// Decides what to do so that backups are taken, kept and reported as the object says.
pub fn decide(object: &DatabaseBackup, observed: &Observed, now: Timestamp) -> Plan<Action, DatabaseBackupStatus> {
    let view = View::new(object, observed, now);
    // A suspended object stops, whatever else is wrong.
    if object.spec.suspend {
        return view.suspended();
    }
    match observed.denied.clone().map_or_else(|| accepted(object, &observed.settings), Err) {
        Ok(accepted) => view.decide(&accepted),
        Err((reason, message)) => {
            // A mistake in other fields or options does not stop backups: the schedule stays as it is.
            let stops = matches!(reason, ENDPOINT_NOT_ALLOWED | PREFIX_INVALID) || observed.mounts_more(object);
            let hold = children::hold(&view).filter(|_| stops);
            let actions = hold.into_iter().chain(view.record()).collect();
            let status = DatabaseBackupStatus { next_run: None, ..view.before };
            plan(actions, status, Health::stalled(reason, message), Vec::new())
        }
    }
}

impl View<'_> {
    /// Suspends the schedule. Apart from that, only what Jobs reported is recorded.
    fn suspended(&self) -> Plan<Action, DatabaseBackupStatus> {
        // The end of a Job is seen here, too.
        let has_ended = |job: &Job| job.end.is_some();
        let ended = |name: &String| self.observed.jobs.iter().any(|job| job.name == *name && has_ended(job));
        let running = self.before.running.iter().filter(|it| !ended(&it.job)).cloned().collect();
        let before = self.before.clone();
        let status = DatabaseBackupStatus { next_run: None, next_verification: None, running, ..before };
        let mut parts = vec![status::not_overdue()];
        parts.extend(self.object.spec.verify.is_none().then(verification::not_asked));
        let actions = children::hold(self).into_iter().chain(self.record()).collect();
        plan(actions, status, Health::suspended(SUSPENDED), parts)
    }

    fn decide(&self, accepted: &Accepted) -> Plan<Action, DatabaseBackupStatus> {
        let Accepted { schedule, verify } = accepted;
        let message = resources::plan(self.object, self.observed, &self.prefix);
        let (mut actions, mut health) = (runs::tell(self), self.health());
        actions.extend(verification::tell(self));
        let write_status_first = !actions.is_empty();
        // The record comes before anything that follows from it, and before a bucket is made: the removal of the object
        // relies on it.
        actions.extend(self.record());
        let results = verification::results(self);
        let agenda = verification::agenda(self, verify.as_ref());
        let databases = states::states(self, schedule);
        let overdue = status::overdue(self, schedule, &databases);
        let none_yet = runs::none_yet(self, &overdue);
        let mut parts = vec![overdue];
        let disproven = status::disproven(self, &results);
        parts.extend(status::restorable(self, disproven.as_ref()));
        parts.extend(states::failed(self, &databases));
        parts.extend(status::unrecorded(self));
        parts.extend(log::parts(self));
        parts.push(signing::part(self));
        parts.push(verification::part(self, verify.as_ref(), &agenda, &results));
        let verdict =
            self.observed.bucket.as_ref().and_then(|bucket| bucket::verdict(self.object, self.observed, bucket));
        // The schedule is suspended in two cases. The bucket belongs to another owner. Or the schedule mounts a Secret that may
        // not be used any more, and cannot be updated now.
        let foreign = children::foreign(self);
        let mut unusable = None;
        let is_theirs = matches!(verdict, Some(Verdict::Refused(BUCKET_FOREIGN, _)));
        let updates = foreign.is_none() && message.is_some() && matches!(verdict, Some(Verdict::Usable(_)));
        if is_theirs || (!updates && self.observed.mounts_more(self.object)) {
            actions.extend(children::hold(self));
        }
        if let Some(waits) = foreign {
            health = waits;
        } else if let (Some(verdict), Some(message), Some(bucket)) = (verdict, message, &self.observed.bucket) {
            let name = &bucket.place.bucket;
            parts.push(status::bucket_part(name, &verdict));
            match verdict {
                Verdict::Change(change) => {
                    actions.push(change);
                    health = Health::progressing("PreparingBucket", format!("bucket {name} is made ready"));
                }
                Verdict::Refused(reason, message) => {
                    unusable = Some(REFUSED);
                    let seconds = REFUSED.as_secs();
                    let text = format!(
                        "{message}; Causeway looks again every {seconds} s, and at once when a backup is asked for"
                    );
                    health = Health::stalled(reason, text);
                }
                Verdict::Usable(_) => {
                    let children = children::step(self, &message);
                    // The status may be written before the children are applied: it must not say Ready by then.
                    if !children.is_empty() && matches!(health, Health::Ready(_)) {
                        health = Health::progressing("Applying", "the schedule is brought up to date");
                    }
                    actions.extend(children);
                    actions.extend(runs::now(self, &message));
                    let openable = verify.as_ref().filter(|_| self.observed.identity_refused.is_none());
                    actions.extend(verification::step(self, openable, &message));
                    actions.extend(verification::tidy(self));
                    let going = unkept::going(self, schedule, bucket, &results);
                    // Before retention: new backups are signed, whatever keeps old ones from being deleted.
                    actions.extend(signing::step(self, bucket, &going));
                    actions.extend(pruning::step(self, bucket, &going));
                    if matches!(health, Health::Ready(_)) {
                        let disproven = disproven.map(|text| Health::stalled("VerificationFailed", text));
                        let trouble = runs::failing(self, &databases).or(none_yet).or(disproven);
                        health = trouble.or_else(|| pruning::denied(self)).unwrap_or(health);
                    }
                }
            }
        } else {
            health = Health::progressing("PreparingBucket", "the bucket was not looked at yet");
        }
        let requeue = agenda.wake(self.now).into_iter().chain(self.next_question()).chain(unusable).min();
        let status = DatabaseBackupStatus {
            locked: unkept::locked(self, schedule, &results),
            up_to_date: states::in_words(&databases),
            databases,
            ..agenda.noted_in(status::status(self, schedule, results))
        };
        // The status names a bucket before it is made. And reports of Jobs are read only until they are recorded, so
        // what they say of kept log is written to the status before that.
        let write_status_first =
            write_status_first || status.bucket != self.before.bucket || !self.observed.kept_logs.is_empty();
        Plan { write_status_first, requeue, ..plan(actions, status, health, parts) }
    }

    /// Returns what is to be recorded.
    fn record(&self) -> Option<Action> {
        let recording = self.observed.recording.as_ref()?;
        let is_known = self.observed.recorded.as_ref() == Some(&recording.record);
        (!is_known).then(|| Action::Record(Box::new(recording.clone())))
    }

    /// When Secrets that may not be used are checked again, signing that failed is tried again, and a Job is looked at of which no
    /// pod runs: nothing wakes the controller for its pods. Other Secrets are checked at each sweep.
    fn next_question(&self) -> Option<Duration> {
        let unsigned = matches!(self.observed.signing, Signing::Refused(_)).then_some(RETRY_INTERVAL);
        let proofs = self.observed.verifications.iter().map(|it| &it.job);
        let silent = self.observed.jobs.iter().chain(proofs).any(Job::is_silent).then_some(SILENT);
        let refused = self.observed.is_refused().then_some(REFUSED).or(unsigned);
        silent.into_iter().chain(refused).min()
    }

    /// Explains why a Secret may not be used.
    fn refused(&self) -> Option<Health> {
        let withheld = self
            .observed
            .withheld
            .first()
            .map(|it| (format!("{} is not backed up: ", it.database.access.source.title), &it.refusal));
        let identity = self.observed.identity_refused.as_ref();
        let identity = identity.map(|it| ("spec.encryption.identitySecretName: ".to_owned(), it));
        let (what, Refusal { reason, message }) = withheld.or(identity)?;
        Some(Health::stalled(reason, format!("{what}{message}")))
    }

    /// Reports whether backups can be taken.
    fn health(&self) -> Health {
        if let Some(refused) = self.refused() {
            return refused;
        }
        if let Some((folder, (reason, message))) = self.observed.unprovable.first_key_value() {
            return Health::stalled(reason, format!("spec.verify: backups of {folder} are not proven: {message}"));
        }
        let titles: Vec<&str> = self.observed.sources.iter().map(|it| it.access.source.title.as_str()).collect();
        let source = self.object.spec.source.as_ref();
        let named = source.and_then(|source| {
            let cluster = source.etcd_cluster.as_ref().map(|it| ("etcdCluster", "EtcdCluster", &it.name));
            cluster.or_else(|| source.redis.as_ref().map(|it| ("redis", "Redis", &it.name)))
        });
        let starting = self.observed.starting.iter().map(|it| it.access.source.title.as_str());
        let starting = starting.collect::<Vec<_>>().join(", ");
        let left_out = format!("{starting} is left out, for it has not come up yet");
        match named.filter(|_| titles.is_empty()) {
            Some((field, ..)) if !starting.is_empty() => {
                Health::progressing("SourceNotStarted", format!("spec.source.{field}: {left_out}"))
            }
            Some((field, kind, _)) if self.observed.lacks_kind => {
                let message = format!(
                    "spec.source.{field}: the kind {kind} is not installed in this cluster: install its definition \
                     from crds/, or name another source"
                );
                Health::progressing("KindMissing", message)
            }
            Some((field, kind, name)) => {
                let message = format!(
                    "spec.source.{field}: there is no {kind} {name} in this namespace: make it, or name another"
                );
                Health::progressing("SourceMissing", message)
            }
            None if titles.is_empty() && starting.is_empty() => {
                Health::ready("NothingToBackUp", "there is no EtcdCluster and no Redis in this namespace yet")
            }
            None if titles.is_empty() => Health::progressing("SourceNotStarted", left_out),
            None => {
                let mut left_out = if starting.is_empty() { String::new() } else { format!("; {left_out}") };
                left_out.extend(status::left_out(self));
                left_out.extend(listing::unread(self));
                left_out.extend(runs::waits(self));
                let bucket = self.observed.bucket.as_ref().map_or("", |bucket| bucket.place.bucket.as_str());
                Health::ready("Scheduled", format!("{} to s3://{bucket}/{}{left_out}", titles.join(", "), self.prefix))
            }
        }
    }
}

fn plan(
    actions: Vec<Action>,
    status: DatabaseBackupStatus,
    health: Health,
    parts: Vec<ExtraCondition>,
) -> Plan<Action, DatabaseBackupStatus> {
    Plan { actions, status, health, parts, write_status_first: false, requeue: None }
}

#[cfg(test)]
mod sources {
    use serde_json::json;

    use super::super::fixtures::backup;
    use super::*;

    #[test]
    fn a_missing_kind_is_reported_as_such() {
        let mut object = backup();
        object.spec.source = Some(serde_json::from_value(json!({ "redis": { "name": "cache" } })).expect("a source"));
        let mut observed = Observed { sources: Vec::new(), ..settled(&backup()) };
        let said = |observed: &Observed| match decided(&object, observed).health {
            Health::Progressing(cause) => (cause.reason, cause.message),
            other => panic!("{other:?}"),
        };
        assert_eq!(said(&observed).0, "SourceMissing");
        observed.lacks_kind = true;
        let (reason, message) = said(&observed);
        assert_eq!(reason, "KindMissing");
        assert!(message.starts_with("spec.source.redis: the kind Redis is not installed"), "{message}");
    }
}
