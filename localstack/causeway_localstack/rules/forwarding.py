"""Which target groups a load balancer may forward to."""

from collections.abc import Mapping, Sequence

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
    _sticky_as_a_whole(groups, actions)
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


def _sticky_as_a_whole(groups: Sequence[TargetGroup], actions: Sequence[Document]) -> None:
    """Where several groups share requests, one with sticky targets needs clients that stay with their group.

    AWS says so of the target group that is changed (August 2022); that it says the same of the rule is concluded:
    https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/2734
    """
    shared = _shared_without_stickiness(actions)
    sticky = [group.arn for group in groups if group.arn in shared and _is_sticky(group.attributes)]
    if sticky:
        raise invalid(
            "InvalidConfigurationRequest",
            f"You must enable group stickiness on a rule if you enabled target stickiness on one of its target groups: "
            f"{', '.join(sticky)}",
        )


def sticky_where_shared(fleet: Fleet, group: TargetGroup, changes: Mapping[str, str]) -> None:
    """The same, of a target group whose attributes change."""
    if not _is_sticky({**group.attributes, **changes}):
        return
    for arn in sorted(group.rules_using):
        rule = fleet.rule(arn)
        if rule and group.arn in _shared_without_stickiness(rule.actions):
            raise invalid(
                "InvalidConfigurationRequest",
                f"This target group appears behind a rule with group stickiness disabled ({arn}). "
                "You must enable group stickiness before enabling target stickiness",
            )


def _shared_without_stickiness(actions: Sequence[Document]) -> set[str]:
    """The groups of forward actions that share requests, and let clients wander among them.

    A group of weight 0 shares none. Whether AWS counts it is not known.
    """
    found: set[str] = set()
    for action in actions:
        config = action.get("ForwardConfig") or {}
        groups = [group for group in config.get("TargetGroups") or [] if group.get("Weight", 1) > 0]
        if len(groups) > 1 and not (config.get("TargetGroupStickinessConfig") or {}).get("Enabled"):
            found |= {group["TargetGroupArn"] for group in groups}
    return found


def _is_sticky(attributes: Mapping[str, str]) -> bool:
    return attributes.get("stickiness.enabled") == "true"


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
