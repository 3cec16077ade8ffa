from typing import Any

import pytest
from conftest import Aws, refused
from test_listeners import forward, listen

ABOUT = {"Protocol": "HTTP", "Port": 80, "VpcId": "vpc-causeway"}


@pytest.fixture
def group(aws: Aws) -> str:
    """A target group of addresses that a listener uses; its targets carry no traffic."""
    created = aws.client("elbv2").create_target_group(Name="web", TargetType="ip", **ABOUT)
    arn = created["TargetGroups"][0]["TargetGroupArn"]
    listen(aws, aws.create("web")["LoadBalancerArn"], 80, forward(arn))
    return arn


def register(aws: Aws, arn: str, *targets: dict[str, Any]) -> None:
    aws.client("elbv2", validate=False).register_targets(TargetGroupArn=arn, Targets=list(targets))


def deregister(aws: Aws, arn: str, *targets: dict[str, Any]) -> None:
    aws.client("elbv2").deregister_targets(TargetGroupArn=arn, Targets=list(targets))


def health(aws: Aws, arn: str, *targets: dict[str, Any]) -> dict[tuple[str, int], tuple[str, str | None]]:
    named = {"Targets": list(targets)} if targets else {}
    described = aws.client("elbv2").describe_target_health(TargetGroupArn=arn, **named)["TargetHealthDescriptions"]
    return {
        (it["Target"]["Id"], it["Target"]["Port"]): (it["TargetHealth"]["State"], it["TargetHealth"].get("Reason"))
        for it in described
    }


def instance(aws: Aws) -> str:
    ec2 = aws.client("ec2")
    return ec2.run_instances(ImageId="ami-12345678", MinCount=1, MaxCount=1, SubnetId="subnet-abc")["Instances"][0][
        "InstanceId"
    ]


def test_targets_come_and_go(aws: Aws, group: str) -> None:
    aws.admin("POST", "settings", {"draining_scale": 0})
    register(aws, group, {"Id": "198.18.1.1"}, {"Id": "198.18.1.1", "Port": 8080}, {"Id": "198.18.1.2"})
    register(aws, group, {"Id": "198.18.1.1"})
    healthy = ("healthy", None)
    assert health(aws, group) == dict.fromkeys([("198.18.1.1", 80), ("198.18.1.1", 8080), ("198.18.1.2", 80)], healthy)
    deregister(aws, group, {"Id": "198.18.1.1"}, {"Id": "198.18.9.9"})
    assert health(aws, group) == dict.fromkeys([("198.18.1.1", 8080), ("198.18.1.2", 80)], healthy)
    named = {"Id": "198.18.1.1", "Port": 80}
    assert health(aws, group, named) == {("198.18.1.1", 80): ("unused", "Target.NotRegistered")}


def test_new_targets_are_initial_as_long_as_set(aws: Aws, group: str) -> None:
    aws.admin("POST", "settings", {"initial_seconds": 3600})
    register(aws, group, {"Id": "198.18.1.1"})
    assert health(aws, group) == {("198.18.1.1", 80): ("initial", "Elb.RegistrationInProgress")}
    aws.admin("POST", "settings", {"initial_seconds": 0})
    assert health(aws, group) == {("198.18.1.1", 80): ("healthy", None)}


def test_where_traffic_is_carried_the_data_plane_says_how_targets_are(aws: Aws, group: str) -> None:
    aws.admin("POST", "settings", {"traffic": True})
    register(aws, group, {"Id": "198.18.1.1"})
    assert health(aws, group)[("198.18.1.1", 80)][0] != "healthy", "nothing listens there"


def test_deregistered_targets_drain(aws: Aws, group: str) -> None:
    register(aws, group, {"Id": "198.18.1.1"})
    deregister(aws, group, {"Id": "198.18.1.1"})
    assert health(aws, group) == {("198.18.1.1", 80): ("draining", "Target.DeregistrationInProgress")}
    register(aws, group, {"Id": "198.18.1.1"})
    assert health(aws, group) == {("198.18.1.1", 80): ("healthy", None)}
    deregister(aws, group, {"Id": "198.18.1.1"})
    attribute = {"Key": "deregistration_delay.timeout_seconds", "Value": "0"}
    aws.client("elbv2").modify_target_group_attributes(TargetGroupArn=group, Attributes=[attribute])
    assert health(aws, group) == {}


