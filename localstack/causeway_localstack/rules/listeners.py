"""Listeners and the target groups they forward to."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import invalid
from ..fleet import Fleet


def free_port(fleet: Fleet, balancer_arn: str, port: int) -> None:
    """A load balancer has one listener per port.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateListener.html
    """
    balancer = fleet.backend.load_balancers.get(balancer_arn)
    if balancer and any(str(listener.port) == str(port) for listener in balancer.listeners.values()):
        raise invalid(
            "DuplicateListener", f"A listener already exists on this port for this load balancer '{balancer_arn}'"
        )


def target_groups_of_one_balancer(fleet: Fleet, balancer_arn: str, actions: Sequence[Mapping[str, Any]]) -> None:
    """A target group hangs on one load balancer only.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
    """
    wanted = set(forwarded_to(actions))
    for other in fleet.balancers():
        if other.arn == balancer_arn:
            continue
        for listener in other.listeners.values():
            for rule in listener.rules.values():
                taken = wanted.intersection(forwarded_to([action.data for action in rule.actions]))
                if taken:
                    raise invalid(
                        "TargetGroupAssociationLimit",
                        "The following target groups cannot be associated with more than one load balancer: "
                        + ", ".join(sorted(taken)),
                    )


def forwarded_to(actions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The target groups actions forward to."""
    for action in actions:
        if action.get("TargetGroupArn"):
            yield action["TargetGroupArn"]
        for group in (action.get("ForwardConfig") or {}).get("TargetGroups") or []:
            yield group["TargetGroupArn"]
