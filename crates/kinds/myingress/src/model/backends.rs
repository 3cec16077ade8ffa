//! Turns backends into target groups.
//!
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateTargetGroup.html>

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use causeway_api::Duration;
use causeway_api::myingress::{
    Algorithm, BackendProtocol, BackendSpec, BackendTargetType, BackendVersion, HealthCheckSpec, Scheme, StickinessType,
};
use causeway_aws::elbv2::{HealthCheck, Pairs, Protocol, ProtocolVersion, TargetType};

use super::defaults::default_group_attributes;
use super::field::Field;
use super::{Complaint, GroupModel, attributes, text};
use crate::ownership::names::TargetGroupIdentity;
use crate::ownership::{ObjectKey, Owner};
use crate::targets::{Backend, PortName};

const ALGORITHM: &str = "load_balancing.algorithm.type";
const ANOMALIES: &str = "load_balancing.algorithm.anomaly_mitigation";
const CROSS_ZONE: &str = "load_balancing.cross_zone.enabled";
const SLOW_START: &str = "slow_start.duration_seconds";
/// A tag's value has at most 256 characters, of which Service and port take up to 127.
const MOST_OF_LABELS: usize = 129;
/// AWS's keyword for the port on which a target gets its requests.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateTargetGroup.html>
const TRAFFIC_PORT: &str = "traffic-port";
const COOKIE: &str = "stickiness.app_cookie.cookie_name";

/// A target group and its name in AWS.
pub struct Named {
    /// The name.
    pub group: String,
    /// Its settings.
    pub model: GroupModel,
}

/// The target groups of an object by the names of its backends.
pub fn backends(
    specs: &[BackendSpec],
    member: &ObjectKey,
    owner: &Owner,
    scheme: Scheme,
    field: &Field<'_>,
) -> Result<BTreeMap<String, Named>, Complaint> {
    let mut found = BTreeMap::new();
    for (index, spec) in specs.iter().enumerate() {
        let item = field.item(index).with_reason("BackendInvalid");
        let model = group(spec, member, &item)?;
        let identity = TargetGroupIdentity {
            owner,
            member,
            backend: &spec.name,
            scheme,
            target_type: model.target_type,
            protocol: model.protocol,
            version: model.version,
            ipv6: model.backend.ipv6,
            control_port: model.control_port,
        };
        let named = Named { group: identity.name(), model };
        if found.insert(spec.name.clone(), named).is_some() {
            return item.name("name").complain("is the name of another backend too: rename one of them");
        }
    }
    Ok(found)
}

/// Name of the backend whose target group has this name in AWS.
pub fn backend_called(
    group: &str,
    specs: &[BackendSpec],
    member: &ObjectKey,
    owner: &Owner,
    scheme: Scheme,
) -> Option<String> {
    let all = backends(specs, member, owner, scheme, &Field::spec()).ok()?;
    all.into_iter().find(|(_, named)| named.group == group).map(|(backend, _)| backend)
}

fn group(spec: &BackendSpec, member: &ObjectKey, field: &Field<'_>) -> Result<GroupModel, Complaint> {
    label(&spec.name, &field.name("name"))?;
    let service = spec.service.clone().unwrap_or_else(|| spec.name.clone());
    label(&service, &field.name("service"))?;
    let target_type = match spec.target_type {
        BackendTargetType::Ip => TargetType::Ip,
        BackendTargetType::Instance => TargetType::Instance,
    };
    let version = match spec.protocol_version {
        BackendVersion::Http1 => ProtocolVersion::Http1,
        BackendVersion::Http2 => ProtocolVersion::Http2,
        BackendVersion::Grpc => ProtocolVersion::Grpc,
    };
    let port = port(&spec.port, &field.name("port"))?;
    let nodes = spec.node_selector.clone();
    node_selector(&nodes, target_type, &field.name("nodeSelector"))?;
    let check = spec.health_check.clone().unwrap_or_default();
    let checks = field.name("healthCheck");
    let (number, named) = check_port(check.port.as_ref(), &checks.name("port"))?;
    let namespace = member.0.clone();
    Ok(GroupModel {
        backend_name: spec.name.clone(),
        member: member.clone(),
        backend: Backend { namespace, service, port, target_type, ipv6: false, nodes, check: named },
        target_type,
        protocol: spoken(spec.protocol),
        version,
        control_port: spec.target_control_port,
        health_check: HealthCheck { port: number, ..health_check(&check, spec.protocol, version, &checks)? },
        attributes: group_attributes(spec, field)?,
    })
}

