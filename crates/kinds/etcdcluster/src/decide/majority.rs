//! Explains why there is no majority, which members are missing, and what to do.

use kube::ResourceExt;

use causeway_api::etcdcluster::MemberStatus;
use causeway_databases::etcd::Member;

use super::super::damage::{DamagedPod, Loss};
use super::super::facts::Pod;
use super::{NEVER_STARTS, QUORUM_LOST, UNREACHABLE, View, majority, recovery};
use crate::{auth, membership, names};

impl View<'_> {
    /// How many members voted when that was known last, and the strangers among them: from the list of a member that still
    /// answers, or else from the status.
    pub(super) fn last_votes(&self) -> (usize, Vec<String>) {
        let status = self.object.status.as_ref();
        let remembered = &self.observed.remembered;
        if !remembered.is_empty() && status.is_some_and(|status| !status.members.is_empty()) {
            let ours = membership::ours(self.object, self.observed, remembered);
            let strange = |member: &&Member| !ours.values().any(|ours| ours.id == member.id);
            let voters = || remembered.iter().filter(|member| !member.is_learner);
            return (voters().count(), voters().filter(strange).map(membership::describe).collect());
        }
        let ours = status.iter().flat_map(|status| &status.members).filter(|member| !member.is_learner).count();
        let unknown = status.iter().flat_map(|status| &status.unknown_members).filter(|member| !member.is_learner);
        let unknown: Vec<String> =
            unknown.map(|member| format!("{} ({})", member.id, member.peer_urls.join(", "))).collect();
        (ours + unknown.len(), unknown)
    }

    /// Reports whether the member of that name answers.
    fn answers(&self, name: &str) -> bool {
        names::ordinal_of(self.object, name).is_some_and(|ordinal| self.answers_at(ordinal))
    }

    /// Reports whether the member of that ordinal answers, even if only to ask for a login.
    pub(super) fn answers_at(&self, ordinal: i32) -> bool {
        self.observed.statuses.contains_key(&ordinal) || self.observed.reserved.contains(&ordinal)
    }

    /// Reports whether the pod of that name is starting, or another one in its place. A young pod that is ready has started
    /// already: its member has stopped answering. A pod that is terminating may stay ready for some seconds, but its successor
    /// is on its way.
    fn is_young(&self, name: &str) -> bool {
        let starts = |pod: &Pod| pod.young && (pod.terminating || !pod.ready);
        self.observed.set.pods.values().any(|pod| pod.name == name && starts(pod))
    }

    /// Explains why there is no majority, and what to do.
    pub fn missing_majority(&self) -> (&'static str, String) {
        let (known, strangers) = self.last_votes();
        let answering = self.observed.statuses.len() + self.observed.reserved.len();
        let led = self.observed.statuses.values().filter(|status| status.leader != 0).count();
        if self.observed.reserved.len() >= majority(known.max(1)) {
            let secret = auth::user_provided_secret(self.object);
            let message = format!(
                "{answering} of {known} members answer but require a login: trying the password of root from Secret {secret}"
            );
            return ("LoggingIn", message);
        }
        if answering >= majority(known) || led > 0 {
            let members = self.object.status.iter().flat_map(|status| &status.members);
            let ordinals = members.filter_map(|member| names::ordinal_of(self.object, &member.name));
            let unwell: Vec<i32> = ordinals.filter(|ordinal| !self.answers_at(*ordinal)).collect();
            let rest = if unwell.is_empty() {
                ". That takes a second or two; if it lasts, they do not reach each other (ports 2380 and 2382)"
                    .to_owned()
            } else {
                format!("; no answer from {}", self.unwell(unwell))
            };
            return ("Electing", format!("{answering} of {known} members answer and choose a leader{rest}"));
        }
        if known == 0 {
            let silent = self.unwell(self.silent());
            let message =
                format!("{answering} members answer; they start with existing volumes. No answer from {silent}");
            return ("Starting", message);
        }
        // This is the only member: nothing is lost, and only its pod is to be brought back.
        if let Some((reason, text)) =
            self.pod_trouble().filter(|(reason, _)| known == 1 && NEVER_STARTS.contains(reason))
        {
            return (reason, format!("the only member does not answer, and writes are refused; {text}"));
        }
        let names = self.object.status.iter().flat_map(|status| &status.members).filter(|member| !member.is_learner);
        let silent: Vec<&MemberStatus> = names.filter(|member| !self.answers(&member.name)).collect();
        let starting: Vec<&str> =
            silent.iter().map(|member| member.name.as_str()).filter(|name| self.is_young(name)).collect();
        if answering + starting.len() >= majority(known) {
            let message = format!("{answering} of {known} members answer; starting: {}", starting.join(", "));
            return ("MembersStarting", message);
        }
        let silent: Vec<&str> = silent.into_iter().map(|member| member.name.as_str()).collect();
        if let Some(message) = self.unreachable(known, answering, &silent) {
            return (UNREACHABLE, message);
        }
        if let Some(message) = self.describe_loss(known, answering, strangers.len(), &silent) {
            return (QUORUM_LOST, message);
        }
        if !strangers.is_empty() {
            return (QUORUM_LOST, lost_with_strangers(known, answering, &silent, &strangers));
        }
        let trouble = self.pod_trouble().map_or_else(String::new, |(_, text)| format!("; {text}"));
        let places: Vec<String> = silent.iter().map(|name| self.place(name)).collect();
        let message = format!(
            "the majority is lost: {answering} of {known} members answer, and writes are refused. Bring {} back (kubectl \
             describe pod {}): nothing is deleted. If they are lost for good, set spec.recovery.fromMember to a member that \
             is left{trouble}",
            places.join(" or "),
            silent.first().copied().unwrap_or_default(),
        );
        (QUORUM_LOST, message)
    }

    /// The message if kubelets find a majority of the members ready: only Causeway cannot reach them. The readiness probe
    /// reads what a majority has. What a kubelet reported before its node was lost says nothing.
    fn unreachable(&self, known: usize, answering: usize, silent: &[&str]) -> Option<String> {
        let serves = |name: &&str| {
            let mut pods = self.observed.set.pods.values();
            pods.any(|pod| pod.name == *name && pod.ready && !pod.terminating && pod.lost_node.is_none())
        };
        let ready: Vec<&str> = silent.iter().copied().filter(serves).collect();
        if ready.len() < majority(known) {
            return None;
        }
        let namespace = self.object.namespace().unwrap_or_default();
        let recovery = if recovery::is_asked_for(self) {
            ". spec.recovery is not followed meanwhile: it would lose the writes of the members that serve"
        } else {
            ""
        };
        Some(format!(
            "{answering} of {known} members answer Causeway, but the kubelets find {} ready: the cluster seems to serve its \
             clients. Causeway cannot reach port {}: check NetworkPolicies (kubectl -n {namespace} get networkpolicies), \
             firewalls, and TLS (kubectl -n {namespace} logs {}){recovery}",
            ready.join(", "),
            names::CLIENT_PORT,
            ready.first().copied().unwrap_or_default(),
        ))
    }

    /// A member with the node that it is on.
    fn place(&self, name: &str) -> String {
        let pod = self.observed.set.pods.values().find(|pod| pod.name == name);
        pod.map_or_else(|| name.to_owned(), Pod::place)
    }
}

