"""Balancers that ask clients to log in, or for a token, as AWS documents it.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html (2026-11-23)
https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-verify-jwt.html (2026-11-23)
"""

import base64
import http.client
import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from carrying import Answer, Site, ask, condition, fixed, forward, site
from certificates import imported
from conftest import Aws
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from provider import CLIENT, Provider, query

HOST = "one.example.com"
COOKIE = "AWSELBAuthSessionCookie"


@pytest.fixture
def web(aws: Aws) -> Iterator[Site]:
    with site(aws) as made:
        yield made


@pytest.fixture
def provider(aws: Aws, tmp_path: Path) -> Iterator[Provider]:
    made = Provider(tmp_path)
    yield made.trusted(aws)
    made.close()


class Browser:
    """A client that keeps cookies."""

    def __init__(self, web: Site) -> None:
        self.web = web
        self.jar: dict[str, str] = {}

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """One request, with the cookies so far."""
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(self.web.address, 443, timeout=120, context=context)
        cookie = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.jar.items())} if self.jar else {}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = ask(connection, path, method, {"Host": HOST} | cookie | named)
        connection.close()
        for line in answer.headers.get_all("Set-Cookie") or []:
            name, _, rest = line.partition("=")
            if "Max-Age=0" in rest:
                self.jar.pop(name, None)
            else:
                self.jar[name] = rest.partition(";")[0]
        return answer

    def log_in(self, provider: Provider, path: str) -> Answer:
        """Goes there by way of the provider; what the balancer says in the end of that."""
        sent = self.get(path)
        assert sent.status == 302, sent
        back = urlsplit(provider.sends_back(sent.headers["Location"]))
        assert (back.scheme, back.netloc, back.path) == ("https", HOST, "/oauth2/idpresponse")
        return self.get(f"{back.path}?{back.query}")


def oidc(provider: Provider, **about: Any) -> dict[str, Any]:
    return {"Type": "authenticate-oidc", "Order": 1, "AuthenticateOidcConfig": provider.config(**about)}


def jwt(provider: Provider, *claims: dict[str, Any]) -> dict[str, Any]:
    config = {"JwksEndpoint": f"{provider.url}/keys", "Issuer": provider.url, "AdditionalClaims": list(claims)}
    return {"Type": "jwt-validation", "Order": 1, "JwtValidationConfig": config}


def private(web: Site, authenticate: dict[str, Any], last: dict[str, Any] | None = None) -> Browser:
    """A listener whose paths below /private ask for a log-in, and a client of it."""
    certificates = [{"CertificateArn": imported(web.aws, HOST)}]
    listener = web.listen(fixed("open"), 443, Protocol="HTTPS", Certificates=certificates)
    if last is None:
        group = web.group("app", web.backend("app"))
        last = forward(group)
    web.rule(
        listener, 1, condition("path-pattern", "PathPatternConfig", "/private*"), authenticate, {"Order": 2} | last
    )
    web.in_force()
    if last["Type"] == "forward":
        web.healthy(last["ForwardConfig"]["TargetGroups"][0]["TargetGroupArn"])
    return Browser(web)


def test_a_client_logs_in_and_the_target_is_told_who_it_is(web: Site, provider: Provider) -> None:
    parameters = {"display": "page", "prompt": "login"}
    browser = private(web, oidc(provider, Scope="openid email", AuthenticationRequestExtraParams=parameters))
    sent = browser.get("/private/a?b=c&d=e%20f")
    assert (sent.status, browser.get("/").text) == (302, "open")
    assert sent.headers["Location"].startswith(f"{provider.url}/authorize?")
    asked = query(sent.headers["Location"])
    state = asked.pop("state")
    assert asked == parameters | {
        "client_id": CLIENT,
        "redirect_uri": f"https://{HOST}/oauth2/idpresponse",
        "response_type": "code",
        "scope": "openid email",
    }
    assert provider.secret not in state

    back = browser.log_in(provider, "/private/a?b=c&d=e%20f")
    assert (back.status, back.headers["Location"]) == (302, f"https://{HOST}/private/a?b=c&d=e%20f")
    cookies = [line for line in back.headers.get_all("Set-Cookie") if line.startswith(f"{COOKIE}-0=")]
    assert cookies[0].endswith("; Path=/; Max-Age=604800; HttpOnly; Secure; SameSite=None")

    inside = browser.get("/private/a?b=c&d=e%20f", x_amzn_oidc_identity="another user")
    assert inside.status == 200
    headers = inside.said["headers"]
    assert inside.said["path"] == "/private/a?b=c&d=e%20f"
    assert headers["x-amzn-oidc-identity"] == "u-1"
    assert headers["x-amzn-oidc-accesstoken"] in provider.tokens
    head, claims = _signed(web, headers["x-amzn-oidc-data"])
    assert (head["alg"], head["client"], head["signer"], head["iss"]) == ("ES256", CLIENT, web.arn, provider.url)
    assert (claims["sub"], claims["email"]) == ("u-1", "jo@example.com")


