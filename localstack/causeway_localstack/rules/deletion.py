"""Refusals of deletions."""

from moto.elbv2.models import FakeLoadBalancer

from ..errors import invalid
from ..fleet import Fleet


def not_protected(balancer: FakeLoadBalancer) -> None:
    """A load balancer with deletion protection stays.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DeleteLoadBalancer.html
    """
    if balancer.attrs.get("deletion_protection.enabled") == "true":
        raise invalid(
            "OperationNotPermitted",
            f"Load balancer '{balancer.arn}' cannot be deleted because deletion protection is enabled",
        )


def security_group_not_attached(fleet: Fleet, group_id: str) -> None:
    """A security group stays while a load balancer uses it.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteSecurityGroup.html
    """
    for balancer in fleet.balancers():
        if group_id in balancer.security_groups:
            raise invalid("DependencyViolation", f"resource {group_id} has a dependent object")
