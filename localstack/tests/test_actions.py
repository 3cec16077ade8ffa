from typing import Any

import pytest
from localstack.aws.api import CommonServiceException

from causeway_localstack.actions import settled

GROUP, OTHER = "arn:aws:elasticloadbalancing:us-east-1:1:targetgroup/a/1", "arn:…:targetgroup/b/2"
FIXED = {"Type": "fixed-response", "FixedResponseConfig": {"StatusCode": "404"}}
OIDC = {
    "Issuer": "https://issuer.test",
    "AuthorizationEndpoint": "https://issuer.test/authorize",
    "TokenEndpoint": "https://issuer.test/token",
    "UserInfoEndpoint": "https://issuer.test/user",
    "ClientId": "causeway",
    "ClientSecret": "secret",
}
COGNITO = {
    "UserPoolArn": "arn:aws:cognito-idp:us-east-1:100000000001:userpool/us-east-1_x",
    "UserPoolClientId": "client",
    "UserPoolDomain": "domain",
}
JWT = {"JwksEndpoint": "https://issuer.test/keys", "Issuer": "https://issuer.test"}
SESSION = {
    "SessionCookieName": "AWSELBAuthSessionCookie",
    "Scope": "openid",
    "SessionTimeout": 604800,
    "OnUnauthenticatedRequest": "authenticate",
}


def forward(*groups: tuple[str, int | None], **config: Any) -> dict[str, Any]:
    tuples = [{"TargetGroupArn": arn} | ({} if weight is None else {"Weight": weight}) for arn, weight in groups]
    return {"Type": "forward", "ForwardConfig": {"TargetGroups": tuples, **config}}


def redirect(**config: str) -> dict[str, Any]:
    return {"Type": "redirect", "RedirectConfig": {"StatusCode": "HTTP_301", **config}}


def fixed(**config: str) -> dict[str, Any]:
    return {"Type": "fixed-response", "FixedResponseConfig": {"StatusCode": "200", **config}}


def first(kind: str, config: dict[str, Any]) -> list[dict[str, Any]]:
    names = {"oidc": "AuthenticateOidcConfig", "cognito": "AuthenticateCognitoConfig"}
    if kind == "jwt":
        return [{"Type": "jwt-validation", "JwtValidationConfig": config, "Order": 1}, FIXED | {"Order": 2}]
    return [{"Type": f"authenticate-{kind}", names[kind]: config, "Order": 1}, FIXED | {"Order": 2}]


def test_one_target_group_is_answered_in_both_forms() -> None:
    answer = {
        "Type": "forward",
        "TargetGroupArn": GROUP,
        "ForwardConfig": {
            "TargetGroups": [{"TargetGroupArn": GROUP, "Weight": 1}],
            "TargetGroupStickinessConfig": {"Enabled": False},
        },
    }
    for asked in ({"Type": "forward", "TargetGroupArn": GROUP}, forward((GROUP, None)), answer):
        assert settled([asked], "HTTP", 80).actions == [answer]


def test_several_target_groups_are_weighted() -> None:
    stickiness = {"Enabled": True, "DurationSeconds": 60}
    [answer] = settled([forward((GROUP, 0), (OTHER, 999), TargetGroupStickinessConfig=stickiness)], "HTTP", 80).actions
    assert "TargetGroupArn" not in answer
    assert [it["Weight"] for it in answer["ForwardConfig"]["TargetGroups"]] == [0, 999]
    assert answer["ForwardConfig"]["TargetGroupStickinessConfig"] == stickiness


def test_a_redirect_is_completed() -> None:
    [answer] = settled([redirect(Protocol="HTTPS", Port="443")], "HTTP", 80).actions
    assert answer["RedirectConfig"] == {
        "Protocol": "HTTPS",
        "Port": "443",
        "Host": "#{host}",
        "Path": "/#{path}",
        "Query": "#{query}",
        "StatusCode": "HTTP_301",
    }


def test_actions_are_put_in_order() -> None:
    actions = settled(list(reversed(first("jwt", JWT))), "HTTPS", 443).actions
    assert [(it["Type"], it["Order"]) for it in actions] == [("jwt-validation", 1), ("fixed-response", 2)]


