"""Requests are checked against the models of their services, as AWS checks them."""

from datetime import UTC, datetime

import pytest
from botocore.session import Session
from conftest import Aws, refused
from roles import session
from test_listeners import FIXED
from test_wafv2 import web_acl

from causeway_localstack import models
from causeway_localstack.validation import compiled, shown


@pytest.mark.parametrize("service", ["acm", "ec2", "elbv2", "resourcegroupstaggingapi", "s3", "sts", "wafv2"])
def test_every_pattern_of_the_models_can_be_used(service: str) -> None:
    botocore = Session()
    loader = botocore.get_component("data_loader")
    models.add_to(loader)
    shapes = loader.load_service_model(service, "service-2")["shapes"].values()
    for pattern in {shape["pattern"] for shape in shapes if "pattern" in shape}:
        compiled(pattern)


def test_letters_numbers_and_spaces_are_those_of_unicode() -> None:
    pattern = compiled(r"^([\p{L}\p{Z}\p{N}_.:/=+\-@]*)$")
    assert all(pattern.fullmatch(text) for text in ("", "ab", "é支½ ", "a_b.c:d/e=f+g-h@i"))
    assert not any(pattern.fullmatch(text) for text in ("a*b", "50%", "a\n", "{a}", "→"))


@pytest.mark.parametrize(
    ("about", "message"),
    [
        (
            {"Scheme": "public"},
            "'public' at 'scheme' failed to satisfy constraint: Member must satisfy enum value set",
        ),
        (
            {"Tags": [{"Key": ""}]},
            "at 'tags.1.member.key' failed to satisfy constraint: Member must have length greater",
        ),
        ({"Tags": [{"Value": "v"}]}, "Value null at 'tags.1.member.key' failed to satisfy constraint"),
        ({"Name": None}, "1 validation error detected: Value null at 'name' failed to satisfy constraint: Member must"),
        ({"Scheme": "public", "Type": "fast"}, "2 validation errors detected: "),
    ],
)
def test_what_the_model_does_not_allow_is_refused(aws: Aws, about: dict[str, object], message: str) -> None:
    asked = {"Name": "web", "Subnets": ["subnet-abc", "subnet-def"]} | about
    with refused("ValidationError", message) as refusal:
        aws.client("elbv2", validate=False).create_load_balancer(**{k: v for k, v in asked.items() if v is not None})
    assert refusal.status == 400
    [entry] = aws.journal("CreateLoadBalancer")
    assert message in entry["violation"]
    assert entry["parameters"].get("Subnets") == ["subnet-abc", "subnet-def"]


def test_other_services_have_codes_of_their_own(aws: Aws) -> None:
    acl = web_acl(aws.client("wafv2"), "one")["ARN"]
    with refused("ValidationException", "at 'resourceArn' failed to satisfy constraint: Member must have length"):
        aws.client("wafv2", validate=False).associate_web_acl(WebACLArn=acl, ResourceArn="arn")
    with refused("ValidationException", "at 'certificateArn' failed to satisfy constraint"):
        aws.client("acm", validate=False).describe_certificate(CertificateArn="certificate")
    with refused("ValidationError", "at 'roleSessionName' failed to satisfy constraint"):
        role = f"arn:aws:iam::{aws.account}:role/causeway"
        aws.client("sts").assume_role(RoleArn=role, RoleSessionName="a b")
    with refused("MissingParameter", "Value null at 'groupName'"):
        aws.client("ec2", validate=False).create_security_group(Description="of a test", VpcId="vpc-causeway")


def test_a_request_is_checked_before_its_callers_permissions(aws: Aws) -> None:
    nothing = {"Effect": "Deny", "Action": "*", "Resource": "*"}
    elbv2 = session(aws, none={"Version": "2012-10-17", "Statement": [nothing]})("elbv2")
    with refused("ValidationError"):
        elbv2.describe_load_balancers(PageSize=401)
    with refused("AccessDenied"):
        elbv2.describe_load_balancers(PageSize=400)


def test_parameters_are_told_to_those_who_ask(aws: Aws) -> None:
    aws.create("web")
    assert "parameters" not in aws.journal("CreateLoadBalancer")[0]
    [entry] = [it for it in aws.admin("GET", "journal?parameters=true") if it["operation"] == "CreateLoadBalancer"]
    assert entry["parameters"]["SecurityGroups"] == ["sg-web"]
    assert entry["violation"] is None


def test_secrets_are_not_in_the_journal(aws: Aws) -> None:
    oidc = {"Issuer": "https://i", "ClientId": "c", "ClientSecret": "hush", "AuthorizationEndpoint": "https://a"}
    action = {"Type": "authenticate-oidc", "Order": 1, "AuthenticateOidcConfig": oidc}
    told = shown(
        {"Actions": [action], "Body": b"data", "Tags": [{"Key": "a", "Value": None}], "When": datetime.now(UTC)}
    )
    assert told["Actions"][0]["AuthenticateOidcConfig"] == oidc | {"ClientSecret": "(hidden)"}
    assert (told["Body"], told["Tags"]) == ("(hidden)", [{"Key": "a", "Value": None}])
    arn = aws.create("web")["LoadBalancerArn"]
    asked = {"LoadBalancerArn": arn, "Protocol": "HTTPS", "Port": 443, "DefaultActions": [action, FIXED[0]]}
    with refused("ValidationError"):
        aws.client("elbv2", validate=False).create_listener(**asked)
    assert "hush" not in str(aws.admin("GET", "journal?parameters=true"))
