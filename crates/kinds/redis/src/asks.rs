//! The values that a `Redis` asks for, which policies may restrict. Pure.

use causeway_api::RedisSpec;
use causeway_databases::asks::{asks_of_pods, asks_of_service};
use causeway_runtime::guardrails::asks::{Ask, Topic, ask};

/// Lists what a `Redis` asks for.
pub fn list(spec: &RedisSpec) -> Vec<Ask> {
    let mut asks = vec![match &spec.image {
        Some(image) => ask(Topic::Image, "spec.image", image),
        None => ask(Topic::Image, "spec.version, whose image", spec.node_image()),
    }];
    asks.extend(spec.exporter.iter().map(|it| ask(Topic::Image, "spec.exporter, whose image", it.running_image())));
    let sentinel = spec.sentinel.iter().filter_map(|it| it.image.as_ref());
    asks.extend(sentinel.map(|image| ask(Topic::Image, "spec.sentinel.image", image)));
    let (account, class) = (spec.service_account_name.as_ref(), spec.priority_class_name.as_ref());
    asks.extend(asks_of_pods(spec.pod_metadata.as_ref(), account, class));
    asks.extend(asks_of_service("service", spec.service.as_ref()));
    asks.extend(asks_of_service("replicaService", spec.replica_service.as_ref()));
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
    fn pods_ask_for_the_images_that_they_will_run() {
        assert_eq!(list_asks(json!({})), ["Image spec.version, whose image redis:7.0.15"]);
        let own = list_asks(json!({ "sentinel": {} }));
        assert_eq!(own, ["Image spec.version, whose image redis:7.0.15"], "the operator's own image is its own");
        let given = json!({
            "image": "evil/redis", "exporter": {}, "sentinel": { "image": "evil/causeway" }, "priorityClassName": "high",
        });
        assert_eq!(
            list_asks(given),
            [
                "Image spec.image evil/redis",
                "Image spec.exporter, whose image oliver006/redis_exporter:v1.88.0",
                "Image spec.sentinel.image evil/causeway",
                "PriorityClass spec.priorityClassName high",
            ]
        );
        let around = json!({
            "podMetadata": { "labels": { "team": "a" }, "annotations": { "example.com/inject": "yes" } },
            "serviceAccountName": "admin", "replicaService": { "type": "LoadBalancer", "annotations": { "a/b": "c" } },
        });
        assert_eq!(
            list_asks(around)[1..],
            [
                "PodMetadata spec.podMetadata.labels, key team",
                "PodMetadata spec.podMetadata.annotations, key example.com/inject",
                "ServiceAccount spec.serviceAccountName admin",
                "ServiceType spec.replicaService.type LoadBalancer",
                "ServiceAnnotation spec.replicaService.annotations, key a/b",
            ]
        );
    }
}
