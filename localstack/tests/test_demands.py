"""Rights that AWS requires of the caller of ELBv2 in other services."""

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient
from conftest import Aws, refused
from roles import Client, session, without_role
from test_listeners import FIXED

from causeway_localstack import permissions

BALANCER = {"Subnets": ["subnet-abc", "subnet-def"], "SecurityGroups": ["sg-web"]}
GROUP = {"Name": "web", "Protocol": "HTTP", "Port": 80, "VpcId": "vpc-causeway", "TargetType": "ip"}
DEMANDS = json.loads(Path(permissions.__file__).with_name("demands.json").read_text())["demands"]

ACTIONS = sorted({action for it in DEMANDS for action in it["actions"]})


def all_but(aws: Aws, missing: str) -> Client:
    allowed = ["elasticloadbalancing:*", *(it for it in ACTIONS if it != missing)]
    statement = {"Effect": "Allow", "Action": allowed, "Resource": "*"}
    return session(aws, all={"Version": "2012-10-17", "Statement": [statement]})


def call(elbv2: BaseClient, operation: str, arns: dict[str, str]) -> None:
    login = {"UserPoolArn": arns["pool"], "UserPoolClientId": "c", "UserPoolDomain": "d"}
    cognito = [{"Type": "authenticate-cognito", "Order": 1, "AuthenticateCognitoConfig": login}]
    cognito += [{**FIXED[0], "Order": 2}]
    path = [{"Field": "path-pattern", "Values": ["/a"]}]
    asked: dict[str, Any] = {
        "CreateLoadBalancer": {"Name": "new", **BALANCER},
        "CreateTargetGroup": GROUP | {"Name": "new"},
        "RegisterTargets": {"TargetGroupArn": arns["group"], "Targets": [{"Id": "198.18.1.1"}]},
        "SetSubnets": {"LoadBalancerArn": arns["balancer"], "Subnets": BALANCER["Subnets"]},
        "SetIpAddressType": {"LoadBalancerArn": arns["balancer"], "IpAddressType": "ipv4"},
        "SetSecurityGroups": {"LoadBalancerArn": arns["balancer"], "SecurityGroups": ["sg-web"]},
        "CreateListener": {"LoadBalancerArn": arns["balancer"], "Protocol": "HTTPS", "Port": 1},
        "ModifyListener": {"ListenerArn": arns["listener"]},
        "CreateRule": {"ListenerArn": arns["listener"], "Priority": 1, "Conditions": path},
        "ModifyRule": {"RuleArn": arns["rule"]},
    }[operation]
    if operation.endswith("Listener"):
        asked["DefaultActions"] = cognito
    elif operation.endswith("Rule"):
        asked["Actions"] = cognito
    getattr(elbv2, _snake(operation))(**asked)


def _snake(name: str) -> str:
    return "".join(f"_{it.lower()}" if it.isupper() else it for it in name).lstrip("_")


@pytest.mark.parametrize(
    ("operation", "action"),
    sorted({(operation, action) for it in DEMANDS for operation in it["of"] for action in it["actions"]}),
)
def test_a_call_is_denied_without_each_of_them(aws: Aws, operation: str, action: str) -> None:
    balancer = aws.create("web")["LoadBalancerArn"]
    root = aws.client("elbv2")
    group = root.create_target_group(**GROUP)["TargetGroups"][0]["TargetGroupArn"]
    asked: dict[str, Any] = {"LoadBalancerArn": balancer, "Protocol": "HTTP", "Port": 80, "DefaultActions": FIXED}
    listener = root.create_listener(**asked)["Listeners"][0]["ListenerArn"]
    path = [{"Field": "path-pattern", "Values": ["/b"]}]
    made = root.create_rule(ListenerArn=listener, Priority=9, Conditions=path, Actions=FIXED)
    pool = f"arn:aws:cognito-idp:us-east-1:{aws.account}:userpool/us-east-1_one"
    arns = {"balancer": balancer, "group": group, "listener": listener, "rule": made["Rules"][0]["RuleArn"]}
    if action == "iam:CreateServiceLinkedRole":
        without_role(aws)
    with refused("AccessDenied", f"because no identity-based policy allows the {action} action"):
        call(all_but(aws, action)("elbv2"), operation, arns | {"pool": pool})


def test_the_role_is_made_once(aws: Aws) -> None:
    without_role(aws)
    all_but(aws, "")("elbv2").create_target_group(**GROUP)
    role = aws.client("iam").get_role(RoleName="AWSServiceRoleForElasticLoadBalancing")["Role"]
    assert role["Path"] == "/aws-service-role/elasticloadbalancing.amazonaws.com/"
    all_but(aws, "iam:CreateServiceLinkedRole")("elbv2").create_load_balancer(Name="web", **BALANCER)
