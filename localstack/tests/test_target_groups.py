from typing import Any

import pytest
from conftest import Aws, refused

FAILOVER = "target_group_health__dns_failover__minimum_healthy_targets"
ROUTING = "target_group_health__unhealthy_state_routing__minimum_healthy_targets"
ABOUT = {"Protocol": "HTTP", "Port": 80, "VpcId": "vpc-causeway", "TargetType": "ip"}


def create(aws: Aws, name: str = "web", **about: Any) -> dict[str, Any]:
    return aws.client("elbv2", validate=False).create_target_group(Name=name, **(ABOUT | about))["TargetGroups"][0]


def attributes(aws: Aws, arn: str, **changes: str) -> dict[str, str]:
    elbv2 = aws.client("elbv2")
    if changes:
        pairs = [{"Key": key.replace("__", "."), "Value": value} for key, value in changes.items()]
        answer = elbv2.modify_target_group_attributes(TargetGroupArn=arn, Attributes=pairs)
    else:
        answer = elbv2.describe_target_group_attributes(TargetGroupArn=arn)
    return {it["Key"]: it["Value"] for it in answer["Attributes"]}


def test_a_new_target_group_has_awss_defaults(aws: Aws) -> None:
    created = create(aws, Tags=[{"Key": "team", "Value": "blue"}])
    arn = created.pop("TargetGroupArn")
    assert f":{aws.account}:targetgroup/web/" in arn
    assert created == {
        "TargetGroupName": "web",
        "Protocol": "HTTP",
        "Port": 80,
        "VpcId": "vpc-causeway",
        "HealthCheckProtocol": "HTTP",
        "HealthCheckPort": "traffic-port",
        "HealthCheckEnabled": True,
        "HealthCheckIntervalSeconds": 30,
        "HealthCheckTimeoutSeconds": 5,
        "HealthyThresholdCount": 5,
        "UnhealthyThresholdCount": 2,
        "HealthCheckPath": "/",
        "Matcher": {"HttpCode": "200"},
        "LoadBalancerArns": [],
        "TargetType": "ip",
        "ProtocolVersion": "HTTP1",
        "IpAddressType": "ipv4",
    }
    elbv2 = aws.client("elbv2")
    assert elbv2.describe_target_groups(TargetGroupArns=[arn])["TargetGroups"] == [created | {"TargetGroupArn": arn}]
    assert elbv2.describe_tags(ResourceArns=[arn])["TagDescriptions"][0]["Tags"] == [{"Key": "team", "Value": "blue"}]


def test_everything_asked_for_is_kept(aws: Aws) -> None:
    asked = {
        "Protocol": "HTTPS",
        "ProtocolVersion": "GRPC",
        "Port": 8443,
        "TargetType": "instance",
        "IpAddressType": "ipv6",
        "HealthCheckProtocol": "HTTPS",
        "HealthCheckPort": "9000",
        "HealthCheckPath": "/grpc.health.v1.Health/Check",
        "HealthCheckIntervalSeconds": 300,
        "HealthCheckTimeoutSeconds": 120,
        "HealthyThresholdCount": 10,
        "UnhealthyThresholdCount": 10,
        "Matcher": {"GrpcCode": "0,12-14"},
    }
    created = create(aws, **asked)
    assert {key: created[key] for key in asked} == asked


def test_modify_changes_the_health_check_and_nothing_else(aws: Aws) -> None:
    created = create(aws, HealthCheckPath="/ready")
    change = {"HealthCheckIntervalSeconds": 5, "HealthCheckTimeoutSeconds": 2, "Matcher": {"HttpCode": "200-204,301"}}
    elbv2 = aws.client("elbv2")
    answer = elbv2.modify_target_group(TargetGroupArn=created["TargetGroupArn"], **change)["TargetGroups"]
    assert answer == [created | change]
    assert elbv2.describe_target_groups()["TargetGroups"] == answer
    with refused("ValidationError", "must be greater than the timeout"):
        elbv2.modify_target_group(TargetGroupArn=created["TargetGroupArn"], HealthCheckTimeoutSeconds=5)


