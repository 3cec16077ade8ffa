from conftest import Aws, refused


def test_one_subnet_is_too_few(aws: Aws) -> None:
    with refused("ValidationError", "At least two subnets in two different Availability Zones"):
        aws.create("web", Subnets=["subnet-abc"])


def test_two_subnets_of_one_zone_are_refused(aws: Aws) -> None:
    with refused("InvalidConfigurationRequest", "multiple subnets in the same Availability Zone"):
        aws.create("web", Subnets=["subnet-abc", "subnet-abc2"])
    with refused("InvalidConfigurationRequest"):
        aws.create("web", Subnets=["subnet-abc", "subnet-abc2", "subnet-def"])


def test_an_unknown_subnet_is_named(aws: Aws) -> None:
    with refused("SubnetNotFound", "'subnet-nowhere' does not exist"):
        aws.create("web", Subnets=["subnet-abc", "subnet-nowhere"])


def test_subnets_of_two_vpcs_are_refused(aws: Aws) -> None:
    ec2 = aws.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="198.19.0.0/16")["Vpc"]["VpcId"]
    zone = "us-east-1b"
    other = ec2.create_subnet(VpcId=vpc, CidrBlock="198.19.0.0/20", AvailabilityZone=zone)["Subnet"]["SubnetId"]
    with refused("InvalidConfigurationRequest", "same VPC"):
        aws.create("web", Subnets=["subnet-abc", other])


def test_an_unknown_security_group_is_named(aws: Aws) -> None:
    with refused("InvalidSecurityGroup", "'sg-none' does not exist"):
        aws.create("web", SecurityGroups=["sg-web", "sg-none"])


def test_a_security_group_of_another_vpc_is_refused(aws: Aws) -> None:
    ec2 = aws.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="198.19.0.0/16")["Vpc"]["VpcId"]
    group = ec2.create_security_group(VpcId=vpc, GroupName="other", Description="other")["GroupId"]
    with refused("InvalidSecurityGroup", "does not belong to"):
        aws.create("web", SecurityGroups=[group])


def test_set_subnets_replaces_them_under_the_same_rules(aws: Aws) -> None:
    elbv2, arn = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    with refused("ValidationError"):
        elbv2.set_subnets(LoadBalancerArn=arn, Subnets=["subnet-abc"])
    with refused("InvalidConfigurationRequest"):
        elbv2.set_subnets(LoadBalancerArn=arn, Subnets=["subnet-abc", "subnet-abc2"])
    with refused("SubnetNotFound"):
        elbv2.set_subnets(LoadBalancerArn=arn, Subnets=["subnet-abc", "subnet-nowhere"])
    answer = elbv2.set_subnets(LoadBalancerArn=arn, Subnets=["subnet-def", "subnet-ghi"])
    assert [zone["SubnetId"] for zone in answer["AvailabilityZones"]] == ["subnet-def", "subnet-ghi"]
    assert [zone["SubnetId"] for zone in aws.describe("web")[0]["AvailabilityZones"]] == ["subnet-def", "subnet-ghi"]
    with refused("LoadBalancerNotFound"):
        elbv2.set_subnets(LoadBalancerArn=arn + "0", Subnets=["subnet-def", "subnet-ghi"])


def test_set_security_groups_replaces_them_under_the_same_rules(aws: Aws) -> None:
    elbv2, arn = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    with refused("InvalidSecurityGroup"):
        elbv2.set_security_groups(LoadBalancerArn=arn, SecurityGroups=["sg-none"])
    with refused("ValidationError"):
        elbv2.set_security_groups(LoadBalancerArn=arn, SecurityGroups=[])
    answer = elbv2.set_security_groups(LoadBalancerArn=arn, SecurityGroups=["sg-other", "sg-web"])
    assert answer["SecurityGroupIds"] == ["sg-other", "sg-web"]
    assert aws.describe("web")[0]["SecurityGroups"] == ["sg-other", "sg-web"]


def test_set_ip_address_type(aws: Aws) -> None:
    elbv2, arn = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    elbv2.set_ip_address_type(LoadBalancerArn=arn, IpAddressType="dualstack")
    assert aws.describe("web")[0]["IpAddressType"] == "dualstack"
    with refused("ValidationError"):
        elbv2.set_ip_address_type(LoadBalancerArn=arn, IpAddressType="ipv5")


def test_a_subnet_needs_eight_free_addresses(aws: Aws) -> None:
    ec2 = aws.client("ec2")

    def subnet(block: str) -> str:
        created = ec2.create_subnet(VpcId="vpc-causeway", CidrBlock=block, AvailabilityZone="us-east-1b")
        return created["Subnet"]["SubnetId"]

    small, enough = subnet("198.18.250.0/29"), subnet("198.18.251.0/28")
    try:
        with refused("InvalidSubnet", f"Not enough IP space available in {small}"):
            aws.create("web", Subnets=["subnet-abc", small])
        arn = aws.create("web", Subnets=["subnet-abc", enough])["LoadBalancerArn"]
        with refused("InvalidSubnet"):
            aws.client("elbv2").set_subnets(LoadBalancerArn=arn, Subnets=["subnet-abc", small])
        with refused("ValidationError", "IPv6"):
            aws.client("elbv2").set_ip_address_type(LoadBalancerArn=arn, IpAddressType="dualstack")
        with refused("ValidationError", "IPv6"):
            aws.create("both", Subnets=["subnet-abc", enough], IpAddressType="dualstack")
        aws.client("elbv2").delete_load_balancer(LoadBalancerArn=arn)
    finally:
        for made in (small, enough):
            ec2.delete_subnet(SubnetId=made)


def test_addresses_without_public_ipv4_are_for_the_internet(aws: Aws) -> None:
    aws.create("web", IpAddressType="dualstack-without-public-ipv4")
    with refused("ValidationError", "internal"):
        aws.create("inner", Scheme="internal", IpAddressType="dualstack-without-public-ipv4")


def test_subnets_come_plain_or_mapped_but_not_both(aws: Aws) -> None:
    plain = ["subnet-abc", "subnet-def"]
    mapped = [{"SubnetId": it} for it in plain]
    with refused("ValidationError", "but not both"):
        aws.create("web", Subnets=plain, SubnetMappings=mapped)
    arn = aws.create("web", Subnets=[], SubnetMappings=mapped)["LoadBalancerArn"]
    elbv2 = aws.client("elbv2")
    with refused("ValidationError", "but not both"):
        elbv2.set_subnets(LoadBalancerArn=arn, Subnets=plain, SubnetMappings=mapped)
    elbv2.set_subnets(LoadBalancerArn=arn, SubnetMappings=[{"SubnetId": it} for it in ("subnet-def", "subnet-ghi")])
    assert [zone["SubnetId"] for zone in aws.describe("web")[0]["AvailabilityZones"]] == ["subnet-def", "subnet-ghi"]


def test_an_application_load_balancer_has_no_elastic_ip_addresses(aws: Aws) -> None:
    mapped = [{"SubnetId": it, "AllocationId": f"eipalloc-{it}"} for it in ("subnet-abc", "subnet-def")]
    with refused("ValidationError", "Elastic IP"):
        aws.create("web", Subnets=[], SubnetMappings=mapped)
    arn = aws.create("web")["LoadBalancerArn"]
    with refused("ValidationError", "Elastic IP"):
        aws.client("elbv2").set_subnets(LoadBalancerArn=arn, SubnetMappings=mapped)
