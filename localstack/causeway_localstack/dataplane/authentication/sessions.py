"""The data plane's memory of a client: sealed, in the client's own cookies, as AWS keeps it.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html (2026-11-23): a
cookie greater than 4K is split. The limit of 11K for claims and access token is from memory, not from that page.
"""

import base64
import binascii
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MOST = 11 * 1024
"""Bytes of claims and access token."""
PIECE = 3900
"""Letters of a cookie's value: with its name and attributes browsers take 4K."""
PIECES = 8
"""More than the most bytes need, sealed."""

_NONCE = 12


class Seal:
    """Seals texts, and opens what it has sealed: what is sealed for one purpose is no good for another."""

    def __init__(self) -> None:
        self._cipher = AESGCM(AESGCM.generate_key(256))

    def close(self, purpose: str, content: Mapping[str, Any]) -> str:
        """The sealed content, as letters of a cookie or a query."""
        nonce = os.urandom(_NONCE)
        sealed = self._cipher.encrypt(nonce, json.dumps(content).encode(), purpose.encode())
        return base64.urlsafe_b64encode(nonce + sealed).rstrip(b"=").decode()

    def open(self, purpose: str, text: str) -> dict[str, Any] | None:
        """The content; nothing where it is not ours, or for something else."""
        try:
            data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            return json.loads(self._cipher.decrypt(data[:_NONCE], data[_NONCE:], purpose.encode()))
        except (InvalidTag, ValueError, binascii.Error):
            return None


def cookies(header: str) -> dict[str, str]:
    """The cookies of a request; of two with the same name the first."""
    found: dict[str, str] = {}
    for pair in header.split(";"):
        name, _, value = pair.strip().partition("=")
        found.setdefault(name, value)
    return found


def joined(name: str, sent: Mapping[str, str]) -> str:
    """The value of a cookie that was split."""
    pieces = []
    while piece := sent.get(f"{name}-{len(pieces)}"):
        pieces.append(piece)
    return "".join(pieces)


def split(name: str, value: str, seconds: int) -> Iterator[str]:
    """Cookies that hold a value for so long, and no piece of an earlier one."""
    pieces = [value[at : at + PIECE] for at in range(0, len(value), PIECE)]
    for at in range(max(len(pieces), 4)):
        piece, lasting = (pieces[at], seconds) if at < len(pieces) else ("", 0)
        yield cookie(f"{name}-{at}", piece, lasting)


def cookie(name: str, value: str, seconds: int) -> str:
    """A cookie that no script and no plain connection sees."""
    return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; Secure; SameSite=None"