def test_the_same_name_and_settings_answer_with_the_existing_one(aws: Aws) -> None:
    first = create(aws, Tags=[{"Key": "a", "Value": "1"}])
    assert create(aws, Tags=[{"Key": "a", "Value": "2"}]) == first
    for other in ({"Port": 81}, {"TargetType": "instance"}, {"HealthCheckPath": "/x"}, {"ProtocolVersion": "HTTP2"}):
        with refused("DuplicateTargetGroupName", "'web' exists, but with different settings"):
            create(aws, **other)
    assert len(aws.client("elbv2").describe_target_groups()["TargetGroups"]) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [("a" * 33, "longer than '32'"), ("a.b", "alphanumeric"), ("-a", "begin or end"), ("a-", "begin or end")],
)
def test_unlawful_names_are_refused(aws: Aws, name: str, message: str) -> None:
    with refused("ValidationError", message):
        create(aws, name)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"Protocol": "FTP"}, "Value 'FTP' at 'protocol' failed to satisfy constraint: Member must satisfy enum"),
        ({"Port": 0}, "Member must have value greater than or equal to 1"),
        ({"Port": 65536}, "Member must have value less than or equal to 65535"),
        ({"VpcId": "vpc-none"}, "'vpc-none' is not found"),
        ({"TargetType": "pod"}, "'pod' at 'targetType'"),
        ({"ProtocolVersion": "HTTP3"}, "version 'HTTP3'"),
        ({"IpAddressType": "dualstack"}, "'dualstack' at 'ipAddressType'"),
        ({"HealthCheckIntervalSeconds": 4, "HealthCheckTimeoutSeconds": 2}, "greater than or equal to 5"),
        ({"HealthCheckIntervalSeconds": 301}, "less than or equal to 300"),
        ({"HealthCheckTimeoutSeconds": 1}, "greater than or equal to 2"),
        ({"HealthCheckTimeoutSeconds": 121, "HealthCheckIntervalSeconds": 300}, "less than or equal to 120"),
        ({"HealthCheckTimeoutSeconds": 30}, "must be greater than the timeout"),
        ({"HealthyThresholdCount": 1}, "greater than or equal to 2"),
        ({"UnhealthyThresholdCount": 11}, "less than or equal to 10"),
        ({"HealthCheckProtocol": "TCP"}, "'TCP' is not supported"),
        ({"HealthCheckProtocol": "UDP"}, "protocol 'UDP'"),
        ({"HealthCheckPort": "http"}, "port 'http'"),
        ({"HealthCheckPort": "65536"}, "range 1-65535"),
        ({"HealthCheckPath": "ready"}, "must begin with '/'"),
        ({"HealthCheckPath": "/" * 1025}, "length less than or equal to 1024"),
        ({"HealthCheckEnabled": False}, "must be true"),
        ({"Matcher": {"HttpCode": "199"}}, "range 200-499"),
        ({"Matcher": {"HttpCode": "200-500"}}, "range 200-499"),
        ({"Matcher": {"HttpCode": "204-200"}}, "range 200-499"),
        ({"Matcher": {"HttpCode": "ok"}}, "is not valid"),
        ({"Matcher": {"GrpcCode": "0"}}, "must be a HttpCode"),
        ({"ProtocolVersion": "GRPC", "Matcher": {"GrpcCode": "100"}}, "range 0-99"),
    ],
)
def test_what_no_target_group_can_be_is_refused(aws: Aws, about: dict[str, Any], message: str) -> None:
    with refused("ValidationError", message):
        create(aws, **about)
    assert aws.client("elbv2").describe_target_groups()["TargetGroups"] == []


def test_attributes_are_kept(aws: Aws) -> None:
    arn = create(aws)["TargetGroupArn"]
    before = attributes(aws, arn)
    assert before["deregistration_delay.timeout_seconds"] == "300"
    assert before["load_balancing.cross_zone.enabled"] == "use_load_balancer_configuration"
    after = attributes(aws, arn, slow_start__duration_seconds="30", stickiness__enabled="true")
    assert after == before | {"slow_start.duration_seconds": "30", "stickiness.enabled": "true"}
    assert attributes(aws, arn) == after


