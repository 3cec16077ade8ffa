//! Pods and volume claims of our names that do not carry our label.

use k8s_openapi::api::core::v1::{self as core, PersistentVolumeClaim};
use kube::ResourceExt;

use super::error::Error;
use super::facts::{Claim, Observed, Pod};
use super::names;
use super::observe::{self, Observer};
use crate::api::EtcdCluster;
use crate::controllers::unlabelled::{self, Set, Standing};

impl Observer {
    /// Pods and claims that are missing: somebody may have taken our label off, or have one of that name.
    pub async fn find_unlabelled(&self, object: &EtcdCluster, observed: &mut Observed) -> Result<(), Error> {
        let (name, peers) = (object.name_any(), names::peers(object));
        let set = Set { label: names::LABEL, name: &name, peers: &peers, container: names::CONTAINER };
        let namespace = object.namespace().unwrap_or_default();
        let wanted = 0..expected(object, observed);
        let pods = wanted.clone().filter(|ordinal| !observed.pods.contains_key(ordinal));
        let pods: Vec<String> = pods.map(|ordinal| names::pod(object, ordinal)).collect();
        let claims = wanted.filter(|ordinal| !observed.claims.contains_key(ordinal));
        let claims: Vec<String> = claims.map(|ordinal| names::claim(object, ordinal)).collect();
        let failed = |source| Error::Read { what: "pods and volume claims", source };
        let pods = unlabelled::look::<core::Pod>(&self.client, &namespace, pods);
        let claims = unlabelled::look::<PersistentVolumeClaim>(&self.client, &namespace, claims);
        let (pods, claims) = tokio::try_join!(pods, claims).map_err(failed)?;
        for pod in &pods {
            let Some(ordinal) = names::ordinal_of(object, &pod.name_any()) else { continue };
            match set.pod(pod) {
                Standing::Foreign(told) => drop(observed.foreign.insert(ordinal, told)),
                standing => {
                    let unlabelled = standing == Standing::Stripped;
                    observed.pods.insert(ordinal, Pod { unlabelled, ..observe::facts_of(pod) });
                }
            }
        }
        let has_begun = object.status.as_ref().is_some_and(|status| status.cluster_id.is_some());
        for claim in &claims {
            let Some(ordinal) = names::ordinal_of(object, &claim.name_any()) else { continue };
            let used = has_begun && observed.pods.get(&ordinal).is_some_and(|pod| pod.controlled || pod.unlabelled);
            match set.claim(claim, used) {
                Standing::Foreign(told) => drop(observed.foreign.insert(ordinal, told)),
                standing => {
                    let unlabelled = standing == Standing::Stripped;
                    observed.claims.insert(ordinal, Claim { unlabelled, ..observe::facts_of_claim(object, claim) });
                }
            }
        }
        Ok(())
    }
}

/// So many pods there are, or may be made: whose names and volumes must be ours.
fn expected(object: &EtcdCluster, observed: &Observed) -> i32 {
    let spec = observed.child("StatefulSet", &object.name_any()).map(|set| &set.value["spec"]);
    let number = |value: &serde_json::Value| value.as_i64().and_then(|number| i32::try_from(number).ok());
    let made = spec.and_then(|spec| Some(number(&spec["replicas"])? + number(&spec["ordinals"]["start"]).unwrap_or(0)));
    let recorded = object.status.iter().flat_map(|status| &status.members);
    let recorded = recorded.filter_map(|member| Some(names::ordinal_of(object, &member.name)? + 1)).max();
    let volumes = observed.claims.keys().last().map(|last| last + 1);
    [Some(object.spec.replicas), made, recorded, volumes].into_iter().flatten().max().unwrap_or(0)
}
