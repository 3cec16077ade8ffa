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
    /// Labels of the namespaces that the policy applies to, such as `{ matchLabels: { tenant: "yes" } }`; `{}` selects
    /// all namespaces.
    #[schemars(schema_with = "selector")]
    pub namespace_selector: LabelSelector,

    /// Schemes that a MyIngress may have, such as `[internal]`. Left out, `internal` and `internet-facing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2))]
    pub schemes: Option<Vec<Scheme>>,

    /// Ids of subnets that a MyIngress may use, such as `[subnet-0a1b2c3d]`; `*` matches any text. If this is given, a
    /// MyIngress cannot use `subnetSelector`. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub subnets: Option<Vec<String>>,

    /// Security groups that a MyIngress may use in `securityGroups` and `targetSecurityGroups`, by id or name as in the
    /// MyIngress, such as `[sg-0a1b2c3d, team-a-*]`. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub security_groups: Option<Vec<String>>,

    /// Networks from which a MyIngress may allow traffic, including their parts, such as `[10.0.0.0/8]`, and ids of
    /// prefix lists, such as `pl-3b927c52`. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 64)))]
    #[x_kube(validation = ("self.all(s, isCIDR(s) || s.matches('^pl-[0-9a-z]+$'))", "spec.inboundCidrs must be networks such as 10.0.0.0/8, or ids of prefix lists"))]
    pub inbound_cidrs: Option<Vec<String>>,

    /// Networks that may contain targets of a MyIngress other than pods of its namespace, such as `[10.20.0.0/16]`.
    /// Anybody who may write `EndpointSlices` in the namespace could otherwise make any address a target. Left out,
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 64)))]
    #[x_kube(validation = ("self.all(s, isCIDR(s))", "spec.targetAddresses must be networks such as 10.20.0.0/16"))]
    pub target_addresses: Option<Vec<String>>,

    /// ARNs of certificates that a MyIngress may use, such as `[arn:aws:acm:eu-west-1:111122223333:certificate/*]`. If
    /// this is given, its HTTPS listeners must name their certificates. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 2048)))]
    pub certificates: Option<Vec<String>>,

    /// ARNs of web ACLs that a MyIngress may use, such as `[arn:aws:wafv2:*:*:regional/webacl/shared/*]`. Left out,
    /// all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 2048)))]
    pub wafs: Option<Vec<String>>,

    /// Buckets to which a MyIngress may have access logs written, such as `[logs-team-a]`. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 64)))]
    pub log_buckets: Option<Vec<String>>,

    /// Buckets that a DatabaseBackup may use, such as `[backups-*]`. The operator's own bucket is always allowed. Left
    /// out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 64)))]
    pub buckets: Option<Vec<String>>,

    /// S3 endpoints other than AWS's that a DatabaseBackup may use, such as `["https://minio.example.com"]`. Left out,
    /// those that the operator allows (option `BACKUP_ENDPOINTS`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub endpoints: Option<Vec<String>>,

    /// ARNs of KMS keys that a DatabaseBackup may use, such as `[arn:aws:kms:eu-west-1:111122223333:key/*]`. Left out,
    /// all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub kms_keys: Option<Vec<String>>,

    /// Images that pods may run, exactly as they are written, such as `["registry.example.com/*", "redis:*"]`. They
    /// must include the default images that run if a spec names none. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 1024)))]
    pub images: Option<Vec<String>>,

    /// Priority classes that databases may use, such as `[batch]`. Left out, all except those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 253)))]
    pub priority_classes: Option<Vec<String>>,

    /// How many objects of each kind a namespace may have, such as `{ Redis: 3, MyIngress: 5 }`. The oldest objects are
    /// allowed first; objects of the same age are ordered by name. Left out, or for kinds that are left out, any
    /// number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = ("self.all(kind, kind in ['MyApp', 'MyIngress', 'EtcdCluster', 'Redis', 'DatabaseBackup', 'DatabaseRestore'])", "spec.maxObjects must name kinds of Causeway: MyApp, MyIngress, EtcdCluster, Redis, DatabaseBackup, DatabaseRestore"))]
    pub max_objects: Option<BTreeMap<String, u32>>,

    /// Total size that the volumes of all Redis and EtcdCluster objects of a namespace may request, such as `100Gi`.
    /// The oldest objects are allowed first. Left out, any size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = ("isQuantity(self) && !quantity(self).isLessThan(quantity('0'))", "spec.maxStorage must be a quantity such as 100Gi"))]
    pub max_storage: Option<String>,
}

/// Whether a policy is in force.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CausewayPolicyStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Ready` always: `True` if the policy is in force, `False` if a value cannot be read. In the second case nothing
    /// new is created in the namespaces that the policy may apply to, and `Stalled` is `True`, too.
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
