"""What may be a target of a group.

https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RegisterTargets.html
"""

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..errors import invalid, validation
from ..fleet import Fleet
from ..records import TargetGroup, balancer_arn

MOST_TARGETS = 1000
"""Per target group and per load balancer:
https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html"""

_PRIVATE = [ipaddress.ip_network(it) for it in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")]
"""RFC 1918 and RFC 6598: what may lie outside of the VPC."""


def keys(group: TargetGroup, asked: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """The targets of a request, each on its port or the group's."""
    found = []
    for target in asked:
        port = target.get("Port") or group.port or 0
        if group.target_type != "lambda" and not 1 <= port <= 65535:
            raise validation(f"Target port '{port}' must be between 1 and 65535")
        found.append((target.get("Id") or "", port))
    if not found:
        raise validation("At least one target must be specified")
    return found


def lawful(fleet: Fleet, group: TargetGroup, asked: Iterable[Mapping[str, Any]]) -> None:
    """Targets are of the group's type, exist, and are within reach; else InvalidTarget."""
    for target in asked:
        if group.target_type == "instance":
            _running_instance(fleet, group, target)
        elif group.target_type == "ip":
            _address_in_reach(fleet, group, target)


def room(fleet: Fleet, group: TargetGroup, wanted: Collection[tuple[str, int]]) -> None:
    """Else TooManyTargets."""
    more = len(set(wanted) - set(group.targets))
    if len(group.targets) + more > MOST_TARGETS:
        raise invalid("TooManyTargets", f"The maximum number of targets per target group is {MOST_TARGETS}")
    if not more:
        return
    for arn in {balancer_arn(rule) for rule in group.rules_using}:
        balancer = fleet.backend.load_balancers[arn]
        rules = [rule for listener in balancer.listeners.values() for rule in listener.in_order()]
        used = {it for rule in rules for it in rule.forwards_to()}
        if sum(len(fleet.backend.target_groups[it].targets) for it in used) + more > MOST_TARGETS:
            raise invalid("TooManyTargets", f"The maximum number of targets per load balancer is {MOST_TARGETS}")


def _running_instance(fleet: Fleet, group: TargetGroup, target: Mapping[str, Any]) -> None:
    target_id = target["Id"]
    if target.get("AvailabilityZone"):
        raise validation("You cannot specify an Availability Zone for instance targets")
    instance = fleet.network.get_instance_by_id(target_id) if target_id.startswith("i-") else None
    if instance is None:
        raise invalid("InvalidTarget", f"The following targets do not exist: '{target_id}'")
    if instance.state != "running":
        raise invalid("InvalidTarget", f"The following targets are not in a running state: '{target_id}'")
    if instance.vpc_id != group.vpc_id:
        raise invalid("InvalidTarget", f"The following targets are not in the target group VPC: '{target_id}'")


def _address_in_reach(fleet: Fleet, group: TargetGroup, target: Mapping[str, Any]) -> None:
    target_id, zone = target["Id"], target.get("AvailabilityZone")
    try:
        address = ipaddress.ip_address(target_id)
    except ValueError:
        raise invalid("InvalidTarget", f"The IP address '{target_id}' is not valid") from None
    if (address.version == 6) != (group.ip_address_type == "ipv6"):
        raise invalid("InvalidTarget", f"The IP address '{target_id}' is not a valid {group.ip_address_type} address")
    vpc = fleet.network.vpcs[group.vpc_id]
    blocks = [it["cidr_block"] for it in vpc.get_cidr_block_association_set(ipv6=address.version == 6)]
    if any(address in ipaddress.ip_network(block) for block in blocks):
        return
    if not any(address in block for block in _PRIVATE if block.version == address.version):
        raise invalid(
            "InvalidTarget",
            f"The IP address '{target_id}' is neither in VPC {group.vpc_id} nor in a range of RFC 1918 or RFC 6598",
        )
    if zone != "all":
        raise invalid(
            "InvalidTarget",
            f"The IP address '{target_id}' is outside of VPC {group.vpc_id}: its Availability Zone must be 'all'",
        )
