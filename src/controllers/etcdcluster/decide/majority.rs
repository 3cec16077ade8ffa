//! Why there is no majority, by whom it was lost, and what to do.

use super::{NEVER_STARTS, QUORUM_LOST, View, majority};
use crate::api::etcdcluster::MemberStatus;
use crate::controllers::etcdcluster::{membership, names};
use crate::external::etcd::Member;

impl View<'_> {
    /// How many voted when that was known last, by whoever still answers or by the status, and the strangers among them.
    fn last_votes(&self) -> (usize, Vec<String>) {
        let status = self.object.status.as_ref();
        let remembered = &self.observed.remembered;
        if !remembered.is_empty() && status.is_some_and(|status| !status.members.is_empty()) {
            let ours = membership::ours(self.object, self.observed, remembered);
            let strange = |member: &&Member| !ours.values().any(|ours| ours.id == member.id);
            let voters = || remembered.iter().filter(|member| !member.is_learner);
            return (voters().count(), voters().filter(strange).map(membership::told).collect());
        }
        let ours = status.iter().flat_map(|status| &status.members).filter(|member| !member.is_learner).count();
        let unknown = status.iter().flat_map(|status| &status.unknown_members).filter(|member| !member.is_learner);
        let unknown: Vec<String> =
            unknown.map(|member| format!("{} ({})", member.id, member.peer_urls.join(", "))).collect();
        (ours + unknown.len(), unknown)
    }

    /// Whether the member of that name answers.
    fn answers(&self, name: &str) -> bool {
        let ordinal = names::ordinal_of(self.object, name);
        let answers =
            |ordinal: i32| self.observed.statuses.contains_key(&ordinal) || self.observed.reserved.contains(&ordinal);
        ordinal.is_some_and(answers)
    }

    /// Whether the pod of that name is on its way.
    fn is_young(&self, name: &str) -> bool {
        self.observed.pods.values().any(|pod| pod.name == name && pod.young)
    }

    /// Why there is no majority, and what to do.
    pub fn missing_majority(&self) -> (&'static str, String) {
        let (known, strangers) = self.last_votes();
        let answering = self.observed.statuses.len() + self.observed.reserved.len();
        let led = self.observed.statuses.values().filter(|status| status.leader != 0).count();
        if answering >= majority(known) || led > 0 {
            return ("Electing", format!("{answering} of {known} members answer and choose a leader"));
        }
        if known == 0 {
            return ("Starting", format!("{answering} members answer; they start from volumes that were there before"));
        }
        // The only member: nothing is lost, and nothing but its pod is to be brought back.
        if let Some((reason, text)) =
            self.pod_trouble().filter(|(reason, _)| known == 1 && NEVER_STARTS.contains(reason))
        {
            return (reason, format!("the only member does not answer, and writes are refused; {text}"));
        }
        let names = self.object.status.iter().flat_map(|status| &status.members).filter(|member| !member.is_learner);
        let silent: Vec<&MemberStatus> = names.filter(|member| !self.answers(&member.name)).collect();
        let starting = silent.iter().filter(|member| self.is_young(&member.name)).count();
        if answering + starting >= majority(known) {
            return ("MembersStarting", format!("{answering} of {known} members answer, and {starting} are starting"));
        }
        let silent: Vec<&str> = silent.into_iter().map(|member| member.name.as_str()).collect();
        if !strangers.is_empty() {
            return (QUORUM_LOST, lost_with_strangers(known, answering, &silent, &strangers));
        }
        let trouble = self.pod_trouble().map_or_else(String::new, |(_, text)| format!("; {text}"));
        let told = format!(
            "the majority is lost: {answering} of {known} members answer, and writes are refused. Bring {} back (kubectl \
             describe pod {}): nothing is deleted. If they are lost for good, set spec.recovery.fromMember to a member that \
             is left{trouble}",
            silent.join(" or "),
            silent.first().copied().unwrap_or_default(),
        );
        (QUORUM_LOST, told)
    }
}

/// What is told where members vote that somebody else added: nobody can do anything about them without a majority.
fn lost_with_strangers(known: usize, answering: usize, silent: &[&str], strangers: &[String]) -> String {
    let ours = if silent.is_empty() { String::new() } else { format!("{} or ", silent.join(" or ")) };
    let (count, names) = (strangers.len(), strangers.join(", "));
    format!(
        "the majority is lost: {answering} of {known} voting members answer, and writes are refused. {count} of them somebody \
         else added, and Causeway cannot ask them: {names}. Bring {ours}those back: nothing is deleted. If they are lost for \
         good, set spec.recovery.fromMember to a member that is left"
    )
}
