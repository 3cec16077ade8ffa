//! Builds the children. Pure.

mod exporter;
mod sentinel;
mod services;
mod slices;
mod statefulset;
mod users;

use k8s_openapi::api::core::v1::{KeyToPath, Secret, SecretVolumeSource, Volume, VolumeMount};

use causeway_api::Redis;
use causeway_databases::{Rules, builders, network};
use causeway_runtime::fingerprint;
use causeway_runtime::manifest::Manifest;

use super::database::RedisDatabase;
use super::facts::Users;
use super::{names, settings};

pub use slices::{Route, distribution, family_of, is_of_kubernetes, routes_of, service_of, slice};
pub use statefulset::{revision, statefulset};
pub use users::{hash, read as users_of, rules};

/// Name of the volume with the certificates.
const TLS_VOLUME: &str = "tls";

/// Services and network policy: they do not change with the nodes.
pub fn around(object: &Redis, rules: &Rules) -> Vec<Manifest> {
    let mut all = vec![
        Manifest::with_hash(&services::peers(object)),
        Manifest::with_hash(&services::master(object)),
        Manifest::with_hash(&services::replicas(object)),
    ];
    all.extend(object.spec.sentinel.as_ref().map(|_| Manifest::with_hash(&services::sentinel(object))));
    all.extend(network::policy::<RedisDatabase>(object, rules));
    all
}

/// How many pods may be evicted at the same time: none or one.
pub fn disruption_budget(object: &Redis, allowed: i32) -> Manifest {
    Manifest::with_hash(&services::disruption_budget(object, allowed))
}

/// `count` pods, and the claims of their volumes. `own_image` is the operator's image, and `file` has the settings that their
/// processes start with.
pub fn pods(object: &Redis, count: i32, own_image: &str, file: String) -> Manifest {
    Manifest::with_hash(&statefulset(object, count, own_image, file))
}

/// The users that processes know, and their passwords' hashes.
pub fn users_secret(object: &Redis, users: &Users) -> Manifest {
    Manifest::with_hash(&Secret {
        metadata: builders::metadata::<RedisDatabase>(object, names::users(object)),
        data: Some(users::data(users)),
        ..Secret::default()
    })
}

/// Hash of the settings and users that can be applied to a running process whose container has that memory limit.
pub fn live_settings(object: &Redis, users: Option<&Users>, limit: Option<u64>) -> String {
    let settings = serde_json::to_vec(&settings::live_of(object, limit)).unwrap_or_default();
    let rules = serde_json::to_vec(&rules(object, users)).unwrap_or_default();
    fingerprint(&[&settings, &rules], 16)
}

/// The mount of the certificates, for the containers that need them.
fn certificates() -> VolumeMount {
    builders::mount(TLS_VOLUME, settings::TLS_PATH, true)
}