def test_dns_fails_over_with_routing_or_before_it(aws: Aws) -> None:
    arn = create(aws)["TargetGroupArn"]
    attributes(aws, arn, **{f"{FAILOVER}__count": "2", f"{ROUTING}__count": "2"})
    attributes(aws, arn, **{f"{FAILOVER}__count": "off", f"{ROUTING}__count": "3"})
    attributes(aws, arn, **{f"{ROUTING}__percentage": "50"})
    attributes(aws, arn, **{f"{FAILOVER}__percentage": "60"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"deregistration_delay__timeout_seconds": "3601"}, "'0-3600'"),
        ({"slow_start__duration_seconds": "29"}, "'30-900'"),
        ({"slow_start__duration_seconds": "901"}, "'30-900'"),
        ({"stickiness__lb_cookie__duration_seconds": "0"}, "'1-604800'"),
        ({"stickiness__type": "source_ip"}, "must be one of"),
        ({"stickiness__enabled": "yes"}, "must be one of"),
        ({"stickiness__enabled": "true", "stickiness__type": "app_cookie"}, "cookie name must be specified"),
        ({"stickiness__enabled": "true", "load_balancing__cross_zone__enabled": "false"}, "cross-zone"),
        ({"stickiness__app_cookie__cookie_name": "AWSALBTG1"}, "reserved"),
        ({"load_balancing__algorithm__type": "random"}, "must be one of"),
        ({"load_balancing__algorithm__anomaly_mitigation": "on"}, "weighted_random"),
        (
            {"load_balancing__algorithm__type": "least_outstanding_requests", "slow_start__duration_seconds": "30"},
            "Slow start is not supported",
        ),
        ({"target_group_health__dns_failover__minimum_healthy_targets__percentage": "101"}, "'1-100'"),
        ({"target_group_health__unhealthy_state_routing__minimum_healthy_targets__count": "off"}, "'1-1000'"),
        ({f"{ROUTING}__count": "2"}, "must be greater than or equal"),
        ({f"{FAILOVER}__count": "2", f"{ROUTING}__count": "3"}, "must be greater than or equal"),
        ({f"{FAILOVER}__percentage": "49", f"{ROUTING}__percentage": "50"}, "must be greater than or equal"),
        ({"lambda__multi_value_headers__enabled": "true"}, "not recognized"),
    ],
)
def test_wrong_attributes_are_refused(aws: Aws, changes: dict[str, str], message: str) -> None:
    arn = create(aws)["TargetGroupArn"]
    before = attributes(aws, arn)
    with refused("ValidationError", message):
        attributes(aws, arn, **changes)
    assert attributes(aws, arn) == before


def test_a_used_target_group_stays(aws: Aws) -> None:
    elbv2, arn = aws.client("elbv2"), create(aws)["TargetGroupArn"]
    balancer = aws.create("web")["LoadBalancerArn"]
    forward = [{"Type": "forward", "TargetGroupArn": arn}]
    elbv2.create_listener(LoadBalancerArn=balancer, Protocol="HTTP", Port=80, DefaultActions=forward)
    described = elbv2.describe_target_groups(LoadBalancerArn=balancer)["TargetGroups"]
    assert [it["LoadBalancerArns"] for it in described] == [[balancer]]
    with refused("ResourceInUse", "currently in use"):
        elbv2.delete_target_group(TargetGroupArn=arn)
    aws.admin("POST", "settings", {"in_use_seconds": 3600})
    elbv2.delete_load_balancer(LoadBalancerArn=balancer)
    with refused("ResourceInUse"):
        elbv2.delete_target_group(TargetGroupArn=arn)
    aws.admin("POST", "settings", {"in_use_seconds": 0})
    elbv2.delete_target_group(TargetGroupArn=arn)
    elbv2.delete_target_group(TargetGroupArn=arn)
    with refused("TargetGroupNotFound"):
        elbv2.describe_target_groups(TargetGroupArns=[arn])


def test_reads_by_name_and_arn(aws: Aws) -> None:
    elbv2 = aws.client("elbv2")
    one, two = create(aws, "one"), create(aws, "two")
    assert elbv2.describe_target_groups(Names=["two", "one"])["TargetGroups"] == [one, two]
    with refused("TargetGroupNotFound", "none"):
        elbv2.describe_target_groups(Names=["one", "none"])
    with refused("ValidationError", "at most 20"):
        elbv2.describe_target_groups(Names=[f"web-{number}" for number in range(21)])
    with refused("ValidationError", "cannot be specified together"):
        elbv2.describe_target_groups(Names=["one"], TargetGroupArns=[two["TargetGroupArn"]])


def test_reads_lag_as_long_as_set(aws: Aws) -> None:
    aws.admin("POST", "settings", {"lag_seconds": 3600})
    elbv2, arn = aws.client("elbv2"), create(aws)["TargetGroupArn"]
    assert elbv2.describe_target_groups()["TargetGroups"] == []
    for read in (
        lambda: elbv2.describe_target_groups(TargetGroupArns=[arn]),
        lambda: elbv2.describe_target_group_attributes(TargetGroupArn=arn),
        lambda: elbv2.describe_target_health(TargetGroupArn=arn),
        lambda: elbv2.describe_tags(ResourceArns=[arn]),
    ):
        with refused("TargetGroupNotFound"):
            read()
