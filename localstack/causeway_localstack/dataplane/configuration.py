"""All of HAProxy's configuration."""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path

from .authentication.gate import SCRIPT
from .backends import backend
from .frontends import Certificates, frontend
from .model import Snapshot


def configuration(
    snapshot: Snapshot, addresses: Mapping[str, str], certificates: Certificates, home: Path, gate: str
) -> str:
    """The text; `addresses` are by the balancers' ARNs, `home` is the folder of HAProxy's files, `gate` where it asks
    who may go on."""
    frontends = chain.from_iterable(
        frontend(balancer, listener, addresses[balancer.arn], certificates, gate)
        for balancer in snapshot.balancers
        for listener in balancer.listeners
    )
    backends = chain.from_iterable(
        backend(group, balancer.idle_seconds) for balancer in snapshot.balancers for group in balancer.groups
    )
    return "\n".join([*_beginning(home), *frontends, *backends, ""])


def _beginning(home: Path) -> list[str]:
    """The settings for all.

    Clients find idle connections open after a reload; the next request on each is answered before it is closed. So
    that such a request does not come late and meet the rules of yesterday, idle connections are not kept for long.
    """
    return [
        "global",
        "    nbthread 1",
        "    maxconn 4000",
        "    max-spread-checks 1",
        "    ssl-default-bind-options ssl-min-ver TLSv1.0",
        f"    server-state-file {home / 'states'}",
        f"    lua-load {SCRIPT}",
        # The gate is beside us, and speaks no TLS.
        "    httpclient.ssl.verify none",
        "defaults",
        "    mode http",
        "    load-server-state-from-file global",
        "    option idle-close-on-response",
        "    timeout connect 10s",
        "    option http-ignore-probes",
        "    timeout http-request 5s",
        "    timeout http-keep-alive 2s",
        "    timeout client 60s",
        "    timeout server 60s",
        "    timeout tunnel 1h",
        "    retries 0",
        "    http-error status 503 content-type text/plain string 'No target can be reached.'\\n",
        # Without any listener HAProxy would not run.
        "frontend idle",
        f"    bind {home / 'idle'}",
        "    http-request return status 404",
    ]
