//! The definitions as the apiserver has them: what it accepts, what it refuses and with which words.

use causeway_api::causewaypolicy::CausewayPolicy;
use causeway_api::definitions::definitions;
use causeway_api::myingress::Scheme;
use causeway_api::{DatabaseRestore, DeletionPolicy, EtcdCluster, MyApp, MyIngress};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams, ValidationDirective};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::support::Scene;

/// The words with which the apiserver refuses an object.
async fn refusal_of_ingress(scene: &Scene, field: &str, value: Value) -> String {
    let mut spec = json!({ "subnets": ["subnet-abc", "subnet-def"] });
    spec[field] = value;
    let outcome = scene.try_create::<MyIngress>("app", spec.clone()).await;
    outcome.expect_err(&format!("{spec} is refused")).to_string()
}

async fn refusal_of_app(scene: &Scene, name: &str, field: &str, value: Value) -> String {
    let mut spec = json!({ "image": "nginx:latest" });
    spec[field] = value;
    let outcome = scene.try_create::<MyApp>(name, spec.clone()).await;
    outcome.expect_err(&format!("{spec} is refused")).to_string()
}

#[tokio::test]
async fn refusals_of_a_my_ingress_name_field_and_fix() {
    let scene = Scene::new("crds").await;
    let long = |length: usize| "x".repeat(length);
    for (field, value, words) in [
        ("subnets", json!(["subnet-abc", "vpc-1"]), "spec.subnets must be subnet ids such as subnet-0a1b2c3d"),
        ("subnets", json!(["subnet-abc", "subnet-abc"]), "spec.subnets: duplicate entries for key [=\"subnet-abc\"]"),
        ("subnets", json!(["subnet-abc"]), "spec.subnets in body should have at least 2 items"),
        ("subnets", json!([]), "spec.subnets in body should have at least 2 items"),
        ("scheme", json!("external"), "supported values: \"internet-facing\", \"internal\""),
        ("securityGroups", json!(["sg-Web"]), "spec.securityGroups must be security group ids such as sg-0a1b2c3d"),
        ("securityGroups", json!(["sg-a", "sg-a"]), "spec.securityGroups: duplicate entries for key [=\"sg-a\"]"),
        (
            "securityGroups",
            json!(["sg-1", "sg-2", "sg-3", "sg-4", "sg-5", "sg-6"]),
            "spec.securityGroups: Too many: 6: must have at most 5 items",
        ),
        (
            "targetSecurityGroups",
            json!(["nodes"]),
            "spec.targetSecurityGroups allows traffic from the security group that is made for spec.inboundCidrs",
        ),
        (
            "attributes",
            json!({ "a b": "1" }),
            "spec.attributes keys must be AWS attribute names such as idle_timeout.timeout_seconds",
        ),
        ("attributes", json!({ "a": long(1025) }), "spec.attributes values must have at most 1024 characters"),
        ("tags", json!({ "": "1" }), "spec.tags keys must have 1 to 128 characters and values at most 256"),
        ("tags", json!({ "k": long(257) }), "spec.tags.k: Too long"),
        (
            "tags",
            json!({ "aws:x": "1" }),
            "spec.tags must not use ManagedBy or the prefixes aws: and causeway.example.com/: choose another key",
        ),
        ("tags", json!({ "causeway.example.com/uid": "1" }), "choose another key"),
        ("tags", json!({ "ManagedBy": "me" }), "choose another key"),
        ("deletionPolicy", json!("Keep"), "supported values: \"Delete\", \"Retain\""),
    ] {
        let answer = refusal_of_ingress(&scene, field, value).await;
        assert!(answer.contains(words) && answer.contains(&format!("spec.{field}")), "{answer}\nshould say: {words}");
    }
    let (subnets, type_) = (["subnet-abc", "subnet-def"], "dualstack-without-public-ipv4");
    let inner = json!({ "subnets": subnets, "scheme": "internal", "ipAddressType": type_ });
    let answer = scene.try_create::<MyIngress>("app", inner).await.expect_err("it is refused").to_string();
    let words = "spec.ipAddressType dualstack-without-public-ipv4 is for scheme internet-facing: use dualstack";
    assert!(answer.contains(words), "{answer}\nshould say: {words}");
}

