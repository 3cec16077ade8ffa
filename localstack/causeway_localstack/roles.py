"""IAM roles: their documents, and a way to make one in a single call."""

import json
from collections.abc import Mapping
from typing import Any

from localstack.aws.connect import connect_to
from moto.iam.exceptions import NotFoundException
from moto.iam.models import Role, iam_backends

from .identity import account_of


def find(arn: str) -> Role | None:
    """The role of this ARN."""
    try:
        return iam_backends[account_of(arn)]["aws"].get_role_by_arn(arn)
    except NotFoundException:
        return None


def policies(role: Role) -> list[Mapping[str, Any]]:
    """All policies of a role, inline and attached."""
    attached = [
        version.document
        for policy in role.managed_policies.values()
        for version in policy.versions
        if version.version_id == policy.default_version_id
    ]
    return [document(it) for it in [*role.policies.values(), *attached]]


def tags(role: Role) -> dict[str, str]:
    """Its tags."""
    return {tag["Key"]: tag.get("Value") or "" for tag in role.tags or []}


def trust(role: Role) -> Mapping[str, Any]:
    """Who may assume it."""
    return document(role.assume_role_policy_document)


def document(text: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """A policy document, which moto keeps as text."""
    return json.loads(text) if isinstance(text, str) else text


def put(
    account: str,
    name: str,
    trust_policy: Mapping[str, Any],
    inline: Mapping[str, Mapping[str, Any]],
    tagged: Mapping[str, str],
) -> str:
    """Makes a role, or replaces it by one with just these documents and tags; returns its ARN."""
    iam = connect_to(aws_access_key_id=account, region_name="us-east-1").iam
    arn = f"arn:aws:iam::{account}:role/{name}"
    role = find(arn)
    if role is None:
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust_policy))
    else:
        iam.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(trust_policy))
        for old in iam.list_role_policies(RoleName=name)["PolicyNames"]:
            iam.delete_role_policy(RoleName=name, PolicyName=old)
    if role is not None and tags(role):
        iam.untag_role(RoleName=name, TagKeys=list(tags(role)))
    if tagged:
        iam.tag_role(RoleName=name, Tags=[{"Key": key, "Value": value} for key, value in tagged.items()])
    for policy_name, policy in inline.items():
        iam.put_role_policy(RoleName=name, PolicyName=policy_name, PolicyDocument=json.dumps(policy))
    return arn