/// Labels of nodes. They must fit into a tag, together with Service and port.
fn node_selector(labels: &BTreeMap<String, String>, of: TargetType, field: &Field<'_>) -> Result<(), Complaint> {
    if labels.is_empty() {
        return Ok(());
    }
    if of != TargetType::Instance {
        return field.complain("is for targetType instance: set it, or remove nodeSelector");
    }
    let mut length = 0;
    for (key, value) in labels {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        text::of_characters(key, 1, 127, field, |c| allowed(c) || c == '/', "the letters of a label's key")?;
        text::of_characters(value, 0, 63, &field.key(key), allowed, "the letters of a label's value")?;
        length += key.len() + value.len() + 2;
    }
    if length > MOST_OF_LABELS {
        return field.complain(format_args!("comes to {length} characters: use at most {MOST_OF_LABELS}, one label"));
    }
    Ok(())
}

/// Checks a name that a Service can have.
fn label(name: &str, field: &Field<'_>) -> Result<(), Complaint> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    text::of_characters(name, 1, 63, field, allowed, "lower case letters, digits and hyphens")?;
    if name.starts_with('-') || name.ends_with('-') {
        return field.complain("must begin and end with a letter or digit");
    }
    Ok(())
}

fn port(port: &IntOrString, field: &Field<'_>) -> Result<PortName, Complaint> {
    let number = match port {
        IntOrString::Int(number) => u16::try_from(*number).ok(),
        IntOrString::String(name) if name.contains(|c: char| c.is_ascii_lowercase()) => {
            let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            text::of_characters(name, 1, 63, field, allowed, "the name of a port of the Service, or its number")?;
            return Ok(PortName::Name(name.clone()));
        }
        IntOrString::String(number) => number.parse().ok(),
    };
    match number {
        Some(number @ 1..) => Ok(PortName::Number(number)),
        _ => field.complain("must be a port of the Service: its name, or a number from 1 to 65535"),
    }
}

/// The number of the health check port, or its name in the Service; neither for the traffic port.
fn check_port(given: Option<&IntOrString>, field: &Field<'_>) -> Result<(Option<u16>, Option<String>), Complaint> {
    match given {
        None => Ok((None, None)),
        Some(IntOrString::String(word)) if word == TRAFFIC_PORT => Ok((None, None)),
        Some(given) => Ok(match port(given, field)? {
            PortName::Number(number) => (Some(number), None),
            PortName::Name(name) => (None, Some(name)),
        }),
    }
}

fn spoken(protocol: BackendProtocol) -> Protocol {
    match protocol {
        BackendProtocol::Http => Protocol::Http,
        BackendProtocol::Https => Protocol::Https,
    }
}

