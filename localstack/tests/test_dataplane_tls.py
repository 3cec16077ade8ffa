"""HTTPS: listeners with certificates of ACM, and targets that speak TLS."""

import http.client
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from carrying import Site, ask, condition, fixed, forward, site
from certificates import imported, pem
from conftest import Aws
from cryptography import x509
from cryptography.x509.oid import NameOID


@pytest.fixture
def web(aws: Aws) -> Iterator[Site]:
    with site(aws) as made:
        yield made


def shown(web: Site, name: str) -> str:
    """The name in the certificate that a client gets which asks for this name."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((web.address, 443), timeout=120) as plain,
        context.wrap_socket(plain, server_hostname=name) as secure,
    ):
        seen = x509.load_der_x509_certificate(secure.getpeercert(binary_form=True))
    return str(seen.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def get(web: Site, path: str = "/") -> tuple[int, str]:
    context = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection(web.address, 443, timeout=120, context=context)
    got = ask(connection, path, "GET", {})
    connection.close()
    return got.status, got.text


def test_a_listener_shows_the_certificate_of_the_host_asked_for(web: Site) -> None:
    first, second = imported(web.aws, "one.example.com"), imported(web.aws, "*.two.example.com")
    listener = web.listen(fixed("secret"), 443, Protocol="HTTPS", Certificates=[{"CertificateArn": first}])
    assert get(web) == (200, "secret")
    assert shown(web, "a.two.example.com") == "one.example.com"
    web.elbv2.add_listener_certificates(ListenerArn=listener, Certificates=[{"CertificateArn": second}])
    web.in_force()
    assert shown(web, "a.two.example.com") == "*.two.example.com"
    assert shown(web, "other.example.com") == "one.example.com"


def test_targets_that_speak_tls_are_not_verified(web: Site, tmp_path: Path) -> None:
    chain, key = pem("inside.example.com")
    (tmp_path / "both.pem").write_bytes(chain + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both.pem")
    group = web.group("app", web.backend("a", context=context), Protocol="HTTPS", HealthCheckProtocol="HTTPS")
    certificates = [{"CertificateArn": imported(web.aws, "one.example.com")}]
    web.listen(forward(group), 443, Protocol="HTTPS", Certificates=certificates)
    web.healthy(group)
    status, text = get(web)
    assert status == 200
    assert '"x-forwarded-proto": "https"' in text


def test_what_only_aws_can_do_is_said(web: Site) -> None:
    certificates = [{"CertificateArn": imported(web.aws, "one.example.com")}]
    listener = web.listen(fixed("fine"), 443, Protocol="HTTPS", Certificates=certificates)
    cognito = {
        "UserPoolArn": "arn:aws:cognito-idp:us-east-1:111111111111:userpool/us-east-1_example",
        "UserPoolClientId": "client",
        "UserPoolDomain": "example",
    }
    authenticate = {"Type": "authenticate-cognito", "Order": 1, "AuthenticateCognitoConfig": cognito}
    private = condition("path-pattern", "PathPatternConfig", "/private")
    web.rule(listener, 1, private, authenticate, {"Order": 2, **fixed("in")})
    web.in_force()
    status, text = get(web, "/private")
    assert (status, "authenticate-cognito" in text) == (501, True)
    assert get(web) == (200, "fine")
