import time
import urllib.error
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError
from conftest import Aws, refused


@pytest.mark.parametrize(
    ("kind", "code", "status", "message"),
    [
        ("throttle", "Throttling", 400, "Rate exceeded"),
        ("500", "InternalFailure", 500, ""),
        ("503", "ServiceUnavailable", 503, ""),
        ("expired_token", "ExpiredToken", 403, "security token included in the request is expired"),
    ],
)
def test_an_error_strikes_as_often_as_set_and_nothing_is_done(
    aws: Aws, kind: str, code: str, status: int, message: str
) -> None:
    aws.fault(kind, service="elbv2", operation="CreateLoadBalancer", times=2)
    for _ in range(2):
        with refused(code, message) as refusal:
            aws.create("web")
        assert refusal.status == status
    assert aws.describe() == []
    aws.create("web")
    told = [(it["outcome"], it["fault"]) for it in aws.journal("CreateLoadBalancer")]
    assert told == [(code, kind), (code, kind), ("OK", None)]


def test_access_denied_speaks_as_aws_does(aws: Aws) -> None:
    aws.fault("access_denied", service="elbv2", operation="CreateLoadBalancer")
    with refused(
        "AccessDenied",
        f"User: arn:aws:iam::{aws.account}:root is not authorized to perform: elasticloadbalancing:CreateLoadBalancer "
        f"on resource: arn:aws:elasticloadbalancing:us-east-1:{aws.account}:loadbalancer/app/web/* "
        "because no identity-based policy allows the elasticloadbalancing:CreateLoadBalancer action",
    ) as refusal:
        aws.create("web")
    assert refusal.status == 403


def test_any_error_can_be_had(aws: Aws) -> None:
    aws.fault("error", code="ResourceInUse", message="is in use", status=409, times=1)
    with refused("ResourceInUse", "is in use") as refusal:
        aws.describe()
    assert refusal.status == 409


def test_a_value_can_be_refused(aws: Aws) -> None:
    aws.fault("error", code="ValidationError", message="no", naming="evil")
    with refused("ValidationError", "no"):
        aws.create("evil-alb")
    aws.create("web")


def test_services_are_throttled_in_their_own_words(aws: Aws) -> None:
    aws.fault("throttle", service="ec2")
    with refused("RequestLimitExceeded") as refusal:
        aws.client("ec2").describe_vpcs()
    assert refusal.status == 503


def test_a_delayed_call_succeeds_later(aws: Aws) -> None:
    aws.fault("delay", operation="CreateLoadBalancer", delay_ms=300, times=1)
    began = time.monotonic()
    aws.create("web")
    assert time.monotonic() - began >= 0.3
    assert aws.journal("CreateLoadBalancer")[0]["duration_ms"] >= 300


def test_reset_before_closes_the_connection_and_nothing_is_done(aws: Aws) -> None:
    aws.fault("reset_before", operation="CreateLoadBalancer", times=1)
    with pytest.raises(ConnectionClosedError):
        aws.create("web")
    assert aws.describe() == []
    entry = aws.journal("CreateLoadBalancer")[0]
    assert (entry["outcome"], entry["status"], entry["fault"]) == ("ConnectionReset", None, "reset_before")
    aws.create("web")


def test_reset_after_closes_the_connection_though_all_is_done(aws: Aws) -> None:
    aws.fault("reset_after", operation="CreateLoadBalancer", times=1)
    with pytest.raises(ConnectionClosedError):
        aws.create("web")
    assert [it["LoadBalancerName"] for it in aws.describe()] == ["web"]
    assert aws.journal("CreateLoadBalancer")[0]["outcome"] == "ConnectionReset"


def test_a_client_goes_on_after_a_reset(aws: Aws) -> None:
    aws.fault("reset_after", operation="DescribeLoadBalancers", probability=0.5, seed=1)
    elbv2 = aws.client("elbv2")
    outcomes = set()
    for _ in range(20):
        try:
            elbv2.describe_load_balancers()
            outcomes.add("OK")
        except ConnectionClosedError:
            outcomes.add("reset")
    assert outcomes == {"OK", "reset"}


def test_a_seed_repeats_itself(aws: Aws) -> None:
    def strikes(seed: int) -> list[bool]:
        aws.admin("DELETE", "faults")
        aws.fault("throttle", operation="DescribeLoadBalancers", probability=0.3, seed=seed)
        struck = []
        for _ in range(30):
            try:
                aws.describe()
                struck.append(False)
            except ClientError:
                struck.append(True)
        return struck

    first = strikes(7)
    assert first == strikes(7)
    assert first != strikes(8)
    assert 0 < sum(first) < 30


def test_after_spares_the_first_calls(aws: Aws) -> None:
    aws.fault("throttle", operation="DescribeLoadBalancers", after=1, times=1)
    aws.describe()
    with refused("Throttling"):
        aws.describe()
    aws.describe()


def test_faults_strike_their_account_only_until_they_are_ended(aws: Aws, endpoint: str) -> None:
    fault = aws.fault("throttle")
    Aws(endpoint, "100000000000").describe()
    with refused("Throttling"):
        aws.describe()
    assert aws.admin("GET", "faults") == [fault | {"struck": 1}]
    aws.admin("DELETE", "faults")
    assert aws.admin("GET", "faults") == []
    aws.describe()


@pytest.mark.parametrize(
    "wrong", [{"kind": "flood"}, {"kind": "500", "probability": 2}, {"kind": "500", "colour": "red"}, {}]
)
def test_wrong_faults_are_refused(aws: Aws, wrong: dict[str, Any]) -> None:
    with pytest.raises(urllib.error.HTTPError, match="400"):
        aws.admin("POST", "faults", {"account": aws.account} | wrong)