/// A health check with the defaults that [`HealthCheckSpec`] documents, on the port of the traffic.
fn health_check(
    spec: &HealthCheckSpec,
    protocol: BackendProtocol,
    version: ProtocolVersion,
    field: &Field<'_>,
) -> Result<HealthCheck, Complaint> {
    let (path, codes, range) = match version {
        ProtocolVersion::Grpc => ("/AWS.ALB/healthcheck", "12", (0, 99)),
        ProtocolVersion::Http1 | ProtocolVersion::Http2 => ("/", "200", (200, 499)),
    };
    let interval = spec.interval.as_ref().map_or(15, seconds);
    let check = HealthCheck {
        protocol: spoken(spec.protocol.unwrap_or(protocol)),
        port: None,
        path: spec.path.clone().unwrap_or_else(|| path.into()),
        interval,
        timeout: spec.timeout.as_ref().map_or_else(|| interval.saturating_sub(1).min(5), seconds),
        healthy: spec.healthy_threshold.unwrap_or(2),
        unhealthy: spec.unhealthy_threshold.unwrap_or(2),
        codes: success_codes(spec.success_codes.as_deref().unwrap_or(codes), range, &field.name("successCodes"))?,
    };
    for (name, number, least, most, unit) in [
        ("interval", check.interval, 5, 300, "s"),
        ("timeout", check.timeout, 2, 120, "s"),
        ("healthyThreshold", check.healthy.into(), 2, 10, ""),
        ("unhealthyThreshold", check.unhealthy.into(), 2, 10, ""),
    ] {
        if !(least..=most).contains(&number) {
            return field.name(name).complain(format_args!("must be {least}{unit} to {most}{unit}"));
        }
    }
    if check.timeout >= check.interval {
        return field.name("timeout").complain(format_args!("must be less than the interval, {}s", check.interval));
    }
    text::unbroken(&check.path, 1, 1024, &field.name("path"))?;
    if !check.path.starts_with('/') {
        return field.name("path").complain("must begin with /");
    }
    Ok(check)
}

/// Seconds as AWS counts them. A value that does not fit is out of all bounds.
fn seconds(duration: &Duration) -> u16 {
    u16::try_from(duration.seconds()).unwrap_or(u16::MAX)
}

