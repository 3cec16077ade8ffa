"""The Service Authorization Reference, against a policy of AWS's own, and the published policies against it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from roles import BEFORE, PUBLISHED, filled

from causeway_localstack import permissions
from causeway_localstack.permissions import table
from causeway_localstack.policy import Request, matches

WITNESS = json.loads((Path(__file__).parent / "data" / "AmazonEKSLoadBalancingPolicy.json").read_text())["document"]
REFERENCE = json.loads(Path(permissions.__file__).with_name("reference.json").read_text())
NOT_DEMANDED = json.loads(Path(permissions.__file__).with_name("demands.json").read_text())["not_demanded"]
ACCOUNT = "111122223333"
ELB = f"arn:aws:elasticloadbalancing:us-east-1:{ACCOUNT}"

EXAMPLES = {
    "acm:certificate": f"arn:aws:acm:us-east-1:{ACCOUNT}:certificate/c",
    "cognito-idp:userpool": f"arn:aws:cognito-idp:us-east-1:{ACCOUNT}:userpool/us-east-1_p",
    "ec2:security-group": f"arn:aws:ec2:us-east-1:{ACCOUNT}:security-group/sg-1",
    "ec2:security-group-rule": f"arn:aws:ec2:us-east-1:{ACCOUNT}:security-group-rule/sgr-1",
    "ec2:volume": f"arn:aws:ec2:us-east-1:{ACCOUNT}:volume/vol-1",
    "ec2:vpc": f"arn:aws:ec2:us-east-1:{ACCOUNT}:vpc/vpc-1",
    "elasticloadbalancing:loadbalancer/app/": f"{ELB}:loadbalancer/app/a/1",
    "elasticloadbalancing:listener/app": f"{ELB}:listener/app/a/1/2",
    "elasticloadbalancing:listener-rule/app": f"{ELB}:listener-rule/app/a/1/2/3",
    "elasticloadbalancing:targetgroup": f"{ELB}:targetgroup/a/1",
    "elasticloadbalancing:truststore": f"{ELB}:truststore/a/1",
    "iam:role": [
        f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/elasticloadbalancing.amazonaws.com/"
        "AWSServiceRoleForElasticLoadBalancing",
        f"arn:aws:iam::{ACCOUNT}:role/causeway-backup-causeway-e2e-1",
    ],
    "s3:bucket": f"arn:aws:s3:::causeway-blue-{ACCOUNT}-us-east-1",
    "s3:object": [
        f"arn:aws:s3:::causeway-blue-{ACCOUNT}-us-east-1/shop/p/name/uid/manifest.json",
        f"arn:aws:s3:::causeway-blue-{ACCOUNT}-us-east-1/shop/p/name/uid/manifest.json.sig",
        f"arn:aws:s3:::causeway-blue-{ACCOUNT}-us-east-1/causeway-e2e-1/name/uid/manifest.json",
    ],
    "wafv2:webacl": f"arn:aws:wafv2:us-east-1:{ACCOUNT}:regional/webacl/a/1",
    "wafv2:loadbalancer/app/": f"{ELB}:loadbalancer/app/a/1",
}
"""An ARN of each type of resource, or several."""

NAMESPACE = "${aws:PrincipalTag/kubernetes-namespace}"

GLOBAL = ("aws:ResourceAccount",)
"""Keys that nearly every request has, and that the reference therefore lists with no action:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html"""


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def objections(document: dict[str, Any]) -> Iterator[str]:
    """Lists statements that would never match: they allow an action by condition keys that AWS does not have for it."""
    for statement in document["Statement"]:
        if statement["Effect"] != "Allow":
            continue
        wanted = [key for keys in statement.get("Condition", {}).values() for key in keys if key not in GLOBAL]
        for name in listed(statement["Action"]):
            row = table.find(name)
            if row is None:
                yield f"{name} is not in the table"
                continue
            kinds = [f"{row.name.partition(':')[0]}:{kind.name}" for kind in row.kinds]
            examples = [example for kind in kinds for example in listed(EXAMPLES[kind])] or ["*"]
            patterns = [it.replace(NAMESPACE, "shop") for it in listed(statement["Resource"])]
            about = [it for it in examples if any(matches(pattern, it) for pattern in patterns)]
            if not about:
                yield f"{name} is about none of {statement['Resource']}"
            for key in wanted:
                if about and not any(row.knows(it, key) for it in about):
                    yield f"{name} has no {key}"


def test_a_policy_of_awss_own_asks_for_nothing_that_the_table_lacks() -> None:
    unknown = [it for it in objections(WITNESS) if "is not in the table" not in it]
    assert unknown == []


def test_the_policy_of_awss_own_grants_what_the_table_says_cannot_be_narrowed() -> None:
    for name in ("elasticloadbalancing:SetWebAcl", "ec2:GetSecurityGroupsForVpc"):
        [statement] = [it for it in WITNESS["Statement"] if name in it["Action"]]
        assert statement["Resource"] == "*" and "Condition" not in statement


@pytest.mark.parametrize("file", sorted(it.name for it in PUBLISHED.glob("policy*.json")))
def test_published_policies_ask_only_for_what_aws_knows(file: str) -> None:
    assert list(objections(filled(PUBLISHED / file, ACCOUNT))) == []


def test_the_policy_before_asked_for_more() -> None:
    assert list(objections(filled(BEFORE, ACCOUNT))) == [
        "elasticloadbalancing:SetRulePriorities has no aws:ResourceTag/causeway.example.com/cluster",
        f"elasticloadbalancing:SetWebAcl is about none of {_resources('ChangeWhatIsOurs')}",
    ]


def _resources(sid: str) -> list[str]:
    return next(it["Resource"] for it in filled(BEFORE, ACCOUNT)["Statement"] if it.get("Sid") == sid)


@pytest.mark.parametrize("file", sorted(it.name for it in PUBLISHED.glob("policy*.json")))
def test_every_published_policy_fits_a_managed_policy(file: str) -> None:
    """6,144 characters without white space, here with a long name of the cluster and of the region.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
    """
    text = (PUBLISHED / file).read_text().replace("${CLUSTER_NAME}", "n" * 64)
    text = text.replace("${AWS_REGION}", "ap-southeast-2").replace("${ACCOUNT_ID}", ACCOUNT)
    assert len("".join(text.split())) <= 6144


def test_together_they_fit_the_policies_of_a_role_itself() -> None:
    """10,240 characters, all of a role's inline policies together."""
    files = ("policy.json", "policy-network.json")
    documents = (filled(PUBLISHED / file, ACCOUNT) for file in files)
    assert sum(len(json.dumps(it, separators=(",", ":"))) for it in documents) <= 10_240


