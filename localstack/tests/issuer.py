"""A token issuer with keys of its own, as a cluster is one."""

import base64
import json
import time
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

URL = "https://cluster.test/issuer"
SUBJECT = "system:serviceaccount:causeway-system:causeway"
AUDIENCE = "sts.amazonaws.com"


class Issuer:
    """Signs tokens with RS256 and ES256."""

    def __init__(self) -> None:
        self.rsa = rsa.generate_private_key(65537, 2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())

    def jwks(self) -> dict[str, Any]:
        """The public keys."""
        numbers, point = self.rsa.public_key().public_numbers(), self.ec.public_key().public_numbers()
        return {
            "keys": [
                {"kid": "RS256", "kty": "RSA", "e": _number(numbers.e), "n": _number(numbers.n)},
                {"kid": "ES256", "kty": "EC", "crv": "P-256", "x": _number(point.x, 32), "y": _number(point.y, 32)},
            ]
        }

    def token(self, algorithm: str = "RS256", **claims: Any) -> str:
        """A token of the operator's service account, good for ten minutes, unless told otherwise."""
        now = int(time.time())
        good = {"iss": URL, "sub": SUBJECT, "aud": [AUDIENCE], "iat": now, "nbf": now, "exp": now + 600}
        header = {"alg": algorithm, "kid": algorithm, "typ": "JWT"}
        signed = f"{_encoded(json.dumps(header).encode())}.{_encoded(json.dumps(good | claims).encode())}"
        if algorithm == "RS256":
            seal = self.rsa.sign(signed.encode(), padding.PKCS1v15(), SHA256())
        else:
            pair = decode_dss_signature(self.ec.sign(signed.encode(), ec.ECDSA(SHA256())))
            seal = b"".join(number.to_bytes(32) for number in pair)
        return f"{signed}.{_encoded(seal)}"


def trust(account: str) -> dict[str, Any]:
    """A role's trust in the operator's service account, as IRSA has it."""
    host = URL.removeprefix("https://")
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Federated": f"arn:aws:iam::{account}:oidc-provider/{host}"},
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": {"StringEquals": {f"{host}:sub": SUBJECT, f"{host}:aud": AUDIENCE}},
            }
        ],
    }


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(number: int, length: int | None = None) -> str:
    return _encoded(number.to_bytes(length or (number.bit_length() + 7) // 8))
