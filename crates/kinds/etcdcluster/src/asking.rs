//! Asks members for their status and for the list of members. A member that does not answer is waited for only briefly.

use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use kube::ResourceExt;
use tokio::time::{Instant, sleep, timeout};

use causeway_api::EtcdCluster;
use causeway_databases::etcd::{Endpoint, EtcdError, Member, Password, Status, Trouble};
use causeway_databases::wake::Key;

use super::auth::{self, Access};
use super::facts::{Observed, Quorum};
use super::observe::Observer;

/// A member that has not answered for this long is not waited for any more: the monitor notices when it answers again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// A member whose last answer is more recent than this may answer again in a moment.
const BRIEF_SILENCE: Duration = Duration::from_secs(3);
/// How long to wait for a member that seems silent: the monitor may be wrong.
const BRIEFLY: Duration = Duration::from_millis(200);
/// If a member does not answer within this time, a second one is asked as well.
const HEDGE: Duration = Duration::from_millis(300);
/// How long to wait for a majority if the leader that the others name does not answer: they are electing another one.
const LEADERLESS: Duration = Duration::from_secs(1);

impl Observer {
    /// Asks every member for its status, and one that has a leader for the list of members.
    pub(super) async fn ask_members(&self, object: &EtcdCluster, observed: &mut Observed) {
        let passwords: Vec<Password> =
            observed.auth.kept.iter().flat_map(auth::StoredPasswords::passwords).cloned().collect();
        observed.auth.access = self.cache.last_access(object, &passwords);
        let followed: Vec<Endpoint> =
            observed.set.pods.keys().filter_map(|ordinal| observed.endpoint(*ordinal)).collect();
        self.monitor.follow(&key_of(object), &object.uid().unwrap_or_default(), followed);
        self.ask_each(object, observed, |endpoint| async move { self.etcd.status(&endpoint).await }).await;
        observed.auth.access = self.enter(object, observed, passwords).await;
        match &observed.auth.access {
            Access::Refused | Access::Locked => return,
            Access::With(_) if !observed.reserved.is_empty() => {
                let log_in = |endpoint: Endpoint| async move {
                    self.etcd.login(&endpoint).await?;
                    self.etcd.status(&endpoint).await
                };
                self.ask_each(object, observed, log_in).await;
            }
            _ => {}
        }
        self.ask_majority(object, observed).await;
        if observed.quorum.is_none() {
            observed.remembered = self.ask_survivor(observed).await;
        }
    }

    /// The list of members as the member with the most applied entries knows it: without a majority, no list is newer.
    async fn ask_survivor(&self, observed: &Observed) -> Vec<Member> {
        let furthest = observed.statuses.iter().max_by_key(|(_, status)| status.applied_index);
        let Some(endpoint) = furthest.and_then(|(ordinal, _)| observed.endpoint(*ordinal)) else { return Vec::new() };
        self.etcd.known_members(&endpoint).await.unwrap_or_default()
    }

    /// Asks for the status of each member that has not reported one yet.
    async fn ask_each<F>(&self, object: &EtcdCluster, observed: &mut Observed, ask: impl Fn(Endpoint) -> F)
    where
        F: Future<Output = Result<Status, EtcdError>>,
    {
        let missing = observed.set.pods.keys().filter(|ordinal| !observed.statuses.contains_key(ordinal));
        let key = key_of(object);
        let asked = missing.filter_map(|ordinal| {
            let endpoint = observed.endpoint(*ordinal)?;
            let silence = self.monitor.silence(&key, &endpoint).unwrap_or_default();
            // A login takes longer, and only members that answer are asked for one.
            let reserved = observed.reserved.contains(ordinal);
            let limit = if reserved { Duration::MAX } else { ANSWER_TIMEOUT.saturating_sub(silence).max(BRIEFLY) };
            Some((*ordinal, limit, ask(endpoint)))
        });
        let answers = join_all(asked.map(|(ordinal, limit, answer)| async move {
            let late = |_| Err(EtcdError::new("Status", Trouble::Unanswered, "no answer".into()));
            let begun = Instant::now();
            let answer = timeout(limit, answer).await.unwrap_or_else(late);
            // If the process is gone, the call fails at once: that is not late.
            (ordinal, answer, begun.elapsed() >= limit.min(ANSWER_TIMEOUT) / 10 * 9)
        }))
        .await;
        let recorded = object.status.as_ref().and_then(|status| status.cluster_id.clone());
        for (ordinal, answer, late) in answers {
            let endpoint = observed.endpoint(ordinal);
            match answer {
                Ok(status) => {
                    observed.reserved.remove(&ordinal);
                    if let Some(endpoint) = &endpoint {
                        self.monitor.note_answer(&key, endpoint);
                    }
                    // A member that rebuilds the cluster gives it another ID.
                    let begins = observed.set.pods.get(&ordinal).is_some_and(|pod| pod.own.forced);
                    if begins || recorded.as_ref().is_none_or(|id| *id == format!("{:x}", status.cluster_id)) {
                        observed.statuses.insert(ordinal, status);
                    }
                }
                Err(error) if error.is_about_login() => drop(observed.reserved.insert(ordinal)),
                Err(_) => {
                    let silence = endpoint.and_then(|endpoint| self.monitor.silence(&key, &endpoint));
                    observed.unsure |= late && silence.is_some_and(|silence| silence < BRIEF_SILENCE);
                }
            }
        }
    }

