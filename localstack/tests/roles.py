"""Sessions of roles, and the policies that this repository publishes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from botocore.client import BaseClient
from conftest import PROJECT, Aws
from issuer import URL, Issuer, trust
from test_web_identity import assume, credentials

PUBLISHED = PROJECT.parent / "iam"
BEFORE = PROJECT / "tests" / "data" / "policy-before-the-reference.json"
"""`iam/policy.json` as it was before the Service Authorization Reference was asked: a witness of what AWS refuses."""

PREFIX = "causeway.example.com"
OWNED = {
    "ManagedBy": "causeway",
    f"{PREFIX}/cluster": "blue",
    f"{PREFIX}/namespace": "default",
    f"{PREFIX}/name": "web",
    f"{PREFIX}/uid": "1",
}
OURS = [{"Key": key, "Value": value} for key, value in OWNED.items()]
"""The tags of what an operator of the cluster `blue` owns."""

NETWORK = {
    "Effect": "Allow",
    "Action": [
        "ec2:Describe*",
        "ec2:GetSecurityGroupsForVpc",
        "ec2:ValidateSecurityGroupQuotasForInterface",
        "iam:CreateServiceLinkedRole",
    ],
    "Resource": "*",
}
"""Rights that AWS requires of a creator of load balancers, beside ELBv2's own actions."""

Client = Callable[[str], BaseClient]


def session(aws: Aws, **policies: dict[str, Any]) -> Client:
    """Clients of a role with these policies."""
    issuer = Issuer()
    aws.admin("POST", "oidc", {"issuer": URL, "jwks": issuer.jwks()})
    about = {"name": "causeway", "trust_policy": trust(aws.account), "policies": policies}
    given = credentials(assume(aws, aws.admin("POST", "role", about)["arn"], issuer.token()))
    return lambda service: aws.client(service, **given)


def filled(path: Path, account: str) -> dict[str, Any]:
    """A policy for the cluster `blue`, as `iam/README.md` describes."""
    text = path.read_text()
    for placeholder, value in (("ACCOUNT_ID", account), ("AWS_REGION", "us-east-1"), ("CLUSTER_NAME", "blue")):
        text = text.replace(f"${{{placeholder}}}", value)
    return json.loads(text)


def without_role(aws: Aws) -> None:
    """Takes the account's service-linked role away: the next load balancer or target group is its first."""
    iam = aws.client("iam")
    name = "AWSServiceRoleForElasticLoadBalancing"
    if any(role["RoleName"] == name for role in iam.list_roles()["Roles"]):
        iam.delete_role(RoleName=name)
