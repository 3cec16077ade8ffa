"""JSON web tokens: those that clients bring, checked by the issuer's keys, and those that targets get.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-verify-jwt.html (2026-11-23): RS256 alone;
`iss` and `exp` are demanded, `nbf` and `iat` checked where they are; at most 10 keys; anything else is 401.
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
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from . import calls

MOST_KEYS = 10
GOOD_FOR = 300.0
"""Seconds for which keys are kept; AWS does not say."""
SIGNED_FOR = 120
"""Seconds for which targets may believe what they are told of a user."""

Claims = Mapping[str, Any]


class Keys:
    """Keys of issuers, as they were fetched last."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, list[Claims]]] = {}
        self._lock = threading.Lock()

    def of(self, endpoint: str, kid: Any) -> list[Claims]:
        """The keys that may have sealed a token; fetched again where none is known by that name."""
        with self._lock:
            fetched, keys = self._known.get(endpoint, (float("-inf"), []))
        age = time.monotonic() - fetched
        fitting = [key for key in keys if key.get("kid") == kid]
        # A client that makes up names must not cause a fetch for each.
        if age > GOOD_FOR or (not fitting and age > 1):
            keys = _fetched(endpoint)
            with self._lock:
                self._known[endpoint] = time.monotonic(), keys
            fitting = [key for key in keys if key.get("kid") == kid]
        return fitting


def _fetched(endpoint: str) -> list[Claims]:
    answer = calls.ask(endpoint)
    keys = answer.get("keys") if isinstance(answer, dict) else None
    if not isinstance(keys, list) or len(keys) > MOST_KEYS:
        raise calls.ProviderError(f"{endpoint} names no keys, or more than {MOST_KEYS}")
    return [key for key in keys if isinstance(key, dict)]


def is_good(config: Claims, authorization: str, keys: Keys) -> bool:
    """Reports whether the request may go on."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        return False
    try:
        head, body, seal = token.strip().split(".")
        header, claims = json.loads(_decoded(head)), json.loads(_decoded(body))
        sealed = _decoded(seal)
    except (ValueError, binascii.Error):
        return False
    if not isinstance(header, dict) or not isinstance(claims, dict) or header.get("alg") != "RS256":
        return False
    fitting = keys.of(config["JwksEndpoint"], header.get("kid"))
    if not any(_sealed(key, f"{head}.{body}".encode(), sealed) for key in fitting):
        return False
    return _in_time(claims) and claims.get("iss") == config["Issuer"] and _says(config, claims)


def _in_time(claims: Claims) -> bool:
    now = time.time()
    times = [claims.get(name) for name in ("exp", "nbf", "iat")]
    if times[0] is None or not all(it is None or isinstance(it, int | float) for it in times):
        return False
    return now < times[0] and all(it is None or it <= now for it in times[1:])


def _says(config: Claims, claims: Claims) -> bool:
    """Reports whether each claim that is asked for has one of the values."""
    for wanted in config.get("AdditionalClaims") or []:
        value = claims.get(wanted["Name"])
        match wanted["Format"]:
            case "single-string":
                said = {value} if isinstance(value, str) else set()
            case "space-separated-values":
                said = set(value.split()) if isinstance(value, str) else set()
            case _:
                said = {it for it in value if isinstance(it, str)} if isinstance(value, list) else set()
        if not said & set(wanted["Values"]):
            return False
    return True


def _sealed(key: Claims, signed: bytes, seal: bytes) -> bool:
    try:
        public = rsa.RSAPublicNumbers(_number(key["e"]), _number(key["n"])).public_key()
        public.verify(seal, signed, padding.PKCS1v15(), SHA256())
    except (InvalidSignature, KeyError, ValueError, TypeError, AttributeError):
        return False
    return True


class Signer:
    """Signs what targets are told of a user, with ES256."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        point = self._key.public_key().public_numbers()
        self.public = {
            "kty": "EC",
            "crv": "P-256",
            "x": _encoded(point.x.to_bytes(32)),
            "y": _encoded(point.y.to_bytes(32)),
        }
        self.kid = base64.b16encode(point.x.to_bytes(32)[:8]).decode().lower()

    def signed(self, balancer: str, config: Claims, claims: Claims) -> str:
        """The header of AWS's names; like there, its parts are padded, which standard libraries do not expect."""
        exp = int(time.time()) + SIGNED_FOR
        head = {"typ": "JWT", "kid": self.kid, "alg": "ES256", "iss": config["Issuer"], "client": config["ClientId"]}
        head |= {"signer": balancer, "exp": exp}
        body = dict(claims) | {"exp": exp, "iss": config["Issuer"]}
        text = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in (head, body))
        pair = decode_dss_signature(self._key.sign(text.encode(), ec.ECDSA(SHA256())))
        seal = b"".join(number.to_bytes(32) for number in pair)
        return f"{text}.{base64.urlsafe_b64encode(seal).decode()}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _number(text: str) -> int:
    return int.from_bytes(_decoded(text))
