//! Who may connect to a database.

use clap::ValueEnum;
use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::placement::bounded;

/// Clients in a list.
const MOST: u32 = 40;

/// Decides whether a database has a `NetworkPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum NetworkPolicyMode {
    /// Causeway creates a `NetworkPolicy`, which allows connections from the database's clients only.
    #[default]
    Enabled,
    /// Causeway creates no `NetworkPolicy`.
    Disabled,
}

/// The schema of peers of a `NetworkPolicy`.
/// <https://kubernetes.io/docs/concepts/services-networking/network-policies/#behavior-of-to-and-from-selectors>
pub fn clients(generator: &mut SchemaGenerator) -> Schema {
    let mut peer = bounded(generator.subschema_for::<NetworkPolicyPeer>()).to_value();
    let described = [
        (
            "podSelector",
            "Pods with these labels, such as `{ matchLabels: { app: shop } }`; `{}` stands for all. Without `namespaceSelector`, those of the database's own namespace.",
        ),
        (
            "namespaceSelector",
            "All pods of namespaces with these labels, such as `{ matchLabels: { kubernetes.io/metadata.name: shop } }`, or those that `podSelector` finds there. `{}` stands for all namespaces.",
        ),
        ("ipBlock", "Addresses outside of the cluster, such as `{ cidr: 10.0.0.0/8 }`."),
    ];
    for (field, description) in described {
        peer["properties"][field]["description"] = description.into();
    }
    for selector in ["podSelector", "namespaceSelector"] {
        let expressions = &mut peer["properties"][selector]["properties"]["matchExpressions"];
        expressions["items"]["properties"]["operator"]["enum"] = json!(["In", "NotIn", "Exists", "DoesNotExist"]);
    }
    let networks = &mut peer["properties"]["ipBlock"]["properties"];
    let is_network = |of: &str| {
        json!([{
            "rule": format!("{of}isCIDR(self)"), "message": "must be a network such as 10.0.0.0/8 or 2001:db8::/32",
        }])
    };
    networks["cidr"]["maxLength"] = 43.into();
    networks["cidr"]["x-kubernetes-validations"] = is_network("");
    networks["except"]["items"]["maxLength"] = 43.into();
    networks["except"]["items"]["x-kubernetes-validations"] = is_network("");
    peer["x-kubernetes-validations"] = json!([
        {
            "rule": "has(self.ipBlock) || has(self.podSelector) || has(self.namespaceSelector)",
            "message": "an entry of spec.allowedClients must have podSelector, namespaceSelector or ipBlock; podSelector: {} stands for all pods of the namespace",
        },
        {
            "rule": "!has(self.ipBlock) || (!has(self.podSelector) && !has(self.namespaceSelector))",
            "message": "an entry of spec.allowedClients with ipBlock must have no podSelector and no namespaceSelector: make two entries",
        },
    ]);
    json_schema!({ "type": "array", "maxItems": MOST, "items": peer })
}
