"""EKS Pod Identity: what EKS does for a pod whose service account is associated with a role.

EKS assumes the role as the service pods.eks.amazonaws.com, with tags of the session that name cluster, namespace,
service account and pod. The role must trust it for sts:AssumeRole and sts:TagSession.
https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html, and
https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html, both read on 2026-11-24.

The tags are transitive there; roles that are assumed by a role's session are not supported here.
"""

from collections.abc import Mapping
from typing import Any

from localstack.aws.connect import connect_to

from . import identity, roles, trust
from .errors import access_denied

PRINCIPAL = ("Service", "pods.eks.amazonaws.com")
TAGS = (
    "eks-cluster-arn",
    "eks-cluster-name",
    "kubernetes-namespace",
    "kubernetes-pod-name",
    "kubernetes-pod-uid",
    "kubernetes-service-account",
)


def assume(arn: str, tags: Mapping[str, str]) -> dict[str, Any]:
    """Credentials of the role for a pod that these tags are about; raises ValueError where one of them is missing."""
    if sorted(tags) != sorted(TAGS):
        raise ValueError(f"tags must be {', '.join(TAGS)}")
    role = roles.find(arn)
    context = {f"aws:requesttag/{key}": [value] for key, value in tags.items()} | {"aws:tagkeys": list(tags)}
    wanted = ("sts:AssumeRole", "sts:TagSession")
    if role is None or not all(trust.allows(roles.trust(role), PRINCIPAL, action, context) for action in wanted):
        raise access_denied("Not authorized to perform sts:AssumeRole and sts:TagSession")
    sts = connect_to(aws_access_key_id=identity.account_of(arn), region_name="us-east-1").sts
    name = f"eks-{tags['eks-cluster-name']}-{tags['kubernetes-pod-name']}"[:64]
    answer = sts.assume_role(RoleArn=arn, RoleSessionName=name)
    identity.keep(arn, answer, tags)
    given = answer["Credentials"]
    return {key: given[key] for key in ("AccessKeyId", "SecretAccessKey", "SessionToken")}
