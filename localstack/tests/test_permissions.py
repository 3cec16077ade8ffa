from typing import Any

import pytest
from botocore.client import BaseClient
from conftest import Aws, refused
from issuer import URL, Issuer, trust
from test_web_identity import assume, credentials

CLUSTER = {"Key": "example.com/cluster", "Value": "blue"}
FOREIGN = {"Key": "example.com/cluster", "Value": "green"}
NETWORK = {"Subnets": ["subnet-abc", "subnet-def"], "SecurityGroups": ["sg-web"]}

POLICY: dict[str, Any] = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": "elasticloadbalancing:Describe*", "Resource": "*"},
        {
            "Effect": "Allow",
            "Action": "elasticloadbalancing:CreateLoadBalancer",
            "Resource": "arn:aws:elasticloadbalancing:*:*:loadbalancer/app/*/*",
            "Condition": {"StringEquals": {"aws:RequestTag/example.com/cluster": "blue"}},
        },
        {
            "Effect": "Allow",
            "Action": "elasticloadbalancing:AddTags",
            "Resource": "arn:aws:elasticloadbalancing:*:*:loadbalancer/app/*/*",
            "Condition": {"StringEquals": {"elasticloadbalancing:CreateAction": "CreateLoadBalancer"}},
        },
        {
            "Effect": "Allow",
            "Action": ["elasticloadbalancing:DeleteLoadBalancer", "elasticloadbalancing:SetSubnets"],
            "Resource": "*",
            "Condition": {"StringEquals": {"aws:ResourceTag/example.com/cluster": "blue"}},
        },
        {"Effect": "Deny", "Action": "*", "Resource": "*/app/forbidden/*"},
    ],
}


@pytest.fixture
def elbv2(aws: Aws) -> BaseClient:
    """A client of the role."""
    issuer = Issuer()
    aws.admin("POST", "oidc", {"issuer": URL, "jwks": issuer.jwks()})
    about = {"name": "causeway", "trust_policy": trust(aws.account), "policies": {"all": POLICY}}
    role = aws.admin("POST", "role", about)["arn"]
    return aws.client("elbv2", **credentials(assume(aws, role, issuer.token())))


def test_create_needs_its_tag(aws: Aws, elbv2: BaseClient) -> None:
    with refused(
        "AccessDenied",
        f"User: arn:aws:sts::{aws.account}:assumed-role/causeway/pod-1 is not authorized to perform: "
        "elasticloadbalancing:CreateLoadBalancer on resource: "
        f"arn:aws:elasticloadbalancing:us-east-1:{aws.account}:loadbalancer/app/web/* "
        "because no identity-based policy allows the elasticloadbalancing:CreateLoadBalancer action",
    ):
        elbv2.create_load_balancer(Name="web", **NETWORK)
    with refused("AccessDenied"):
        elbv2.create_load_balancer(Name="web", Tags=[FOREIGN], **NETWORK)
    elbv2.create_load_balancer(Name="web", Tags=[CLUSTER], **NETWORK)


def test_changes_need_the_resource_to_carry_it(aws: Aws, elbv2: BaseClient) -> None:
    mine = aws.create("mine", Tags=[CLUSTER])["LoadBalancerArn"]
    foreign = aws.create("foreign", Tags=[FOREIGN])["LoadBalancerArn"]
    for arn in (mine, foreign):
        assert elbv2.describe_tags(ResourceArns=[arn])["TagDescriptions"]
    with refused("AccessDenied", f"elasticloadbalancing:SetSubnets on resource: {foreign} because"):
        elbv2.set_subnets(LoadBalancerArn=foreign, Subnets=NETWORK["Subnets"])
    with refused("AccessDenied"):
        elbv2.delete_load_balancer(LoadBalancerArn=foreign)
    elbv2.set_subnets(LoadBalancerArn=mine, Subnets=["subnet-abc", "subnet-ghi"])
    elbv2.delete_load_balancer(LoadBalancerArn=mine)


def test_tags_are_added_only_while_creating(aws: Aws, elbv2: BaseClient) -> None:
    arn = elbv2.create_load_balancer(Name="web", Tags=[CLUSTER], **NETWORK)["LoadBalancers"][0]["LoadBalancerArn"]
    with refused("AccessDenied", "elasticloadbalancing:AddTags"):
        elbv2.add_tags(ResourceArns=[arn], Tags=[CLUSTER])


def test_a_deny_is_said_to_be_one(elbv2: BaseClient) -> None:
    with refused("AccessDenied", "with an explicit deny in an identity-based policy"):
        elbv2.create_load_balancer(Name="forbidden", Tags=[CLUSTER], **NETWORK)


def test_accounts_themselves_are_not_restricted(aws: Aws, elbv2: BaseClient) -> None:
    aws.create("forbidden")
