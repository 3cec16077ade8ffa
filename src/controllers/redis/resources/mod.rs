//! Builds the children. Pure.

mod exporter;
mod services;
mod slices;
mod statefulset;
mod users;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Secret, VolumeMount};

use super::facts::Users;
use super::{names, settings};
use crate::api::Redis;
use crate::runtime::fingerprint;
use crate::runtime::manifest::Manifest;
use crate::stateful::{Rules, builders, network};

pub use slices::{Way, family_of, is_of_kubernetes, service_of, slice, ways_of};
pub use statefulset::{revision, statefulset};
pub use users::{hash, of as users_of, rules};

/// Name of the volume with the certificates.
const TLS_VOLUME: &str = "tls";

/// Services, disruption budget and network policy: they do not change with the nodes.
pub fn around(object: &Redis, rules: &Rules) -> Vec<Manifest> {
    let mut all = vec![
        Manifest::hashed(&services::peers(object)),
        Manifest::hashed(&services::master(object)),
        Manifest::hashed(&services::replicas(object)),
        Manifest::hashed(&services::disruption_budget(object)),
    ];
    all.extend(network::policy(object, rules));
    all
}

/// The settings that processes start with.
pub fn config_map(object: &Redis) -> Manifest {
    let data = BTreeMap::from([(settings::FILE.to_owned(), settings::file(object))]);
    Manifest::hashed(&builders::config_map(object, data))
}

/// So many pods, and the claims of their volumes.
pub fn pods(object: &Redis, count: i32) -> Manifest {
    Manifest::hashed(&statefulset(object, count))
}

/// The users that processes know, and their passwords' hashes.
pub fn users_secret(object: &Redis, users: &Users) -> Manifest {
    Manifest::hashed(&Secret {
        metadata: builders::metadata(object, names::users(object)),
        data: Some(users::data(users)),
        ..Secret::default()
    })
}

/// Hash of the settings and users that a running process can be told.
pub fn live_settings(object: &Redis, users: Option<&Users>) -> String {
    let settings = serde_json::to_vec(&settings::live(object)).unwrap_or_default();
    let rules = serde_json::to_vec(&rules(object, users)).unwrap_or_default();
    fingerprint(&[&settings, &rules], 16)
}

/// The certificates, for whoever in the pod needs them.
fn certificates() -> VolumeMount {
    builders::mount(TLS_VOLUME, settings::TLS_PATH, true)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::fixtures::redis;
    use super::*;

    #[test]
    fn the_children_stay_as_they_were_reviewed() {
        let object = redis(3);
        let mut all = around(&object, &Rules { namespace: "causeway-system".into(), ..Rules::default() });
        all.extend([config_map(&object), pods(&object, 4)]);
        let values: Vec<&Value> = all.iter().map(|manifest| &manifest.value).collect();
        insta::assert_yaml_snapshot!(values);
    }

    #[test]
    fn every_container_has_a_limit_of_memory() {
        let mut object = redis(3);
        object.spec.exporter = Some(crate::api::redis::Exporter::default());
        let pod = statefulset(&object, 4).spec.unwrap().template.spec.unwrap();
        assert_eq!(crate::runtime::without_memory(&pod), [""; 0]);
        assert_eq!(pod.containers.len(), 2);
    }

    #[test]
    fn the_revision_follows_what_needs_another_process() {
        let base = redis(3);
        let changed = |change: fn(&mut Redis)| {
            let mut object = redis(3);
            change(&mut object);
            revision(&object) != revision(&base)
        };
        assert!(changed(|object| object.spec.version = "7.2.5".into()));
        assert!(changed(|object| object.spec.auth.enabled = true));
        assert!(changed(|object| drop(object.spec.config.insert("io-threads".into(), "2".into()))));
        assert!(!changed(|object| drop(object.spec.config.insert("maxmemory".into(), "1gb".into()))));
        assert!(!changed(|object| object.spec.replicas = 1));
    }
}