#[tokio::test]
async fn refusals_of_a_my_app_name_field_and_fix() {
    let scene = Scene::new("crds").await;
    for (field, value, words) in [
        ("image", json!("nginx latest"), "spec.image must not contain white space: write it as registry/name:tag"),
        ("image", json!(""), "spec.image in body should be at least 1 chars long"),
        ("banner", json!("a\u{0}b"), "spec.banner must not contain a NUL character: remove it"),
        ("banner", json!("x".repeat(32_769)), "spec.banner: Too long"),
        ("replicas", json!(101), "spec.replicas in body should be less than or equal to 100"),
        ("replicas", json!(-1), "spec.replicas in body should be greater than or equal to 0"),
        ("command", json!(vec!["x"; 65]), "spec.command: Too many: 65: must have at most 64 items"),
    ] {
        let answer = refusal_of_app(&scene, "app", field, value).await;
        assert!(answer.contains(words), "{answer}\nshould say: {words}");
    }
    let answer = refusal_of_app(&scene, &"x".repeat(57), "replicas", json!(1)).await;
    assert!(answer.contains("metadata.name must have at most 56 characters"), "{answer}");
}

fn etcd(field: &str, value: Value) -> Value {
    let mut spec = json!({ "version": "3.5.9", "storageSize": "8Gi" });
    spec[field] = value;
    spec
}

#[tokio::test]
async fn refusals_of_an_etcd_cluster_name_field_and_fix() {
    let scene = Scene::new("crds").await;
    let version = "spec.version must be a release of etcd 3.5 or 3.6, such as 3.5.9";
    let size = "spec.storageSize must be a positive quantity such as 10Gi";
    for (field, value, words) in [
        ("replicas", json!(2), "spec.replicas must be odd (1, 3, 5, 7 or 9)"),
        ("replicas", json!(0), "spec.replicas in body should be greater than or equal to 1"),
        ("replicas", json!(11), "spec.replicas in body should be less than or equal to 9"),
        ("version", json!("3.4.30"), version),
        ("version", json!("v3.5.9"), version),
        ("version", json!("latest"), version),
        ("storageSize", json!("ten"), size),
        ("storageSize", json!("0"), size),
        ("storageSize", json!("-1Gi"), size),
        (
            "storageSize",
            json!("10m"),
            "spec.storageSize: 10m is less than 1Mi: m is thousandths of a byte, and 10M or 10Mi is meant",
        ),
        (
            "resources",
            json!({ "limits": { "memory": "100m" } }),
            "memory: 100m is less than 1Mi: m is thousandths of a byte, and 100M or 100Mi is meant",
        ),
        (
            "resources",
            json!({ "requests": { "memory": 512 } }),
            "memory: 512 is less than 1Mi: give it with its suffix, such as 512Mi",
        ),
        ("resources", json!({ "requests": { "ephemeral-storage": "1k" } }), "ephemeral-storage: 1k is less than 1Mi"),
        ("resources", json!({ "limits": { "cpu": "100G" } }), "cpu: 100G is more than 1000 cores: memory is meant"),
        ("resources", json!({ "limits": { "cpu": 2000 } }), "cpu: 2000 is more than 1000 cores: 2000m is meant"),
        ("config", json!({ "--name": "x" }), "spec.config keys must be flags of etcd without the leading hyphens"),
        ("auth", json!({ "secretName": "mine" }), "spec.auth.secretName needs spec.auth.enabled: true"),
        ("auth", json!({ "enabled": true, "secretName": "" }), "spec.auth.secretName"),
        ("image", json!("a b"), "spec.image must not contain white space"),
        ("resources", json!({ "requests": { "cpu": "much" } }), "spec.resources.requests.cpu"),
        ("resources", json!({ "limits": { "memory": "" } }), "spec.resources.limits.memory"),
        ("resources", json!({ "limits": { "cpu": -1 } }), "spec.resources.limits.cpu"),
        ("tolerations", json!([{ "operator": "Is" }]), "spec.tolerations[0].operator"),
        (
            "podMetadata",
            json!({ "labels": { "app.kubernetes.io/name": "mine" } }),
            "spec.podMetadata.labels must not have keys of Kubernetes, clouds",
        ),
        (
            "podMetadata",
            json!({ "annotations": { "vault.hashicorp.com/agent-inject": "true" } }),
            "spec.podMetadata.annotations must not have keys of Kubernetes, clouds",
        ),
        (
            "podMetadata",
            json!({ "annotations": { "io.kubernetes.cri-o.userns-mode": "auto" } }),
            "spec.podMetadata.annotations must not have keys of Kubernetes, clouds",
        ),
        (
            "podMetadata",
            json!({ "labels": { "azure.workload.identity/use": "true" } }),
            "spec.podMetadata.labels must not have keys of Kubernetes, clouds",
        ),
        ("serviceAccountName", json!("causeway-backup"), "spec.serviceAccountName must not be causeway-backup"),
        ("service", json!({ "type": "ExternalName" }), "\"ClusterIP\", \"NodePort\", \"LoadBalancer\""),
        (
            "tls",
            json!({ "certificateDuration": "30m" }),
            "spec.tls.certificateDuration must be 1h to 87600h, such as 2160h",
        ),
        ("tls", json!({ "certificateDuration": "90 days" }), "spec.tls.certificateDuration"),
        (
            "tls",
            json!({ "authorityDuration": "24h" }),
            "spec.tls.authorityDuration must be at least three times spec.tls.certificateDuration",
        ),
        ("deletionPolicy", json!("Keep"), "supported values: \"Delete\", \"Retain\""),
    ] {
        let spec = etcd(field, value);
        let outcome = scene.try_create::<EtcdCluster>("db", spec.clone()).await;
        let answer = outcome.expect_err(&format!("{spec} is refused")).to_string();
        assert!(answer.contains(words) && answer.contains(&format!("spec.{field}")), "{answer}\nshould say: {words}");
    }
    for name in ["x".repeat(47), "0db".into()] {
        let answer = scene.try_create::<EtcdCluster>(&name, etcd("replicas", json!(1))).await;
        let answer = answer.expect_err("the name is refused").to_string();
        assert!(answer.contains("metadata.name must have at most 46 lower case letters"), "{answer}");
    }
}

