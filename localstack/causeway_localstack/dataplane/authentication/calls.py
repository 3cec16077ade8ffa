"""Calls of identity providers, over HTTPS with a certificate that is checked.

AWS wants certificates of public authorities. Providers of tests have their own: `trust` makes its authority known.
"""

import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

DEADLINE = 5.0
"""Seconds for one call. AWS names none."""
MOST = 150 * 1024
"""Bytes of an answer; of keys AWS takes no more.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-verify-jwt.html (2026-11-23)
"""

_authorities: dict[str, str] = {}
_lock = threading.Lock()


class ProviderError(Exception):
    """The provider cannot be reached, or says nothing that makes sense."""


class Refusal(Exception):
    """The provider says no."""


def trust(pem: str) -> None:
    """Makes an authority known; raises ValueError for none."""
    try:
        ssl.create_default_context(cadata=pem)
    except ssl.SSLError as error:
        raise ValueError(f"pem must be a certificate: {error}") from None
    with _lock:
        _authorities[pem] = pem


def ask(url: str, form: bytes | None = None, headers: Mapping[str, str] | None = None) -> Any:
    """The JSON that the provider answers."""
    request = urllib.request.Request(url, data=form, headers={"Accept": "application/json"} | dict(headers or {}))
    with _lock:
        trusted = "\n".join(_authorities.values())
    context = ssl.create_default_context()
    if trusted:
        context.load_verify_locations(cadata=trusted)
    # Without proxies: providers of tests are beside us. Without redirects: an endpoint is what was configured.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirect()
    )
    try:
        with opener.open(request, timeout=DEADLINE) as answer:
            text = answer.read(MOST + 1)
    except urllib.error.HTTPError as error:
        raise Refusal(f"{url} answered {error.code}") from None
    except (OSError, ValueError) as error:
        raise ProviderError(f"{url}: {error}") from None
    if len(text) > MOST:
        raise ProviderError(f"{url} answered more than {MOST} bytes")
    try:
        return json.loads(text)
    except ValueError:
        raise ProviderError(f"{url} answered no JSON") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None