def test_targets_of_a_group_nobody_forwards_to_are_unused(aws: Aws) -> None:
    created = aws.client("elbv2").create_target_group(Name="idle", TargetType="ip", **ABOUT)
    arn = created["TargetGroups"][0]["TargetGroupArn"]
    register(aws, arn, {"Id": "198.18.1.1"})
    assert health(aws, arn) == {("198.18.1.1", 80): ("unused", "Target.NotInUse")}
    deregister(aws, arn, {"Id": "198.18.1.1"})
    assert health(aws, arn) == {}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"Id": "i-0123456789abcdef0"}, "is not valid"),
        ({"Id": "8.8.8.8"}, "neither in VPC"),
        ({"Id": "8.8.8.8", "AvailabilityZone": "all"}, "neither in VPC"),
        ({"Id": "fd00::1"}, "not a valid ipv4"),
    ],
)
def test_addresses_must_be_in_reach(aws: Aws, group: str, target: dict[str, str], message: str) -> None:
    with refused("InvalidTarget", message):
        register(aws, group, {"Id": "198.18.1.1"}, target)
    assert health(aws, group) == {}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            {"Id": "10.0.0.1"},
            "Zone is required for IP address '10.0.0.1' because it is not in the VPC",
        ),
        ({"Id": "198.18.200.1"}, "The Availability Zone is required for IP address '198.18.200.1'"),
        (
            {"Id": "10.0.0.1", "AvailabilityZone": "us-east-1a"},
            "Zone for IP address '10.0.0.1' must be 'all' for Application Load Balancer target groups, "
            "when not within the VPC",
        ),
        (
            {"Id": "198.18.16.1", "AvailabilityZone": "all"},
            "The IP address '198.18.16.1' is within the VPC, and cannot have its Availability Zone overridden to 'all' "
            "from 'us-east-1b'",
        ),
        ({"Id": "198.18.16.1", "AvailabilityZone": "us-east-1a"}, "overridden to 'us-east-1a' from 'us-east-1b'"),
    ],
)
def test_the_zone_is_that_of_the_subnet_or_all(aws: Aws, group: str, target: dict[str, str], message: str) -> None:
    with refused("ValidationError", message):
        register(aws, group, {"Id": "198.18.1.1"}, target)
    assert health(aws, group) == {}


def test_the_zone_of_its_own_subnet_may_be_named(aws: Aws, group: str) -> None:
    register(aws, group, {"Id": "198.18.16.1", "AvailabilityZone": "us-east-1b"})
    register(aws, group, {"Id": "198.18.200.1", "AvailabilityZone": "all"})
    assert len(health(aws, group)) == 2


def test_outside_of_the_vpc_without_balancing_across_zones_a_target_has_a_zone(aws: Aws, group: str) -> None:
    off = [{"Key": "load_balancing.cross_zone.enabled", "Value": "false"}]
    aws.client("elbv2").modify_target_group_attributes(TargetGroupArn=group, Attributes=off)
    with refused("ValidationError", "When cross-zone load balancing is disabled on this target group"):
        register(aws, group, {"Id": "10.0.0.1", "AvailabilityZone": "all"})
    register(aws, group, {"Id": "10.0.0.1", "AvailabilityZone": "us-east-1a"})
    assert len(health(aws, group)) == 1


def test_addresses_outside_of_the_vpc_belong_to_all_zones(aws: Aws, group: str) -> None:
    for address in ("10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1"):
        register(aws, group, {"Id": address, "AvailabilityZone": "all"})
    assert len(health(aws, group)) == 4
    with refused("ValidationError", "at 'targets.1.member.port' failed to satisfy constraint"):
        register(aws, group, {"Id": "198.18.1.1", "Port": 65536})


def test_instances_must_run_in_the_groups_vpc(aws: Aws) -> None:
    elbv2, ec2 = aws.client("elbv2"), aws.client("ec2")
    created = elbv2.create_target_group(Name="web", TargetType="instance", **ABOUT)
    arn = created["TargetGroups"][0]["TargetGroupArn"]
    listen(aws, aws.create("web")["LoadBalancerArn"], 80, forward(arn))
    good = instance(aws)
    register(aws, arn, {"Id": good, "Port": 30080})
    assert health(aws, arn) == {(good, 30080): ("healthy", None)}
    for target_id in ("198.18.1.1", "i-0123456789abcdef0"):
        with refused("InvalidTarget", target_id):
            register(aws, arn, {"Id": target_id})
    ec2.stop_instances(InstanceIds=[good])
    assert health(aws, arn) == {(good, 30080): ("unused", "Target.InvalidState")}
    with refused("InvalidTarget", "running state"):
        register(aws, arn, {"Id": good})
    ec2.terminate_instances(InstanceIds=[good])
    assert health(aws, arn) == {(good, 30080): ("draining", "Target.DeregistrationInProgress")}


def test_a_thousand_targets_in_a_group_and_on_a_load_balancer(aws: Aws, group: str) -> None:
    targets = [{"Id": f"198.18.{number // 250}.{number % 250 + 1}"} for number in range(1001)]
    register(aws, group, *targets[:999])
    with refused("TooManyTargets", "per target group is 1000"):
        register(aws, group, *targets[999:])
    register(aws, group, *targets[:1000])
    elbv2 = aws.client("elbv2")
    other = elbv2.create_target_group(Name="other", TargetType="ip", **ABOUT)["TargetGroups"][0]["TargetGroupArn"]
    balancer = elbv2.describe_load_balancers()["LoadBalancers"][0]["LoadBalancerArn"]
    listen(aws, balancer, 81, forward(other))
    with refused("TooManyTargets", "per load balancer is 1000"):
        register(aws, other, targets[0])


def test_the_unknown_has_no_targets(aws: Aws, group: str) -> None:
    for call in (register, deregister):
        with refused("TargetGroupNotFound"):
            call(aws, group + "0", {"Id": "198.18.1.1"})
    with refused("TargetGroupNotFound"):
        health(aws, group + "0")
