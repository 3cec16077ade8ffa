"""Listeners, as HAProxy's frontends."""

from collections.abc import Callable
from pathlib import Path

from . import answering, matching, rewriting
from .authentication import sessions
from .authentication.login import BACK
from .model import Balancer, Listener, Rule

Certificates = Callable[[bytes], Path]
"""Where HAProxy finds a certificate."""

_LOWEST_TLS = {"TLS13-1-3": "TLSv1.3", "TLS13-1-2": "TLSv1.2", "TLS-1-2": "TLSv1.2", "FS-1-2": "TLSv1.2"}
"""Of the security policies that have this in their name; the others allow TLS 1.0.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/describe-ssl-policies.html
"""


def frontend(balancer: Balancer, listener: Listener, address: str, certificates: Certificates, gate: str) -> list[str]:
    """One listener: the first rule in order whose conditions hold is chosen, then done."""
    lines = [
        f"bind {address}:{listener.port}{_tls(balancer, listener, certificates)}",
        f"timeout client {balancer.idle_seconds}s",
        "acl chosen var(txn.rule) -m found",
        "acl has-group var(txn.group) -m found",
        "acl has-query query -m len gt 0",
        "http-request set-var(txn.host) req.hdr(host),field(1,:),lower",
    ]
    if balancer.attributes.get("routing.http.drop_invalid_header_fields.enabled") == "true":
        lines.append("option http-restrict-req-hdr-names delete")
    lines += _logins(listener, gate)
    for number, rule in enumerate(listener.rules):
        lines += _choose(number, rule)
    for number, rule in enumerate(listener.rules):
        lines += _act(balancer, listener, number, rule, gate)
    lines += _headers(balancer, listener)
    if any("txn.sticky" in line for line in lines):
        cookie = f"{answering.GROUP_COOKIE}=%[var(txn.sticky)]; Max-Age=%[var(txn.sticky_seconds)]; Path=/"
        lines.append(f"http-response add-header Set-Cookie '{cookie}' if {{ var(txn.sticky) -m found }}")
    # A target that cannot be reached: HAProxy says 503, AWS 502.
    lines.append("http-response set-var(txn.answered) bool(true)")
    unreached = "{ status 503 } !{ var(txn.answered) -m bool } { srv_id gt 0 }"
    lines.append(f"http-after-response set-status 502 if {unreached}")
    # Without a group (all weights are 0) no target answers: HAProxy's own 503, as AWS's.
    lines.append("use_backend %[var(txn.group)] if has-group")
    return [f"frontend {balancer.frontend(listener)}", *(f"    {line}" for line in lines)]


def _logins(listener: Listener, gate: str) -> list[str]:
    """The directives of log-ins: no rule applies to clients that return from a provider, and clients whose session was
    renewed get its cookies with each answer."""
    if not any(action["Type"] == "authenticate-oidc" for rule in listener.rules for action in rule.actions):
        return []
    names = [f"txn.cookie_{number}" for number in range(sessions.PIECES)]
    cookies = [f"http-after-response add-header Set-Cookie %[var({it})] if {{ var({it}) -m found }}" for it in names]
    return [f"http-request lua.authenticate {gate} back if {{ path {BACK} }}", *cookies]


def _choose(number: int, rule: Rule) -> list[str]:
    lines = []
    lists = []
    for at, condition in enumerate(rule.conditions):
        lists.append(f"rule-{number}-{at}")
        lines += matching.access_list(lists[-1], condition)
    lines.append(f"http-request set-var(txn.rule) int({number}) if {' '.join(['!chosen', *lists])}")
    return lines


def _act(balancer: Balancer, listener: Listener, number: int, rule: Rule, gate: str) -> list[str]:
    condition = f"rule-{number}"
    lines = [f"acl {condition} var(txn.rule) -m int {number}"]
    try:
        answers = answering.directives(balancer, listener, rule, gate, condition)
        return [*lines, *answers, *rewriting.directives(rule.transforms, condition)]
    except ValueError as error:
        return [*lines, answering.unable(str(error), condition)]


def _headers(balancer: Balancer, listener: Listener) -> list[str]:
    """The headers about the client for targets.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/x-forwarded-headers.html
    """
    with_port = balancer.attributes.get("routing.http.xff_client_port.enabled") == "true"
    client = "%[src]:%[src_port]" if with_port else "%[src]"
    forwarded = {
        "append": [
            f"http-request set-var-fmt(txn.client) {client}",
            f"http-request set-var-fmt(txn.client) '%[req.fhdr(X-Forwarded-For)], {client}'"
            " if { req.fhdr(X-Forwarded-For) -m found }",
            "http-request set-header X-Forwarded-For %[var(txn.client)]",
        ],
        "remove": ["http-request del-header X-Forwarded-For"],
        "preserve": [],
    }
    return [
        *forwarded[balancer.attributes.get("routing.http.xff_header_processing.mode", "append")],
        f"http-request set-header X-Forwarded-Proto {listener.protocol.lower()}",
        f"http-request set-header X-Forwarded-Port {listener.port}",
        "http-request set-header X-Amzn-Trace-Id 'Root=1-%{+X}Ts-%[uuid(),regsub(-,,g),bytes(0,24)]'"
        " if !{ req.hdr(X-Amzn-Trace-Id) -m found }",
    ]


def _tls(balancer: Balancer, listener: Listener, certificates: Certificates) -> str:
    if listener.protocol != "HTTPS":
        return ""
    lowest = next((it for name, it in _LOWEST_TLS.items() if name in listener.ssl_policy), "TLSv1.0")
    http2 = balancer.attributes.get("routing.http2.enabled", "true") == "true"
    files = "".join(f" crt {certificates(pem)}" for pem in dict.fromkeys(listener.certificates))
    return f" ssl{files} ssl-min-ver {lowest} alpn {'h2,http/1.1' if http2 else 'http/1.1'}"
