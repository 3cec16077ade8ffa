"""Target groups, as HAProxy's backends."""

import hashlib

from .model import Group, Target
from .text import quoted

OPEN = "-open"
"""The end of the names of servers that are used when no target is healthy: all targets, unchecked.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/target-group-health-checks.html
"""

_ALGORITHMS = {
    "round_robin": "roundrobin",
    "least_outstanding_requests": "leastconn",
    "weighted_random": "random(1)",
}


def backend(group: Group, idle_seconds: int) -> list[str]:
    """One target group: its targets, and again all of them for the moment when none is healthy."""
    algorithm = group.attributes.get("load_balancing.algorithm.type", "round_robin")
    lines = [
        f"balance {_ALGORITHMS.get(algorithm, 'roundrobin')}",
        f"timeout server {idle_seconds}s",
        "option allbackups",
        *_stickiness(group),
        *_check(group),
    ]
    for target in group.targets:
        lines.append(f"server {target.server} {_place(target)}{_cookie(target)}{_connection(group)}{_checked(group)}")
        lines.append(f"server {target.server}{OPEN} {_place(target)}{_cookie(target)}{_connection(group)} backup")
    return [f"backend {group.backend}", *(f"    {line}" for line in lines)]


def rise(group: Group) -> int:
    """How many checks an unhealthy target must pass."""
    return int(group.health.get("HealthyThresholdCount", 5))


def fall(group: Group) -> int:
    """How many checks a healthy target may fail."""
    return int(group.health.get("UnhealthyThresholdCount", 2))


def interval(group: Group) -> int:
    """Seconds between two checks."""
    return int(group.health.get("HealthCheckIntervalSeconds", 30))


def _check(group: Group) -> list[str]:
    path = group.health.get("HealthCheckPath") or "/"
    matcher = group.health.get("Matcher") or {}
    # The status of a gRPC service comes after the body, where a check does not look: any answer is a good one.
    codes = (matcher.get("HttpCode") or "200").replace(" ", "")
    version = "HTTP/1.1" if group.protocol_version == "HTTP1" else "HTTP/2"
    return [
        f"timeout check {int(group.health.get('HealthCheckTimeoutSeconds', 5))}s",
        "option httpchk",
        f"http-check send meth GET uri {quoted(path)} ver {version}"
        " hdr Host %[srv_name,regsub(_,:)] hdr User-Agent ELB-HealthChecker/2.0",
        f"http-check expect status {codes}",
    ]


def _checked(group: Group) -> str:
    parts = [f" check inter {interval(group)}s fall {fall(group)} rise {rise(group)}"]
    port = str(group.health.get("HealthCheckPort") or "traffic-port")
    if port != "traffic-port":
        parts.append(f"port {port}")
    secure = (group.health.get("HealthCheckProtocol") or group.protocol) == "HTTPS"
    if secure != (group.protocol == "HTTPS"):
        parts.append("check-ssl verify none" if secure else "no-check-ssl")
    if group.protocol_version != "HTTP1":
        parts.append("check-alpn h2" if secure else "check-proto h2")
    slow_start = int(group.attributes.get("slow_start.duration_seconds") or 0)
    if slow_start:
        parts.append(f"slowstart {slow_start}s")
    return " ".join(parts)


def _connection(group: Group) -> str:
    http2 = group.protocol_version != "HTTP1"
    if group.protocol == "HTTPS":
        return f" ssl verify none{' alpn h2' if http2 else ''}"
    return " proto h2" if http2 else ""


def _stickiness(group: Group) -> list[str]:
    """AWS marks a client with a cookie of its own; an application's cookie gets the mark here, on the client's side.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-target-group-attributes.html
    """
    if group.attributes.get("stickiness.enabled") != "true":
        return []
    name = group.attributes.get("stickiness.app_cookie.cookie_name")
    if group.attributes.get("stickiness.type") == "app_cookie" and name:
        return [f"cookie {quoted(name)} prefix nocache"]
    seconds = int(group.attributes.get("stickiness.lb_cookie.duration_seconds") or 86_400)
    return [f"cookie AWSALB insert nocache maxlife {seconds}s attr Max-Age={seconds}"]


def _cookie(target: Target) -> str:
    return f" cookie {hashlib.sha256(target.server.encode()).hexdigest()[:16]}"


def _place(target: Target) -> str:
    return f"[{target.address}]:{target.port}" if ":" in target.address else f"{target.address}:{target.port}"
