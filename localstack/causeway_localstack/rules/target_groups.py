"""Refusals of target groups.

https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateTargetGroup.html
"""

import re
from collections.abc import Mapping
from typing import Any

from moto.ec2.models import EC2Backend

from ..errors import invalid, validation
from ..records import Document

_TYPES = ("instance", "ip", "lambda", "alb")
_PROTOCOLS = ("HTTP", "HTTPS", "TCP", "TLS", "UDP", "TCP_UDP", "GENEVE")
_WEB = ("HTTP", "HTTPS")
_VERSIONS = ("HTTP1", "HTTP2", "GRPC")

_RANGES = {
    "HealthCheckIntervalSeconds": (5, 300),
    "HealthCheckTimeoutSeconds": (2, 120),
    "HealthyThresholdCount": (2, 10),
    "UnhealthyThresholdCount": (2, 10),
}
HEALTH_CHECK = ("HealthCheckProtocol", "HealthCheckPort", "HealthCheckEnabled", "HealthCheckPath", "Matcher", *_RANGES)
"""The fields of a request that make up the health check."""


def lawful_name(name: str) -> None:
    """At most 32 letters, digits and hyphens, no hyphen at either end."""
    if len(name) > 32:
        raise validation(f"Target group name '{name}' cannot be longer than '32' characters")
    if not re.fullmatch(r"[A-Za-z0-9-]+", name):
        raise validation(
            f"Target group name '{name}' can only contain characters that are alphanumeric characters and hyphens(-)"
        )
    if name.startswith("-") or name.endswith("-"):
        raise validation(f"Target group name '{name}' cannot begin or end with a hyphen(-)")


def settled(network: EC2Backend, request: Mapping[str, Any]) -> Document:
    """The fields of a new target group that never change, named as `TargetGroup` names them."""
    kind = request.get("TargetType") or "instance"
    if kind not in _TYPES:
        raise validation(f"Target type '{kind}' must be one of {', '.join(_TYPES)}")
    if kind == "lambda":
        unchangeable: Document = dict.fromkeys(("protocol", "protocol_version", "port", "vpc_id"))
    else:
        unchangeable = _reached(request) | {"vpc_id": _known_vpc(network, request.get("VpcId"))}
    family = request.get("IpAddressType") or "ipv4"
    if family not in ("ipv4", "ipv6"):
        raise validation(f"Target group IP address type '{family}' must be ipv4 or ipv6")
    control = request.get("TargetControlPort")
    if control is not None and not 1 <= control <= 65535:
        raise validation(f"Target control port '{control}' must be between 1 and 65535")
    return unchangeable | {"target_type": kind, "ip_address_type": family, "control_port": control}


def _reached(request: Mapping[str, Any]) -> Document:
    protocol, port, version = request.get("Protocol"), request.get("Port"), request.get("ProtocolVersion")
    if protocol is None or port is None:
        raise validation("A protocol and port must be specified")
    if protocol not in _PROTOCOLS:
        raise validation(f"Target group protocol '{protocol}' must be one of {', '.join(_PROTOCOLS)}")
    if not 1 <= port <= 65535:
        raise validation(f"Target group port '{port}' must be between 1 and 65535")
    if version is not None and (protocol not in _WEB or version not in _VERSIONS):
        raise validation(f"Protocol version '{version}' is not valid for protocol '{protocol}'")
    return {"protocol": protocol, "port": port, "protocol_version": version or ("HTTP1" if protocol in _WEB else None)}


def _known_vpc(network: EC2Backend, vpc_id: str | None) -> str:
    if not vpc_id:
        raise validation("A VPC ID must be specified")
    if vpc_id not in network.vpcs:
        raise validation(f"The VPC ID '{vpc_id}' is not found")
    return vpc_id


def default_health_check(protocol: str | None, version: str | None, kind: str) -> Document:
    """How a target group of this protocol and version checks its targets if nothing else is said."""
    web = protocol in _WEB
    check: Document = {
        "HealthCheckProtocol": "HTTP" if web else None if kind == "lambda" else "TCP",
        "HealthCheckPort": None if kind == "lambda" else "traffic-port",
        "HealthCheckEnabled": kind != "lambda",
        "HealthCheckIntervalSeconds": 35 if kind == "lambda" else 30,
        "HealthCheckTimeoutSeconds": {"HTTP": 5, "HTTPS": 5, "UDP": 10}.get(protocol or "", 10),
        "HealthyThresholdCount": 5,
        "UnhealthyThresholdCount": 2,
    }
    if version == "GRPC":
        check |= {"HealthCheckPath": "/AWS.ALB/healthcheck", "Matcher": {"GrpcCode": "12"}}
    elif web or kind == "lambda":
        check |= {"HealthCheckPath": "/", "Matcher": {"HttpCode": "200"}}
    return check


def lawful_health_check(check: Document, version: str | None, kind: str) -> None:
    """A whole health check: each field in its range, and all of them together."""
    for key, (least, most) in _RANGES.items():
        if not least <= check[key] <= most:
            raise validation(f"{key} '{check[key]}' must be in the range {least}-{most}")
    if check["HealthCheckTimeoutSeconds"] >= check["HealthCheckIntervalSeconds"]:
        raise validation(
            f"Health check interval '{check['HealthCheckIntervalSeconds']}' must be greater than the timeout "
            f"'{check['HealthCheckTimeoutSeconds']}'"
        )
    if not check["HealthCheckEnabled"] and kind != "lambda":
        raise validation(f"Health check enabled must be true for target groups with target type '{kind}'")
    _lawful_check_port(check["HealthCheckPort"])
    protocol, path = check["HealthCheckProtocol"], check.get("HealthCheckPath")
    if protocol not in (None, "HTTP", "HTTPS", "TCP"):
        raise validation(f"Health check protocol '{protocol}' must be HTTP, HTTPS or TCP")
    if version and protocol == "TCP":
        raise validation("Health check protocol 'TCP' is not supported for HTTP and HTTPS target groups")
    if path is not None and (not 1 <= len(path) <= 1024 or not path.startswith("/")):
        raise validation(f"Health check path '{path}' must begin with '/' and have at most 1024 characters")
    _lawful_matcher(check.get("Matcher") or {}, version)


def _lawful_check_port(port: str | None) -> None:
    if port in (None, "traffic-port"):
        return
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise validation(f"Health check port '{port}' must be 'traffic-port' or in the range 1-65535")


def _lawful_matcher(matcher: Mapping[str, str], version: str | None) -> None:
    """https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_Matcher.html"""
    grpc = version == "GRPC"
    key, least, most = ("GrpcCode", 0, 99) if grpc else ("HttpCode", 200, 499)
    if any(name != key for name in matcher):
        raise validation(f"The matcher of a target group with protocol version '{version}' must be a {key}")
    for part in matcher[key].split(",") if key in matcher else []:
        ends = part.split("-")
        if len(ends) > 2 or not all(re.fullmatch(r"\d{1,3}", end, re.ASCII) for end in ends):
            raise validation(f"Health check matcher {key} '{matcher[key]}' is not valid")
        codes = [int(end) for end in ends]
        if codes != sorted(codes) or codes[0] < least or codes[-1] > most:
            raise validation(f"Health check matcher {key} '{matcher[key]}' must be within the range {least}-{most}")


def not_in_use(arn: str, used: bool) -> None:
    """Else ResourceInUse.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DeleteTargetGroup.html
    """
    if used:
        raise invalid("ResourceInUse", f"Target group '{arn}' is currently in use by a listener or a rule")
