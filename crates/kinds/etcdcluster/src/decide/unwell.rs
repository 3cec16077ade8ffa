//! Members that are not well, in words: where each is, what is wrong with it, and the command that shows more.

use super::super::facts::Pod;
use super::super::names;
use super::View;

/// Tells what to do about the lost node of a pod that is to stop, as the end of a sentence; empty if its node is not lost.
pub fn remedy(pod: &Pod) -> String {
    let Some(node) = &pod.lost_node else { return String::new() };
    let pod = &pod.name;
    format!(
        ". Node {node} of {pod} does not answer: once it is surely off, delete it (kubectl delete node {node}), or the pod \
         (kubectl delete pod {pod} --force)"
    )
}

impl View<'_> {
    /// Describes the members at these ordinals.
    pub fn unwell(&self, ordinals: impl IntoIterator<Item = i32>) -> String {
        let describe = |ordinal: i32| {
            let Some(pod) = self.observed.set.pods.get(&ordinal) else {
                return format!("{}, whose pod is missing", names::pod(self.object, ordinal));
            };
            let status = self.observed.statuses.get(&ordinal);
            let seen = match status {
                _ if pod.terminating => "which is terminating",
                None if self.observed.reserved.contains(&ordinal) => "which asks for a login",
                None => "which does not answer",
                Some(status) if status.leader == 0 => "which has no leader",
                Some(status) if status.is_learner => "which does not vote yet",
                Some(_) if !pod.ready => "whose pod is not ready",
                Some(_) => "which lags behind the leader",
            };
            format!("{}, {seen}", pod.place())
        };
        let all: Vec<i32> = ordinals.into_iter().collect();
        let more = all.first().map(|first| {
            let name = names::pod(self.object, *first);
            format!(" (kubectl describe pod {name}; kubectl logs {name})")
        });
        let described: Vec<String> = all.into_iter().map(describe).collect();
        described.join("; ") + &more.unwrap_or_default()
    }

    /// Members that have a pod and do not answer.
    pub fn silent(&self) -> impl Iterator<Item = i32> {
        self.observed.set.pods.keys().copied().filter(|ordinal| !self.answers_at(*ordinal))
    }

    /// Voters that are not healthy, that one not counted.
    pub fn unhealthy_voters_without(&self, ordinal: i32) -> impl Iterator<Item = i32> {
        self.voters().filter(move |voter| *voter != ordinal && !self.is_healthy(*voter))
    }
}
