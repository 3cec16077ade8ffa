//! The attributes that AWS gives to new resources.

use causeway_api::myingress::Scheme;
use causeway_aws::elbv2::{Pairs, Protocol};

/// The value that an attribute of a balancer goes back to when it is removed, if it does not depend on the scheme. A key
/// that is not here stays as it is, such as the bucket of logs: its default is no bucket, which cannot be written.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_LoadBalancerAttribute.html>
const OF_BALANCERS: [(&str, &str); 18] = [
    ("access_logs.s3.enabled", "false"),
    ("access_logs.s3.prefix", ""),
    ("client_keep_alive.seconds", "3600"),
    ("connection_logs.s3.enabled", "false"),
    ("connection_logs.s3.prefix", ""),
    ("deletion_protection.enabled", "false"),
    ("health_check_logs.s3.enabled", "false"),
    ("health_check_logs.s3.prefix", ""),
    ("idle_timeout.timeout_seconds", "60"),
    ("routing.http.desync_mitigation_mode", "defensive"),
    ("routing.http.drop_invalid_header_fields.enabled", "false"),
    ("routing.http.preserve_host_header.enabled", "false"),
    ("routing.http.x_amzn_tls_version_and_cipher_suite.enabled", "false"),
    ("routing.http.xff_client_port.enabled", "false"),
    ("routing.http.xff_header_processing.mode", "append"),
    ("routing.http2.enabled", "true"),
    ("waf.fail_open.enabled", "false"),
    ("zonal_shift.config.enabled", "false"),
];

/// The attribute that blocks traffic from an internet gateway. "It is set to `false` for internet-facing load balancers
/// and `true` for internal load balancers".
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_LoadBalancerAttribute.html>
const DENY_GATEWAY: &str = "ipv6.deny_all_igw_traffic";

/// The cookie name of an application is not here: its default is no name, which cannot be written.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetGroupAttribute.html>
const OF_TARGET_GROUPS: [(&str, &str); 13] = [
    ("deregistration_delay.timeout_seconds", "300"),
    ("load_balancing.algorithm.anomaly_mitigation", "off"),
    ("load_balancing.algorithm.type", "round_robin"),
    ("load_balancing.cross_zone.enabled", "use_load_balancer_configuration"),
    ("slow_start.duration_seconds", "0"),
    ("stickiness.app_cookie.duration_seconds", "86400"),
    ("stickiness.enabled", "false"),
    ("stickiness.lb_cookie.duration_seconds", "86400"),
    ("stickiness.type", "lb_cookie"),
    ("target_group_health.dns_failover.minimum_healthy_targets.count", "1"),
    ("target_group_health.dns_failover.minimum_healthy_targets.percentage", "off"),
    ("target_group_health.unhealthy_state_routing.minimum_healthy_targets.count", "1"),
    ("target_group_health.unhealthy_state_routing.minimum_healthy_targets.percentage", "off"),
];

/// Request headers that only HTTPS listeners add.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/header-modification.html>
const REQUEST_HEADERS: [(&str, &str); 8] = [
    ("x_amzn_mtls_clientcert", "X-Amzn-Mtls-Clientcert"),
    ("x_amzn_mtls_clientcert_issuer", "X-Amzn-Mtls-Clientcert-Issuer"),
    ("x_amzn_mtls_clientcert_leaf", "X-Amzn-Mtls-Clientcert-Leaf"),
    ("x_amzn_mtls_clientcert_serial_number", "X-Amzn-Mtls-Clientcert-Serial-Number"),
    ("x_amzn_mtls_clientcert_subject", "X-Amzn-Mtls-Clientcert-Subject"),
    ("x_amzn_mtls_clientcert_validity", "X-Amzn-Mtls-Clientcert-Validity"),
    ("x_amzn_tls_cipher_suite", "X-Amzn-Tls-Cipher-Suite"),
    ("x_amzn_tls_version", "X-Amzn-Tls-Version"),
];

/// Response headers. AWS adds none of them by itself.
const RESPONSE_HEADERS: [&str; 10] = [
    "access_control_allow_credentials",
    "access_control_allow_headers",
    "access_control_allow_methods",
    "access_control_allow_origin",
    "access_control_expose_headers",
    "access_control_max_age",
    "content_security_policy",
    "strict_transport_security",
    "x_content_type_options",
    "x_frame_options",
];

/// The value of an unset attribute of a balancer with this scheme; `None` if the default is not known here.
pub fn default_balancer_attribute(key: &str, scheme: Scheme) -> Option<&'static str> {
    of_balancer(scheme).find(|(known, _)| *known == key).map(|(_, value)| value)
}

/// The attributes of a new balancer with this scheme, as far as they are known here.
pub fn default_balancer_attributes(scheme: Scheme) -> Pairs {
    of_balancer(scheme).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn of_balancer(scheme: Scheme) -> impl Iterator<Item = (&'static str, &'static str)> {
    let denies = match scheme {
        Scheme::InternetFacing => "false",
        Scheme::Internal => "true",
    };
    OF_BALANCERS.into_iter().chain([(DENY_GATEWAY, denies)])
}

/// The attributes of a new target group.
pub fn default_group_attributes() -> Pairs {
    OF_TARGET_GROUPS.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The attributes of a new listener.
pub fn default_listener_attributes(protocol: Protocol) -> Pairs {
    let server = ("routing.http.response.server.enabled".to_owned(), "true".to_owned());
    let responses =
        RESPONSE_HEADERS.iter().map(|name| (format!("routing.http.response.{name}.header_value"), String::new()));
    let requests = REQUEST_HEADERS.iter().filter(|_| protocol == Protocol::Https);
    let requests =
        requests.map(|(key, header)| (format!("routing.http.request.{key}.header_name"), (*header).to_owned()));
    responses.chain(requests).chain([server]).collect()
}
