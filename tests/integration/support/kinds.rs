//! The kinds that Causeway defines, for what is done with objects of all of them.

use causeway_api::definitions::definitions;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Client};

/// Each kind with the API of its objects in a namespace.
pub fn apis(client: &Client, namespace: &str) -> Vec<(String, Api<DynamicObject>)> {
    let namespaced = definitions().into_iter().filter(|definition| definition.spec.scope == "Namespaced");
    let all = namespaced.map(|definition| {
        let version = definition.spec.versions.first().map(|version| version.name.clone()).unwrap_or_default();
        let resource = ApiResource {
            api_version: format!("{}/{version}", definition.spec.group),
            group: definition.spec.group,
            version,
            kind: definition.spec.names.kind,
            plural: definition.spec.names.plural,
        };
        (resource.kind.clone(), Api::namespaced_with(client.clone(), namespace, &resource))
    });
    all.collect()
}