def _signed(web: Site, token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims of what the target was told, whose signature holds."""
    head, body, seal = token.split(".")
    key = web.aws.admin("GET", "dataplane")["public_key"]
    numbers = [int.from_bytes(base64.urlsafe_b64decode(key[name] + "==")) for name in ("x", "y")]
    public = ec.EllipticCurvePublicNumbers(*numbers, ec.SECP256R1()).public_key()
    data = base64.urlsafe_b64decode(seal)
    pair = encode_dss_signature(int.from_bytes(data[:32]), int.from_bytes(data[32:]))
    public.verify(pair, f"{head}.{body}".encode(), ec.ECDSA(SHA256()))
    return json.loads(base64.urlsafe_b64decode(head)), json.loads(base64.urlsafe_b64decode(body))


@pytest.mark.parametrize(("what", "status"), [("deny", 401), ("allow", 200)])
def test_who_has_not_logged_in_is_refused_or_goes_on(web: Site, provider: Provider, what: str, status: int) -> None:
    browser = private(web, oidc(provider, OnUnauthenticatedRequest=what))
    answer = browser.get("/private", x_amzn_oidc_identity="forged", x_amzn_oidc_data="made up")
    assert answer.status == status
    if status == 200:
        assert not [name for name in answer.said["headers"] if name.startswith("x-amzn-oidc")]


def test_a_session_ends_when_its_time_is_over_or_its_cookie_is_gone(web: Site, provider: Provider) -> None:
    browser = private(web, oidc(provider, SessionTimeout=2, SessionCookieName="shop"), fixed("in"))
    browser.log_in(provider, "/private")
    assert browser.get("/private").text == "in"
    kept = dict(browser.jar)
    time.sleep(2.1)
    assert browser.get("/private").status == 302

    browser.log_in(provider, "/private")
    assert browser.get("/private").text == "in"
    # An application logs its user out by letting the cookie expire.
    browser.jar = {name: value for name, value in browser.jar.items() if not name.startswith("shop")}
    assert browser.get("/private").status == 302
    browser.jar = kept | {"shop-0": "A" * 100}
    assert browser.get("/private").status == 302


def test_a_session_is_good_for_one_balancer_and_provider_alone(web: Site, provider: Provider) -> None:
    browser = private(web, oidc(provider), fixed("in"))
    listener = web.elbv2.describe_listeners(LoadBalancerArn=web.arn)["Listeners"][0]["ListenerArn"]
    other = condition("path-pattern", "PathPatternConfig", "/other*")
    elsewhere = oidc(provider, Issuer="https://elsewhere.example.com")
    web.rule(listener, 2, other, elsewhere, {"Order": 2} | fixed("elsewhere"))
    web.rule(
        listener, 3, condition("path-pattern", "PathPatternConfig", "/too"), oidc(provider), {"Order": 2} | fixed("too")
    )
    web.in_force()
    browser.log_in(provider, "/private")
    assert [browser.get(path).status for path in ("/private", "/too", "/other")] == [200, 200, 302]


def test_a_log_in_that_somebody_else_began_is_refused(web: Site, provider: Provider) -> None:
    browser = private(web, oidc(provider), fixed("in"))
    back = urlsplit(provider.sends_back(browser.get("/private").headers["Location"]))
    assert Browser(web).get(f"{back.path}?{back.query}").status == 401
    for wrong in ("/oauth2/idpresponse", "/oauth2/idpresponse?code=a", "/oauth2/idpresponse?code=a&state=b"):
        assert browser.get(wrong).status == 401
    assert "/token" not in provider.asked


def test_a_provider_that_says_no_or_nothing(web: Site, provider: Provider) -> None:
    browser = private(web, oidc(provider), fixed("in"))
    provider.refuses = True
    assert browser.log_in(provider, "/private").status == 561
    provider.refuses, provider.secret = False, "another"
    assert browser.log_in(provider, "/private").status == 561
    provider.secret = "first: secret"
    provider.user = {"sub": "u-1", "about": "x" * 12_000}
    assert browser.log_in(provider, "/private").status == 500
    provider.user = {"sub": "u-1", "about": "x" * 9_000}
    assert browser.log_in(provider, "/private").status == 302
    assert {f"{COOKIE}-{at}" for at in range(3)} <= set(browser.jar)
    assert browser.get("/private").text == "in"
    browser.jar = {}
    back = urlsplit(provider.sends_back(browser.get("/private").headers["Location"]))
    provider.close()
    assert browser.get(f"{back.path}?{back.query}").status == 500


def test_an_expired_access_token_is_renewed_with_a_refresh_token(web: Site, provider: Provider) -> None:
    provider.lasting = 1
    browser = private(web, oidc(provider))
    browser.log_in(provider, "/private")
    first = browser.get("/private").said["headers"]["x-amzn-oidc-accesstoken"]
    provider.user = {"sub": "u-1", "email": "new@example.com"}
    time.sleep(1.1)
    provider.lasting = 3600
    renewed = browser.get("/private")
    assert renewed.headers.get_all("Set-Cookie"), "the session with the new token"
    headers = browser.get("/private").said["headers"]
    assert headers["x-amzn-oidc-accesstoken"] != first
    assert _signed(web, headers["x-amzn-oidc-data"])[1]["email"] == "new@example.com"

    provider.lasting = 1
    browser.jar = {}
    browser.log_in(provider, "/private")
    time.sleep(1.1)
    provider.refresh = None
    assert browser.get("/private").status == 302, "the provider knows no such session any more"


def test_another_client_secret_is_used_at_once(web: Site, provider: Provider) -> None:
    browser = private(web, oidc(provider), fixed("in"))
    listener = web.elbv2.describe_listeners(LoadBalancerArn=web.arn)["Listeners"][0]["ListenerArn"]
    rule = next(it for it in web.elbv2.describe_rules(ListenerArn=listener)["Rules"] if not it["IsDefault"])
    provider.secret = "second"
    assert browser.log_in(provider, "/private").status == 561
    web.elbv2.modify_rule(RuleArn=rule["RuleArn"], Actions=[oidc(provider), {"Order": 2} | fixed("in")])
    web.in_force()
    assert browser.log_in(provider, "/private").status == 302
    assert browser.get("/private").text == "in"


def test_a_good_token_goes_on_as_it_is(web: Site, provider: Provider) -> None:
    claim = {"Format": "space-separated-values", "Name": "scope", "Values": ["orders", "refunds"]}
    roles = {"Format": "string-array", "Name": "roles", "Values": ["admin"]}
    one = {"Format": "single-string", "Name": "tenant", "Values": ["a b", "c"]}
    browser = private(web, jwt(provider, claim, roles, one))
    now = int(time.time())
    good = {"iss": provider.url, "scope": "read orders", "roles": ["user", "admin"], "tenant": "a b"}

    def status(token: str, scheme: str = "Bearer") -> int:
        return browser.get("/private", Authorization=f"{scheme} {token}").status

    token = provider.issuer.token(**good)
    passed = browser.get("/private", Authorization=f"Bearer {token}")
    assert (passed.status, passed.said["headers"]["authorization"]) == (200, f"Bearer {token}")
    assert browser.get("/private").status == 401
    assert status(token, "Basic") == 401
    assert status(token[:-4] + "AAAA") == 401
    assert status("a.b.c") == 401
    assert status(provider.issuer.token("ES256", **good)) == 401
    for wrong in (
        {"iss": "https://elsewhere"},
        {"exp": now - 1},
        {"exp": None},
        {"nbf": now + 600},
        {"iat": now + 600},
        {"scope": "reorders"},
        {"scope": ["orders"]},
        {"roles": "admin"},
        {"roles": ["user"]},
        {"tenant": "a"},
        {"tenant": None},
    ):
        assert status(provider.issuer.token(**good | wrong)) == 401, wrong
    assert provider.asked.count("/keys") <= 2, "keys are kept"


def test_keys_that_cannot_be_had_are_an_error_of_the_balancer(web: Site, provider: Provider) -> None:
    browser = private(web, jwt(provider), fixed("in"))
    token = provider.issuer.token(iss=provider.url)
    provider.close()
    assert browser.get("/private", Authorization=f"Bearer {token}").status == 500


def test_a_provider_with_a_certificate_of_nobody_known_is_not_asked(web: Site, aws: Aws, tmp_path: Path) -> None:
    stranger = Provider(tmp_path)
    browser = private(web, oidc(stranger), fixed("in"))
    assert browser.log_in(stranger, "/private").status == 500
    assert "/token" not in stranger.asked
    stranger.close()
