"""Subnets and security groups of a load balancer."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moto.ec2.exceptions import InvalidSubnetIdError
from moto.ec2.models import EC2Backend
from moto.ec2.models.subnets import Subnet

from ..errors import invalid, validation

LEAST_ADDRESSES = 8


def asked_for(request: Mapping[str, Any], kind: str) -> list[str]:
    """The ids of the subnets, which come as `Subnets` or as `SubnetMappings`: "but not both"; and "you can't specify
    Elastic IP addresses for your subnets" of an application load balancer.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateLoadBalancer.html
    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_SetSubnets.html
    """
    plain, mappings = list(request.get("Subnets") or []), list(request.get("SubnetMappings") or [])
    if plain and mappings:
        raise validation("You must specify either subnets or subnet mappings, but not both")
    if kind == "application" and any(it.get("AllocationId") for it in mappings):
        raise validation("Elastic IP addresses cannot be specified for the subnets of an application load balancer")
    return plain or [it["SubnetId"] for it in mappings]


def known_subnets(network: EC2Backend, ids: Iterable[str]) -> list[Subnet]:
    """Every subnet exists, else SubnetNotFound.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateLoadBalancer.html
    """
    found = []
    for subnet_id in ids:
        try:
            found.append(network.get_subnet(subnet_id))
        except InvalidSubnetIdError:
            raise invalid("SubnetNotFound", f"The subnet ID '{subnet_id}' does not exist") from None
    return found


def two_zones(subnets: Sequence[Subnet]) -> None:
    """An application load balancer stands in two zones at least, and in one subnet of each.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/application-load-balancers.html#subnets-load-balancer
    """
    zones = [subnet.availability_zone for subnet in subnets]
    if len(set(zones)) < len(zones):
        raise invalid(
            "InvalidConfigurationRequest",
            "A load balancer cannot be attached to multiple subnets in the same Availability Zone",
        )
    if len(zones) < 2:
        raise validation("At least two subnets in two different Availability Zones must be specified")


def one_vpc(subnets: Sequence[Subnet]) -> str:
    """All subnets belong to one VPC, whose id is returned.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/application-load-balancers.html#subnets-load-balancer
    """
    vpcs = {subnet.vpc_id for subnet in subnets}
    if len(vpcs) != 1:
        raise invalid("InvalidConfigurationRequest", "All subnets of a load balancer must be in the same VPC")
    return vpcs.pop()


def room_for_nodes(subnets: Iterable[Subnet]) -> None:
    """A subnet that a load balancer comes to has eight free addresses at least.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/application-load-balancers.html#subnets-load-balancer
    """
    for subnet in subnets:
        free = subnet.available_ip_address_count
        if free < LEAST_ADDRESSES:
            raise invalid(
                "InvalidSubnet",
                f"Not enough IP space available in {subnet.id}. "
                f"ELB requires at least {LEAST_ADDRESSES} free IP addresses in each subnet.",
            )


def lawful_ip_address_type(kind: str, scheme: str, subnets: Iterable[Subnet]) -> None:
    """Addresses of both families need subnets that have both; without public IPv4 it makes sense only to the Internet.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/application-load-balancers.html#ip-address-type
    """
    if kind not in ("ipv4", "dualstack", "dualstack-without-public-ipv4"):
        raise validation(f"IpAddressType '{kind}' is not valid")
    if kind == "dualstack-without-public-ipv4" and scheme == "internal":
        raise validation(f"IpAddressType '{kind}' is not valid for internal load balancers")
    if kind != "ipv4" and not all(subnet.ipv6_cidr_block_associations for subnet in subnets):
        # https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/4852
        raise validation("You must specify subnets with an associated IPv6 CIDR block.")


def known_security_groups(network: EC2Backend, ids: Iterable[str], vpc_id: str) -> None:
    """Every security group exists, in the load balancer's VPC, else InvalidSecurityGroup.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_SetSecurityGroups.html
    """
    for group_id in ids:
        group = network.get_security_group_from_id(group_id)
        if group is None:
            raise invalid("InvalidSecurityGroup", f"The security group '{group_id}' does not exist")
        if group.vpc_id != vpc_id:
            raise invalid("InvalidSecurityGroup", f"The security group '{group_id}' does not belong to '{vpc_id}'")
