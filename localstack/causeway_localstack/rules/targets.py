"""Refusals of targets of a group.

https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RegisterTargets.html and, on zones,
https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetDescription.html. AWS's words are from
issues #561, #3714, #4477 of https://github.com/kubernetes-sigs/aws-load-balancer-controller and #1107 of
https://github.com/aws/containers-roadmap.
"""

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from moto.ec2.models.subnets import Subnet

from .. import settings
from ..errors import invalid, validation
from ..fleet import Fleet
from ..records import TargetGroup, balancer_arn

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
    """Else TooManyTargets.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
    """
    quotas = settings.of(fleet.account)
    more = len(set(wanted) - set(group.targets))
    if len(group.targets) + more > quotas.targets_per_group:
        most = quotas.targets_per_group
        raise invalid("TooManyTargets", f"The maximum number of targets per target group is {most}")
    if not more:
        return
    for arn in {balancer_arn(rule) for rule in group.rules_using}:
        balancer = fleet.backend.load_balancers[arn]
        rules = [rule for listener in balancer.listeners.values() for rule in listener.in_order()]
        used = {it for rule in rules for it in rule.forwards_to()}
        if sum(len(fleet.backend.target_groups[it].targets) for it in used) + more > quotas.targets_per_balancer:
            most = quotas.targets_per_balancer
            raise invalid("TooManyTargets", f"The maximum number of targets per load balancer is {most}")


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
    home = _home(fleet, group, address)
    if home:
        if zone and zone != home:
            raise validation(
                f"The IP address '{target_id}' is within the VPC, and cannot have its Availability Zone overridden to "
                f"'{zone}' from '{home}'"
            )
        return
    vpc = fleet.network.vpcs[group.vpc_id]
    blocks = [it["cidr_block"] for it in vpc.get_cidr_block_association_set(ipv6=address.version == 6)]
    near = [*_PRIVATE, *(ipaddress.ip_network(block) for block in blocks)]
    if not any(address in block for block in near if block.version == address.version):
        raise invalid(
            "InvalidTarget",
            f"The IP address '{target_id}' is neither in VPC {group.vpc_id} nor in a range of RFC 1918 or RFC 6598",
        )
    if not zone:
        raise validation(f"The Availability Zone is required for IP address '{target_id}' because it is not in the VPC")
    if group.attributes.get("load_balancing.cross_zone.enabled") == "false":
        if zone not in {subnet.availability_zone for subnet in _subnets(fleet, group)}:
            raise validation(
                "When cross-zone load balancing is disabled on this target group, the Availability Zone of IP address "
                f"'{target_id}' must be one of the VPC's, not '{zone}', because it is not in the VPC"
            )
    elif zone != "all":
        raise validation(
            f"The Availability Zone for IP address '{target_id}' must be 'all' for Application Load Balancer target "
            "groups, when not within the VPC"
        )


def _home(fleet: Fleet, group: TargetGroup, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str | None:
    """The zone of the subnet that an address belongs to: subnets decide, not the VPC's ranges.

    https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/3714
    """
    for subnet in _subnets(fleet, group):
        blocks = [subnet.cidr_block] if address.version == 4 else _ipv6(subnet)
        if any(address in ipaddress.ip_network(block) for block in blocks if block):
            return subnet.availability_zone
    return None


def _subnets(fleet: Fleet, group: TargetGroup) -> list[Subnet]:
    every = [subnet for zones in list(fleet.network.subnets.values()) for subnet in list(zones.values())]
    return [subnet for subnet in every if subnet.vpc_id == group.vpc_id]


def _ipv6(subnet: Subnet) -> list[str]:
    return [it["ipv6CidrBlock"] for it in subnet.ipv6_cidr_block_associations.values()]
