//! Target groups in AWS's form.

use aws_sdk_elasticloadbalancingv2::types as aws;

use super::listener::Protocol;
use super::target_group::{GroupKind, HealthCheck, ProtocolVersion, TargetGroup, TargetType};

/// AWS's keyword for checks on the traffic port of a target.
const TRAFFIC_PORT: &str = "traffic-port";

pub(super) fn target_type(target_type: TargetType) -> aws::TargetTypeEnum {
    match target_type {
        TargetType::Ip => aws::TargetTypeEnum::Ip,
        TargetType::Instance => aws::TargetTypeEnum::Instance,
    }
}

pub(super) fn version(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::Http1 => "HTTP1",
        ProtocolVersion::Http2 => "HTTP2",
        ProtocolVersion::Grpc => "GRPC",
    }
}

pub(super) fn address_type(ipv6: bool) -> aws::TargetGroupIpAddressTypeEnum {
    if ipv6 { aws::TargetGroupIpAddressTypeEnum::Ipv6 } else { aws::TargetGroupIpAddressTypeEnum::Ipv4 }
}

pub(super) fn health_check_port(port: Option<u16>) -> String {
    port.map_or_else(|| TRAFFIC_PORT.into(), |port| port.to_string())
}

/// Codes of gRPC and of HTTP are in two different fields.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_Matcher.html>
pub(super) fn matcher(version: ProtocolVersion, codes: &str) -> aws::Matcher {
    let matcher = aws::Matcher::builder();
    match version {
        ProtocolVersion::Grpc => matcher.grpc_code(codes),
        ProtocolVersion::Http1 | ProtocolVersion::Http2 => matcher.http_code(codes),
    }
    .build()
}

pub(super) fn target_group(described: aws::TargetGroup) -> TargetGroup {
    let kind = kind(&described);
    TargetGroup {
        health_check: kind.as_ref().and_then(|kind| health_check(&described, kind)),
        kind,
        arn: described.target_group_arn.unwrap_or_default(),
        name: described.target_group_name.unwrap_or_default(),
        balancers: described.load_balancer_arns.unwrap_or_default().into_iter().collect(),
    }
}

fn kind(described: &aws::TargetGroup) -> Option<GroupKind> {
    Some(GroupKind {
        vpc: described.vpc_id.clone()?,
        target_type: match described.target_type {
            Some(aws::TargetTypeEnum::Ip) => TargetType::Ip,
            // Instance is AWS's default, and was once the only type.
            Some(aws::TargetTypeEnum::Instance) | None => TargetType::Instance,
            _ => return None,
        },
        protocol: Protocol::from_aws(described.protocol.as_ref()?)?,
        version: match described.protocol_version.as_deref() {
            Some("HTTP1") | None => ProtocolVersion::Http1,
            Some("HTTP2") => ProtocolVersion::Http2,
            Some("GRPC") => ProtocolVersion::Grpc,
            Some(_) => return None,
        },
        port: described.port?.try_into().ok()?,
        ipv6: described.ip_address_type == Some(aws::TargetGroupIpAddressTypeEnum::Ipv6),
        control_port: described.target_control_port.and_then(|port| port.try_into().ok()),
    })
}

fn health_check(described: &aws::TargetGroup, kind: &GroupKind) -> Option<HealthCheck> {
    let matcher = described.matcher.clone();
    let codes = match kind.version {
        ProtocolVersion::Grpc => matcher.and_then(|it| it.grpc_code),
        ProtocolVersion::Http1 | ProtocolVersion::Http2 => matcher.and_then(|it| it.http_code),
    };
    Some(HealthCheck {
        protocol: Protocol::from_aws(described.health_check_protocol.as_ref()?)?,
        port: described.health_check_port.as_deref().and_then(|port| port.parse().ok()),
        path: described.health_check_path.clone().unwrap_or_default(),
        interval: described.health_check_interval_seconds?.try_into().ok()?,
        timeout: described.health_check_timeout_seconds?.try_into().ok()?,
        healthy: described.healthy_threshold_count?.try_into().ok()?,
        unhealthy: described.unhealthy_threshold_count?.try_into().ok()?,
        codes: codes.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::option;
    use proptest::prelude::*;

    fn any_protocol() -> impl Strategy<Value = Protocol> {
        prop_oneof![Just(Protocol::Http), Just(Protocol::Https)]
    }

    fn any_kind() -> impl Strategy<Value = GroupKind> {
        let target_type = prop_oneof![Just(TargetType::Ip), Just(TargetType::Instance)];
        let version =
            prop_oneof![Just(ProtocolVersion::Http1), Just(ProtocolVersion::Http2), Just(ProtocolVersion::Grpc)];
        (target_type, any_protocol(), version, 1..u16::MAX, any::<bool>(), option::of(1..u16::MAX)).prop_map(
            |(target_type, protocol, version, port, ipv6, control_port)| GroupKind {
                vpc: "vpc".into(),
                target_type,
                protocol,
                version,
                port,
                ipv6,
                control_port,
            },
        )
    }

    fn any_check() -> impl Strategy<Value = HealthCheck> {
        (any_protocol(), option::of(1..u16::MAX), "/[a-z]{0,4}", 5..301u16, 2..121u16, 2..11u8, "[0-9]{2,3}").prop_map(
            |(protocol, port, path, interval, timeout, threshold, codes)| HealthCheck {
                protocol,
                port,
                path,
                interval,
                timeout,
                healthy: threshold,
                unhealthy: threshold + 1,
                codes,
            },
        )
    }

    proptest! {
        #[test]
        fn what_was_written_reads_back_equal(kind in any_kind(), check in any_check()) {
            let described = aws::TargetGroup::builder()
                .target_group_arn("arn")
                .target_group_name("web")
                .vpc_id(&kind.vpc)
                .target_type(target_type(kind.target_type))
                .protocol(kind.protocol.to_aws())
                .protocol_version(version(kind.version))
                .port(kind.port.into())
                .set_target_control_port(kind.control_port.map(Into::into))
                .ip_address_type(address_type(kind.ipv6))
                .health_check_protocol(check.protocol.to_aws())
                .health_check_port(health_check_port(check.port))
                .health_check_path(&check.path)
                .health_check_interval_seconds(check.interval.into())
                .health_check_timeout_seconds(check.timeout.into())
                .healthy_threshold_count(check.healthy.into())
                .unhealthy_threshold_count(check.unhealthy.into())
                .matcher(matcher(kind.version, &check.codes))
                .load_balancer_arns("balancer");
            let expected = TargetGroup {
                arn: "arn".into(),
                name: "web".into(),
                kind: Some(kind),
                health_check: Some(check),
                balancers: ["balancer".to_owned()].into(),
            };
            prop_assert_eq!(target_group(described.build()), expected);
        }
    }

    #[test]
    fn a_group_of_another_kind_keeps_its_name() {
        let described = aws::TargetGroup::builder()
            .target_group_name("taken")
            .vpc_id("vpc")
            .protocol(aws::ProtocolEnum::Tcp)
            .port(80);
        let read = target_group(described.build());
        assert_eq!((read.name.as_str(), read.kind, read.health_check), ("taken", None, None));
    }
}
