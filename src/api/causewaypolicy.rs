//! `CausewayPolicy`: what objects of chosen namespaces may name.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::{Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::myingress::Scheme;
use super::placement::bounded;

/// What objects of chosen namespaces may name.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "demo.rtfm.co.ua",
    version = "v1",
    kind = "CausewayPolicy",
    plural = "causewaypolicies",
    shortname = "cwp",
    category = "causeway",
    status = "CausewayPolicyStatus",
    doc = "What objects of Causeway's kinds may name, in the namespaces that it selects. Where several policies select a \
           namespace, all of them must allow it. What was made before a policy stays as it is.",
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct CausewayPolicySpec {
    /// Labels of the namespaces that it is for, such as `{ matchLabels: { tenant: "yes" } }`; `{}` stands for all.
    #[schemars(schema_with = "selector")]
    pub namespace_selector: LabelSelector,

    /// Schemes that a MyIngress may have, such as `[internal]`. Left out, both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2))]
    pub schemes: Option<Vec<Scheme>>,

    /// Subnets that a MyIngress may name by their ids, such as `[subnet-0a1b2c3d]`; `*` stands for any text. It then cannot
    /// have `subnetSelector`. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub subnets: Option<Vec<String>>,

    /// Security groups that a MyIngress may name in `securityGroups` and `targetSecurityGroups`, as it names them, such as
    /// `[sg-0a1b2c3d, team-a-*]`. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub security_groups: Option<Vec<String>>,

    /// Networks within which a MyIngress may let clients in, such as `[10.0.0.0/8]`, and prefix lists by their ids. Left out,
    /// all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 64)))]
    #[x_kube(validation = ("self.all(s, isCIDR(s) || s.matches('^pl-[0-9a-z]+$'))", "spec.inboundCidrs must be networks such as 10.0.0.0/8, or ids of prefix lists"))]
    pub inbound_cidrs: Option<Vec<String>>,

    /// Networks in which targets of a MyIngress may be that are no pods of its namespace, such as `[10.20.0.0/16]`: whoever
    /// writes slices of endpoints there can name any address. Left out, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 64)))]
    #[x_kube(validation = ("self.all(s, isCIDR(s))", "spec.targetAddresses must be networks such as 10.20.0.0/16"))]
    pub target_addresses: Option<Vec<String>>,

    /// ARNs of certificates that a MyIngress may name, such as `[arn:aws:acm:eu-west-1:111122223333:certificate/*]`. Its HTTPS
    /// listeners must then name theirs. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 2048)))]
    pub certificates: Option<Vec<String>>,

    /// ARNs of web ACLs that a MyIngress may name, such as `[arn:aws:wafv2:*:*:regional/webacl/shared/*]`. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 2048)))]
    pub wafs: Option<Vec<String>>,

    /// Buckets that a MyIngress may have logs written to, such as `[logs-team-a]`. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 64)))]
    pub log_buckets: Option<Vec<String>>,

    /// Buckets that a DatabaseBackup may name, such as `[backups-*]`. Left out, all; that of the operator is always allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 64)))]
    pub buckets: Option<Vec<String>>,

    /// Other S3 than AWS' that a DatabaseBackup may name, such as `["https://minio.example.com"]`. Left out, those that the
    /// operator allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub endpoints: Option<Vec<String>>,

    /// ARNs of KMS keys that a DatabaseBackup may name, such as `[arn:aws:kms:eu-west-1:111122223333:key/*]`. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub kms_keys: Option<Vec<String>>,

    /// Images that pods may run, as they are written, such as `["registry.example.com/*", "redis:*"]`; those count, too, that
    /// run where a spec names none. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 1024)))]
    pub images: Option<Vec<String>>,

    /// Priority classes that databases may name, such as `[batch]`. Left out, all but those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 253)))]
    pub priority_classes: Option<Vec<String>>,

    /// How many objects of each kind a namespace may have, such as `{ Redis: 3, MyIngress: 5 }`: the oldest count first, those
    /// of the same age by their names. Left out, any number; so for kinds that are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = ("self.all(kind, kind in ['MyApp', 'MyIngress', 'EtcdCluster', 'Redis', 'DatabaseBackup', 'DatabaseRestore'])", "spec.maxObjects must name kinds of Causeway: MyApp, MyIngress, EtcdCluster, Redis, DatabaseBackup, DatabaseRestore"))]
    pub max_objects: Option<BTreeMap<String, u32>>,

    /// How much all volumes of the Redis and EtcdCluster of a namespace may ask for together, such as `100Gi`: the oldest count
    /// first. Left out, anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = ("isQuantity(self) && !quantity(self).isLessThan(quantity('0'))", "spec.maxStorage must be a quantity such as 100Gi"))]
    pub max_storage: Option<String>,
}

/// Whether a policy is in force.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CausewayPolicyStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Ready` always: `True` where the policy is in force, `False` where a value cannot be read, so that nothing new is made in
    /// the namespaces that it may be about; `Stalled` then, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// The schema of a selector by labels.
fn selector(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = bounded(generator.subschema_for::<LabelSelector>()).to_value();
    let expressions = &mut schema["properties"]["matchExpressions"];
    expressions["items"]["properties"]["operator"]["enum"] =
        serde_json::json!(["In", "NotIn", "Exists", "DoesNotExist"]);
    Schema::try_from(schema).unwrap_or_default()
}
