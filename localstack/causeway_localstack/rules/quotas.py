"""Quotas per account and region.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
"""

from .. import settings
from ..errors import invalid
from ..fleet import Fleet


def room_for_a_load_balancer(fleet: Fleet) -> None:
    """Else TooManyLoadBalancers."""
    quota = settings.of(fleet.account).load_balancers
    if len(fleet.backend.load_balancers) >= quota:
        raise invalid("TooManyLoadBalancers", f"The maximum number of load balancers has been reached ({quota})")


def room_for_a_target_group(fleet: Fleet) -> None:
    """Else TooManyTargetGroups."""
    quota = settings.of(fleet.account).target_groups
    if len(fleet.backend.target_groups) >= quota:
        raise invalid("TooManyTargetGroups", f"The maximum number of target groups has been reached ({quota})")
