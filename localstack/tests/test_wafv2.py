from typing import Any

import pytest
from botocore.client import BaseClient
from conftest import Aws, refused


@pytest.fixture
def waf(aws: Aws) -> BaseClient:
    return aws.client("wafv2")


def web_acl(waf: BaseClient, name: str) -> dict[str, Any]:
    for old in waf.list_web_acls(Scope="REGIONAL")["WebACLs"]:
        if old["Name"] == name:
            waf.delete_web_acl(Name=name, Scope="REGIONAL", Id=old["Id"], LockToken=old["LockToken"])
    visibility = {"SampledRequestsEnabled": False, "CloudWatchMetricsEnabled": False, "MetricName": name}
    about = {"Scope": "REGIONAL", "DefaultAction": {"Allow": {}}, "VisibilityConfig": visibility}
    return waf.create_web_acl(Name=name, **about)["Summary"]


def test_a_load_balancer_has_one_web_acl_at_most(aws: Aws, waf: BaseClient) -> None:
    balancer = aws.create("web")["LoadBalancerArn"]
    one, two = web_acl(waf, "one"), web_acl(waf, "two")

    def associated() -> str | None:
        return waf.get_web_acl_for_resource(ResourceArn=balancer).get("WebACL", {}).get("ARN")

    assert associated() is None
    for acl in (one, two):
        waf.associate_web_acl(WebACLArn=acl["ARN"], ResourceArn=balancer)
        assert associated() == acl["ARN"]
    with refused("WAFAssociatedItemException"):
        waf.delete_web_acl(Name="two", Scope="REGIONAL", Id=two["Id"], LockToken=two["LockToken"])
    waf.disassociate_web_acl(ResourceArn=balancer)
    waf.disassociate_web_acl(ResourceArn=balancer)
    assert associated() is None
    waf.associate_web_acl(WebACLArn=one["ARN"], ResourceArn=balancer)
    aws.client("elbv2").delete_load_balancer(LoadBalancerArn=balancer)
    waf.delete_web_acl(Name="one", Scope="REGIONAL", Id=one["Id"], LockToken=one["LockToken"])


def test_both_must_exist_and_be_ready(aws: Aws, waf: BaseClient) -> None:
    balancer, acl = aws.create("web")["LoadBalancerArn"], web_acl(waf, "one")["ARN"]
    with refused("WAFNonexistentItemException"):
        waf.associate_web_acl(WebACLArn=acl[:-1] + "x", ResourceArn=balancer)
    with refused("WAFNonexistentItemException"):
        waf.associate_web_acl(WebACLArn=acl, ResourceArn=balancer + "0")
    with refused("WAFNonexistentItemException"):
        waf.get_web_acl_for_resource(ResourceArn=balancer + "0")
    with refused("WAFInvalidParameterException"):
        waf.associate_web_acl(WebACLArn=acl, ResourceArn=acl)
    aws.admin("POST", "settings", {"provisioning_seconds": 3600})
    with refused("WAFUnavailableEntityException", "Retry"):
        waf.associate_web_acl(WebACLArn=acl, ResourceArn=balancer)
