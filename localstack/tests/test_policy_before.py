"""The policy from before the check against the Service Authorization Reference would have failed on AWS."""

from typing import Any

import pytest
from conftest import Aws, refused
from roles import BEFORE, OURS, Client, filled, session
from test_listeners import FIXED
from test_wafv2 import web_acl

NETWORK = {"Subnets": ["subnet-abc", "subnet-def"], "SecurityGroups": ["sg-web"]}
READS_OF_GROUPS = {
    "Effect": "Allow",
    "Action": ["ec2:GetSecurityGroupsForVpc", "ec2:ValidateSecurityGroupQuotasForInterface"],
    "Resource": "*",
}


def old(aws: Aws, *more: dict[str, Any]) -> Client:
    policies = {"old": filled(BEFORE, aws.account)}
    if more:
        policies["more"] = {"Version": "2012-10-17", "Statement": list(more)}
    return session(aws, **policies)


def test_no_load_balancer_is_ever_made(aws: Aws) -> None:
    with refused(
        "AccessDenied",
        "is not authorized to perform: ec2:GetSecurityGroupsForVpc on resource: "
        f"arn:aws:ec2:us-east-1:{aws.account}:vpc/vpc-causeway "
        "because no identity-based policy allows the ec2:GetSecurityGroupsForVpc action",
    ) as refusal:
        old(aws)("elbv2").create_load_balancer(Name="web", Tags=OURS, **NETWORK)
    assert refusal.status == 403
    old(aws, READS_OF_GROUPS)("elbv2").create_load_balancer(Name="web", Tags=OURS, **NETWORK)


def test_no_security_group_is_ever_put_right(aws: Aws) -> None:
    arn = aws.create("web", Tags=OURS)["LoadBalancerArn"]
    with refused("AccessDenied", "ec2:GetSecurityGroupsForVpc"):
        old(aws)("elbv2").set_security_groups(LoadBalancerArn=arn, SecurityGroups=["sg-other"])


def test_rules_are_never_put_in_order(aws: Aws) -> None:
    arn = aws.create("web", Tags=OURS)["LoadBalancerArn"]
    root, path = aws.client("elbv2"), [{"Field": "path-pattern", "Values": ["/a"]}]
    about: dict[str, Any] = {"LoadBalancerArn": arn, "Protocol": "HTTP", "Port": 80, "DefaultActions": FIXED}
    listener = root.create_listener(Tags=OURS, **about)["Listeners"][0]["ListenerArn"]
    made = root.create_rule(ListenerArn=listener, Priority=1, Conditions=path, Actions=FIXED, Tags=OURS)
    rule = made["Rules"][0]["RuleArn"]
    elbv2 = old(aws)("elbv2")
    with refused("AccessDenied", f"elasticloadbalancing:SetRulePriorities on resource: {rule} because no identity"):
        elbv2.set_rule_priorities(RulePriorities=[{"RuleArn": rule, "Priority": 2}])
    elbv2.modify_rule(RuleArn=rule, Actions=FIXED)


@pytest.mark.parametrize(
    ("also", "missing"),
    [
        ([], "elasticloadbalancing:CreateWebACLAssociation"),
        (["CreateWebACLAssociation"], "elasticloadbalancing:SetWebACL on resource: * because"),
    ],
)
def test_no_web_acl_is_ever_associated(aws: Aws, also: list[str], missing: str) -> None:
    arn, acl = aws.create("web", Tags=OURS)["LoadBalancerArn"], web_acl(aws.client("wafv2"), "one")["ARN"]
    allowed = [{"Effect": "Allow", "Action": f"elasticloadbalancing:{it}", "Resource": "*"} for it in also]
    waf = old(aws, *allowed)("wafv2")
    with refused("AccessDeniedException", missing):
        waf.associate_web_acl(WebACLArn=acl, ResourceArn=arn)


def test_no_web_acl_is_ever_read_or_taken_away(aws: Aws) -> None:
    arn, acl = aws.create("web", Tags=OURS)["LoadBalancerArn"], web_acl(aws.client("wafv2"), "one")["ARN"]
    root = aws.client("wafv2")
    root.associate_web_acl(WebACLArn=acl, ResourceArn=arn)
    waf = old(aws)("wafv2")
    with refused("AccessDeniedException", "elasticloadbalancing:GetLoadBalancerWebACL"):
        waf.get_web_acl_for_resource(ResourceArn=arn)
    with refused("AccessDeniedException", "elasticloadbalancing:DeleteWebACLAssociation"):
        waf.disassociate_web_acl(ResourceArn=arn)
    root.disassociate_web_acl(ResourceArn=arn)