#[tokio::test]
async fn an_etcd_cluster_keeps_its_volumes_size_and_class() {
    let scene = Scene::new("crds").await;
    scene.create::<EtcdCluster>("db", etcd("storage", json!({ "className": "standard" }))).await;
    let shrinks = "spec.storage.size (or spec.storageSize) cannot shrink: volumes only grow.";
    for (field, value, words) in [
        ("storageSize", json!("7Gi"), shrinks),
        ("storageSize", json!("ten"), "spec.storageSize must be a positive quantity"),
        ("storage", json!({ "size": "9Gi" }), "spec.storageSize and spec.storage.size are the same"),
        ("storage", json!({ "className": "fast" }), "spec.storage.className cannot change"),
        ("storage", Value::Null, "spec.storage.className cannot change"),
    ] {
        let patch = Patch::Merge(json!({ "spec": { (field): value } }));
        let outcome = scene.api::<EtcdCluster>().patch("db", &PatchParams::default(), &patch).await;
        let answer = outcome.expect_err(&format!("another {field} is refused")).to_string();
        assert!(answer.contains(words), "{answer}\nshould say: {words}");
    }
    let grown = scene.edit::<EtcdCluster>("db", json!({ "storageSize": "10Gi" })).await;
    assert_eq!(grown.spec.volume_size(), "10Gi");
    let moved = scene.edit::<EtcdCluster>("db", json!({ "storageSize": null, "storage": { "size": "12Gi" } })).await;
    assert_eq!(moved.spec.volume_size(), "12Gi");
    let patch = Patch::Merge(json!({ "spec": { "storage": { "size": null } } }));
    let outcome = scene.api::<EtcdCluster>().patch("db", &PatchParams::default(), &patch).await;
    let answer = outcome.expect_err("the default is smaller").to_string();
    assert!(answer.contains(shrinks), "{answer}");
    let status = Patch::Merge(json!({ "status": { "volumeSize": "8Gi" } }));
    let clusters = scene.api::<EtcdCluster>();
    clusters.patch_status("db", &PatchParams::default(), &status).await.expect("the volumes are smaller");
    let lowered = scene.edit::<EtcdCluster>("db", json!({ "storage": { "size": null } })).await;
    assert_eq!(lowered.spec.volume_size(), "8Gi", "the growth is taken back");
}

