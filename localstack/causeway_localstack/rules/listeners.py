"""Refusals of listeners."""

from collections.abc import Mapping
from typing import Any

from moto.elbv2.models import FakeLoadBalancer

from .. import known, settings
from ..errors import invalid, validation
from ..fleet import Fleet
from ..identity import account_of
from ..records import Document

_MODES = ("off", "passthrough", "verify")


def lawful_port_and_protocol(balancer: FakeLoadBalancer, port: int | None, protocol: str | None) -> None:
    """An application load balancer listens for HTTP and HTTPS, on any port.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateListener.html
    """
    if port is None or protocol is None:
        raise validation("A listener protocol and port must be specified")
    if not 1 <= port <= 65535:
        raise validation(f"Listener port '{port}' must be between 1 and 65535")
    if balancer.type == "application" and protocol not in ("HTTP", "HTTPS"):
        raise validation(f"Listener protocol '{protocol}' must be one of 'HTTPS, HTTP'")


def free_port(balancer: FakeLoadBalancer, port: int) -> None:
    """A load balancer has one listener per port.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateListener.html
    """
    if any(listener.port == port for listener in balancer.listeners.values()):
        raise invalid(
            "DuplicateListener", f"A listener already exists on this port for this load balancer '{balancer.arn}'"
        )


def room_for_a_listener(balancer: FakeLoadBalancer) -> None:
    """Else TooManyListeners.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
    """
    most = settings.of(account_of(balancer.arn)).listeners_per_balancer
    if len(balancer.listeners) >= most:
        raise invalid("TooManyListeners", f"The maximum number of listeners has been reached ({most})")


def room_for_a_rule(balancer: FakeLoadBalancer) -> None:
    """Else TooManyRules; default rules do not count.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
    """
    most = settings.of(account_of(balancer.arn)).rules_per_balancer
    if sum(len(listener.others) for listener in balancer.listeners.values()) >= most:
        raise invalid("TooManyRules", f"The maximum number of rules has been reached ({most})")


def mutual_authentication(fleet: Fleet, asked: Mapping[str, Any] | None) -> Document:
    """How client certificates are handled, as DescribeListeners answers it.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_MutualAuthenticationAttributes.html
    """
    asked = asked or {}
    mode = asked.get("Mode") or "off"
    if mode not in _MODES:
        raise validation(f"Mutual authentication mode '{mode}' must be one of {', '.join(_MODES)}")
    if mode != "verify":
        for key in ("TrustStoreArn", "IgnoreClientCertificateExpiry", "AdvertiseTrustStoreCaNames"):
            if asked.get(key):
                raise validation(f"{key} cannot be used with the mutual authentication mode '{mode}'")
        return {"Mode": mode}
    if not asked.get("TrustStoreArn"):
        raise validation("A trust store must be specified with the mutual authentication mode 'verify'")
    advertise = asked.get("AdvertiseTrustStoreCaNames") or "off"
    if advertise not in ("on", "off"):
        raise validation(f"AdvertiseTrustStoreCaNames '{advertise}' must be on or off")
    return {
        "Mode": mode,
        "TrustStoreArn": known.trust_store(fleet, asked["TrustStoreArn"]).arn,
        "IgnoreClientCertificateExpiry": asked.get("IgnoreClientCertificateExpiry", False),
        "TrustStoreAssociationStatus": "active",
        "AdvertiseTrustStoreCaNames": advertise,
    }
