//! Tests that a policy sees each field of each kind that reaches beyond its namespace.

use std::collections::BTreeMap;

use k8s_openapi::serde::de::DeserializeOwned;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use causeway_api::{DatabaseBackup, DatabaseRestore, EtcdCluster, MyApp, MyIngress, Redis};
use causeway_runtime::guardrails::asks::{Ask, Topic};
use causeway_runtime::guardrails::leaves::leaves_of;
use causeway_runtime::guardrails::limits::COUNTED;

/// The way in which a policy sees a field.
enum Sees {
    /// As an ask of that topic, which these fields of a spec have.
    Ask(Topic, Value),
    /// By a limit (`maxObjects`, `maxStorage`).
    Limit,
    /// At another object, which Causeway makes from the field, and whose own fields are in this table.
    Child(&'static str),
    /// Nowhere, for this reason: the field cannot reach beyond the namespace, or something keeps it in.
    Not(&'static str),
}

use Sees::{Ask as Asks, Child, Limit, Not};

/// A field with all that is below it, what its absence chooses, and where a policy sees it. The longest row is about a field.
type Row = (&'static str, &'static str, Sees);

const OWN: &str = "it is about what belongs to the object itself";
const PODS: &str = "a ResourceQuota bounds pods, memory and processors";
const SECRET: &str = "the Secret is of the namespace and must agree by its label";
const SERVER: &str = "the pods of Jobs reach what other pods of the namespace reach";
const PLACE: &str = "admission plugins restrict where pods of a namespace run (PodNodeSelector, PodTolerationRestriction); they stay \
                     restricted pods there";

fn of_databases() -> Vec<Row> {
    let metadata = |field: &str| json!({ "podMetadata": { (field): { "team": "a" } } });
    vec![
        ("image", "the image of spec.version", Asks(Topic::Image, json!({ "image": "x" }))),
        ("version", "the default version", Asks(Topic::Image, json!({}))),
        ("imagePullSecrets", "none", Not("the Secret is of the namespace, and only the kubelet gets it")),
        (
            "priorityClassName",
            "the cluster's default class",
            Asks(Topic::PriorityClass, json!({ "priorityClassName": "x" })),
        ),
        ("serviceAccountName", "default", Asks(Topic::ServiceAccount, json!({ "serviceAccountName": "x" }))),
        ("podMetadata.labels", "none", Asks(Topic::PodMetadata, metadata("labels"))),
        ("podMetadata.annotations", "none", Asks(Topic::PodMetadata, metadata("annotations"))),
        ("service.type", "ClusterIP", Asks(Topic::ServiceType, json!({ "service": { "type": "NodePort" } }))),
        (
            "service.annotations",
            "none",
            Asks(Topic::ServiceAnnotation, json!({ "service": { "annotations": { "a": "b" } } })),
        ),
        ("service.trafficDistribution", "all endpoints alike", Not(OWN)),
        ("nodeSelector", "any node", Not(PLACE)),
        ("tolerations", "no tainted node", Not(PLACE)),
        ("affinity", "apart from each other", Not(PLACE)),
        ("topologySpreadConstraints", "in different zones", Not(PLACE)),
        ("resources", "requests and limits of Causeway", Not(PODS)),
        ("replicas", "the default number", Limit),
        ("storage.size", "1Gi", Limit),
        ("storage.className", "the cluster's default class", Not("a ResourceQuota bounds each storage class")),
        ("config", "defaults", Not("settings by which nodes are run are refused")),
        ("auth", "no password, unless the operator or the Namespace demands one", Not(SECRET)),
        ("tls", "no TLS, unless the operator or the Namespace demands it", Not(SECRET)),
        ("allowedClients", "the pods of the namespace", Not("it opens the object's own ports")),
        ("networkPolicy", "as the operator's option says", Not("it opens the object's own ports")),
        ("restoreFrom", "an empty database", Child("DatabaseRestore")),
        ("deletionPolicy", "Delete", Not(OWN)),
        ("suspend", "false", Not(OWN)),
    ]
}

fn of_redis() -> Vec<Row> {
    let mut rows = of_databases();
    rows.extend([
        (
            "replicaService.type",
            "ClusterIP",
            Asks(Topic::ServiceType, json!({ "replicaService": { "type": "NodePort" } })),
        ),
        (
            "replicaService.annotations",
            "none",
            Asks(Topic::ServiceAnnotation, json!({ "replicaService": { "annotations": { "a": "b" } } })),
        ),
        ("replicaService.trafficDistribution", "all endpoints alike", Not(OWN)),
        ("exporter.image", "the default image", Asks(Topic::Image, json!({ "exporter": {} }))),
        ("exporter.resources", "requests and limits of Causeway", Not(PODS)),
        ("sentinel.image", "the operator's own image", Asks(Topic::Image, json!({ "sentinel": { "image": "x" } }))),
        ("sentinel.resources", "requests and limits of Causeway", Not(PODS)),
        ("storage.ephemeral", "false: volumes", Limit),
        ("modules", "none", Not("modules are files of the image")),
        ("failover", "defaults", Not(OWN)),
        ("spread", "preferred", Not(OWN)),
        ("switchover", "none", Not(OWN)),
    ]);
    rows
}

fn of_etcd() -> Vec<Row> {
    let recovery = json!({ "recovery": { "fromMember": "a", "token": "t", "image": "x" } });
    let mut rows = of_databases();
    rows.extend([
        ("recovery.image", "the image of members", Asks(Topic::Image, recovery)),
        ("recovery", "none", Not(OWN)),
        ("storageSize", "storage.size", Limit),
        ("backupSchedule", "no backups", Child("DatabaseBackup")),
        ("defrag", "never", Not(OWN)),
        ("removeUnknownMembers", "false", Not(OWN)),
    ]);
    rows
}

fn of_sql(part: &'static str) -> Vec<Row> {
    let server = |kind: &str| json!({ (part): { (kind): { "host": "a", "image": "x", "authSecretName": "s" } } });
    let field = |name: &str| -> &'static str { format!("{part}.{name}").leak() };
    vec![
        (field("postgresql.image"), "required", Asks(Topic::Image, server("postgresql"))),
        (field("mysql.image"), "required", Asks(Topic::Image, server("mysql"))),
        (part, "every database of the namespace, or the one that is named", Not(SERVER)),
    ]
}

fn of_backup() -> Vec<Row> {
    let to = |field: &str| json!({ "destination": { (field): "x" } });
    let mut rows = of_sql("source");
    rows.extend([
        ("destination.bucket", "the operator's own bucket", Asks(Topic::Bucket, to("bucket"))),
        ("destination.endpoint", "AWS", Asks(Topic::Endpoint, to("endpoint"))),
        ("destination.kmsKeyId", "keys of S3", Asks(Topic::KmsKey, to("kmsKeyId"))),
        (
            "destination.region",
            "the operator's region",
            Not("a bucket in another region is the operator's own, or in the list of buckets"),
        ),
        ("destination.prefix", "none", Not("keys begin with the namespace")),
        ("destination.objectLock", "no lock", Not("a bucket of several namespaces is not locked")),
        ("destination.storageClass", "STANDARD", Not("it decides about costs, which have no bound")),
        ("encryption", "no encryption before upload", Not(SECRET)),
        ("hooks", "none", Not("they run in the database that is backed up, as a login whose Secret agrees")),
        ("schedule", "only when asked", Not("concurrent runs are refused; a ResourceQuota bounds pods")),
        ("resources", "requests and limits of Causeway", Not(PODS)),
        ("adoptFrom", "none", Not("keys begin with the namespace")),
        ("acceptUnrecordedBefore", "no backup that is not recorded", Not("keys begin with the namespace")),
        ("", "defaults", Not(OWN)),
    ]);
    rows
}

fn of_restore() -> Vec<Row> {
    let s3 = json!({ "from": { "s3": { "bucket": "x", "endpoint": "https://x" } } });
    let mut rows = of_sql("target");
    rows.extend([
        ("from.s3.bucket", "required", Asks(Topic::Bucket, s3.clone())),
        ("from.s3.endpoint", "AWS", Asks(Topic::Endpoint, s3)),
        ("resources", "requests and limits of Causeway", Not(PODS)),
        ("from", "the newest backup", Not("keys begin with the namespace, and the DatabaseBackup is of the namespace")),
        (
            "pointInTime.image",
            "that of the DatabaseBackup, asked for by its own name",
            Asks(Topic::Image, json!({ "pointInTime": { "image": "x" } })),
        ),
        ("", "defaults", Not(OWN)),
    ]);
    rows
}

fn of_my_ingress() -> Vec<Row> {
    let here = |mut spec: Value| {
        spec["subnets"] = json!(["subnet-1"]);
        spec
    };
    let listener = |fields: Value| json!({ "listeners": [fields] });
    let rule =
        |action: Value| json!({ "listeners": [{ "port": 80, "rules": [{ "hosts": ["a"], "action": action }] }] });
    let default = |action: Value| json!({ "listeners": [{ "port": 80, "defaultAction": action }] });
    let group = || json!({ "forward": { "targetGroups": [{ "arn": "x" }] } });
    let pool = || json!({ "authenticateCognito": { "userPoolArn": "x", "clientId": "a", "domain": "b" }, "fixedResponse": { "statusCode": 200 } });
    let verify = json!({ "port": 443, "certificateArns": ["x"], "mutualAuthentication": { "mode": "verify", "trustStoreArn": "x" } });
    let log_to = json!({ "attributes": { "connection_logs.s3.bucket": "x" } });
    vec![
        ("scheme", "internet-facing", Asks(Topic::Scheme, here(json!({})))),
        ("subnets", "the subnets of the group", Asks(Topic::Subnet, here(json!({})))),
        (
            "subnetSelector",
            "the subnets of the group",
            Asks(Topic::Subnet, json!({ "subnetSelector": { "tags": { "a": [] } } })),
        ),
        ("securityGroups", "with inboundCidrs: the VPC's default group", Asks(Topic::SecurityGroup, here(json!({})))),
        ("inboundCidrs", "with securityGroups: the VPC's default group", Asks(Topic::LetInByGroups, here(json!({})))),
        ("inboundPrefixLists", "none", Asks(Topic::Network, json!({ "inboundPrefixLists": ["pl-1"] }))),
        ("targetSecurityGroups", "none", Asks(Topic::SecurityGroup, json!({ "targetSecurityGroups": ["x"] }))),
        ("wafAclArn", "no web ACL", Asks(Topic::Waf, json!({ "wafAclArn": "x" }))),
        ("accessLogs", "no logs", Asks(Topic::LogBucket, json!({ "accessLogs": { "bucket": "x" } }))),
        ("attributes", "none", Asks(Topic::LogBucket, log_to)),
        ("listeners[].certificateArns", "found by AWS", Asks(Topic::Certificate, listener(json!({ "port": 443 })))),
        (
            "listeners[].inboundCidrs",
            "as spec.inboundCidrs",
            Asks(Topic::Network, listener(json!({ "port": 80, "inboundCidrs": ["x"] }))),
        ),
        ("listeners[].sslPolicy", "what the listener has", Asks(Topic::SslPolicy, listener(json!({ "port": 443 })))),
        ("listeners[].mutualAuthentication", "no certificates of clients", Asks(Topic::TrustStore, listener(verify))),
        ("listeners[].rules[].action.forward.targetGroups", "none", Asks(Topic::TargetGroup, rule(group()))),
        ("listeners[].defaultAction.forward.targetGroups", "none", Asks(Topic::TargetGroup, default(group()))),
        ("listeners[].rules[].action.authenticateCognito", "no log-in", Asks(Topic::UserPool, rule(pool()))),
        ("listeners[].defaultAction.authenticateCognito", "no log-in", Asks(Topic::UserPool, default(pool()))),
        ("listeners[].rules[].action.authenticateOidc", "no log-in", Not(SECRET)),
        ("listeners[].defaultAction.authenticateOidc", "no log-in", Not(SECRET)),
        ("listeners", "no traffic", Not("hosts and paths of the group's own members come first")),
        ("backends", "no targets", Not("targets are pods of the namespace, or what targetAddresses allows")),
        ("adopt", "none", Not("the balancer agrees by a tag")),
        ("group", "a balancer of its own", Not("a member of the group's namespace invites by allowedNamespaces")),
        ("name", "a name with a hash", Not("a name that is taken is left to its owner")),
        ("tags", "none", Not("tags of Causeway and of AWS are refused")),
        ("minimumCapacityUnits", "none", Not("it decides about costs, which AWS's quotas bound")),
        ("", "defaults", Not(OWN)),
    ]
}

fn of_my_app() -> Vec<Row> {
    let image = json!({ "image": "x", "banner": "", "replicas": 1 });
    vec![("image", "required", Asks(Topic::Image, image)), ("replicas", "required", Limit), ("", "defaults", Not(PODS))]
}

fn is_about(row: &str, leaf: &str) -> bool {
    leaf.strip_prefix(row).is_some_and(|rest| row.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']))
}

fn check<K: CustomResourceExt, S: DeserializeOwned>(rows: Vec<Row>, base: &Value, asked: impl Fn(&S) -> Vec<Ask>) {
    let kind = K::crd().spec.names.kind;
    let all = leaves_of::<K>();
    let mut about: BTreeMap<&str, usize> = rows.iter().map(|(row, ..)| (*row, 0)).collect();
    for leaf in &all {
        let row = rows.iter().map(|(row, ..)| *row).filter(|row| is_about(row, leaf)).max_by_key(|row| row.len());
        let row = row.unwrap_or_else(|| panic!("{kind} spec.{leaf}: say in the table whether a policy sees it"));
        *about.get_mut(row).unwrap() += 1;
    }
    let unused: Vec<_> = about.iter().filter(|(_, count)| **count == 0).collect();
    assert!(unused.is_empty(), "{kind} has no such fields: {unused:?}");
    for (row, left_out, sees) in rows {
        assert!(!left_out.is_empty(), "{kind} spec.{row}");
        let (topic, fields) = match sees {
            Asks(topic, fields) => (topic, fields),
            Limit => continue,
            Child(kind) => {
                assert!(COUNTED.contains(&kind), "{kind}");
                continue;
            }
            Not(why) => {
                assert!(!why.is_empty(), "{kind} spec.{row}");
                continue;
            }
        };
        let mut spec = base.clone();
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let spec: S = serde_json::from_value(spec.clone()).unwrap_or_else(|error| panic!("{kind} {spec}: {error}"));
        let asks = asked(&spec);
        assert!(asks.iter().any(|ask| ask.topic == topic), "{kind} spec.{row} is not asked for: {asks:?}");
    }
}

#[test]
fn policies_see_every_field_that_leaves_its_namespace() {
    check::<MyApp, _>(of_my_app(), &json!({}), causeway_myapp::asks);
    check::<MyIngress, _>(of_my_ingress(), &json!({}), |spec| causeway_myingress::asks::list(spec, "shop"));
    check::<Redis, _>(of_redis(), &json!({}), causeway_redis::asks::list);
    check::<EtcdCluster, _>(of_etcd(), &json!({ "version": "3.5.9" }), causeway_etcdcluster::asks::list);
    check::<DatabaseBackup, _>(of_backup(), &json!({ "schedule": "@daily" }), causeway_databasebackup::asks::of_backup);
    let restore = json!({ "from": { "backup": "a" }, "target": { "redis": { "name": "a" } } });
    check::<DatabaseRestore, _>(of_restore(), &restore, causeway_databasebackup::asks::of_restore);
}
