//! A tenant: a service account of the namespace, and what it may do there.

use k8s_openapi::api::rbac::v1::{ClusterRole, Role, RoleBinding};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Config, ResourceExt};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::Scene;

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
    bind(scene, role, &json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role })).await;
}

/// Gives the tenant rights of its own.
pub async fn may(scene: &Scene, name: &str, rules: Value) {
    let role: Role = serde_json::from_value(json!({ "metadata": { "name": name }, "rules": rules })).expect("a Role");
    scene.api::<Role>().create(&PostParams::default(), &role).await.expect("the Role");
    bind(scene, name, &json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name })).await;
}

async fn bind(scene: &Scene, name: &str, role: &Value) {
    let subject = json!({ "kind": "ServiceAccount", "name": "tenant", "namespace": scene.namespace });
    let binding = json!({ "metadata": { "name": name }, "roleRef": role, "subjects": [subject] });
    let binding: RoleBinding = serde_json::from_value(binding).expect("a RoleBinding");
    scene.api::<RoleBinding>().create(&PostParams::default(), &binding).await.expect("the RoleBinding");
}

/// Installs the roles for users, as they are shipped.
pub async fn roles_are_installed(scene: &Scene) -> Vec<ClusterRole> {
    let path = format!("{}/deploy/base/clusterrole-users.yaml", env!("CARGO_MANIFEST_DIR"));
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
