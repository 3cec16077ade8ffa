//! Attributes by AWS's own keys. The values of known keys are checked. Other keys, which AWS may have added since, are
//! left to AWS.

use causeway_api::MyIngressSpec;
use causeway_aws::elbv2::{Pairs, Protocol};

use super::Complaint;
use super::field::Field;
use super::text;

const LONGEST: usize = 1024;

/// The attribute that keeps a balancer from being deleted.
pub const DELETION_PROTECTION: &str = "deletion_protection.enabled";

/// The values that an attribute may have.
enum Values {
    OneOf(&'static [&'static str]),
    Number(u32, u32),
    NumberOr(u32, u32, &'static str),
    Text,
    HeaderName,
}
use Values::{HeaderName, Number, NumberOr, OneOf, Text};

const SWITCH: Values = OneOf(&["true", "false"]);

/// An attribute of a balancer.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_LoadBalancerAttribute.html>
fn of_balancer(key: &str) -> Option<Values> {
    Some(match key {
        "access_logs.s3.enabled"
        | "connection_logs.s3.enabled"
        | DELETION_PROTECTION
        | "health_check_logs.s3.enabled"
        | "ipv6.deny_all_igw_traffic"
        | "routing.http.drop_invalid_header_fields.enabled"
        | "routing.http.preserve_host_header.enabled"
        | "routing.http.x_amzn_tls_version_and_cipher_suite.enabled"
        | "routing.http.xff_client_port.enabled"
        | "routing.http2.enabled"
        | "waf.fail_open.enabled"
        | "zonal_shift.config.enabled" => SWITCH,
        "load_balancing.cross_zone.enabled" => OneOf(&["true"]),
        "routing.http.desync_mitigation_mode" => OneOf(&["monitor", "defensive", "strictest"]),
        "routing.http.xff_header_processing.mode" => OneOf(&["append", "preserve", "remove"]),
        "idle_timeout.timeout_seconds" => Number(1, 4000),
        "client_keep_alive.seconds" => Number(60, 604_800),
        _ => return None,
    })
}

/// Reports whether the spec turns deletion protection off. Only then may the operator turn it off before a deletion.
pub fn unprotects(spec: &MyIngressSpec) -> bool {
    spec.deletion_protection == Some(false)
        || spec.attributes.get(DELETION_PROTECTION).map(String::as_str) == Some("false")
}

/// An attribute of a target group of instances or addresses.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetGroupAttribute.html>
fn of_target_group(key: &str) -> Option<Values> {
    Some(match key {
        "deregistration_delay.timeout_seconds" => Number(0, 3600),
        "stickiness.enabled" => SWITCH,
        "stickiness.type" => OneOf(&["lb_cookie", "app_cookie"]),
        "stickiness.lb_cookie.duration_seconds" | "stickiness.app_cookie.duration_seconds" => Number(1, 604_800),
        "stickiness.app_cookie.cookie_name" => Text,
        "load_balancing.algorithm.type" => OneOf(&["round_robin", "least_outstanding_requests", "weighted_random"]),
        "load_balancing.algorithm.anomaly_mitigation" => OneOf(&["on", "off"]),
        "load_balancing.cross_zone.enabled" => OneOf(&["true", "false", "use_load_balancer_configuration"]),
        "slow_start.duration_seconds" => NumberOr(30, 900, "0"),
        "target_group_health.dns_failover.minimum_healthy_targets.count" => NumberOr(1, 1000, "off"),
        "target_group_health.dns_failover.minimum_healthy_targets.percentage"
        | "target_group_health.unhealthy_state_routing.minimum_healthy_targets.percentage" => NumberOr(1, 100, "off"),
        "target_group_health.unhealthy_state_routing.minimum_healthy_targets.count" => Number(1, 1000),
        _ => return None,
    })
}

/// An attribute of a listener.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ListenerAttribute.html>
fn of_listener(key: &str) -> Option<Values> {
    const RESPONSE: &str = "routing.http.response.";
    if is_of_tls(key) {
        return Some(HeaderName);
    }
    Some(match key.strip_prefix(RESPONSE)? {
        "server.enabled" => SWITCH,
        "access_control_allow_credentials.header_value" => OneOf(&["true", "false", ""]),
        "x_content_type_options.header_value" => OneOf(&["nosniff", ""]),
        _ => return None,
    })
}

/// A header with facts about the client's TLS, which only HTTPS listeners have.
fn is_of_tls(key: &str) -> bool {
    key.starts_with("routing.http.request.x_amzn_") && key.ends_with(".header_name")
}

/// Attributes of a balancer.
pub fn check_balancer(attributes: &Pairs, field: &Field<'_>) -> Result<(), Complaint> {
    check(attributes, field, of_balancer)
}

/// Attributes of a target group.
pub fn check_target_group(attributes: &Pairs, field: &Field<'_>) -> Result<(), Complaint> {
    check(attributes, field, of_target_group)
}

