//! `CausewayPolicy`: what objects of chosen namespaces may name.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::{Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::myingress::Scheme;
use super::placement::bounded;
use super::pods::ServiceType;
use super::quantities;

/// The form of a label's key: <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set>.
const KEY: &str = "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$";
/// The form of a label's value.
const VALUE: &str = "^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$";

/// Limits what objects of chosen namespaces may name.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "demo.rtfm.co.ua",
    version = "v1",
    kind = "CausewayPolicy",
    plural = "causewaypolicies",
    shortname = "cwp",
    category = "causeway",
    status = "CausewayPolicyStatus",
    doc = "Limits what objects of Causeway's kinds may name, in the namespaces that it selects. Where several policies \
           select a namespace, all of them must allow it. What was made before a policy stays as it is.",
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
    #[schemars(length(max = 100), inner(length(min = 1, max = 256), regex(pattern = "^[a-z0-9*-]+$")))]
    pub subnets: Option<Vec<String>>,

    /// Security groups that a MyIngress may use in `securityGroups` and `targetSecurityGroups`, by id or name as in the
    /// MyIngress, such as `[sg-0a1b2c3d, team-a-*]`. If this is given, a MyIngress cannot leave out both `securityGroups`
    /// and `inboundCidrs`, because AWS then chooses the default group of the VPC. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256), regex(pattern = "^[^\\x00-\\x1f\\x7f]+$")))]
    pub security_groups: Option<Vec<String>>,

    /// Networks from which a MyIngress may allow traffic, including their parts, such as `[10.0.0.0/8]`, and ids of
    /// prefix lists, such as `pl-3b927c52`. If this is given, a MyIngress can use security groups, or leave out both
    /// fields, only as `securityGroups` of this policy says: the groups may let in any network. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 64)))]
    #[x_kube(validation = ("self.all(s, isCIDR(s) || s.matches('^pl-[0-9a-z]+$'))", "spec.inboundCidrs must be networks such as 10.0.0.0/8, or ids of prefix lists"))]
    pub inbound_cidrs: Option<Vec<String>>,

    /// Networks that may contain targets of a MyIngress other than pods of its namespace, such as `[10.20.0.0/16]`. Any user
    /// who may write `EndpointSlices` in the namespace could otherwise make any address a target. Left out, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 64)))]
    #[x_kube(validation = ("self.all(s, isCIDR(s))", "spec.targetAddresses must be networks such as 10.20.0.0/16"))]
    pub target_addresses: Option<Vec<String>>,

    /// ARNs of certificates that a MyIngress may use, such as `[arn:aws:acm:eu-west-1:111122223333:certificate/*]`. If
    /// this is given, its HTTPS listeners must name their certificates. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 2048), regex(pattern = "^[!-~]+$")))]
    pub certificates: Option<Vec<String>>,

    /// ARNs of web ACLs that a MyIngress may use, such as `[arn:aws:wafv2:*:*:regional/webacl/shared/*]`. Left out,
    /// all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 2048), regex(pattern = "^[!-~]+$")))]
    pub wafs: Option<Vec<String>>,

    /// ARNs of target groups that a MyIngress may name in `forward.targetGroups`, such as
    /// `[arn:aws:elasticloadbalancing:*:*:targetgroup/shared-*]`. Left out, all that no other balancer uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 2048), regex(pattern = "^[!-~]+$")))]
    pub target_groups: Option<Vec<String>>,

    /// Security policies that HTTPS listeners of a MyIngress may have, such as `[ELBSecurityPolicy-TLS13-1-2-*]`. With this
    /// list every HTTPS listener must name its `sslPolicy`, because one that exists keeps what it has otherwise. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256), regex(pattern = "^[!-~]+$")))]
    pub ssl_policies: Option<Vec<String>>,

    /// ARNs of trust stores that a MyIngress may use, such as `[arn:aws:elasticloadbalancing:*:*:truststore/team-a/*]`.
    /// Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 2048), regex(pattern = "^[!-~]+$")))]
    pub trust_stores: Option<Vec<String>>,

    /// ARNs of Cognito's user pools that a MyIngress may use, such as `[arn:aws:cognito-idp:*:*:userpool/eu-west-1_a]`.
    /// Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 2048), regex(pattern = "^[!-~]+$")))]
    pub user_pools: Option<Vec<String>>,

    /// Buckets to which a MyIngress may have access logs written, such as `[logs-team-a]`. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 64), regex(pattern = "^[a-z0-9.*-]+$")))]
    pub log_buckets: Option<Vec<String>>,

    /// Buckets that a DatabaseBackup may use, such as `[backups-*]`. The operator's own bucket is always allowed. Left
    /// out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 64), regex(pattern = "^[a-z0-9.*-]+$")))]
    pub buckets: Option<Vec<String>>,

    /// S3 endpoints other than AWS's that a DatabaseBackup may use, such as `["https://minio.example.com"]`. Left out,
    /// those that the operator allows (option `BACKUP_ENDPOINTS`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256), regex(pattern = "^[!-~]+$")))]
    pub endpoints: Option<Vec<String>>,

    /// ARNs of KMS keys that a DatabaseBackup may use, such as `[arn:aws:kms:eu-west-1:111122223333:key/*]`. Left out,
    /// all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256), regex(pattern = "^[!-~]+$")))]
    pub kms_keys: Option<Vec<String>>,

    /// Images that pods may run, exactly as they are written, such as `["registry.example.com/*", "redis:*"]`. They
    /// must include the default images that run if a spec names none. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 1024), regex(pattern = "^[A-Za-z0-9._/:@*-]+$")))]
    pub images: Option<Vec<String>>,

    /// Priority classes that databases may use, such as `[batch]`. Left out, all except those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 253), regex(pattern = "^[a-z0-9.*-]+$")))]
    pub priority_classes: Option<Vec<String>>,

    /// Keys of labels and annotations that databases may set in `podMetadata`, such as `[team, example.com/*]`. Injectors
    /// and container runtimes of the cluster may act on keys that Causeway does not know. Left out, all that Causeway
    /// accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 317), regex(pattern = "^[A-Za-z0-9_./*-]+$")))]
    pub pod_metadata: Option<Vec<String>>,

    /// Service accounts that databases may name in `serviceAccountName`, such as `[cache]`. The account `default` is
    /// always allowed. Left out, all except `causeway-backup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 253), regex(pattern = "^[a-z0-9.*-]+$")))]
    pub service_accounts: Option<Vec<String>>,

    /// Types that Services of databases may have, such as `[ClusterIP]`. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 3))]
    pub service_types: Option<Vec<ServiceType>>,

    /// Keys of annotations that databases may set on their Services, such as
    /// `[service.beta.kubernetes.io/aws-load-balancer-internal]`. Left out, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 317), regex(pattern = "^[A-Za-z0-9_./*-]+$")))]
    pub service_annotations: Option<Vec<String>>,

    /// How many objects of each kind a namespace may have, such as `{ Redis: 3, MyIngress: 5 }`. The oldest objects are
    /// allowed first; objects of the same age are ordered by name. Left out, or for kinds that are left out, any
    /// number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 16))]
    #[x_kube(validation = ("self.all(kind, kind in ['MyApp', 'MyIngress', 'EtcdCluster', 'Redis', 'DatabaseBackup', 'DatabaseRestore'])", "spec.maxObjects must name kinds of Causeway: MyApp, MyIngress, EtcdCluster, Redis, DatabaseBackup, DatabaseRestore"))]
    pub max_objects: Option<BTreeMap<String, u32>>,

    /// Total size that the volumes of all Redis and EtcdCluster objects of a namespace may request, such as `100Gi`.
    /// Ephemeral volumes count with their `storage.size`, too. The oldest objects are allowed first. Left out, any size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-validations" = quantities::size("spec.maxStorage", true)))]
    pub max_storage: Option<String>,
}

/// Reports whether a policy is in force.
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
    expressions["items"]["properties"]["operator"]["enum"] = json!(["In", "NotIn", "Exists", "DoesNotExist"]);
    let key = |of: &str| format!("{of}.matches('{KEY}') && {of}.split('/')[0].size() <= 253");
    let (key_message, value_message) = (
        "keys of spec.namespaceSelector must be keys of labels, such as team or example.com/team",
        "values of spec.namespaceSelector must be values of labels: at most 63 letters, digits and _ . -",
    );
    expressions["items"]["properties"]["key"]["x-kubernetes-validations"] =
        json!([{ "rule": key("self"), "message": key_message }]);
    expressions["items"]["properties"]["values"]["items"]["x-kubernetes-validations"] =
        json!([{ "rule": format!("self.matches('{VALUE}')"), "message": value_message }]);
    schema["properties"]["matchLabels"]["x-kubernetes-validations"] = json!([
        { "rule": format!("self.all(k, {})", key("k")), "message": key_message },
        { "rule": format!("self.all(k, self[k].matches('{VALUE}'))"), "message": value_message },
    ]);
    Schema::try_from(schema).unwrap_or_default()
}