impl View<'_> {
    /// The message if so many members have lost their data that a majority cannot come back: only a recovery helps.
    /// Strangers that vote do not count as lost: the client that added them may bring them back.
    fn describe_loss(&self, known: usize, answering: usize, strangers: usize, silent: &[&str]) -> Option<String> {
        let loss = |name: &str| {
            let pod = self.observed.set.pods.values().find(|pod| pod.name == name)?;
            Some(match pod.loss()? {
                Loss::Empty => format!("the volume of {name} is empty"),
                Loss::Damaged(evidence) => format!("{name} cannot open its data ({evidence})"),
            })
        };
        let gone: Vec<String> = silent.iter().filter_map(|name| loss(name)).collect();
        if gone.is_empty() || answering + strangers + (silent.len() - gone.len()) >= majority(known) {
            return None;
        }
        let members = self.object.status.iter().flat_map(|status| &status.members);
        let with_data = members.map(|member| member.name.as_str()).filter(|name| loss(name).is_none());
        let fix = match with_data.max_by_key(|name| self.answers(name)) {
            Some(name) => format!(
                "restart the cluster with the data of {name}: kubectl -n {} patch etcdcluster {} --type merge -p \
                 '{{\"spec\":{{\"recovery\":{{\"token\":\"1\",\"fromMember\":\"{name}\"}}}}}}'",
                self.object.namespace().unwrap_or_default(),
                self.object.name_any()
            ),
            None => "make another cluster from a backup (spec.restoreFrom)".into(),
        };
        Some(format!(
            "the majority is lost for good: {answering} of {known} voting members answer, writes are refused, and {}. Waiting \
             does not help; {fix}",
            gone.join(", ")
        ))
    }
}

/// The message if strangers vote: without a majority, no client can remove them.
fn lost_with_strangers(known: usize, answering: usize, silent: &[&str], strangers: &[String]) -> String {
    let ours = if silent.is_empty() { String::new() } else { format!("{} or ", silent.join(" or ")) };
    let (count, names) = (strangers.len(), strangers.join(", "));
    format!(
        "the majority is lost: {answering} of {known} voting members answer, and writes are refused. {count} of them another \
         client added, and Causeway cannot ask them: {names}. Bring {ours}those back: nothing is deleted. If they are lost for \
         good, set spec.recovery.fromMember to a member that is left"
    )
}