/// Attributes of a listener.
pub fn check_listener(attributes: &Pairs, protocol: Protocol, field: &Field<'_>) -> Result<(), Complaint> {
    if protocol == Protocol::Http
        && let Some(key) = attributes.keys().find(|key| is_of_tls(key))
    {
        return field.key(key).complain("is for HTTPS listeners: remove it, or set protocol to HTTPS");
    }
    check(attributes, field, of_listener)
}

fn check(attributes: &Pairs, field: &Field<'_>, known: fn(&str) -> Option<Values>) -> Result<(), Complaint> {
    for (key, value) in attributes {
        let entry = field.key(key);
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
        text::of_characters(key, 1, 256, &entry, allowed, "one of AWS's attribute keys")?;
        text::printable(value, 0, LONGEST, &entry)?;
        known(key).map_or(Ok(()), |values| values.check(value, &entry))?;
    }
    Ok(())
}

impl Values {
    fn check(&self, value: &str, field: &Field<'_>) -> Result<(), Complaint> {
        match self {
            OneOf(words) if words.contains(&value) => Ok(()),
            OneOf(words) => field.complain(format_args!("must be one of {}", words.join(", "))),
            Number(least, most) if is_number(value, *least, *most) => Ok(()),
            Number(least, most) => field.complain(format_args!("must be a number from {least} to {most}")),
            NumberOr(least, most, word) if value == *word || is_number(value, *least, *most) => Ok(()),
            NumberOr(least, most, word) => {
                field.complain(format_args!("must be {word}, or a number from {least} to {most}"))
            }
            Text => Ok(()),
            HeaderName => {
                let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                text::of_characters(value, 1, 40, field, allowed, "letters, digits, hyphens and underscores")
            }
        }
    }
}

/// As AWS writes numbers: `060` would come back as `60`.
fn is_number(text: &str, least: u32, most: u32) -> bool {
    text.parse().is_ok_and(|number: u32| number.to_string() == text && (least..=most).contains(&number))
}

/// Adds the attributes that fields of a spec set to its map of attributes. A key in both is a complaint.
pub fn with_fields(
    map: &Pairs,
    fields: impl IntoIterator<Item = (&'static str, &'static str, String)>,
    field: &Field<'_>,
) -> Result<Pairs, Complaint> {
    let mut all = map.clone();
    for (name, key, value) in fields {
        if all.insert(key.to_owned(), value).is_some() {
            return field.key(key).complain(format_args!("says again what {name} says: remove one of the two"));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(key: &str, value: &str) -> Pairs {
        Pairs::from([(key.into(), value.into())])
    }

    #[test]
    fn values_of_known_keys_are_checked() {
        for (key, good, bad) in [
            ("idle_timeout.timeout_seconds", "4000", "4001"),
            ("idle_timeout.timeout_seconds", "1", "060"),
            ("routing.http2.enabled", "false", "False"),
            ("routing.http.desync_mitigation_mode", "strictest", "strict"),
            ("access_logs.s3.prefix", "", "a\nb"),
        ] {
            check_balancer(&pairs(key, good), &Field::spec()).unwrap();
            assert!(check_balancer(&pairs(key, bad), &Field::spec()).is_err(), "{key} {bad}");
        }
        for (key, good, bad) in [
            ("slow_start.duration_seconds", "0", "29"),
            ("slow_start.duration_seconds", "900", "901"),
            ("target_group_health.dns_failover.minimum_healthy_targets.percentage", "off", "0"),
            ("stickiness.type", "app_cookie", "source_ip"),
        ] {
            check_target_group(&pairs(key, good), &Field::spec()).unwrap();
            assert!(check_target_group(&pairs(key, bad), &Field::spec()).is_err(), "{key} {bad}");
        }
    }

    #[test]
    fn an_unknown_key_is_left_to_aws() {
        check_balancer(&pairs("routing.http3.enabled", "true"), &Field::spec()).unwrap();
        assert!(check_balancer(&pairs("not a key", "true"), &Field::spec()).is_err());
    }

    #[test]
    fn headers_about_tls_need_https() {
        let pairs = pairs("routing.http.request.x_amzn_tls_version.header_name", "X-Tls");
        check_listener(&pairs, Protocol::Https, &Field::spec()).unwrap();
        let complaint = check_listener(&pairs, Protocol::Http, &Field::spec()).unwrap_err();
        assert!(complaint.message.ends_with("is for HTTPS listeners: remove it, or set protocol to HTTPS"));
    }

    #[test]
    fn a_field_and_the_map_must_not_say_the_same() {
        let fields = [("spec.http2", "routing.http2.enabled", "true".to_owned())];
        let both = with_fields(&pairs("routing.http2.enabled", "true"), fields.clone(), &Field::spec()).unwrap_err();
        assert_eq!(both.message, "spec[routing.http2.enabled] says again what spec.http2 says: remove one of the two");
        assert_eq!(with_fields(&Pairs::new(), fields, &Field::spec()).unwrap(), pairs("routing.http2.enabled", "true"));
    }
}