def test_whoever_may_call_may_also_do_what_the_call_depends_on() -> None:
    """The published policies grant every dependent action, but for those that are for others."""
    granted = {
        action.lower()
        for file in ("policy.json", "policy-network.json")
        for statement in filled(PUBLISHED / file, ACCOUNT)["Statement"]
        if statement["Effect"] == "Allow"
        for action in listed(statement["Action"])
    }
    needed = {it for name in granted if (row := table.find(name)) for it in row.dependents}
    assert {it for it in needed - set(NOT_DEMANDED) if it.lower() not in granted} == set()


def test_a_key_that_an_action_lacks_is_absent() -> None:
    rule = EXAMPLES["elasticloadbalancing:listener-rule/app"]
    tagged = {"aws:resourcetag/team": ["a"], "elasticloadbalancing:resourcetag/team": ["a"]}
    for name, keys in (("ModifyRule", tagged), ("SetRulePriorities", {}), ("NoSuchAction", {})):
        seen = table.as_aws_sees(Request(f"elasticloadbalancing:{name}", rule, tagged))
        assert (seen.resource, seen.context) == (rule, keys)
    balancer = EXAMPLES["elasticloadbalancing:loadbalancer/app/"]
    assert table.as_aws_sees(Request("elasticloadbalancing:SetWebACL", balancer, tagged)).resource == "*"


def test_keys_belong_to_types_of_resources() -> None:
    row = table.find("ec2:CreateSecurityGroup")
    assert row and row.knows(EXAMPLES["ec2:security-group"], "aws:RequestTag/team")
    assert not row.knows(EXAMPLES["ec2:vpc"], "aws:RequestTag/team")
    assert row.knows(EXAMPLES["ec2:vpc"], "ec2:Region")


def test_where_sources_differ_the_stricter_holds() -> None:
    assert "elasticloadbalancing:CreateWebACLAssociation" in table.find("wafv2:AssociateWebACL").dependents
    assert "wafv2:AssociateWebACL" in REFERENCE["differences"]
    assert not table.find("s3:PutObject").knows(EXAMPLES["s3:object"][0], "s3:DataAccessPointArn")
