"""Policies about what belongs to a load balancer, and about the other services the operator uses."""

from collections.abc import Callable
from typing import Any

import pytest
from certificates import imported
from conftest import Aws, refused
from roles import NETWORK as NEEDED
from roles import Client, session
from test_listeners import FIXED
from test_wafv2 import web_acl

OURS = [{"Key": "example.com/cluster", "Value": "blue"}]
FOREIGN = [{"Key": "example.com/cluster", "Value": "green"}]
NETWORK = {"Subnets": ["subnet-abc", "subnet-def"], "SecurityGroups": ["sg-web"]}
GROUP = {"Protocol": "HTTP", "Port": 80, "VpcId": "vpc-causeway", "TargetType": "ip"}
PATH = [{"Field": "path-pattern", "Values": ["/a"]}]
TAGGED_BLUE = {"StringEquals": {"aws:ResourceTag/example.com/cluster": "blue"}}
ASKED_BLUE = {"StringEquals": {"aws:RequestTag/example.com/cluster": "blue"}}


@pytest.fixture
def role(aws: Aws) -> Callable[..., Client]:
    """Clients of a role with these statements."""

    def made(*statements: dict[str, Any]) -> Client:
        allowed = [{"Effect": "Allow", "Resource": "*"} | it for it in statements]
        return session(aws, all={"Version": "2012-10-17", "Statement": [NEEDED, *allowed]})

    return made


def arn(kind: str) -> str:
    return f"arn:aws:elasticloadbalancing:*:*:{kind}/*"


def test_listeners_rules_and_target_groups_are_made_with_their_tags(aws: Aws, role: Callable[..., Client]) -> None:
    creations = {
        "CreateListener": "listener/app",
        "CreateRule": "listener-rule/app",
        "CreateTargetGroup": "targetgroup",
    }
    elbv2 = role(
        {"Action": "elasticloadbalancing:CreateTargetGroup", "Resource": arn("targetgroup"), "Condition": ASKED_BLUE},
        {
            "Action": "elasticloadbalancing:CreateListener",
            "Resource": arn("loadbalancer/app"),
            "Condition": {"StringEquals": TAGGED_BLUE["StringEquals"] | ASKED_BLUE["StringEquals"]},
        },
        {
            "Action": "elasticloadbalancing:CreateRule",
            "Resource": arn("listener/app"),
            "Condition": {"StringEquals": TAGGED_BLUE["StringEquals"] | ASKED_BLUE["StringEquals"]},
        },
        *(
            {
                "Action": "elasticloadbalancing:AddTags",
                "Resource": arn(kind),
                "Condition": {"StringEquals": {"elasticloadbalancing:CreateAction": operation}},
            }
            for operation, kind in creations.items()
        ),
    )("elbv2")
    ours = aws.create("ours", Tags=OURS)["LoadBalancerArn"]
    foreign = aws.create("foreign", Tags=FOREIGN)["LoadBalancerArn"]
    asked: dict[str, Any] = {"Protocol": "HTTP", "Port": 80, "DefaultActions": FIXED}
    elbv2.create_target_group(Name="web", Tags=OURS, **GROUP)
    listener = elbv2.create_listener(LoadBalancerArn=ours, Tags=OURS, **asked)["Listeners"][0]["ListenerArn"]
    rule = {"Conditions": PATH, "Actions": FIXED}
    made = elbv2.create_rule(ListenerArn=listener, Priority=1, Tags=OURS, **rule)["Rules"][0]["RuleArn"]
    strange = aws.client("elbv2").create_listener(LoadBalancerArn=foreign, **asked)["Listeners"][0]["ListenerArn"]
    for denied in (
        lambda: elbv2.create_target_group(Name="bare", **GROUP),
        lambda: elbv2.create_target_group(Name="other", Tags=FOREIGN, **GROUP),
        lambda: elbv2.create_listener(LoadBalancerArn=ours, **(asked | {"Port": 81})),
        lambda: elbv2.create_listener(LoadBalancerArn=foreign, Tags=OURS, **(asked | {"Port": 81})),
        lambda: elbv2.create_rule(ListenerArn=listener, Priority=2, **rule),
        lambda: elbv2.create_rule(ListenerArn=strange, Priority=1, Tags=OURS, **rule),
        lambda: elbv2.add_tags(ResourceArns=[made], Tags=OURS),
    ):
        with refused("AccessDenied"):
            denied()


