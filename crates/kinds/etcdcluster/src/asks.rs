//! The values that an `EtcdCluster` asks for, which policies may restrict. Pure.

use causeway_api::EtcdClusterSpec;
use causeway_databases::asks::{asks_of_pods, asks_of_service};
use causeway_runtime::guardrails::asks::{Ask, Topic, ask};

/// Lists what an `EtcdCluster` asks for.
pub fn list(spec: &EtcdClusterSpec) -> Vec<Ask> {
    let mut asks = vec![match &spec.image {
        Some(image) => ask(Topic::Image, "spec.image", image),
        None => ask(Topic::Image, "spec.version, whose image", spec.member_image()),
    }];
    let recovery = spec.recovery.iter().filter_map(|recovery| recovery.image.as_ref());
    asks.extend(recovery.map(|image| ask(Topic::Image, "spec.recovery.image", image)));
    let (account, class) = (spec.service_account_name.as_ref(), spec.priority_class_name.as_ref());
    asks.extend(asks_of_pods(spec.pod_metadata.as_ref(), account, class));
    asks.extend(asks_of_service("service", spec.service.as_ref()));
    asks
}

#[cfg(test)]
mod tests {
    use causeway_runtime::guardrails::asks::describe_asks;
    use serde_json::{Value, json};

    use super::*;

    fn list_asks(spec: Value) -> Vec<String> {
        describe_asks(list(&serde_json::from_value(spec).unwrap()))
    }

    #[test]
    fn members_ask_for_the_images_that_they_will_run() {
        let etcd = json!({ "version": "3.5.9", "recovery": { "fromMember": "a", "token": "t", "image": "evil/etcd" } });
        let etcd = list_asks(etcd);
        assert_eq!(etcd[0], "Image spec.version, whose image quay.io/coreos/etcd:v3.5.9");
        assert_eq!(etcd[1], "Image spec.recovery.image evil/etcd");
    }
}
