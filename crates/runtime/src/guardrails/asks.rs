//! Lists the fields of an object that policies may restrict, with their values. Pure.

use causeway_api::databasebackup::Source;
use causeway_api::myingress::{ActionSpec, ListenerProtocol};
use causeway_api::pods::{PodMetadata, ServiceTemplate};
use causeway_api::{DatabaseBackupSpec, DatabaseRestoreSpec, EtcdClusterSpec, MyAppSpec, MyIngressSpec, RedisSpec};

/// The kind of a value that an object asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The scheme of a load balancer: internal or internet-facing.
    Scheme,
    /// The subnets of a load balancer.
    Subnet,
    /// The security groups of a load balancer, and those of its targets that let it in.
    SecurityGroup,
    /// Networks and prefix lists that may connect to a load balancer.
    Network,
    /// Certificates of a load balancer.
    Certificate,
    /// The web ACL of a load balancer.
    Waf,
    /// The bucket of a load balancer's logs.
    LogBucket,
    /// The bucket that backups are written to or read from.
    Bucket,
    /// An S3 endpoint other than AWS's.
    Endpoint,
    /// The key that encrypts backups.
    KmsKey,
    /// The image that pods run.
    Image,
    /// The priority class of pods.
    PriorityClass,
    /// Sources that security groups let in which Causeway does not make: any network, so there is no value.
    LetInByGroups,
    /// A target group that is not of the object.
    TargetGroup,
    /// The security policy of an HTTPS listener.
    SslPolicy,
    /// The trust store of a load balancer.
    TrustStore,
    /// A user pool of Cognito.
    UserPool,
    /// The key of a label or annotation of pods.
    PodMetadata,
    /// The service account of pods.
    ServiceAccount,
    /// The type of a Service.
    ServiceType,
    /// The key of an annotation of a Service.
    ServiceAnnotation,
}

/// A value that an object asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The kind of the value.
    pub topic: Topic,
    /// The field that asks for it.
    pub field: String,
    /// The value; `None` if it is determined later and may be anything.
    pub value: Option<String>,
}

fn ask(topic: Topic, field: impl Into<String>, value: impl Into<String>) -> Ask {
    Ask { topic, field: field.into(), value: Some(value.into()) }
}

fn asks_for_all<'a>(topic: Topic, field: &'a str, values: &'a [String]) -> impl Iterator<Item = Ask> + 'a {
    values.iter().enumerate().map(move |(at, value)| ask(topic, format!("{field}[{at}]"), value))
}

