"""The network every account of the tests starts with."""

from functools import cache
from ipaddress import IPv6Network
from typing import Any

from localstack.aws.connect import connect_to
from localstack.constants import AWS_REGION_US_EAST_1, DEFAULT_AWS_ACCOUNT_ID
from moto.ec2.models import EC2Backend, ec2_backends

VPC = "vpc-causeway"
VPC_CIDR = "198.18.0.0/16"
"""The cluster's own: pods get addresses of the VPC, as on EKS."""

SUBNETS = {"subnet-abc": "a", "subnet-def": "b", "subnet-ghi": "c", "subnet-abc2": "a"}
"""Each with the letter of its zone."""

PUBLIC = ("subnet-abc", "subnet-def", "subnet-ghi")
"""Those tagged for load balancers that face the Internet, as EKS has it."""

SECURITY_GROUPS = ("sg-web", "sg-other")


def seed(account: str, region: str) -> dict[str, Any]:
    """Makes what is missing of the VPC, its subnets and security groups, and names them all.

    Asks moto itself: by calls of AWS's API a seed took a fifth of a second, and every test begins with one.
    """
    _load_ec2()
    ec2: EC2Backend = ec2_backends[account][region]
    if VPC not in ec2.vpcs:
        tags = [{"Key": key, "Value": value} for key, value in _tags(VPC).items()]
        ec2.create_vpc(
            VPC_CIDR, amazon_provided_ipv6_cidr_block=True, ipv6_cidr_block_network_border_group=region, tags=tags
        )
    # Every VPC has one. LocalStack leaves it behind where a tag asks for the VPC's id.
    # https://docs.aws.amazon.com/vpc/latest/userguide/default-security-group.html
    if not ec2.get_security_group_from_name("default", VPC):
        ec2.create_security_group("default", "default VPC security group", vpc_id=VPC, is_default=True)
    [ipv6_block] = ec2.get_vpc(VPC).get_cidr_block_association_set(ipv6=True)
    ipv6 = IPv6Network(ipv6_block["cidr_block"]).subnets(new_prefix=64)
    subnets = {subnet.id for subnet in ec2.describe_subnets()}
    for number, (subnet, zone) in enumerate(SUBNETS.items()):
        block = str(next(ipv6))
        if subnet not in subnets:
            ec2.create_subnet(
                VPC, f"198.18.{number * 16}.0/20", block, region + zone, None, tags={"subnet": _tags(subnet)}
            )
            # As LocalStack answers CreateSubnet.
            ec2.modify_subnet_attribute(subnet, "private_dns_name_options_on_launch", {"HostnameType": "ip-name"})
    for group in SECURITY_GROUPS:
        if group not in ec2.groups[VPC]:
            ec2.create_security_group(group, group, vpc_id=VPC, tags=_tags(group))
    zones = {subnet: region + zone for subnet, zone in SUBNETS.items()}
    return {"vpc": VPC, "subnets": zones, "security_groups": list(SECURITY_GROUPS)}


def _tags(chosen: str) -> dict[str, str]:
    tags = {"_custom_id_": chosen, "Name": chosen}
    if chosen in PUBLIC:
        tags["kubernetes.io/role/elb"] = "1"
    return tags


@cache
def _load_ec2() -> None:
    """Has LocalStack load EC2, with its changes of moto, by which resources get the names that their tags ask for."""
    connect_to(aws_access_key_id=DEFAULT_AWS_ACCOUNT_ID, region_name=AWS_REGION_US_EAST_1).ec2.describe_vpcs()
