//! A tenant: a service account of the namespace, and what it may do there.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::rbac::v1::{ClusterRole, Role, RoleBinding};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Config, ResourceExt};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Scene, wait_for};

/// The cluster as the tenant sees it.
pub async fn client(scene: &Scene) -> Client {
    let mut config = Config::infer().await.expect("a cluster");
    config.auth_info.impersonate = Some(format!("system:serviceaccount:{}:tenant", scene.namespace));
    let groups = ["system:serviceaccounts".to_owned(), "system:authenticated".to_owned()];
    config.auth_info.impersonate_groups = Some(groups.to_vec());
    Client::try_from(config).expect("a client")
}

/// Gives the tenant one of the roles that Kubernetes has for users.
pub async fn is(scene: &Scene, role: &str) {
    let pods = json!({ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] });
    let role_ref = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role });
    bind(scene, role, &role_ref, &pods).await;
}

/// Gives the tenant rights of its own.
pub async fn may(scene: &Scene, name: &str, rules: Value) {
    let role: Role = serde_json::from_value(json!({ "metadata": { "name": name }, "rules": rules })).expect("a Role");
    scene.api::<Role>().create(&PostParams::default(), &role).await.expect("the Role");
    let role_ref = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name });
    bind(scene, name, &role_ref, &rules[0]).await;
}

/// Binds the role, and waits until the API server knows it, by the right that is `shown`.
async fn bind(scene: &Scene, name: &str, role: &Value, shown: &Value) {
    let subject = json!({ "kind": "ServiceAccount", "name": "tenant", "namespace": scene.namespace });
    let binding = json!({ "metadata": { "name": name }, "roleRef": role, "subjects": [subject] });
    let binding: RoleBinding = serde_json::from_value(binding).expect("a RoleBinding");
    scene.api::<RoleBinding>().create(&PostParams::default(), &binding).await.expect("the RoleBinding");
    let user = format!("system:serviceaccount:{}:tenant", scene.namespace);
    let resource = shown["resources"][0].as_str().expect("a resource");
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let right = json!({
        "namespace": scene.namespace, "group": shown["apiGroups"][0], "verb": shown["verbs"][0],
        "resource": resource, "subresource": subresource, "name": shown["resourceNames"][0],
    });
    let review = json!({ "metadata": {}, "spec": { "user": user, "resourceAttributes": right } });
    let review: SubjectAccessReview = serde_json::from_value(review).expect("a review");
    let reviews: Api<SubjectAccessReview> = Api::all(scene.client.clone());
    let look = || async {
        let answer = reviews.create(&PostParams::default(), &review).await.expect("an answer");
        answer.status.is_some_and(|status| status.allowed)
    };
    wait_for(&format!("the tenant to have the rights of {name}"), look, |allowed| *allowed).await;
}

/// Installs the roles for users, as they are shipped.
pub async fn roles_are_installed(scene: &Scene) -> Vec<ClusterRole> {
    let path = format!("{}/../deploy/base/clusterrole-users.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the file");
    let roles = text.split("\n---\n").map(|document| serde_saphyr::from_str::<Value>(document).expect("YAML"));
    let api = Api::<ClusterRole>::all(scene.client.clone());
    let mut installed = Vec::new();
    for role in roles {
        let role = ClusterRole::deserialize(role).expect("a ClusterRole");
        let how = PatchParams::apply("causeway-tests").force();
        let name = role.name_any();
        let applied = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": name, "labels": role.metadata.labels }, "rules": role.rules,
        });
        installed.push(api.patch(&name, &how, &Patch::Apply(&applied)).await.expect("the ClusterRole"));
    }
    installed
}