def test_they_are_changed_only_with_their_tags(aws: Aws, role: Callable[..., Client]) -> None:
    elbv2 = role({"Action": "elasticloadbalancing:*", "Condition": TAGGED_BLUE})("elbv2")
    root, balancer = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    asked: dict[str, Any] = {"LoadBalancerArn": balancer, "Protocol": "HTTP", "DefaultActions": FIXED}

    def things(port: int, tags: list[dict[str, str]]) -> tuple[str, str, str]:
        listener = root.create_listener(Port=port, Tags=tags, **asked)["Listeners"][0]["ListenerArn"]
        rule = root.create_rule(ListenerArn=listener, Conditions=PATH, Actions=FIXED, Priority=1, Tags=tags)
        group = root.create_target_group(Name=f"web-{port}", Tags=tags, **GROUP)
        return listener, rule["Rules"][0]["RuleArn"], group["TargetGroups"][0]["TargetGroupArn"]

    def change(listener: str, rule: str, group: str) -> list[Callable[[], Any]]:
        delay = [{"Key": "deregistration_delay.timeout_seconds", "Value": "1"}]
        return [
            lambda: elbv2.modify_listener(ListenerArn=listener, DefaultActions=FIXED),
            lambda: elbv2.modify_rule(RuleArn=rule, Actions=FIXED),
            lambda: elbv2.register_targets(TargetGroupArn=group, Targets=[{"Id": "198.18.1.1"}]),
            lambda: elbv2.modify_target_group_attributes(TargetGroupArn=group, Attributes=delay),
            lambda: elbv2.remove_tags(ResourceArns=[rule], TagKeys=["other"]),
            lambda: elbv2.delete_rule(RuleArn=rule),
            lambda: elbv2.delete_target_group(TargetGroupArn=group),
            lambda: elbv2.delete_listener(ListenerArn=listener),
        ]

    for denied in change(*things(80, FOREIGN)):
        with refused("AccessDenied"):
            denied()
    for allowed in change(*things(81, OURS)):
        allowed()