/// Codes as AWS writes them: `200`, `200,204` or `200-299`.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_Matcher.html>
fn success_codes(text: &str, (least, most): (u16, u16), field: &Field<'_>) -> Result<String, Complaint> {
    let code = |digits: &str| {
        let plain = (1..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse().ok().filter(|code: &u16| plain && (least..=most).contains(code))
    };
    let part = |part: &str| match part.split_once('-') {
        None => code(part).map(|it| it.to_string()),
        Some((from, to)) => code(from).zip(code(to)).filter(|(a, b)| a <= b).map(|(a, b)| format!("{a}-{b}")),
    };
    let parts: Option<Vec<String>> = text.split(',').map(part).collect();
    parts.map(|parts| parts.join(",")).ok_or_else(|| {
        field.wrong(format_args!("must be codes from {least} to {most}, one, a list with commas, or a range with -"))
    })
}

/// All attributes that are compared with AWS's.
fn group_attributes(spec: &BackendSpec, field: &Field<'_>) -> Result<Pairs, Complaint> {
    let algorithm = spec.algorithm.map(|algorithm| match algorithm {
        Algorithm::RoundRobin => "round_robin",
        Algorithm::LeastOutstandingRequests => "least_outstanding_requests",
        Algorithm::WeightedRandom => "weighted_random",
    });
    let mut fields = Vec::new();
    let mut say = |name, key, value: Option<String>| fields.extend(value.map(|value| (name, key, value)));
    say("algorithm", ALGORITHM, algorithm.map(Into::into));
    say("slowStart", SLOW_START, spec.slow_start.as_ref().map(|it| it.seconds().to_string()));
    let delay = spec.deregistration_delay.as_ref().map(|it| it.seconds().to_string());
    say("deregistrationDelay", "deregistration_delay.timeout_seconds", delay);
    if let Some(stickiness) = &spec.stickiness {
        let (kind, seconds) = match stickiness.kind {
            StickinessType::LbCookie => ("lb_cookie", "stickiness.lb_cookie.duration_seconds"),
            StickinessType::AppCookie => ("app_cookie", "stickiness.app_cookie.duration_seconds"),
        };
        say("stickiness", "stickiness.enabled", Some("true".into()));
        say("stickiness", "stickiness.type", Some(kind.into()));
        say("stickiness.duration", seconds, stickiness.duration.as_ref().map(|it| it.seconds().to_string()));
        say("stickiness.cookieName", COOKIE, stickiness.cookie_name.clone());
    }
    let map = field.name("attributes");
    let asked = attributes::with_fields(&spec.attributes, fields, &map)?;
    attributes::check_target_group(&asked, &map)?;
    let mut all = default_group_attributes();
    all.extend(asked);
    go_together(&all, field)?;
    Ok(all)
}

/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-target-group-attributes.html>
fn go_together(all: &Pairs, field: &Field<'_>) -> Result<(), Complaint> {
    let is = |key: &str, value: &str| all.get(key).is_some_and(|it| it == value);
    if !is(SLOW_START, "0") && !is(ALGORITHM, "round_robin") {
        return field.name("slowStart").complain("works with algorithm round_robin only: remove one of the two");
    }
    if is(ANOMALIES, "on") && !is(ALGORITHM, "weighted_random") {
        return field.name("attributes").key(ANOMALIES).complain("needs algorithm weighted_random");
    }
    for threshold in ["minimum_healthy_targets.count", "minimum_healthy_targets.percentage"] {
        fails_over_in_order(threshold, all, &field.name("attributes"))?;
    }
    // https://docs.aws.amazon.com/elasticloadbalancing/latest/application/disable-cross-zone.html
    if is("stickiness.enabled", "true") && is(CROSS_ZONE, "false") {
        return field
            .name("attributes")
            .key(CROSS_ZONE)
            .complain("must not be false with stickiness: remove one of the two");
    }
    let cookie = all.get(COOKIE).map(String::as_str).unwrap_or_default();
    let name = field.name("stickiness");
    let name = name.name("cookieName");
    let by_application = is("stickiness.type", "app_cookie");
    if by_application && is("stickiness.enabled", "true") && cookie.is_empty() {
        return name.complain("is needed with type app_cookie");
    }
    if !by_application && !cookie.is_empty() {
        return name.complain("is for type app_cookie: set type, or remove the name");
    }
    if cookie.to_ascii_uppercase().starts_with("AWSALB") {
        return name.complain("must not begin with AWSALB, which AWS keeps for itself");
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    text::of_characters(cookie, 0, 256, &name, allowed, "letters, digits and _ . -")
}

/// "The threshold for DNS failover must be greater than or equal to the threshold for routing failover."
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/target-group-health.html>
fn fails_over_in_order(threshold: &str, all: &Pairs, attributes: &Field<'_>) -> Result<(), Complaint> {
    let key = |action| format!("target_group_health.{action}.{threshold}");
    let (dns, routing) = (key("dns_failover"), key("unhealthy_state_routing"));
    // A threshold may be off.
    let number = |key: &String| all.get(key).and_then(|value| value.parse::<u32>().ok());
    match (number(&dns), number(&routing)) {
        (Some(of_dns), Some(of_routing)) if of_dns < of_routing => attributes.key(&dns).complain(format_args!(
            "is {of_dns}, and must not be less than {routing}, which is {of_routing}: raise it, set it to off, or lower \
             the other one"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures;
    use serde_json::{Value, json};

    fn using(mut backend: Value) -> Value {
        backend["name"] = json!("a");
        let action = json!({ "forward": { "backends": [{ "name": "a" }] } });
        let listener = json!({
            "port": 443, "defaultAction": action,
            "certificateArns": ["arn:aws:acm:eu-west-1:000000000000:certificate/a"],
        });
        json!({ "listeners": [listener], "backends": [backend] })
    }

    fn group(backend: Value) -> GroupModel {
        fixtures::model(using(backend)).groups.into_values().next().unwrap()
    }

    #[test]
    fn a_backend_is_by_default_a_service_of_its_name() {
        let plain = group(json!({ "port": 8080 }));
        assert_eq!((plain.backend.service.as_str(), plain.backend.port), ("a", PortName::Number(8080)));
        let named = group(json!({ "service": "b", "port": "http", "targetType": "instance" }));
        assert_eq!((named.backend.service.as_str(), named.backend.port), ("b", PortName::Name("http".into())));
        assert_eq!(named.target_type, TargetType::Instance);
        assert_eq!(group(json!({ "port": "8080" })).backend.port, PortName::Number(8080));
    }

    #[test]
    fn health_checks_have_the_defaults_that_the_fields_document() {
        let check = group(json!({ "port": 80, "protocol": "HTTPS" })).health_check;
        let (path, codes) = ("/".to_owned(), "200".to_owned());
        let (protocol, port, interval, timeout, healthy, unhealthy) = (Protocol::Https, None, 15, 5, 2, 2);
        assert_eq!(check, HealthCheck { protocol, port, path, interval, timeout, healthy, unhealthy, codes });
        let quick = group(json!({ "port": 80, "healthCheck": { "interval": "5s" } })).health_check;
        assert_eq!(quick.timeout, 4);
        let grpc = group(json!({ "port": 80, "protocolVersion": "GRPC" })).health_check;
        assert_eq!((grpc.path.as_str(), grpc.codes.as_str()), ("/AWS.ALB/healthcheck", "12"));
    }

    #[test]
    fn what_is_not_said_is_awss_default() {
        let attributes = group(json!({ "port": 80, "slowStart": "30s" })).attributes;
        let mut wanted = default_group_attributes();
        wanted.insert(SLOW_START.into(), "30".into());
        assert_eq!(attributes, wanted);
        let cookie = json!({ "type": "app_cookie", "cookieName": "SESSION", "duration": "9s" });
        let attributes = group(json!({ "port": 80, "stickiness": cookie })).attributes;
        let keys = ["stickiness.enabled", "stickiness.type", COOKIE, "stickiness.app_cookie.duration_seconds"];
        assert_eq!(keys.map(|key| attributes[key].as_str()), ["true", "app_cookie", "SESSION", "9"]);
    }

    #[test]
    fn checks_use_a_number_or_a_named_port() {
        for (given, number, name) in [
            (json!(9090), Some(9090), None),
            (json!("9090"), Some(9090), None),
            (json!("metrics"), None, Some("metrics")),
            (json!("traffic-port"), None, None),
        ] {
            let group = group(json!({ "port": 80, "healthCheck": { "port": given } }));
            assert_eq!((group.health_check.port, group.backend.check.as_deref()), (number, name), "{given}");
        }
    }

    #[test]
    fn the_name_stays_when_only_service_and_port_change() {
        let names = |backend| fixtures::model(using(backend)).groups.into_keys().next().unwrap();
        assert_eq!(names(json!({ "port": 80 })), names(json!({ "port": "http", "service": "b" })));
        assert_ne!(names(json!({ "port": 80 })), names(json!({ "port": 80, "protocol": "HTTPS" })));
    }

    #[test]
    fn a_backend_that_nothing_forwards_to_is_no_target_group() {
        assert!(fixtures::model(json!({ "backends": [{ "name": "a", "port": 80 }] })).groups.is_empty());
    }

    #[test]
    fn what_aws_would_refuse_is_named_with_field_and_fix() {
        let check = |spec: Value| json!({ "port": 80, "healthCheck": spec });
        let cookie = |name: &str| json!({ "port": 80, "stickiness": { "type": "app_cookie", "cookieName": name } });
        let fails_over = |threshold: &str, dns: &str, to_all: &str| {
            let attributes = json!({ failover(threshold): dns, routing(threshold): to_all });
            json!({ "port": 80, "attributes": attributes })
        };
        for (backend, words) in [
            (json!({ "port": 0 }), "port must be a port of the Service"),
            (json!({ "port": 65536 }), "port must be a port of the Service"),
            (json!({ "port": "" }), "port must be a port of the Service"),
            (json!({ "port": "ht tp" }), "port has ' '"),
            (json!({ "port": 80, "service": "A" }), "service has 'A'"),
            (check(json!({ "timeout": "15s" })), "healthCheck.timeout must be less than the interval, 15s"),
            (check(json!({ "interval": "4s" })), "healthCheck.interval must be 5s to 300s"),
            (check(json!({ "healthyThreshold": 1 })), "healthCheck.healthyThreshold must be 2 to 10"),
            (check(json!({ "path": "a" })), "healthCheck.path must begin with /"),
            (check(json!({ "port": 0 })), "healthCheck.port must be a port of the Service: its name, or a number"),
            (check(json!({ "port": "me trics" })), "healthCheck.port has ' '"),
            (check(json!({ "successCodes": "200-500" })), "healthCheck.successCodes must be codes from 200 to 499"),
            (check(json!({ "successCodes": "299-200" })), "healthCheck.successCodes must be codes"),
            (check(json!({ "successCodes": "200," })), "healthCheck.successCodes must be codes"),
            (
                json!({ "port": 80, "slowStart": "29s" }),
                "attributes[slow_start.duration_seconds] must be 0, or a number from 30 to 900",
            ),
            (
                json!({ "port": 80, "slowStart": "30s", "algorithm": "weighted_random" }),
                "slowStart works with algorithm round_robin only",
            ),
            (json!({ "port": 80, "attributes": { ANOMALIES: "on" } }), "needs algorithm weighted_random"),
            (
                json!({ "port": 80, "stickiness": {}, "attributes": { CROSS_ZONE: "false" } }),
                "attributes[load_balancing.cross_zone.enabled] must not be false with stickiness",
            ),
            (
                fails_over("count", "2", "3"),
                "attributes[target_group_health.dns_failover.minimum_healthy_targets.count] is 2, and must not be less \
                 than target_group_health.unhealthy_state_routing.minimum_healthy_targets.count, which is 3",
            ),
            (fails_over("percentage", "49", "50"), "minimum_healthy_targets.percentage] is 49, and must not be less"),
            (
                json!({ "port": 80, "attributes": { routing("count"): "2" } }),
                "minimum_healthy_targets.count] is 1, and must not be less",
            ),
            (cookie("awsalb-x"), "stickiness.cookieName must not begin with AWSALB"),
            (cookie("a b"), "stickiness.cookieName has ' '"),
            (json!({ "port": 80, "stickiness": { "type": "app_cookie" } }), "stickiness.cookieName is needed"),
            (
                json!({ "port": 80, "stickiness": { "cookieName": "a" } }),
                "stickiness.cookieName is for type app_cookie",
            ),
            (
                json!({ "port": 80, "algorithm": "round_robin", "attributes": { ALGORITHM: "round_robin" } }),
                "says again what algorithm says: remove one of the two",
            ),
        ] {
            let (reason, message) = fixtures::complaint(using(backend));
            assert_eq!(reason, "BackendInvalid", "{message}");
            assert!(
                message.starts_with("spec.backends[0].") && message.contains(words),
                "{message}\nshould say: {words}"
            );
        }
    }

    fn failover(threshold: &str) -> String {
        format!("target_group_health.dns_failover.minimum_healthy_targets.{threshold}")
    }

    fn routing(threshold: &str) -> String {
        format!("target_group_health.unhealthy_state_routing.minimum_healthy_targets.{threshold}")
    }

    #[test]
    fn dns_may_fail_over_with_routing_or_before_it() {
        for (dns, to_all) in [("2", "2"), ("3", "2"), ("off", "2")] {
            group(json!({ "port": 80, "attributes": { failover("count"): dns, routing("count"): to_all } }));
        }
        for (dns, to_all) in [("50", "50"), ("60", "50"), ("off", "50"), ("50", "off")] {
            group(json!({ "port": 80, "attributes": { failover("percentage"): dns, routing("percentage"): to_all } }));
        }
    }

    #[test]
    fn codes_are_kept_as_aws_writes_them() {
        for (text, range, kept) in
            [("200", (200, 499), "200"), ("200,204-299", (200, 499), "200,204-299"), ("00,12", (0, 99), "0,12")]
        {
            assert_eq!(success_codes(text, range, &Field::spec()).unwrap(), kept);
        }
    }
}