def test_authentication_is_completed_and_its_secret_kept_apart() -> None:
    answer = settled(first("oidc", OIDC), "HTTPS", 443)
    shown = {key: value for key, value in OIDC.items() if key != "ClientSecret"}
    assert answer.actions[0]["AuthenticateOidcConfig"] == shown | SESSION
    assert answer.client_secret == "secret"
    again = settled(first("oidc", shown | {"UseExistingClientSecret": True}), "HTTPS", 443, answer.client_secret)
    assert again == answer
    cognito = settled(first("cognito", COGNITO | {"Scope": "email"}), "HTTPS", 443)
    assert cognito.actions[0]["AuthenticateCognitoConfig"] == COGNITO | SESSION | {"Scope": "email"}
    assert cognito.client_secret is None


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        ([], "ValidationError", "At least one action"),
        ([{"Type": "drop"}], "ValidationError", "'drop' is not valid"),
        ([{"Type": "forward"}], "ValidationError", "target group ARN must be specified"),
        ([{"Type": "redirect"}], "ValidationError", "RedirectConfig must be specified"),
        ([FIXED | {"TargetGroupArn": GROUP}], "InvalidLoadBalancerAction", "TargetGroupArn cannot be used"),
        ([FIXED | {"RedirectConfig": {"Port": "1"}}], "InvalidLoadBalancerAction", "RedirectConfig cannot be used"),
        ([FIXED, FIXED], "ValidationError", "order must be specified"),
        ([FIXED | {"Order": 1}, FIXED | {"Order": 1}], "ValidationError", "must be unique"),
        ([FIXED | {"Order": 1}, FIXED | {"Order": 2}], "InvalidLoadBalancerAction", "exactly one action"),
        ([FIXED | {"Order": 0}], "ValidationError", "between 1 and 50000"),
        (first("jwt", JWT)[:1], "InvalidLoadBalancerAction", "exactly one action"),
        ([first("jwt", JWT)[0] | {"Order": 3}, FIXED | {"Order": 2}], "InvalidLoadBalancerAction", "the last"),
        (
            [first("jwt", JWT)[0], first("oidc", OIDC)[0] | {"Order": 2}, FIXED | {"Order": 3}],
            "TooManyActions",
            "At most one",
        ),
        ([forward((GROUP, 1000))], "ValidationError", "between 0 and 999"),
        ([forward((GROUP, -1))], "ValidationError", "between 0 and 999"),
        ([forward((GROUP, 1), (GROUP, 2))], "ValidationError", "only once"),
        ([forward(*((f"{GROUP}{number}", 1) for number in range(6)))], "ValidationError", "at most '5'"),
        ([forward((OTHER, 1)) | {"TargetGroupArn": GROUP}], "ValidationError", "cannot specify both"),
        ([forward((GROUP, 1), TargetGroupStickinessConfig={"Enabled": True})], "ValidationError", "duration"),
        (
            [forward((GROUP, 1), TargetGroupStickinessConfig={"Enabled": True, "DurationSeconds": 604801})],
            "ValidationError",
            "between 1 and 604800",
        ),
        ([redirect()], "InvalidLoadBalancerAction", "creates a loop"),
        ([redirect(Query="a=b")], "InvalidLoadBalancerAction", "creates a loop"),
        ([redirect(Protocol="HTTP", Port="80")], "InvalidLoadBalancerAction", "creates a loop"),
        ([redirect(Protocol="FTP")], "ValidationError", "protocol 'FTP'"),
        ([redirect(Port="0")], "ValidationError", "port '0'"),
        ([redirect(Port="http")], "ValidationError", "port 'http'"),
        ([redirect(Path="a")], "ValidationError", "must start with '/'"),
        ([redirect(Path="/" * 129)], "ValidationError", "1 to 128"),
        ([redirect(Host="")], "ValidationError", "1 to 128"),
        ([redirect(Host="#{target}")], "ValidationError", "'#{target}'"),
        ([redirect(StatusCode="HTTP_307", Port="81")], "ValidationError", "HTTP_301 or HTTP_302"),
        ([fixed(StatusCode="301")], "ValidationError", "2XX, 4XX or 5XX"),
        ([fixed(StatusCode="4040")], "ValidationError", "2XX, 4XX or 5XX"),
        ([fixed(MessageBody="a" * 1025)], "ValidationError", "'1024'"),
        ([fixed(ContentType="image/png")], "ValidationError", "content type"),
        (first("jwt", JWT | {"JwksEndpoint": "http://issuer.test/keys"}), "ValidationError", "https://"),
        (
            first("jwt", JWT | {"AdditionalClaims": [{"Format": "single-string", "Name": "exp", "Values": ["1"]}]}),
            "ValidationError",
            "'exp'",
        ),
        (first("oidc", OIDC | {"Issuer": "issuer"}), "ValidationError", "Issuer 'issuer'"),
        (first("oidc", OIDC | {"ClientSecret": ""}), "ValidationError", "client secret must be specified"),
        (first("oidc", OIDC | {"UseExistingClientSecret": True}), "ValidationError", "cannot specify both"),
        (
            first("oidc", OIDC | {"ClientSecret": "", "UseExistingClientSecret": True}),
            "ValidationError",
            "no existing client secret",
        ),
        (first("oidc", OIDC | {"SessionTimeout": 604801}), "ValidationError", "SessionTimeout"),
        (first("oidc", OIDC | {"OnUnauthenticatedRequest": "ask"}), "ValidationError", "'ask'"),
        (first("cognito", COGNITO | {"UserPoolArn": "pool"}), "ValidationError", "UserPoolArn 'pool'"),
    ],
)
def test_what_no_action_can_be_is_refused(asked: list[dict[str, Any]], code: str, message: str) -> None:
    secure = any(action["Type"].startswith(("authenticate", "jwt")) for action in asked)
    with pytest.raises(CommonServiceException) as refusal:
        settled(asked, "HTTPS" if secure else "HTTP", 80)
    assert refusal.value.code == code
    assert message in refusal.value.message


@pytest.mark.parametrize("asked", [first("jwt", JWT), first("oidc", OIDC), first("cognito", COGNITO)])
def test_authentication_needs_https(asked: list[dict[str, Any]]) -> None:
    with pytest.raises(CommonServiceException, match="only on HTTPS listeners"):
        settled(asked, "HTTP", 80)


def test_https_is_not_redirected_to_http() -> None:
    with pytest.raises(CommonServiceException, match="cannot be redirected"):
        settled([redirect(Protocol="HTTP", Port="80")], "HTTPS", 443)
    settled([redirect(Protocol="HTTPS")], "HTTP", 80)