/// Lists what a `MyIngress` of that namespace asks for.
pub fn of_my_ingress(spec: &MyIngressSpec, namespace: &str) -> Vec<Ask> {
    let mut asks = Vec::new();
    let of_group = spec.group.iter().find_map(|group| group.namespace.as_deref());
    let is_guest = of_group.is_some_and(|home| home != namespace);
    // In a group, a member that names no subnets chooses neither the balancer's scheme nor its security groups.
    if !spec.subnets.is_empty() || spec.subnet_selector.is_some() {
        asks.push(ask(Topic::Scheme, "spec.scheme", spec.scheme.as_str()));
    }
    asks.extend(asks_for_all(Topic::Subnet, "spec.subnets", &spec.subnets));
    if spec.subnet_selector.is_some() {
        asks.push(Ask { topic: Topic::Subnet, field: "spec.subnetSelector".into(), value: None });
    }
    asks.extend(asks_for_all(Topic::SecurityGroup, "spec.securityGroups", &spec.security_groups));
    asks.extend(asks_for_all(Topic::SecurityGroup, "spec.targetSecurityGroups", &spec.target_security_groups));
    if !spec.subnets.is_empty() || spec.subnet_selector.is_some() {
        asks.extend(groups_of_others(spec));
    }
    asks.extend(asks_for_all(Topic::Network, "spec.inboundCidrs", &spec.inbound_cidrs));
    asks.extend(asks_for_all(Topic::Network, "spec.inboundPrefixLists", &spec.inbound_prefix_lists));
    asks.extend(spec.waf_acl_arn.iter().map(|arn| ask(Topic::Waf, "spec.wafAclArn", arn)));
    asks.extend(spec.access_logs.iter().map(|logs| ask(Topic::LogBucket, "spec.accessLogs.bucket", &logs.bucket)));
    let buckets = spec.attributes.iter().filter(|(key, _)| key.ends_with(".s3.bucket"));
    asks.extend(buckets.map(|(key, bucket)| ask(Topic::LogBucket, format!("spec.attributes.{key}"), bucket)));
    for (at, listener) in spec.listeners.iter().enumerate() {
        let field = |name: &str| format!("spec.listeners[{at}].{name}");
        asks.extend(asks_for_all(Topic::Certificate, &field("certificateArns"), &listener.certificate_arns));
        asks.extend(asks_for_all(Topic::Network, &field("inboundCidrs"), &listener.inbound_cidrs));
        let store = listener.mutual_authentication.iter().filter_map(|it| it.trust_store_arn.as_ref());
        asks.extend(store.map(|arn| ask(Topic::TrustStore, field("mutualAuthentication.trustStoreArn"), arn)));
        asks.extend(listener.default_action.iter().flat_map(|action| of_action(action, &field("defaultAction"))));
        let rules = listener.rules.iter().enumerate();
        asks.extend(rules.flat_map(|(at, rule)| of_action(&rule.action, &field(&format!("rules[{at}].action")))));
        let https = listener.protocol.map_or(listener.port == 443, |protocol| protocol == ListenerProtocol::Https);
        if https && (listener.ssl_policy.is_some() || !is_guest) {
            let value = listener.ssl_policy.clone();
            let field = if value.is_some() { "sslPolicy" } else { "sslPolicy (left out)" };
            asks.push(Ask { topic: Topic::SslPolicy, field: format!("spec.listeners[{at}].{field}"), value });
        }
        // A certificate is found by the hosts of the rules. A guest brings none: that listener is its hosts'.
        if https && listener.certificate_arns.is_empty() && !is_guest {
            asks.push(Ask { topic: Topic::Certificate, field: field("certificateArns (found by AWS)"), value: None });
        }
    }
    asks
}

/// Lists asks for security groups that Causeway does not make: they let in what their own rules say. Without any, AWS
/// chooses the default group of the VPC.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateLoadBalancer.html>
fn groups_of_others(spec: &MyIngressSpec) -> Vec<Ask> {
    let unknown = |topic, field: &str| Ask { topic, field: field.into(), value: None };
    let by_default =
        "spec.securityGroups (left out with spec.inboundCidrs, so that AWS chooses the VPC's default group)";
    match (spec.security_groups.is_empty(), spec.inbound_cidrs.is_empty() && spec.inbound_prefix_lists.is_empty()) {
        (true, true) => vec![unknown(Topic::SecurityGroup, by_default), unknown(Topic::LetInByGroups, by_default)],
        (false, _) => vec![unknown(Topic::LetInByGroups, "spec.securityGroups (which may let in any network)")],
        (true, false) => Vec::new(),
    }
}

/// Lists the values of an action of a listener or rule.
fn of_action(action: &ActionSpec, field: &str) -> Vec<Ask> {
    let groups = action.forward.iter().flat_map(|forward| &forward.target_groups).enumerate();
    let groups =
        groups.map(|(at, it)| ask(Topic::TargetGroup, format!("{field}.forward.targetGroups[{at}].arn"), &it.arn));
    let pool = action.authenticate_cognito.iter().map(|cognito| {
        ask(Topic::UserPool, format!("{field}.authenticateCognito.userPoolArn"), &cognito.user_pool_arn)
    });
    groups.chain(pool).collect()
}

