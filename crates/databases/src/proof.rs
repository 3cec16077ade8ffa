//! Judges whether the present spec brings up pods. Kubernetes makes every new pod from it, so a pod of an earlier spec that has
//! worked is not given up for one that may never start. Pure.

use kube::ResourceExt;

use super::names::RESTARTED;
use super::{Pod, Set};

impl<N> Set<N> {
    /// Reports whether `kubectl rollout restart` asks for another pod in place of this one: Kubernetes makes pods with the time
    /// of the last restart, and replaces none, for the kind chooses the order.
    pub fn is_to_restart(&self, object: &impl ResourceExt, pod: &Pod<N>) -> bool {
        let live = self.child("StatefulSet", &object.name_any()).filter(|live| live.ours);
        let template = live.map(|live| &live.value["spec"]["template"]["metadata"]);
        let asked = template.and_then(|metadata| metadata["annotations"][RESTARTED].as_str());
        asked.is_some() && pod.restarted.as_deref() != asked
    }

    /// Reports whether a pod that was made from the present spec works.
    pub fn is_proven(&self, is_outdated: impl Fn(&Pod<N>) -> bool) -> bool {
        let works = |pod: &&Pod<N>| (pod.ready || pod.lasts) && !pod.terminating;
        self.pods.values().filter(works).any(|pod| !is_outdated(pod))
    }

    /// Reports whether a pod must stay as it is: it was made from an earlier spec and has run, and a pod of the present spec is
    /// due that does not work yet. The kubelet starts its container again; a successor would be like the other.
    pub fn must_stay(&self, object: &impl ResourceExt, pod: &Pod<N>, is_outdated: impl Fn(&Pod<N>) -> bool) -> bool {
        pod.has_run && is_outdated(pod) && !self.is_proven(&is_outdated) && self.is_due(object, is_outdated)
    }

    /// Reports whether a pod of the present spec is there, or about to be made.
    fn is_due(&self, object: &impl ResourceExt, is_outdated: impl Fn(&Pod<N>) -> bool) -> bool {
        let goes = |pod: &Pod<N>| pod.terminating && pod.lost_node.is_none();
        let is_missing = |ordinal: i32| !self.pods.contains_key(&ordinal);
        self.pods.values().any(|pod| goes(pod) || !is_outdated(pod)) || self.asked_ordinals(object).any(is_missing)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Child;
    use causeway_api::{Redis, RedisSpec};

    fn old(name: &str) -> Pod<()> {
        Pod { name: name.into(), revision: "old".into(), has_run: true, ..Pod::default() }
    }

    fn stays(other: Option<Pod<()>>) -> bool {
        let mut set = Set::<()>::default();
        let live = json!({ "spec": { "replicas": 2 } });
        set.children.insert(("StatefulSet".into(), "cache".into()), Child { value: live, uid: "1".into(), ours: true });
        set.pods.insert(0, old("cache-0"));
        set.pods.extend(other.map(|pod| (1, pod)));
        set.must_stay(&Redis::new("cache", RedisSpec::default()), &set.pods[&0], |pod| pod.revision == "old")
    }

    #[test]
    fn a_pod_that_ran_stays_until_the_present_spec_works() {
        let new = || Pod { revision: "new".into(), ..old("cache-1") };
        assert!(stays(None), "its successor is not there yet");
        assert!(stays(Some(Pod { terminating: true, ..old("cache-1") })));
        assert!(stays(Some(Pod { trouble: Some("ImagePullBackOff".into()), ..new() })));
        assert!(!stays(Some(Pod { ready: true, ..new() })) && !stays(Some(Pod { lasts: true, ..new() })));
        assert!(!stays(Some(old("cache-1"))), "one of them shows what the present spec brings up");
    }
}
