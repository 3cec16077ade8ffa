//! Pods and volume claims of our names that do not carry our label.

use std::ops::Range;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod as CorePod};
use kube::ResourceExt;

use super::reading::{claim_of, pod_of};
use super::{Claim, Database, Error, Pod, Set, Sets, names};
use crate::unlabelled::{self, Names, Standing};

impl<D: Database> Sets<D> {
    /// Looks for pods and claims that seem to be missing: a user may have taken our label off, or have one of that name.
    pub(super) async fn find_unlabelled(&self, object: &D::Object, set: &mut Set<D::Node>) -> Result<(), Error> {
        let names = Names::new(object);
        let labels = names.set::<D>();
        let namespace = object.namespace().unwrap_or_default();
        let wanted = 0..set.asked_ordinals(object).end.max(D::ordinals(object, &set.claims));
        let pods = wanted.clone().filter(|ordinal| !set.pods.contains_key(ordinal));
        let pods: Vec<String> = pods.map(|ordinal| names::pod(object, ordinal)).collect();
        let ephemeral = D::set_spec(object).ephemeral;
        let claims = wanted.filter(|ordinal| !ephemeral && !set.claims.contains_key(ordinal));
        let claims: Vec<String> = claims.map(|ordinal| names::claim(object, ordinal)).collect();
        let failed = |source| Error::Read { what: "pods and volume claims", source };
        let pods = unlabelled::look::<CorePod>(&self.client, &namespace, pods);
        let claims = unlabelled::look::<PersistentVolumeClaim>(&self.client, &namespace, claims);
        let (pods, claims) = tokio::try_join!(pods, claims).map_err(failed)?;
        for pod in &pods {
            let Some(ordinal) = names::ordinal_of(object, &pod.name_any()) else { continue };
            match labels.pod(pod) {
                Standing::Foreign(message) => drop(set.foreign.insert(ordinal, message)),
                standing => {
                    let unlabelled = standing == Standing::Stripped;
                    set.pods.insert(ordinal, Pod { unlabelled, ..pod_of::<D>(pod) });
                }
            }
        }
        let has_begun = D::has_begun(object);
        for claim in &claims {
            let Some(ordinal) = names::ordinal_of(object, &claim.name_any()) else { continue };
            let used = has_begun && set.pods.get(&ordinal).is_some_and(|pod| pod.controlled || pod.unlabelled);
            match labels.claim(claim, used) {
                Standing::Foreign(message) => drop(set.foreign.insert(ordinal, message)),
                standing => {
                    let unlabelled = standing == Standing::Stripped;
                    set.claims.insert(ordinal, Claim { unlabelled, ..claim_of(object, claim) });
                }
            }
        }
        Ok(())
    }
}

impl<N> Set<N> {
    /// The ordinals of the pods that the `StatefulSet` makes.
    pub(super) fn asked_ordinals(&self, object: &impl ResourceExt) -> Range<i32> {
        let Some(set) = self.child("StatefulSet", &object.name_any()) else { return 0..0 };
        let number = |value: &serde_json::Value| value.as_i64().and_then(|number| i32::try_from(number).ok());
        let spec = &set.value["spec"];
        let first = number(&spec["ordinals"]["start"]).unwrap_or(0);
        first..number(&spec["replicas"]).map_or(first, |count| count.saturating_add(first))
    }
}