/// Lists the values of the pods of a database, but images.
fn of_pods(metadata: Option<&PodMetadata>, account: Option<&String>, class: Option<&String>) -> Vec<Ask> {
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
fn of_service(field: &str, service: Option<&ServiceTemplate>) -> Vec<Ask> {
    let Some(service) = service else { return Vec::new() };
    let kind = ask(Topic::ServiceType, format!("spec.{field}.type"), service.kind.as_str());
    let keys = service.annotations.keys();
    let keys = keys.map(|key| ask(Topic::ServiceAnnotation, format!("spec.{field}.annotations, key"), key));
    std::iter::once(kind).chain(keys).collect()
}

/// Lists what a `Redis` asks for.
pub fn of_redis(spec: &RedisSpec) -> Vec<Ask> {
    let mut asks = vec![match &spec.image {
        Some(image) => ask(Topic::Image, "spec.image", image),
        None => ask(Topic::Image, "spec.version, whose image", spec.node_image()),
    }];
    asks.extend(spec.exporter.iter().map(|it| ask(Topic::Image, "spec.exporter, whose image", it.running_image())));
    let sentinel = spec.sentinel.iter().filter_map(|it| it.image.as_ref());
    asks.extend(sentinel.map(|image| ask(Topic::Image, "spec.sentinel.image", image)));
    let (account, class) = (spec.service_account_name.as_ref(), spec.priority_class_name.as_ref());
    asks.extend(of_pods(spec.pod_metadata.as_ref(), account, class));
    asks.extend(of_service("service", spec.service.as_ref()));
    asks.extend(of_service("replicaService", spec.replica_service.as_ref()));
    asks
}

/// Lists what an `EtcdCluster` asks for.
pub fn of_etcd_cluster(spec: &EtcdClusterSpec) -> Vec<Ask> {
    let mut asks = vec![match &spec.image {
        Some(image) => ask(Topic::Image, "spec.image", image),
        None => ask(Topic::Image, "spec.version, whose image", spec.member_image()),
    }];
    let recovery = spec.recovery.iter().filter_map(|recovery| recovery.image.as_ref());
    asks.extend(recovery.map(|image| ask(Topic::Image, "spec.recovery.image", image)));
    let (account, class) = (spec.service_account_name.as_ref(), spec.priority_class_name.as_ref());
    asks.extend(of_pods(spec.pod_metadata.as_ref(), account, class));
    asks.extend(of_service("service", spec.service.as_ref()));
    asks
}

/// Lists what a `DatabaseBackup` asks for.
pub fn of_backup(spec: &DatabaseBackupSpec) -> Vec<Ask> {
    let to = &spec.destination;
    let mut asks: Vec<Ask> = to.bucket.iter().map(|it| ask(Topic::Bucket, "spec.destination.bucket", it)).collect();
    asks.extend(to.endpoint.iter().map(|it| ask(Topic::Endpoint, "spec.destination.endpoint", it)));
    asks.extend(to.kms_key_id.iter().map(|it| ask(Topic::KmsKey, "spec.destination.kmsKeyId", it)));
    asks.extend(spec.source.iter().flat_map(|source| of_source(source, "spec.source")));
    asks
}

/// Lists what a `DatabaseRestore` asks for.
pub fn of_restore(spec: &DatabaseRestoreSpec) -> Vec<Ask> {
    let from = spec.from.s3.iter();
    let mut asks: Vec<Ask> = from.clone().map(|it| ask(Topic::Bucket, "spec.from.s3.bucket", &it.bucket)).collect();
    asks.extend(from.filter_map(|it| Some(ask(Topic::Endpoint, "spec.from.s3.endpoint", it.endpoint.as_ref()?))));
    asks.extend(of_source(&spec.target, "spec.target"));
    let image = spec.point_in_time.as_ref().and_then(|it| it.image.as_ref());
    asks.extend(image.map(|image| ask(Topic::Image, "spec.pointInTime.image", image)));
    asks
}

/// Lists what the recovery of a DatabaseBackup's data asks for: the image in which the server runs.
pub fn of_recovery(image: &str) -> Vec<Ask> {
    vec![ask(Topic::Image, "spec.pointInTime.image (left out, that of the DatabaseBackup)", image)]
}

/// Lists what a restore or a verification asks for: the images of the server that is thrown away. They follow from the
/// backup and from the database, which policies may have denied.
pub fn of_scratch<'a>(images: impl IntoIterator<Item = &'a str>) -> Vec<Ask> {
    let field = "the server into which the backup is loaded, whose image";
    images.into_iter().map(|image| ask(Topic::Image, field, image)).collect()
}