#[tokio::test]
async fn the_samples_are_accepted_as_they_stand() {
    let scene = Scene::new("crds").await;
    for sample in ["myapp.yaml", "myingress.yaml", "myingress-full.yaml", "etcdcluster.yaml", "redis.yaml"] {
        let path = format!("{}/../examples/{sample}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("the sample");
        let mut object: DynamicObject = serde_saphyr::from_str(&text).expect("a manifest");
        object.metadata.namespace = Some(scene.namespace.clone());
        let types = object.types.clone().expect("a kind");
        let kind = GroupVersionKind::try_from(&types).expect("a kind");
        let api: Api<DynamicObject> =
            Api::namespaced_with(scene.client.clone(), &scene.namespace, &ApiResource::from_gvk(&kind));
        let name = object.name_any();
        let mut strictly = PatchParams::apply("test");
        strictly.field_validation = Some(ValidationDirective::Strict);
        api.patch(&name, &strictly, &Patch::Apply(&object)).await.unwrap_or_else(|error| panic!("{sample}: {error}"));
    }
    let app = scene.api::<MyApp>().get("example-app").await.unwrap();
    assert_eq!((app.spec.replicas, app.spec.image.as_str()), (3, "nginx:latest"));
}

#[tokio::test]
async fn objects_of_every_release_are_accepted_as_they_stand() {
    let scene = Scene::new("crds").await;
    let releases = format!("{}/fixtures/api", env!("CARGO_MANIFEST_DIR"));
    let entries = |directory: &std::path::Path| -> Vec<std::path::PathBuf> {
        std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("a file").path()).collect()
    };
    for path in entries(releases.as_ref()).iter().flat_map(|release| entries(release)) {
        let text = std::fs::read_to_string(&path).expect("the file");
        let mut object: DynamicObject = serde_saphyr::from_str(&text).expect("a manifest");
        object.data.as_object_mut().expect("fields").remove("status");
        let types = object.types.clone().expect("a kind");
        let kind = GroupVersionKind::try_from(&types).expect("a kind");
        let definition = definitions().into_iter().find(|it| it.spec.names.kind == kind.kind).expect("a definition");
        let resource = ApiResource::from_gvk_with_plural(&kind, &definition.spec.names.plural);
        let api: Api<DynamicObject> = if definition.spec.scope == "Namespaced" {
            object.metadata.namespace = Some(scene.namespace.clone());
            Api::namespaced_with(scene.client.clone(), &scene.namespace, &resource)
        } else {
            Api::all_with(scene.client.clone(), &resource)
        };
        let mut strictly = PatchParams { dry_run: true, ..PatchParams::apply("test") };
        strictly.field_validation = Some(ValidationDirective::Strict);
        let outcome = api.patch(&object.name_any(), &strictly, &Patch::Apply(&object)).await;
        outcome.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

#[tokio::test]
async fn what_is_left_out_gets_its_default() {
    let scene = Scene::new("crds").await;
    let ingress = scene.create::<MyIngress>("app", json!({ "subnets": ["subnet-abc", "subnet-def"] })).await;
    assert_eq!((ingress.spec.scheme, ingress.spec.deletion_policy), (Scheme::InternetFacing, DeletionPolicy::Delete));
    let app = scene.create::<MyApp>("app", json!({ "image": "nginx" })).await;
    assert_eq!((app.spec.replicas, app.spec.banner.as_str(), app.spec.suspend), (1, "", false));
    let etcd = scene.create::<EtcdCluster>("db", json!({ "version": "3.5.9" })).await.spec;
    assert_eq!((etcd.replicas, etcd.volume_size(), etcd.deletion_policy), (3, "8Gi", DeletionPolicy::Retain));
}

#[tokio::test]
async fn unknown_fields_are_refused_where_asked_and_dropped_elsewhere() {
    let scene = Scene::new("crds").await;
    let kind = GroupVersionKind::gvk("demo.rtfm.co.ua", "v1", "MyIngress");
    let api: Api<DynamicObject> =
        Api::namespaced_with(scene.client.clone(), &scene.namespace, &ApiResource::from_gvk(&kind));
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "demo.rtfm.co.ua/v1", "kind": "MyIngress", "metadata": { "name": "app" },
        "spec": { "subnets": ["subnet-abc", "subnet-def"], "subnet": "subnet-ghi" },
    }))
    .unwrap();
    let mut parameters = PatchParams::apply("test");
    parameters.field_validation = Some(ValidationDirective::Strict);
    let answer = api.patch("app", &parameters, &Patch::Apply(&object)).await.expect_err("it is refused").to_string();
    assert!(
        answer.contains("unknown field \"spec.subnet\"") || answer.contains(".spec.subnet: field not declared"),
        "{answer}"
    );
    let dropped = api.create(&PostParams::default(), &object).await.expect("it is accepted");
    assert_eq!(dropped.data["spec"]["subnet"], Value::Null);
}