def test_security_groups(aws: Aws, role: Callable[..., Client]) -> None:
    ec2, root = (
        role(
            {"Action": "ec2:Describe*"},
            {"Action": "ec2:CreateSecurityGroup", "Resource": "arn:aws:ec2:*:*:vpc/vpc-causeway"},
            {
                "Action": "ec2:CreateSecurityGroup",
                "Resource": "arn:aws:ec2:*:*:security-group/*",
                "Condition": ASKED_BLUE,
            },
            {
                "Action": "ec2:CreateTags",
                "Resource": "arn:aws:ec2:*:*:security-group/*",
                "Condition": {"StringEquals": {"ec2:CreateAction": "CreateSecurityGroup"}},
            },
            {
                "Action": ["ec2:AuthorizeSecurityGroupIngress", "ec2:DeleteSecurityGroup"],
                "Resource": "arn:aws:ec2:*:*:security-group/*",
                "Condition": {"StringEquals": {"ec2:ResourceTag/example.com/cluster": "blue"}},
            },
        )("ec2"),
        aws.client("ec2"),
    )
    about = {"VpcId": "vpc-causeway", "GroupName": "managed", "Description": "of a test"}
    tagged = {"TagSpecifications": [{"ResourceType": "security-group", "Tags": OURS}]}
    permission = [{"IpProtocol": "tcp", "FromPort": 80, "ToPort": 80, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
    with refused(
        "UnauthorizedOperation",
        "You are not authorized to perform this operation. "
        f"User: arn:aws:sts::{aws.account}:assumed-role/causeway/pod-1 is not authorized to perform: "
        f"ec2:CreateSecurityGroup on resource: arn:aws:ec2:us-east-1:{aws.account}:security-group/* "
        "because no identity-based policy allows the ec2:CreateSecurityGroup action. "
        "Encoded authorization failure message: ",
    ) as refusal:
        ec2.create_security_group(**about)
    assert refusal.status == 403
    ours = ec2.create_security_group(**about, **tagged)["GroupId"]
    foreign = root.create_security_group(**(about | {"GroupName": "foreign"}))["GroupId"]
    ec2.authorize_security_group_ingress(GroupId=ours, IpPermissions=permission)
    for denied in (
        lambda: ec2.authorize_security_group_ingress(GroupId=foreign, IpPermissions=permission),
        lambda: ec2.revoke_security_group_ingress(GroupId=ours, IpPermissions=permission),
        lambda: ec2.create_tags(Resources=[ours], Tags=FOREIGN),
        lambda: ec2.delete_security_group(GroupId=foreign),
        lambda: ec2.create_vpc(CidrBlock="10.0.0.0/16"),
    ):
        with refused("UnauthorizedOperation"):
            denied()
    assert len(ec2.describe_security_groups(GroupIds=[ours, foreign])["SecurityGroups"]) == 2
    ec2.delete_security_group(GroupId=ours)
    root.delete_security_group(GroupId=foreign)


def test_certificates_and_tags_are_read_only_where_allowed(aws: Aws, role: Callable[..., Client]) -> None:
    mine, other = imported(aws, "a.example.com"), imported(aws, "b.example.com")
    clients = role({"Action": "acm:ListCertificates"}, {"Action": "acm:DescribeCertificate", "Resource": mine})
    acm = clients("acm")
    assert mine in [it["CertificateArn"] for it in acm.list_certificates()["CertificateSummaryList"]]
    acm.describe_certificate(CertificateArn=mine)
    with refused("AccessDeniedException", other):
        acm.describe_certificate(CertificateArn=other)
    with refused("AccessDeniedException", "tag:GetResources"):
        clients("resourcegroupstaggingapi").get_resources()
    role({"Action": "tag:GetResources"})("resourcegroupstaggingapi").get_resources()


def test_rules_are_put_in_order_whoever_owns_them(aws: Aws, role: Callable[..., Client]) -> None:
    """AWS knows no tags here: such a condition would never hold."""
    root, balancer = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    asked: dict[str, Any] = {"LoadBalancerArn": balancer, "Protocol": "HTTP", "Port": 80, "DefaultActions": FIXED}
    listener = root.create_listener(**asked)["Listeners"][0]["ListenerArn"]
    about = {"Conditions": PATH, "Actions": FIXED, "Priority": 1, "Tags": OURS}
    rule = root.create_rule(ListenerArn=listener, **about)["Rules"][0]["RuleArn"]
    order = {"Action": "elasticloadbalancing:SetRulePriorities", "Resource": arn("listener-rule/app")}
    wanted = [{"RuleArn": rule, "Priority": 2}]
    with refused("AccessDenied", f"elasticloadbalancing:SetRulePriorities on resource: {rule}"):
        role(order | {"Condition": TAGGED_BLUE})("elbv2").set_rule_priorities(RulePriorities=wanted)
    role(order)("elbv2").set_rule_priorities(RulePriorities=wanted)


def test_web_acls_protect_only_our_load_balancers(aws: Aws, role: Callable[..., Client]) -> None:
    ours = aws.create("ours", Tags=OURS)["LoadBalancerArn"]
    foreign = aws.create("foreign", Tags=FOREIGN)["LoadBalancerArn"]
    acl = web_acl(aws.client("wafv2"), "one")["ARN"]
    of_waf = {"Action": ["wafv2:AssociateWebACL", "wafv2:DisassociateWebACL", "wafv2:GetWebACL*"]}
    names = ("CreateWebACLAssociation", "DeleteWebACLAssociation", "GetLoadBalancerWebACL")
    of_balancers = {"Action": [f"elasticloadbalancing:{it}" for it in names], "Condition": TAGGED_BLUE}
    setting = {"Action": "elasticloadbalancing:SetWebAcl"}
    with refused("AccessDeniedException", "elasticloadbalancing:CreateWebACLAssociation"):
        role(of_waf, setting)("wafv2").associate_web_acl(WebACLArn=acl, ResourceArn=ours)
    for narrowed in ({"Condition": TAGGED_BLUE}, {"Resource": ours}):
        with refused("AccessDeniedException", "elasticloadbalancing:SetWebACL on resource: *"):
            role(of_waf, of_balancers, setting | narrowed)("wafv2").associate_web_acl(WebACLArn=acl, ResourceArn=ours)
    waf = role(of_waf, of_balancers, setting)("wafv2")
    waf.associate_web_acl(WebACLArn=acl, ResourceArn=ours)
    assert waf.get_web_acl_for_resource(ResourceArn=ours)["WebACL"]["ARN"] == acl
    waf.disassociate_web_acl(ResourceArn=ours)
    for denied in (
        lambda: waf.associate_web_acl(WebACLArn=acl, ResourceArn=foreign),
        lambda: waf.disassociate_web_acl(ResourceArn=foreign),
        lambda: waf.get_web_acl_for_resource(ResourceArn=foreign),
    ):
        with refused("AccessDeniedException", foreign):
            denied()
