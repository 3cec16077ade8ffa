//! The bundle for Operator Lifecycle Manager, made from the objects that the chart renders.
//!
//! <https://github.com/operator-framework/operator-registry/blob/master/docs/design/operator-bundle.md>

mod check;
pub mod installed;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Map, Value, json};

use crate::chart::objects::{self, Objects};
use crate::chart::{self, Helm};
use crate::{crds, host};

/// The name of the package, of the Deployment and of its service account.
pub const PACKAGE: &str = "causeway";
/// The channel of all 0.x versions.
const CHANNEL: &str = "stable-v0";
/// The image in a bundle without a release.
const NO_IMAGE: &str = "registry.example.com/causeway";

/// The annotation in which Lifecycle Manager writes the namespaces to serve.
pub const TARGETS: &str = "olm.targetNamespaces";

/// The role of a namespaced operator with its cluster-scoped rights.
const CLUSTER_SCOPED: &str = "causeway-cluster-scoped";
/// Options that the chart sets, and that a Subscription or an `OperatorGroup` sets here.
const GIVEN: [&str; 2] = ["CLUSTER_NAME", "WATCH_NAMESPACE"];

/// Kinds that every version of Lifecycle Manager accepts beside the CSV:
/// <https://olm.operatorframework.io/docs/tasks/creating-operator-manifests/#packaging-additional-objects-alongside-an-operator>
const BESIDE: [&str; 3] = ["ClusterRole", "PodDisruptionBudget", "Service"];

/// File names below the bundle's folder, and the texts.
pub type Files = BTreeMap<String, String>;

/// The bundle of a version with this operator image, `REPOSITORY` or `REPOSITORY@DIGEST`.
pub fn bundle(helm: &Helm, image: Option<&str>, version: &str) -> Result<Files> {
    let rendered = rendered(helm, image, version)?;
    let definitions = crds::parsed()?;
    let csv = service_version(&rendered, &definitions, version)?;
    check::service_version(&csv, &definitions)?;
    let mut files = Files::new();
    files.insert("manifests/causeway.clusterserviceversion.yaml".to_owned(), yaml(&csv)?);
    for (file, text) in crds::all()? {
        files.insert(format!("manifests/{file}"), text);
    }
    for object in beside(&rendered) {
        let (kind, name) = (text(object, "/kind").to_lowercase(), text(object, "/metadata/name"));
        files.insert(format!("manifests/{name}.{kind}.yaml"), yaml(&portable(object))?);
    }
    let labels = json!({
        "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
        "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
        "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
        "operators.operatorframework.io.bundle.package.v1": PACKAGE,
        "operators.operatorframework.io.bundle.channels.v1": CHANNEL,
        "operators.operatorframework.io.bundle.channel.default.v1": CHANNEL,
    });
    files.insert("metadata/annotations.yaml".to_owned(), yaml(&json!({ "annotations": labels }))?);
    files.insert("bundle.Dockerfile".to_owned(), dockerfile(&labels));
    Ok(files)
}

/// Writes the bundle into a folder.
pub fn write(files: &Files, folder: &Path) -> Result<()> {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder)).with_context(|| format!("cannot make {name}'s folder"))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The chart's objects, without those that Lifecycle Manager does not accept.
fn rendered(helm: &Helm, image: Option<&str>, version: &str) -> Result<Objects> {
    let image = format!("{},image.tag={version}", chart::image_values(image.unwrap_or(NO_IMAGE)));
    // With a list of namespaces, the chart separates cluster-scoped rights from the others.
    let set = "clusterName=none,aws.identity=podIdentity,crds.enabled=false,networkPolicy.enabled=false,\
               admissionPolicy.enabled=false,watchNamespaces={none}";
    objects::parse(&helm.render(&chart::directory()?, PACKAGE, &["--set", set, "--set", &image])?)
}