/// Lists what a `MyApp` asks for.
pub fn of_my_app(spec: &MyAppSpec) -> Vec<Ask> {
    vec![ask(Topic::Image, "spec.image", &spec.image)]
}

/// Lists the images that a backup runs for the database's own programs.
fn of_source<'a>(source: &'a Source, field: &'a str) -> impl Iterator<Item = Ask> + 'a {
    let servers = [("postgresql", &source.postgresql), ("mysql", &source.mysql)];
    servers.into_iter().filter_map(move |(kind, server)| {
        let image = &server.as_ref()?.image;
        Some(ask(Topic::Image, format!("{field}.{kind}.image"), image))
    })
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn list_asks<S: DeserializeOwned>(of: fn(&S) -> Vec<Ask>, spec: Value) -> Vec<String> {
        let spec: S = serde_json::from_value(spec).unwrap();
        let describe = |ask: Ask| format!("{:?} {} {}", ask.topic, ask.field, ask.value.unwrap_or_else(|| "?".into()));
        of(&spec).into_iter().map(describe).collect()
    }

    fn of_shop(spec: &MyIngressSpec) -> Vec<Ask> {
        of_my_ingress(spec, "shop")
    }

    #[test]
    fn a_balancer_asks_for_all_that_aws_will_be_told() {
        let spec = json!({
            "subnets": ["subnet-1", "subnet-2"], "securityGroups": ["sg-1"], "targetSecurityGroups": ["nodes"],
            "inboundCidrs": ["0.0.0.0/0"], "inboundPrefixLists": ["pl-1"], "wafAclArn": "arn:w",
            "accessLogs": { "bucket": "logs" }, "attributes": { "connection_logs.s3.bucket": "more", "x": "y" },
            "listeners": [
                { "port": 80, "inboundCidrs": ["10.0.0.0/8"] },
                { "port": 443, "certificateArns": ["arn:c"] },
                { "port": 8443, "protocol": "HTTPS" },
            ],
        });
        insta::assert_yaml_snapshot!(list_asks(of_shop, spec));
        let hidden = json!({ "subnetSelector": { "tags": { "a": [] } }, "scheme": "internal" });
        let hidden = list_asks(of_shop, hidden);
        assert_eq!(hidden[..2], ["Scheme spec.scheme internal", "Subnet spec.subnetSelector ?"]);
        assert!(hidden[2].starts_with("SecurityGroup spec.securityGroups (left out"), "{hidden:?}");
        assert!(hidden[3].starts_with("LetInByGroups spec.securityGroups (left out"), "{hidden:?}");
        let own = list_asks(of_shop, json!({ "subnets": ["subnet-1"], "inboundPrefixLists": ["pl-1"] }));
        assert!(!own.iter().any(|it| it.contains("securityGroups")), "its group is made: {own:?}");
        let joining = json!({ "group": { "name": "g" }, "listeners": [{ "port": 80 }] });
        assert_eq!(list_asks(of_shop, joining), [""; 0], "who stands nowhere decides nothing");
    }

    #[test]
    fn defaults_of_a_listener_are_asked_for_only_at_home() {
        let of = |group: Value| list_asks(of_shop, json!({ "group": group, "listeners": [{ "port": 443 }] }));
        let found = [
            "SslPolicy spec.listeners[0].sslPolicy (left out) ?",
            "Certificate spec.listeners[0].certificateArns (found by AWS) ?",
        ];
        assert_eq!(of(json!({ "name": "g" })), found, "a group of one is no way around");
        assert_eq!(of(json!({ "name": "g", "namespace": "shop" })), found);
        assert_eq!(of(json!({ "name": "g", "namespace": "edge" })), [""; 0]);
    }

    #[test]
    fn pods_ask_for_the_images_that_they_will_run() {
        assert_eq!(list_asks(of_redis, json!({})), ["Image spec.version, whose image redis:7.0.15"]);
        let own = list_asks(of_redis, json!({ "sentinel": {} }));
        assert_eq!(own, ["Image spec.version, whose image redis:7.0.15"], "the operator's own image is its own");
        let given = json!({
            "image": "evil/redis", "exporter": {}, "sentinel": { "image": "evil/causeway" }, "priorityClassName": "high",
        });
        assert_eq!(
            list_asks(of_redis, given),
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
            list_asks(of_redis, around)[1..],
            [
                "PodMetadata spec.podMetadata.labels, key team",
                "PodMetadata spec.podMetadata.annotations, key example.com/inject",
                "ServiceAccount spec.serviceAccountName admin",
                "ServiceType spec.replicaService.type LoadBalancer",
                "ServiceAnnotation spec.replicaService.annotations, key a/b",
            ]
        );
        let etcd = json!({ "version": "3.5.9", "recovery": { "fromMember": "a", "token": "t", "image": "evil/etcd" } });
        let etcd = list_asks(of_etcd_cluster, etcd);
        assert_eq!(etcd[0], "Image spec.version, whose image quay.io/coreos/etcd:v3.5.9");
        assert_eq!(etcd[1], "Image spec.recovery.image evil/etcd");
        assert_eq!(list_asks(of_my_app, json!({ "image": "nginx" })), ["Image spec.image nginx"]);
    }

    #[test]
    fn backups_ask_for_their_bucket_and_their_images() {
        let server = json!({ "host": "db", "image": "evil/postgres", "authSecretName": "a" });
        let spec = json!({
            "schedule": "@daily", "source": { "postgresql": server },
            "destination": { "bucket": "b", "endpoint": "https://e", "kmsKeyId": "arn:k" },
        });
        let asks = list_asks(of_backup, spec);
        assert_eq!(
            asks,
            [
                "Bucket spec.destination.bucket b",
                "Endpoint spec.destination.endpoint https://e",
                "KmsKey spec.destination.kmsKeyId arn:k",
                "Image spec.source.postgresql.image evil/postgres",
            ]
        );
        let scratch: Vec<String> = of_scratch(["evil/redis:7"]).into_iter().filter_map(|ask| ask.value).collect();
        assert_eq!(scratch, ["evil/redis:7"]);
        let restore = json!({ "from": { "backup": "n" }, "target": { "mysql": server } });
        assert_eq!(list_asks(of_restore, restore), ["Image spec.target.mysql.image evil/postgres"]);
        let instant = json!({
            "from": { "backup": "base" }, "pointInTime": { "image": "evil/server" }, "target": { "postgresql": {
                "host": "db", "image": "evil/postgres", "authSecretName": "a",
            } },
        });
        let asks = list_asks(of_restore, instant);
        assert!(asks.contains(&"Image spec.pointInTime.image evil/server".to_owned()), "{asks:?}");
        let elsewhere = json!({
            "from": { "s3": { "bucket": "theirs", "endpoint": "https://e" } }, "target": { "redis": { "name": "a" } },
        });
        let asks = list_asks(of_restore, elsewhere);
        assert_eq!(asks, ["Bucket spec.from.s3.bucket theirs", "Endpoint spec.from.s3.endpoint https://e"]);
    }
}
