import re
from typing import Any

import pytest
from conftest import Aws, refused


def test_a_new_load_balancer_is_what_was_asked_for(aws: Aws) -> None:
    created = aws.create("web-alb", Tags=[{"Key": "team", "Value": "blue"}])
    assert re.fullmatch(r"web-alb-\d+\.us-east-1\.elb\.amazonaws\.com", created["DNSName"])
    assert f":{aws.account}:loadbalancer/app/web-alb/" in created["LoadBalancerArn"]
    assert created["State"]["Code"] == "provisioning"
    assert (created["Scheme"], created["Type"], created["IpAddressType"]) == ("internet-facing", "application", "ipv4")
    assert [zone["ZoneName"] for zone in created["AvailabilityZones"]] == ["us-east-1a", "us-east-1b"]
    assert created["SecurityGroups"] == ["sg-web"]
    assert created["CanonicalHostedZoneId"] == "Z35SXDOTRQ7X7K"
    assert aws.describe("web-alb") == [created | {"State": {"Code": "active"}}]


def test_an_internal_one_says_so_in_its_dns_name(aws: Aws) -> None:
    assert aws.create("web", Scheme="internal")["DNSName"].startswith("internal-web-")


def test_without_security_groups_it_gets_the_default_one(aws: Aws) -> None:
    groups = aws.client("ec2").describe_security_groups(Filters=[{"Name": "group-name", "Values": ["default"]}])
    default = [it["GroupId"] for it in groups["SecurityGroups"] if it["VpcId"] == "vpc-causeway"]
    assert aws.create("web", SecurityGroups=[])["SecurityGroups"] == default


def test_the_same_name_and_settings_answer_with_the_existing_one_untouched(aws: Aws) -> None:
    first = aws.create("web", Tags=[{"Key": "owner", "Value": "first"}])
    again = aws.create("web", Subnets=["subnet-def", "subnet-abc"], Tags=[{"Key": "owner", "Value": "second"}])
    assert again["LoadBalancerArn"] == first["LoadBalancerArn"]
    assert again["DNSName"] == first["DNSName"]
    tags = aws.client("elbv2").describe_tags(ResourceArns=[first["LoadBalancerArn"]])["TagDescriptions"][0]["Tags"]
    assert tags == [{"Key": "owner", "Value": "first"}]
    assert len(aws.describe()) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"Scheme": "internal"},
        {"Subnets": ["subnet-abc", "subnet-ghi"]},
        {"SecurityGroups": ["sg-other"]},
        {"IpAddressType": "dualstack"},
        {"Type": "network"},
    ],
)
def test_the_same_name_with_other_settings_is_refused(aws: Aws, other: dict[str, Any]) -> None:
    aws.create("web")
    with refused("DuplicateLoadBalancerName", "'web' exists, but with different settings"):
        aws.create("web", **other)


def test_changed_settings_count_when_the_name_comes_again(aws: Aws) -> None:
    arn = aws.create("web")["LoadBalancerArn"]
    aws.client("elbv2").set_subnets(LoadBalancerArn=arn, Subnets=["subnet-abc", "subnet-ghi"])
    with refused("DuplicateLoadBalancerName"):
        aws.create("web")
    assert aws.create("web", Subnets=["subnet-abc", "subnet-ghi"])["LoadBalancerArn"] == arn


def test_accounts_are_apart(aws: Aws, endpoint: str) -> None:
    other = Aws(endpoint, "100000000000")
    other.admin("POST", "seed")
    assert aws.create("web")["LoadBalancerArn"] != other.create("web")["LoadBalancerArn"]
    assert len(aws.describe()) == 1
    other.admin("POST", "reset")
    assert other.describe() == []


def test_provisioning_takes_as_long_as_set(aws: Aws) -> None:
    aws.admin("POST", "settings", {"provisioning_seconds": 3600})
    aws.create("web")
    assert aws.describe("web")[0]["State"]["Code"] == "provisioning"
    aws.admin("POST", "settings", {"provisioning_seconds": 0})
    assert aws.describe("web")[0]["State"]["Code"] == "active"


def test_reads_lag_as_long_as_set(aws: Aws) -> None:
    aws.admin("POST", "settings", {"lag_seconds": 3600})
    arn = aws.create("web")["LoadBalancerArn"]
    elbv2 = aws.client("elbv2")
    assert aws.describe() == []
    with refused("LoadBalancerNotFound"):
        aws.describe("web")
    with refused("LoadBalancerNotFound"):
        elbv2.describe_tags(ResourceArns=[arn])
    aws.admin("POST", "settings", {"lag_seconds": 0})
    assert len(aws.describe("web")) == 1


def test_settings_are_checked(aws: Aws) -> None:
    import urllib.error

    for wrong in ({"provisionin_seconds": 1}, {"lag_seconds": -1}, {"lag_seconds": "1"}):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            aws.admin("POST", "settings", wrong)