/// <https://olm.operatorframework.io/docs/concepts/crds/clusterserviceversion/>
fn service_version(rendered: &Objects, definitions: &[Value], version: &str) -> Result<Value> {
    let root = host::repo_root()?;
    let read = |path: &str| fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"));
    let deployment = find(rendered, "Deployment", PACKAGE)?;
    let (within, cluster) = rules(rendered)?;
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    let modes = modes.map(|mode| json!({ "type": mode, "supported": true }));
    let permissions = |rules: Vec<Value>| json!([{ "serviceAccountName": PACKAGE, "rules": rules }]);
    Ok(json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("{PACKAGE}.v{version}"),
            "labels": { "operatorframework.io/arch.amd64": "supported", "operatorframework.io/arch.arm64": "supported" },
            "annotations": {
                "alm-examples": serde_json::to_string_pretty(&examples(&root, definitions)?)?,
                "capabilities": "Deep Insights",
                "categories": "Cloud Provider, Database, Networking",
                "containerImage": text(deployment, "/spec/template/spec/containers/0/image"),
                "description": "Application Load Balancers, etcd, Redis, and backups that are proven to restore, on AWS",
                "repository": env!("CARGO_PKG_REPOSITORY"),
                "support": "the maintainers of Causeway",
            },
        },
        "spec": {
            "displayName": "Causeway",
            "description": read("deploy/olm/description.md")?,
            "version": version,
            "maturity": "alpha",
            "minKubeVersion": "1.31.0",
            "provider": { "name": "Causeway", "url": env!("CARGO_PKG_REPOSITORY") },
            "maintainers": [{ "name": "Causeway", "email": "maintainers@causeway.example" }],
            "keywords": ["aws", "alb", "load-balancer", "etcd", "redis", "backup"],
            "links": [{ "name": "Documentation", "url": env!("CARGO_PKG_REPOSITORY") }],
            "icon": [{ "base64data": BASE64_STANDARD.encode(read("deploy/olm/icon.svg")?), "mediatype": "image/svg+xml" }],
            "installModes": modes,
            "customresourcedefinitions": { "owned": definitions.iter().map(owned).collect::<Vec<_>>() },
            "install": {
                "strategy": "deployment",
                "spec": {
                    "permissions": permissions(within),
                    "clusterPermissions": permissions(cluster),
                    "deployments": [{
                        "name": PACKAGE,
                        "label": deployment["metadata"]["labels"].as_object().map(portable_labels),
                        "spec": started_by_manager(deployment, rendered)?,
                    }],
                },
            },
        },
    }))
}

/// The operator's rights in the namespaces that it serves, and its other rights.
fn rules(rendered: &Objects) -> Result<(Vec<Value>, Vec<Value>)> {
    let (mut within, mut cluster) = (Vec::new(), Vec::new());
    let scoped = &find(rendered, "ClusterRole", CLUSTER_SCOPED)?["rules"];
    let scoped: Vec<Value> = list(scoped).iter().flat_map(|rule| list(&rule["resources"])).collect();
    for rule in list(&find(rendered, "ClusterRole", PACKAGE)?["rules"]) {
        let resources = list(&rule["resources"]);
        let (beside, inside): (Vec<&Value>, Vec<&Value>) = resources.iter().partition(|it| scoped.contains(it));
        for (some, rules) in [(inside, &mut within), (beside, &mut cluster)] {
            if !some.is_empty() {
                let mut part = rule.clone();
                part["resources"] = json!(some);
                rules.push(part);
            }
        }
    }
    // The rights to leases and records of backups, in the operator's own namespace.
    for role in rendered.values().filter(|it| it["kind"] == "Role") {
        within.extend(list(&role["rules"]));
    }
    Ok((within, cluster))
}

/// The Deployment's spec, with the options as variables of the container, where a Subscription can override them.
fn started_by_manager(deployment: &Value, rendered: &Objects) -> Result<Value> {
    let options = find(rendered, "ConfigMap", "causeway-options")?;
    let mut spec = deployment["spec"].clone();
    let template = spec["template"].as_object_mut().context("a Deployment has a template")?;
    if let Some(metadata) = template["metadata"].as_object_mut() {
        metadata.remove("annotations");
    }
    let container = template["spec"]["containers"][0].as_object_mut().context("a pod has a container")?;
    container.remove("envFrom");
    let mut variables = list(container.get("env").unwrap_or(&Value::Null));
    let given = options["data"].as_object().into_iter().flatten();
    variables.extend(
        given
            .filter(|(name, _)| !GIVEN.contains(&name.as_str()))
            .map(|(name, value)| json!({ "name": name, "value": value })),
    );
    let targets = json!({ "fieldRef": { "fieldPath": format!("metadata.annotations['{TARGETS}']") } });
    variables.push(json!({ "name": "WATCH_NAMESPACE", "valueFrom": targets }));
    container.insert("env".to_owned(), Value::Array(variables));
    Ok(spec)
}