#[tokio::test]
async fn the_status_is_no_part_of_an_ordinary_write() {
    let scene = Scene::new("crds").await;
    scene.create::<MyIngress>("app", json!({ "subnets": ["subnet-abc", "subnet-def"] })).await;
    let patch = Patch::Merge(json!({ "status": { "observedGeneration": 42 } }));
    let object = scene.api::<MyIngress>().patch("app", &PatchParams::default(), &patch).await.expect("an answer");
    assert_eq!(object.status.and_then(|status| status.observed_generation), None);
}

#[test]
fn every_field_has_a_description() {
    for definition in definitions() {
        let mut bare = Vec::new();
        collect_bare(&definition.name_any(), schema(&definition), &mut bare);
        assert!(bare.is_empty(), "fields without a description: {bare:#?}");
    }
}

#[test]
fn every_list_and_text_of_a_spec_has_bounds() {
    for definition in definitions() {
        let mut open = Vec::new();
        let spec = &schema(&definition).properties.as_ref().unwrap()["spec"];
        collect_unbounded(&format!("{}.spec", definition.name_any()), spec, &mut open);
        assert!(open.is_empty(), "without bounds: {open:#?}");
    }
}

#[test]
fn every_kind_has_short_names_columns_category_and_status() {
    for definition in definitions() {
        let version = &definition.spec.versions[0];
        assert_eq!(definition.spec.names.categories, Some(vec!["causeway".to_owned()]));
        assert!(definition.spec.names.short_names.is_some());
        let columns: Vec<&str> =
            version.additional_printer_columns.iter().flatten().map(|it| it.name.as_str()).collect();
        assert!(columns.contains(&"Age"), "{columns:?}");
        assert!(columns.contains(&"Ready"), "{columns:?}");
        let subresources = version.subresources.as_ref().unwrap();
        assert!(subresources.status.is_some());
        assert_eq!(
            subresources.scale.is_some(),
            ["MyApp", "EtcdCluster", "Redis"].contains(&&*definition.spec.names.kind)
        );
        let status = &schema(&definition).properties.as_ref().unwrap()["status"];
        let conditions = &status.properties.as_ref().unwrap()["conditions"];
        assert_eq!(conditions.x_kubernetes_list_type.as_deref(), Some("map"));
        assert_eq!(conditions.x_kubernetes_list_map_keys, Some(vec!["type".to_owned()]));
    }
}

fn schema(definition: &CustomResourceDefinition) -> &JSONSchemaProps {
    definition.spec.versions[0].schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref()).expect("a schema")
}

