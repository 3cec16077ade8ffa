"""Security policies of HTTPS listeners.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/describe-ssl-policies.html
"""

from typing import Any

from localstack.aws.api import RequestContext, ServiceRequest, ServiceResponse
from moto.elbv2.responses import SSL_POLICIES

from .errors import invalid
from .pages import page

DEFAULT = "ELBSecurityPolicy-2016-08"
"""The policy of a listener that names none."""

_NEWER = {
    "ELBSecurityPolicy-TLS13-1-3-FIPS-2023-04": "1.3",
    "ELBSecurityPolicy-TLS13-1-2-FIPS-2023-04": "1.2 1.3",
    "ELBSecurityPolicy-TLS13-1-2-Res-FIPS-2023-04": "1.2 1.3",
    "ELBSecurityPolicy-TLS13-1-2-Ext0-FIPS-2023-04": "1.2 1.3",
    "ELBSecurityPolicy-TLS13-1-2-Ext1-FIPS-2023-04": "1.2 1.3",
    "ELBSecurityPolicy-TLS13-1-2-Ext2-FIPS-2023-04": "1.2 1.3",
    "ELBSecurityPolicy-TLS13-1-1-FIPS-2023-04": "1.1 1.2 1.3",
    "ELBSecurityPolicy-TLS13-1-0-FIPS-2023-04": "1 1.1 1.2 1.3",
    "ELBSecurityPolicy-TLS13-1-3-PQ-2025-09": "1.3",
    "ELBSecurityPolicy-TLS13-1-2-PQ-2025-09": "1.2 1.3",
    "ELBSecurityPolicy-TLS13-1-2-Res-PQ-2025-09": "1.2 1.3",
    "ELBSecurityPolicy-TLS13-1-2-Ext1-PQ-2025-09": "1.2 1.3",
    "ELBSecurityPolicy-TLS13-1-2-Ext2-PQ-2025-09": "1.2 1.3",
    "ELBSecurityPolicy-TLS13-1-0-PQ-2025-09": "1 1.1 1.2 1.3",
}
"""Those moto does not have, with their protocols; their ciphers are not listed."""


def check(name: str) -> None:
    """A policy is one of AWS's, else SSLPolicyNotFound."""
    if name not in _POLICIES:
        raise invalid("SSLPolicyNotFound", f"SSL policy '{name}' not found")


def describe(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeSSLPolicies: those named, or all in pages."""
    names = request.get("Names") or []
    for name in names:
        check(name)
    wanted = [_POLICIES[name] for name in names or sorted(_POLICIES)]
    shown, marker = page(request, wanted, lambda policy: policy["Name"])
    return {"SslPolicies": shown} | ({"NextMarker": marker} if marker else {})


def _policy(name: str, protocols: list[str], ciphers: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "Name": name,
        "SslProtocols": protocols,
        "Ciphers": [{"Name": it["name"], "Priority": it["priority"]} for it in ciphers],
        "SupportedLoadBalancerTypes": ["application", "network"],
    }


_POLICIES = {it["name"]: _policy(it["name"], it["ssl_protocols"], it["ciphers"]) for it in SSL_POLICIES} | {
    name: _policy(name, [f"TLSv{version}" for version in versions.split()], []) for name, versions in _NEWER.items()
}
