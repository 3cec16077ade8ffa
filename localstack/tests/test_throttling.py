import pytest
from conftest import Aws, refused

from causeway_localstack.throttling import Throttle, class_of


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def admitted(throttle: Throttle, operation: str, account: str = "1", region: str = "us-east-1") -> int:
    """How many calls come through at once."""
    count = 0
    while throttle.admits(account, region, operation):
        count += 1
    return count


@pytest.mark.parametrize(
    ("operation", "burst", "per_second"),
    [
        ("DescribeRules", 40, 10),
        ("RegisterTargets", 20, 4),
        ("DeregisterTargets", 20, 4),
        ("CreateRule", 20, 3),
        ("GetTrustStoreRevocationContent", 20, 4),
    ],
)
def test_bursts_and_rates(operation: str, burst: int, per_second: int) -> None:
    clock = Clock()
    throttle = Throttle(clock)
    assert admitted(throttle, operation) == burst
    clock.now += 1
    assert admitted(throttle, operation) == per_second
    clock.now += 3600
    assert admitted(throttle, operation) == burst


def test_classes_accounts_and_regions_are_apart() -> None:
    throttle = Throttle(Clock())
    assert admitted(throttle, "CreateRule") == 20
    assert admitted(throttle, "RegisterTargets") == 20
    assert admitted(throttle, "DescribeRules") == 0, "all calls together are limited too"
    assert admitted(throttle, "DescribeRules", account="2") == 40
    assert admitted(throttle, "DescribeRules", region="eu-west-1") == 40
    throttle.forget("1")
    assert admitted(throttle, "DescribeRules") == 40


def test_a_new_balancer_every_five_seconds() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    assert admitted(throttle, "CreateLoadBalancer") == 10
    clock.now += 5.5
    assert admitted(throttle, "CreateLoadBalancer") == 1


def test_every_operation_has_a_class() -> None:
    classes = {it: class_of(it) for it in ("SetSubnets", "AddTags", "DeleteRule", "GetResourcePolicy")}
    assert classes == {"SetSubnets": "placing", "AddTags": "changing", "DeleteRule": "changing"} | {
        "GetResourcePolicy": "reading"
    }


def test_calls_are_throttled_only_where_it_is_set(aws: Aws) -> None:
    elbv2, ec2 = aws.client("elbv2"), aws.client("ec2")
    for _ in range(60):
        elbv2.describe_load_balancers()
    # A tenth of AWS's rates: a busy machine makes more than one call a second, but not always more than ten.
    aws.admin("POST", "settings", {"throttle": 0.1})
    with refused("Throttling", "Rate exceeded") as refusal:
        for _ in range(200):
            elbv2.describe_load_balancers()
    assert refusal.status == 400
    ec2.describe_vpcs()
    aws.admin("POST", "settings", {"throttle": 0})
    elbv2.describe_load_balancers()