fn collect_bare(path: &str, schema: &JSONSchemaProps, bare: &mut Vec<String>) {
    for (name, field) in schema.properties.iter().flatten() {
        let path = format!("{path}.{name}");
        // `spec` itself needs no description: the kind has one.
        if field.description.as_deref().unwrap_or_default().is_empty() {
            bare.push(path.clone());
        }
        collect_bare(&path, field, bare);
        if let Some(JSONSchemaPropsOrArray::Schema(items)) = &field.items {
            collect_bare(&format!("{path}[]"), items, bare);
        }
    }
}

fn collect_unbounded(path: &str, schema: &JSONSchemaProps, open: &mut Vec<String>) {
    let bounded = match schema.type_.as_deref() {
        Some("string") => schema.max_length.is_some() || schema.enum_.is_some(),
        Some("array") => schema.max_items.is_some(),
        Some("integer") => schema.maximum.is_some() && schema.minimum.is_some(),
        Some("object") if schema.properties.is_none() => schema.max_properties.is_some(),
        _ => true,
    };
    if !bounded {
        open.push(path.to_owned());
    }
    for (name, field) in schema.properties.iter().flatten() {
        collect_unbounded(&format!("{path}.{name}"), field, open);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        collect_unbounded(&format!("{path}[]"), items, open);
    }
}

/// Says whether the API server takes a status, and reads all objects of the kind as the operator does.
async fn takes_status(scene: &Scene, status: Value) -> bool {
    let definition = definitions().into_iter().find(|it| it.spec.names.kind == "MyApp").expect("a definition");
    let gvk = GroupVersionKind::gvk(&definition.spec.group, "v1", "MyApp");
    let resource = ApiResource::from_gvk_with_plural(&gvk, &definition.spec.names.plural);
    let api: Api<DynamicObject> = Api::namespaced_with(scene.client.clone(), &scene.namespace, &resource);
    let patch = Patch::Merge(json!({ "status": status }));
    let taken = api.patch_status("app", &PatchParams::default(), &patch).await.is_ok();
    let all = scene.api::<MyApp>().list(&ListParams::default()).await;
    all.unwrap_or_else(|error| panic!("{status} cannot be read: {error}"));
    taken
}

#[tokio::test]
async fn what_the_apiserver_takes_can_be_read() {
    let scene = Scene::new("crds").await;
    scene.create::<MyApp>("app", json!({ "image": "nginx:latest" })).await;
    let condition = |time: &str| {
        json!({ "conditions": [{
        "type": "Ready", "status": "True", "reason": "Good", "message": "", "lastTransitionTime": time,
    }] })
    };
    for (time, taken) in [
        ("2026-11-23T12:00:00Z", true),
        ("2026-11-23t12:00:00z", false),
        ("2026-11-23T12:00:00.123456789+23:59", true),
        ("0000-01-01T00:00:00Z", true),
        ("8999-12-31T23:59:59Z", true),
        ("2026-11-23T12:00:00.1234567890Z", false),
        ("2026-11-23T12:00:00x5Z", false),
        ("2026-11-23T12:00:00+99:99", false),
        ("2026-11-23T12:00:00ZTrubbish", false),
        ("2026-11-23T23:59:60Z", false),
        ("9999-12-31T23:59:59Z", false),
        ("2026-02-30T00:00:00Z", false),
        ("", false),
    ] {
        assert_eq!(takes_status(&scene, condition(time)).await, taken, "{time:?}");
    }
    for (number, taken) in [
        (json!(i32::MAX), true),
        (json!(80.0), true),
        (json!(1e3), true),
        (json!(2_147_483_648_i64), false),
        (json!(i64::MIN), false),
        (json!(1.5), false),
        (json!("1"), false),
    ] {
        assert_eq!(takes_status(&scene, json!({ "readyReplicas": number })).await, taken, "{number}");
    }
    let ports = [(json!(80.0), true), (json!("http"), true), (json!(65_536), false), (json!(2_147_483_648_i64), false)];
    for (index, (port, taken)) in ports.into_iter().enumerate() {
        let backend = json!({ "name": "web", "port": port });
        let spec = json!({ "subnets": ["subnet-abc", "subnet-def"], "backends": [backend], "suspend": true });
        let outcome = scene.try_create::<MyIngress>(&format!("web-{index}"), spec).await;
        assert_eq!(outcome.is_ok(), taken, "{port}: {outcome:?}");
        scene.api::<MyIngress>().list(&ListParams::default()).await.expect("all can be read");
    }
}