/// The CSV's entry for a definition.
fn owned(definition: &Value) -> Value {
    let version = &definition["spec"]["versions"][0];
    let kind = text(definition, "/spec/names/kind");
    let description = text(version, "/schema/openAPIV3Schema/description");
    json!({
        "name": text(definition, "/metadata/name"),
        "version": version["name"],
        "kind": kind,
        "displayName": kind,
        "description": description.split("\n\n").next().unwrap_or_default().trim(),
    })
}

/// One example of each kind, from `examples/`.
fn examples(root: &Path, definitions: &[Value]) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    let folder = root.join("examples");
    let mut files = fs::read_dir(&folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.sort();
    for file in files.into_iter().filter(|it| it.extension().is_some_and(|end| end == "yaml")) {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).with_context(|| format!("cannot read {}", file.display()))?;
        let of_ours = |example: &Value| definitions.iter().any(|it| it["spec"]["names"]["kind"] == example["kind"]);
        found.extend(documents.into_iter().filter(of_ours));
    }
    // For each kind, keep the shortest example.
    found.sort_by_key(|example: &Value| (text(example, "/kind").to_owned(), example.to_string().len()));
    found.dedup_by(|one, other| one["kind"] == other["kind"]);
    Ok(found)
}

/// Objects beside the CSV. Lifecycle Manager creates the account, the rights and the Deployment by itself.
fn beside(rendered: &Objects) -> impl Iterator<Item = &Value> {
    rendered.values().filter(|object| {
        let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
        BESIDE.contains(&kind) && ![PACKAGE, CLUSTER_SCOPED].iter().any(|role| (kind, name) == ("ClusterRole", role))
    })
}

/// The object without helm's labels and without a namespace: it is created in the operator's namespace.
fn portable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("namespace");
        if let Some(labels) = metadata.get_mut("labels") {
            *labels = labels.as_object().map(portable_labels).unwrap_or_default();
        }
    }
    object
}

fn portable_labels(labels: &Map<String, Value>) -> Value {
    let of_helm = ["helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance"];
    labels
        .iter()
        .filter(|(name, _)| !of_helm.contains(&name.as_str()))
        .map(|(name, it)| (name.clone(), it.clone()))
        .collect()
}

/// For users with an image builder; the labels are the same as the bundle's annotations.
fn dockerfile(labels: &Value) -> String {
    let mut text = String::from("FROM scratch\n");
    for (name, value) in labels.as_object().into_iter().flatten() {
        let _ = writeln!(text, "LABEL {name}={}", value.as_str().unwrap_or_default());
    }
    text + "COPY manifests /manifests/\nCOPY metadata /metadata/\n"
}

fn find<'a>(objects: &'a Objects, kind: &str, name: &str) -> Result<&'a Value> {
    let is_it = |it: &&Value| text(it, "/kind") == kind && text(it, "/metadata/name") == name;
    objects.values().find(is_it).with_context(|| format!("the chart renders no {kind} {name}"))
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn yaml(value: &Value) -> Result<String> {
    serde_saphyr::to_string(value).context("cannot write YAML")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_scoped_rights_are_separated_from_those_in_namespaces() -> Result<()> {
        let role = "kind: ClusterRole\nmetadata: {name: causeway}\nrules:\n- {apiGroups: [''], resources: [pods, nodes], verbs: [get]}\n\
                    ---\nkind: ClusterRole\nmetadata: {name: causeway-cluster-scoped}\nrules:\n- {resources: [nodes]}\n\
                    ---\nkind: Role\nmetadata: {name: leases}\nrules:\n- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get]}\n";
        let (within, cluster) = rules(&objects::parse(role)?)?;
        let resources = |rules: Vec<Value>| rules.iter().map(|it| it["resources"].clone()).collect::<Vec<_>>();
        assert_eq!(resources(within), [json!(["pods"]), json!(["leases"])]);
        assert_eq!(resources(cluster), [json!(["nodes"])]);
        Ok(())
    }

    #[test]
    fn every_kind_has_an_example() -> Result<()> {
        let definitions = crds::parsed()?;
        let examples = examples(&host::repo_root()?, &definitions)?;
        assert_eq!(examples.len(), definitions.len());
        Ok(())
    }
}
