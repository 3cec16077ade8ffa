import time
from typing import Any

import pytest
from conftest import Aws, refused
from issuer import URL, Issuer, trust

ALLOW_READS = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "elasticloadbalancing:Describe*", "Resource": "*"}],
}


@pytest.fixture(scope="module")
def issuer(endpoint: str) -> Issuer:
    issuer = Issuer()
    Aws(endpoint, "0").admin("POST", "oidc", {"issuer": URL, "jwks": issuer.jwks()})
    return issuer


@pytest.fixture
def role(aws: Aws) -> str:
    about = {"name": "causeway", "trust_policy": trust(aws.account), "policies": {"reads": ALLOW_READS}}
    return aws.admin("POST", "role", about)["arn"]


def assume(aws: Aws, role: str, token: str) -> dict[str, Any]:
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.session import Session

    sts = Session().create_client(
        "sts", "us-east-1", endpoint_url=aws.endpoint, config=Config(signature_version=UNSIGNED)
    )
    return sts.assume_role_with_web_identity(RoleArn=role, RoleSessionName="pod-1", WebIdentityToken=token)


def credentials(answer: dict[str, Any]) -> dict[str, str]:
    given = answer["Credentials"]
    return {
        "aws_access_key_id": given["AccessKeyId"],
        "aws_secret_access_key": given["SecretAccessKey"],
        "aws_session_token": given["SessionToken"],
    }


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_good_token_gives_the_role(aws: Aws, issuer: Issuer, role: str, algorithm: str) -> None:
    answer = assume(aws, role, issuer.token(algorithm))
    arn = f"arn:aws:sts::{aws.account}:assumed-role/causeway/pod-1"
    assert answer["AssumedRoleUser"]["Arn"] == arn
    assert aws.client("sts", **credentials(answer)).get_caller_identity()["Arn"] == arn
    aws.client("elbv2", **credentials(answer)).describe_load_balancers()
    first, *_, last = aws.journal()
    assert (first["operation"], first["principal"], first["resource"]) == (
        "AssumeRoleWithWebIdentity",
        "anonymous",
        role,
    )
    assert (last["operation"], last["principal"], last["role"]) == ("DescribeLoadBalancers", arn, role)


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        ({"aud": ["kubernetes"]}, "InvalidIdentityToken"),
        ({"iss": "https://elsewhere.test"}, "InvalidIdentityToken"),
        ({"exp": int(time.time()) - 1}, "ExpiredTokenException"),
        ({"nbf": int(time.time()) + 3600}, "InvalidIdentityToken"),
        ({"sub": "system:serviceaccount:default:other"}, "AccessDenied"),
    ],
)
def test_wrong_claims_are_refused(aws: Aws, issuer: Issuer, role: str, claims: dict[str, Any], code: str) -> None:
    with refused(code):
        assume(aws, role, issuer.token(**claims))


def test_a_wrong_signature_is_refused(aws: Aws, issuer: Issuer, role: str) -> None:
    with refused("InvalidIdentityToken"):
        assume(aws, role, Issuer().token())
    with refused("InvalidIdentityToken"):
        assume(aws, role, issuer.token()[:-8])
    with refused("InvalidIdentityToken"):
        assume(aws, role, "no.token.atall")


def test_a_role_that_is_not_there_or_trusts_others_is_refused(aws: Aws, issuer: Issuer, role: str) -> None:
    with refused("AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity") as refusal:
        assume(aws, role + "-none", issuer.token())
    assert refusal.status == 403
    other = {"name": "other", "trust_policy": trust("999999999999"), "policies": {}}
    with refused("AccessDenied"):
        assume(aws, aws.admin("POST", "role", other)["arn"], issuer.token())


def test_a_role_can_be_changed(aws: Aws, issuer: Issuer, role: str) -> None:
    elbv2 = aws.client("elbv2", **credentials(assume(aws, role, issuer.token())))
    elbv2.describe_load_balancers()
    aws.admin("POST", "role", {"name": "causeway", "trust_policy": trust(aws.account), "policies": {}})
    with refused("AccessDenied"):
        elbv2.describe_load_balancers()


def test_credentials_nobody_gave_out_are_refused(aws: Aws) -> None:
    unknown = {"aws_access_key_id": "LSIAQAAAAAAAGMKEM7X5", "aws_secret_access_key": "x", "aws_session_token": "x"}
    with refused("InvalidClientTokenId"):
        aws.client("elbv2", **unknown).describe_load_balancers()
