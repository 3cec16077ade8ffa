from typing import Any

import pytest
import roles
from botocore.client import BaseClient
from conftest import Aws, refused

CLUSTER = {"Key": "example.com/cluster", "Value": "blue"}
FOREIGN = {"Key": "example.com/cluster", "Value": "green"}
NETWORK = {"Subnets": ["subnet-abc", "subnet-def"], "SecurityGroups": ["sg-web"]}

POLICY: dict[str, Any] = {
    "Version": "2012-10-17",
    "Statement": [
        roles.NETWORK,
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
        {"Effect": "Deny", "Action": "*", "Resource": "arn:aws:elasticloadbalancing:*:*:loadbalancer/app/forbidden/*"},
    ],
}


@pytest.fixture
def elbv2(aws: Aws) -> BaseClient:
    return roles.session(aws, all=POLICY)("elbv2")


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


def test_a_role_is_known_by_its_tags(aws: Aws) -> None:
    allowed = {"Effect": "Allow", "Action": "elasticloadbalancing:*", "Resource": "*"}
    of_its_team = {"StringEquals": {"aws:ResourceTag/team": "${aws:PrincipalTag/team}"}}
    policy = {"Version": "2012-10-17", "Statement": allowed | {"Condition": of_its_team}}
    elbv2 = roles.session(aws, all=policy)("elbv2")
    arns = {it: aws.create(it, Tags=[{"Key": "team", "Value": it}])["LoadBalancerArn"] for it in ("blue", "green")}
    with refused("AccessDenied"):
        elbv2.delete_load_balancer(LoadBalancerArn=arns["blue"])
    aws.client("iam").tag_role(RoleName="causeway", Tags=[{"Key": "team", "Value": "blue"}])
    with refused("AccessDenied"):
        elbv2.delete_load_balancer(LoadBalancerArn=arns["green"])
    elbv2.delete_load_balancer(LoadBalancerArn=arns["blue"])


def test_security_groups_of_targets_agree_by_a_tag_to_be_changed(aws: Aws) -> None:
    """https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html"""
    published = {path.stem: roles.filled(path, aws.account) for path in roles.PUBLISHED.glob("policy*.json")}
    ec2, root = roles.session(aws, **published)("ec2"), aws.client("ec2")
    vpc = {"Description": "-", "VpcId": "vpc-causeway"}
    nodes, ours = (root.create_security_group(GroupName=name, **vpc)["GroupId"] for name in ("nodes", "ours"))
    source = {"GroupId": ours, "Description": f"{roles.PREFIX}/uid=1 shop/web"}
    all_tcp = {"IpProtocol": "tcp", "FromPort": 0, "ToPort": 65535, "UserIdGroupPairs": [source]}
    rule: dict[str, Any] = {"GroupId": nodes, "IpPermissions": [all_tcp]}
    agreed = {"Key": f"{roles.PREFIX}/let-in", "Value": "blue"}
    with refused("UnauthorizedOperation"):
        ec2.authorize_security_group_ingress(**rule)
    with refused("UnauthorizedOperation"):
        ec2.create_tags(Resources=[nodes], Tags=[agreed])
    root.create_tags(Resources=[nodes], Tags=[agreed | {"Value": "green"}])
    with refused("UnauthorizedOperation"):
        ec2.authorize_security_group_ingress(**rule)
    root.create_tags(Resources=[nodes], Tags=[agreed])
    ec2.authorize_security_group_ingress(**rule)
    of: dict[str, Any] = {"Filters": [{"Name": "ip-permission.group-id", "Values": [ours]}]}
    [found] = ec2.describe_security_groups(**of)["SecurityGroups"]
    [permission] = found["IpPermissions"]
    [pair] = permission["UserIdGroupPairs"]
    assert (found["GroupId"], pair["GroupId"], pair["Description"]) == (nodes, ours, source["Description"])
    with refused("UnauthorizedOperation"):
        ec2.delete_security_group(GroupId=nodes)
    ec2.revoke_security_group_ingress(**rule)
    assert ec2.describe_security_groups(**of)["SecurityGroups"] == []


def test_the_operators_own_policy_is_enough_and_no_more(aws: Aws) -> None:
    published = {path.stem: roles.filled(path, aws.account) for path in roles.PUBLISHED.glob("policy*.json")}
    elbv2 = roles.session(aws, **published)("elbv2")
    prefix, tags = roles.PREFIX, roles.OURS
    protected = [{"Key": "deletion_protection.enabled", "Value": "false"}]

    arn = elbv2.create_load_balancer(Name="web", Tags=tags, **NETWORK)["LoadBalancers"][0]["LoadBalancerArn"]
    elbv2.describe_load_balancers(Names=["web"])
    elbv2.describe_tags(ResourceArns=[arn])
    elbv2.describe_load_balancer_attributes(LoadBalancerArn=arn)
    elbv2.modify_load_balancer_attributes(LoadBalancerArn=arn, Attributes=protected)
    elbv2.set_subnets(LoadBalancerArn=arn, Subnets=["subnet-abc", "subnet-ghi"])
    elbv2.set_security_groups(LoadBalancerArn=arn, SecurityGroups=["sg-other"])
    elbv2.add_tags(ResourceArns=[arn], Tags=[{"Key": "team", "Value": "blue"}])
    elbv2.remove_tags(ResourceArns=[arn], TagKeys=["team"])
    elbv2.delete_load_balancer(LoadBalancerArn=arn)

    foreign = aws.create("foreign", Tags=[*tags[2:], {"Key": f"{prefix}/cluster", "Value": "green"}])["LoadBalancerArn"]
    for denied in (
        lambda: elbv2.create_load_balancer(Name="bare", **NETWORK),
        lambda: elbv2.create_load_balancer(Name="part", Tags=tags[:-1], **NETWORK),
        lambda: elbv2.delete_load_balancer(LoadBalancerArn=foreign),
        lambda: elbv2.add_tags(ResourceArns=[foreign], Tags=tags),
        lambda: elbv2.modify_load_balancer_attributes(LoadBalancerArn=foreign, Attributes=protected),
        lambda: elbv2.set_subnets(LoadBalancerArn=foreign, Subnets=["subnet-abc", "subnet-ghi"]),
    ):
        with refused("AccessDenied"):
            denied()
