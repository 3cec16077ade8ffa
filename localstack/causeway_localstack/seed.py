"""The network every account of the tests starts with."""

from ipaddress import IPv6Network
from typing import Any

from localstack.aws.connect import connect_to

VPC = "vpc-causeway"
VPC_CIDR = "198.18.0.0/16"
"""The cluster's own: pods get addresses of the VPC, as on EKS."""

SUBNETS = {"subnet-abc": "a", "subnet-def": "b", "subnet-ghi": "c", "subnet-abc2": "a"}
"""Each with the letter of its zone."""

PUBLIC = ("subnet-abc", "subnet-def", "subnet-ghi")
"""Those tagged for load balancers that face the Internet, as EKS has it."""

SECURITY_GROUPS = ("sg-web", "sg-other")


def seed(account: str, region: str) -> dict[str, Any]:
    """Makes what is missing of the VPC, its subnets and security groups, and names them all."""
    ec2 = connect_to(aws_access_key_id=account, region_name=region).ec2

    def custom(kind: str, chosen: str) -> list[dict[str, Any]]:
        tags = {"_custom_id_": chosen, "Name": chosen}
        if chosen in PUBLIC:
            tags["kubernetes.io/role/elb"] = "1"
        return [{"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}]

    if not any(vpc["VpcId"] == VPC for vpc in ec2.describe_vpcs()["Vpcs"]):
        ec2.create_vpc(CidrBlock=VPC_CIDR, AmazonProvidedIpv6CidrBlock=True, TagSpecifications=custom("vpc", VPC))
    [vpc] = ec2.describe_vpcs(VpcIds=[VPC])["Vpcs"]
    ipv6 = IPv6Network(vpc["Ipv6CidrBlockAssociationSet"][0]["Ipv6CidrBlock"]).subnets(new_prefix=64)
    subnets = {subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"]}
    for number, (subnet, zone) in enumerate(SUBNETS.items()):
        ipv6_block = str(next(ipv6))
        if subnet not in subnets:
            ec2.create_subnet(
                VpcId=VPC,
                CidrBlock=f"198.18.{number * 16}.0/20",
                Ipv6CidrBlock=ipv6_block,
                AvailabilityZone=region + zone,
                TagSpecifications=custom("subnet", subnet),
            )
    groups = {group["GroupId"] for group in ec2.describe_security_groups()["SecurityGroups"]}
    for group in SECURITY_GROUPS:
        if group not in groups:
            ec2.create_security_group(
                VpcId=VPC, GroupName=group, Description=group, TagSpecifications=custom("security-group", group)
            )
    zones = {subnet: region + zone for subnet, zone in SUBNETS.items()}
    return {"vpc": VPC, "subnets": zones, "security_groups": list(SECURITY_GROUPS)}