/// One password of the users' Secret, for the container beside the node that logs in with it.
fn password(object: &Redis, volume: &str, file: &str) -> Volume {
    Volume {
        name: volume.into(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(names::users(object)),
            items: Some(vec![KeyToPath { key: file.into(), path: file.into(), mode: None }]),
            default_mode: Some(0o440),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::fixtures::redis;
    use super::*;
    use causeway_api::redis::{ClientCertificates, Exporter, Sentinel, Tls};

    #[test]
    fn the_children_stay_as_they_were_reviewed() {
        let object = redis(3);
        let mut all = around(&object, &Rules { namespace: "causeway-system".into(), ..Rules::default() });
        all.extend([disruption_budget(&object, 1), pods(&object, 4, "causeway:1", settings::file(&object))]);
        let values: Vec<&Value> = all.iter().map(|manifest| &manifest.value).collect();
        insta::assert_yaml_snapshot!(values);
    }

    #[test]
    fn what_a_sentinel_adds_stays_as_it_was_reviewed() {
        let mut object = redis(1);
        object.spec.sentinel = Some(Sentinel::default());
        object.spec.auth.enabled = true;
        object.spec.tls = Some(Tls { client_certificates: ClientCertificates::Required, ..Tls::default() });
        let service = Manifest::with_hash(&services::sentinel(&object)).value;
        let mut policy = network::policy::<RedisDatabase>(&object, &Rules::default()).unwrap().value;
        let policy = policy["spec"]["ingress"][0]["ports"].take();
        let mut pod = pods(&object, 2, "causeway:1", String::new()).value["spec"]["template"]["spec"].take();
        let container = pod["containers"][1].take();
        insta::assert_yaml_snapshot!([service, policy, container, pod["volumes"].take()]);
    }

    #[test]
    fn an_operator_upgrade_replaces_no_node() {
        let mut object = redis(1);
        let without = revision(&object);
        object.spec.sentinel = Some(Sentinel::default());
        let label = |object: &Redis, own_image: &str| {
            let template = pods(object, 2, own_image, String::new()).value["spec"]["template"].take();
            let image = template["spec"]["containers"][1]["image"].as_str().unwrap().to_owned();
            (template["metadata"]["labels"][names::REVISION].as_str().unwrap().to_owned(), image)
        };
        let (one, other) = (label(&object, "causeway:1"), label(&object, "causeway:2"));
        assert!(one.0 == other.0 && one.1 != other.1, "{one:?} {other:?}");
        assert!(one.0 != without, "it comes to nodes that run");
        object.spec.sentinel = Some(Sentinel { image: Some("mirror/causeway:1".into()), ..Sentinel::default() });
        assert_ne!(label(&object, "causeway:1").0, one.0);
    }

    #[test]
    fn live_settings_replace_no_pod() {
        let mut object = redis(1);
        let template =
            |object: &Redis| pods(object, 2, "causeway:1", settings::file(object)).value["spec"]["template"].take();
        let file = |template: &Value| template["metadata"]["annotations"][names::CONF].as_str().map(str::to_owned);
        let before = template(&object);
        assert_eq!(file(&before), Some(settings::file(&object)));
        object.spec.config.insert("maxmemory".into(), "1gb".into());
        let after = template(&object);
        assert!(file(&after).is_some_and(|file| file.contains("maxmemory") && file.contains("1gb")), "{after}");
        assert_eq!(before["metadata"]["labels"], after["metadata"]["labels"], "the revision is the same");
        assert!(!after.to_string().contains("configMap"), "{after}");
        // A user's annotation of that name does not become the file.
        object.spec.pod_metadata =
            serde_json::from_value(serde_json::json!({ "annotations": { names::CONF: "x" } })).ok();
        assert_eq!(file(&template(&object)), Some(settings::file(&object)));
    }

    #[test]
    fn every_container_has_a_limit_of_memory() {
        let mut object = redis(3);
        object.spec.exporter = Some(Exporter::default());
        object.spec.sentinel = Some(Sentinel::default());
        let pod = statefulset(&object, 4, "causeway:1", String::new()).spec.unwrap().template.spec.unwrap();
        assert_eq!(causeway_runtime::without_memory(&pod), [""; 0]);
        assert_eq!(pod.containers.len(), 3);
    }

    #[test]
    fn the_same_resources_in_other_words_replace_no_node() {
        let revision_with = |cpu: &str, memory: &str| {
            let mut object = redis(1);
            let given = serde_json::json!({ "requests": { "cpu": cpu }, "limits": { "memory": memory } });
            object.spec.resources = serde_json::from_value(given).unwrap();
            revision(&object)
        };
        assert_eq!(revision_with("1", "2Gi"), revision_with("1000m", "2048Mi"));
        assert_ne!(revision_with("1", "2Gi"), revision_with("1", "2G"));
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
        assert!(changed(|object| object.spec.service_account_name = Some("cache".into())));
        assert!(changed(|object| drop(object.spec.config.insert("io-threads".into(), "2".into()))));
        assert!(!changed(|object| drop(object.spec.config.insert("maxmemory".into(), "1gb".into()))));
        assert!(!changed(|object| object.spec.replicas = 1));
    }
}
