//! Pods and volume claims of our names that do not carry our label.

use k8s_openapi::api::core::v1::{self as core, PersistentVolumeClaim};
use kube::ResourceExt;

use super::error::Error;
use super::facts::{Claim, Observed, Pod};
use super::names;
use super::observe::Observer;
use super::reading::{facts_of, facts_of_claim};
use crate::api::Redis as Object;
use crate::controllers::unlabelled::{self, Set, Standing};

impl Observer {
    /// Pods and claims that are missing: somebody may have taken our label off, or have one of that name.
    pub async fn find_unlabelled(&self, object: &Object, observed: &mut Observed) -> Result<(), Error> {
        let (name, peers) = (object.name_any(), names::peers(object));
        let set = Set { label: names::LABEL, name: &name, peers: &peers, container: names::CONTAINER };
        let namespace = object.namespace().unwrap_or_default();
        let wanted = 0..expected(object, observed);
        let pods = wanted.clone().filter(|ordinal| !observed.pods.contains_key(ordinal));
        let pods: Vec<String> = pods.map(|ordinal| names::pod(object, ordinal)).collect();
        let claims = wanted.filter(|ordinal| !object.spec.storage.ephemeral && !observed.claims.contains_key(ordinal));
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
                    observed.pods.insert(ordinal, Pod { unlabelled, ..facts_of(pod) });
                }
            }
        }
        let has_begun = object.status.as_ref().is_some_and(|status| status.master.is_some());
        for claim in &claims {
            let Some(ordinal) = names::ordinal_of(object, &claim.name_any()) else { continue };
            let used = has_begun && observed.pods.get(&ordinal).is_some_and(|pod| pod.controlled || pod.unlabelled);
            match set.claim(claim, used) {
                Standing::Foreign(told) => drop(observed.foreign.insert(ordinal, told)),
                standing => {
                    let unlabelled = standing == Standing::Stripped;
                    observed.claims.insert(ordinal, Claim { unlabelled, ..facts_of_claim(object, claim) });
                }
            }
        }
        Ok(())
    }
}

/// So many pods there are, or may be made: whose names and volumes must be ours.
fn expected(object: &Object, observed: &Observed) -> i32 {
    let set = observed.child("StatefulSet", &object.name_any());
    let made = set.and_then(|set| i32::try_from(set.value["spec"]["replicas"].as_i64()?).ok());
    made.unwrap_or(0).max(object.spec.replicas + 1)
}