#[tokio::test]
async fn a_policy_that_can_match_nothing_is_refused() {
    let scene = Scene::new("crds").await;
    let policies = Api::<CausewayPolicy>::all(scene.client.clone());
    let by = |key: &str| json!({ "namespaceSelector": { "matchLabels": { (key): "a" } } });
    let expression = |key: &str, value: &str| {
        let expression = json!({ "key": key, "operator": "In", "values": [value] });
        json!({ "namespaceSelector": { "matchExpressions": [expression] } })
    };
    let list = |field: &str, entry: &str| json!({ "namespaceSelector": {}, (field): [entry] });
    let (key, value) = ("must be keys of labels", "must be values of labels");
    for (spec, words) in [
        (by("a key"), key),
        (by(&"k".repeat(70)), key),
        (by("a\nkey"), key),
        (json!({ "namespaceSelector": { "matchLabels": { "a": "a value" } } }), value),
        (expression("a key", "a"), key),
        (expression("a", "a value"), value),
        (list("inboundCidrs", "10.0.0.0/99"), "spec.inboundCidrs must be networks"),
        (list("images", "redis 7"), "spec.images[0]"),
        (list("buckets", "s3://logs"), "spec.buckets[0]"),
        (list("certificates", "arn:aws:acm: *"), "spec.certificates[0]"),
        (list("securityGroups", "a\nb"), "spec.securityGroups[0]"),
        (list("podMetadata", "team: x"), "spec.podMetadata[0]"),
    ] {
        let policy = json!({ "metadata": { "name": scene.namespace }, "spec": spec });
        let policy: CausewayPolicy = serde_json::from_value(policy).expect("a policy");
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let refused = policies.create(&dry_run, &policy).await.expect_err(words).to_string();
        assert!(refused.contains(words), "{words}: {refused}");
    }
}

#[tokio::test]
async fn a_status_can_be_written_whatever_time_was_accepted() {
    let scene = Scene::new("crds").await;
    let api = scene.api::<DatabaseRestore>();
    let (mut accepted, mut refused) = (0, 0);
    for (index, time) in [
        "2026-11-22T12:00:00Z",
        "2026-11-22T12:00:00.25Z",
        "2026-11-22T12:00:00.123456789+05:30",
        "2026-11-22T12:00:00-00:00",
        "2026-11-22t12:00:00Z",
        "2026-11-22T12:00:00z",
        "2026-11-22t12:00:00.25z",
        "2026-11-22T12:00:00,5Z",
        "2026-11-22T12:00:00x5Z",
        "2026-11-22T12:00:00ZT",
        "0000-01-01T00:00:00Z",
    ]
    .into_iter()
    .enumerate()
    {
        for (way, spec) in [
            (
                "before",
                json!({ "from": { "backup": "nightly", "before": time }, "target": { "redis": { "name": "cache" } } }),
            ),
            (
                "until",
                json!({
                    "from": { "backup": "nightly" }, "pointInTime": { "until": time },
                    "target": { "postgresql": { "host": "db", "image": "postgres:15", "authSecretName": "login" } },
                }),
            ),
        ] {
            let name = format!("{way}-{index}");
            if scene.try_create::<DatabaseRestore>(&name, spec).await.is_err() {
                refused += 1;
                continue;
            }
            accepted += 1;
            let status = Patch::Merge(json!({ "status": { "observedGeneration": 1 } }));
            let written = api.patch_status(&name, &PatchParams::default(), &status).await;
            written.unwrap_or_else(|error| panic!("{way} {time} is accepted, and then no status: {error}"));
        }
    }
    assert!(accepted >= 8 && refused >= 6, "{accepted} accepted, {refused} refused");
}
