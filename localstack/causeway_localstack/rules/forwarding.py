"""Which target groups a load balancer may forward to."""

from collections.abc import Sequence

from moto.elbv2.models import FakeLoadBalancer

from .. import known
from ..errors import invalid
from ..fleet import Fleet
from ..records import Document, Rule, TargetGroup, balancer_arn, forwarded_to

MOST_GROUPS = 100
"""Per load balancer: https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html"""


def target_groups_fit(
    fleet: Fleet, balancer: FakeLoadBalancer, protocol: str, actions: Sequence[Document], before: Rule | None = None
) -> None:
    """The target groups of a rule's new actions exist and suit the listener; `before` is the rule as it was."""
    wanted = set(forwarded_to(actions))
    groups = known.target_groups(fleet, sorted(wanted))
    for group in groups:
        if balancer.type == "application":
            _suits(group, protocol)
        if group.vpc_id != balancer.vpc_id:
            raise invalid(
                "InvalidConfigurationRequest",
                f"Target group '{group.arn}' is in VPC {group.vpc_id}, the load balancer is in {balancer.vpc_id}",
            )
    _on_one_balancer(groups, balancer.arn)
    _not_too_many(balancer, wanted, before)


def _suits(group: TargetGroup, protocol: str) -> None:
    """https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-target-groups.html"""
    if group.protocol not in ("HTTP", "HTTPS"):
        raise invalid(
            "IncompatibleProtocols",
            f"Target group '{group.arn}' has the protocol '{group.protocol}', which a listener of an application "
            "load balancer cannot forward to",
        )
    if group.protocol_version == "GRPC" and protocol != "HTTPS":
        raise invalid(
            "InvalidConfigurationRequest",
            f"Listener protocol '{protocol}' is not supported with a target group with the protocol-version 'GRPC'",
        )


def _on_one_balancer(groups: Sequence[TargetGroup], arn: str) -> None:
    """A target group hangs on one load balancer only.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
    """
    taken = [group.arn for group in groups if any(balancer_arn(rule) != arn for rule in group.rules_using)]
    if taken:
        raise invalid(
            "TargetGroupAssociationLimit",
            f"The following target groups cannot be associated with more than one load balancer: {', '.join(taken)}",
        )


def _not_too_many(balancer: FakeLoadBalancer, wanted: set[str], before: Rule | None) -> None:
    others = [rule for listener in balancer.listeners.values() for rule in listener.in_order() if rule is not before]
    used = wanted.union(*(rule.forwards_to() for rule in others))
    if wanted and len(used) > MOST_GROUPS:
        raise invalid(
            "TooManyUniqueTargetGroupsPerLoadBalancer",
            f"The maximum number of target groups of the load balancer has been reached ({MOST_GROUPS})",
        )
