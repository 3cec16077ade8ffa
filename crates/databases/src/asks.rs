//! The values that every database asks for, which policies may restrict. Pure.

use causeway_api::pods::{PodMetadata, ServiceTemplate};
use causeway_runtime::guardrails::asks::{Ask, Topic, ask};

/// Lists the values of the pods of a database, but images.
pub fn asks_of_pods(metadata: Option<&PodMetadata>, account: Option<&String>, class: Option<&String>) -> Vec<Ask> {
    let keys = metadata.into_iter().flat_map(|it| {
        let labels = it.labels.keys().map(|key| ("labels", key));
        labels.chain(it.annotations.keys().map(|key| ("annotations", key)))
    });
    let keys = keys.map(|(field, key)| ask(Topic::PodMetadata, format!("spec.podMetadata.{field}, key"), key));
    // Pods run as this one where the spec names none.
    let account = account.filter(|account| *account != "default");
    let account = account.map(|account| ask(Topic::ServiceAccount, "spec.serviceAccountName", account));
    let class = class.map(|class| ask(Topic::PriorityClass, "spec.priorityClassName", class));
    keys.chain(account).chain(class).collect()
}

/// Lists the values of a Service of a database.
pub fn asks_of_service(field: &str, service: Option<&ServiceTemplate>) -> Vec<Ask> {
    let Some(service) = service else { return Vec::new() };
    let kind = ask(Topic::ServiceType, format!("spec.{field}.type"), service.kind.as_str());
    let keys = service.annotations.keys();
    let keys = keys.map(|key| ask(Topic::ServiceAnnotation, format!("spec.{field}.annotations, key"), key));
    std::iter::once(kind).chain(keys).collect()
}