    /// Reports whether answers that are missing may come in a moment. If a member reports that it has no leader, enough is
    /// known.
    pub(super) fn is_unsure(&self, object: &EtcdCluster, observed: &Observed) -> bool {
        if observed.quorum.is_some() {
            self.cache.note_quorum(object);
            return observed.unsure;
        }
        let missed = self.cache.without_quorum(object).is_some_and(|time| time < BRIEF_SILENCE);
        let statuses = || observed.statuses.values();
        let leads = statuses().any(|status| status.leader == status.member_id && status.leader != 0);
        missed && statuses().all(|status| status.leader != 0) && (observed.unsure || leads)
    }

    /// Asks a member that has a leader for the list of members.
    async fn ask_majority(&self, object: &EtcdCluster, observed: &mut Observed) {
        let mut candidates: Vec<(i32, &Status)> =
            observed.statuses.iter().map(|(ordinal, status)| (*ordinal, status)).collect();
        candidates.retain(|(_, status)| status.leader != 0 && !status.is_learner);
        candidates.sort_by_key(|(_, status)| status.leader != status.member_id);
        // The leader first: it knows best. Learners are left out, because they do not answer this call.
        candidates.truncate(2);
        let led = candidates.iter().any(|(_, status)| status.leader == status.member_id);
        let mut answers: FuturesUnordered<_> = candidates
            .into_iter()
            .filter_map(|(ordinal, status)| Some((observed.endpoint(ordinal)?, status.cluster_id)))
            .zip([Duration::ZERO, HEDGE])
            .map(|((endpoint, cluster_id), delay)| async move {
                sleep(delay).await;
                let asked = timeout(if led { Duration::MAX } else { LEADERLESS }, self.etcd.members(&endpoint)).await;
                (endpoint, cluster_id, asked)
            })
            .collect();
        let mut found = None;
        while let Some((endpoint, cluster_id, answer)) = answers.next().await {
            match answer {
                Ok(Ok(members)) => {
                    found = Some((endpoint, cluster_id, members));
                    break;
                }
                Ok(Err(error)) if error.is_about_login() => {
                    drop(answers);
                    self.cache.forget_access(object);
                    let knew_none = observed.auth.kept.is_none();
                    observed.auth.access = if knew_none { Access::Locked } else { Access::Unknown };
                    return;
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
        drop(answers);
        let Some((endpoint, cluster_id, members)) = found else { return };
        let complains = observed.statuses.values().any(|status| !status.errors.is_empty());
        let alarms = if complains { self.etcd.alarms(&endpoint).await.unwrap_or_default() } else { Vec::new() };
        if observed.auth.access == Access::Unknown && observed.auth.kept.is_none() {
            observed.auth.access = Access::Free;
        }
        observed.quorum = Some(Quorum { cluster_id, members, alarms });
    }

    /// Finds out how members let us in: tries members that have a leader, then those that report nothing without a login.
    /// The outcome is cached: see [`super::cache::Cache::access`].
    async fn enter(&self, object: &EtcdCluster, observed: &Observed, passwords: Vec<Password>) -> Access {
        if passwords.is_empty() {
            return if observed.reserved.is_empty() { Access::Unknown } else { Access::Locked };
        }
        if let Some(access) = self.cache.access(object, &passwords) {
            return access;
        }
        for ordinal in entrances(observed).into_iter().take(2) {
            let Some(endpoint) = observed.endpoint(ordinal) else { continue };
            let access = self.try_passwords(&endpoint, &passwords).await;
            if access != Access::Unknown {
                self.cache.note_access(object, passwords, access.clone());
                return access;
            }
        }
        Access::Unknown
    }

    /// Tries the passwords that root may have.
    async fn try_passwords(&self, endpoint: &Endpoint, passwords: &[Password]) -> Access {
        for password in passwords {
            let with = Endpoint { login: Some(password.clone()), ..endpoint.clone() };
            match self.etcd.login(&with).await {
                Ok(()) => return Access::With(password.clone()),
                Err(error) if error.trouble == Trouble::AuthOff => return Access::Free,
                Err(error) if error.trouble == Trouble::LoginRefused => {}
                Err(_) => return Access::Unknown,
            }
        }
        Access::Refused
    }
}

fn key_of(object: &EtcdCluster) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// The members that may let us in, the likeliest first: the leader, its followers, and members that report nothing
/// without a login.
fn entrances(observed: &Observed) -> Vec<i32> {
    let led = observed.statuses.iter().filter(|(_, status)| status.leader != 0 && !status.is_learner);
    let mut led: Vec<(bool, i32)> =
        led.map(|(ordinal, status)| (status.leader != status.member_id, *ordinal)).collect();
    led.sort_unstable();
    led.into_iter().map(|(_, ordinal)| ordinal).chain(observed.reserved.iter().copied()).collect()
}
