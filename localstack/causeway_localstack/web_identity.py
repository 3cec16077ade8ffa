"""AssumeRoleWithWebIdentity, as strict as AWS: the token's signature, audience and age, and the role's trust in it.

https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html
"""

import base64
import binascii
import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from localstack.aws.api import ServiceRequest

from . import roles, trust
from .errors import access_denied, invalid
from .identity import account_of

AUDIENCE = "sts.amazonaws.com"

_keys: dict[str, list[Mapping[str, Any]]] = {}
_lock = threading.Lock()


def trust_issuer(issuer: str, keys: Mapping[str, Any]) -> None:
    """Makes an issuer known by its JWKS document, as an OIDC provider in IAM would; raises ValueError for none."""
    if not issuer.startswith("https://"):
        raise ValueError("issuer must be an https URL")
    listed = keys.get("keys")
    if not isinstance(listed, list) or not listed:
        raise ValueError("jwks must be a JWKS document with at least one key")
    with _lock:
        _keys[issuer] = listed


def check(request: ServiceRequest) -> None:
    """Refuses what AWS would refuse."""
    claims = _verified(request["WebIdentityToken"])
    issuer = claims["iss"].removeprefix("https://")
    audiences = claims.get("aud") or []
    audiences = [audiences] if isinstance(audiences, str) else audiences
    if AUDIENCE not in audiences:
        raise invalid("InvalidIdentityToken", "Incorrect token audience")
    role = roles.find(request["RoleArn"])
    context = {f"{issuer}:sub".lower(): [claims.get("sub", "")], f"{issuer}:aud".lower(): audiences}
    provider = f"arn:aws:iam::{account_of(request['RoleArn'])}:oidc-provider/{issuer}"
    principal = ("Federated", provider)
    if role is None or not trust.allows(roles.trust(role), principal, "sts:AssumeRoleWithWebIdentity", context):
        raise access_denied("Not authorized to perform sts:AssumeRoleWithWebIdentity")


def _verified(token: str) -> dict[str, Any]:
    """The claims of a token whose issuer is known, whose signature holds and whose time has come and not passed."""
    try:
        head, body, signature = token.split(".")
        header, claims = json.loads(_decoded(head)), json.loads(_decoded(body))
        signed, seal = f"{head}.{body}".encode(), _decoded(signature)
    except (ValueError, binascii.Error):
        raise invalid("InvalidIdentityToken", "The ID Token provided is not a valid JWT.") from None
    issuer = claims.get("iss")
    if issuer not in _keys:
        raise invalid("InvalidIdentityToken", f"No OpenIDConnect provider found in your account for {issuer}")
    candidates = [key for key in _keys[issuer] if key.get("kid") == header.get("kid")]
    if not any(_sealed(key, header.get("alg"), signed, seal) for key in candidates):
        raise invalid("InvalidIdentityToken", "Couldn't retrieve verification key from your identity provider")
    now = time.time()
    if now >= claims.get("exp", 0):
        raise invalid(
            "ExpiredTokenException", f"Token expired: current date/time {int(now)} must be before {claims.get('exp')}"
        )
    if now < claims.get("nbf", 0) - 60:
        raise invalid("InvalidIdentityToken", "The token is not yet valid")
    return claims


def _sealed(key: Mapping[str, Any], algorithm: str | None, signed: bytes, seal: bytes) -> bool:
    try:
        if key["kty"] == "RSA" and algorithm == "RS256":
            public = rsa.RSAPublicNumbers(_number(key["e"]), _number(key["n"])).public_key()
            public.verify(seal, signed, padding.PKCS1v15(), SHA256())
        elif key["kty"] == "EC" and algorithm == "ES256":
            point = ec.EllipticCurvePublicNumbers(_number(key["x"]), _number(key["y"]), ec.SECP256R1()).public_key()
            half = len(seal) // 2
            pair = encode_dss_signature(int.from_bytes(seal[:half]), int.from_bytes(seal[half:]))
            point.verify(pair, signed, ec.ECDSA(SHA256()))
        else:
            return False
    except InvalidSignature:
        return False
    return True


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _number(text: str) -> int:
    return int.from_bytes(_decoded(text))
