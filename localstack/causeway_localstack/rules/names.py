"""Names, schemes and types of load balancers."""

import re

from ..errors import validation


def load_balancer_name(name: str) -> None:
    """At most 32 characters, letters, digits and hyphens, no hyphen at either end, not starting with `internal-`.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateLoadBalancer.html
    """
    if not name:
        raise validation("The load balancer name cannot be empty")
    if len(name) > 32:
        raise validation(f"The load balancer name '{name}' cannot be longer than '32' characters")
    if not re.fullmatch(r"[A-Za-z0-9-]+", name):
        raise validation(
            f"The load balancer name '{name}' can only contain characters "
            "that are alphanumeric characters and hyphens(-)"
        )
    if name.startswith("-") or name.endswith("-"):
        raise validation(f"The load balancer name '{name}' cannot begin or end with a hyphen(-)")
    if name.startswith("internal-"):
        raise validation(f"The load balancer name '{name}' cannot begin with 'internal-'")


def load_balancer_kind(scheme: str, kind: str) -> None:
    """The scheme and the type are AWS's.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateLoadBalancer.html
    """
    if scheme not in ("internet-facing", "internal"):
        raise validation(f"The load balancer scheme '{scheme}' must be internet-facing or internal")
    if kind not in ("application", "network", "gateway"):
        raise validation(f"The load balancer type '{kind}' must be application, network or gateway")
