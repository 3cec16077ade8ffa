"""The parts of EC2 that the operator needs; most of them are LocalStack's own."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.client import BaseClient
from conftest import Aws, refused


@pytest.fixture
def ec2(aws: Aws) -> BaseClient:
    return aws.client("ec2")


@pytest.fixture
def group(ec2: BaseClient) -> Iterator[str]:
    created = ec2.create_security_group(
        VpcId="vpc-causeway",
        GroupName="managed",
        Description="of a test",
        TagSpecifications=[{"ResourceType": "security-group", "Tags": [{"Key": "team", "Value": "blue"}]}],
    )
    yield created["GroupId"]
    left = ec2.describe_security_groups(Filters=[{"Name": "group-id", "Values": [created["GroupId"]]}])
    if left["SecurityGroups"]:
        ec2.delete_security_group(GroupId=created["GroupId"])


def inbound(cidr: str, port: int = 80, **about: Any) -> list[dict[str, Any]]:
    ranges = [{"CidrIp": cidr} | about]
    return [{"IpProtocol": "tcp", "FromPort": port, "ToPort": port, "IpRanges": ranges}]


def test_subnets_are_found_by_tag_and_vpc(ec2: BaseClient) -> None:
    def found(**filters: list[str]) -> list[str]:
        asked = [{"Name": name.replace("__", ":"), "Values": values} for name, values in filters.items()]
        return sorted(it["SubnetId"] for it in ec2.describe_subnets(Filters=asked)["Subnets"])

    role = {"tag__kubernetes.io/role/elb": ["1", ""]}
    public = ["subnet-abc", "subnet-def", "subnet-ghi"]
    assert found(**role) == found(**{"tag-key": ["kubernetes.io/role/elb"]}) == public
    assert found(**role, **{"vpc-id": ["vpc-causeway"]}) == public
    assert found(**role, **{"vpc-id": ["vpc-none"]}) == []
    assert found(tag__Name=["subnet-abc2"]) == ["subnet-abc2"]
    described = ec2.describe_subnets(SubnetIds=public)["Subnets"]
    assert all(4000 < it["AvailableIpAddressCount"] < 4096 for it in described)


def test_a_security_group_is_made_with_its_tags(ec2: BaseClient, group: str) -> None:
    mine = [{"Name": "tag:team", "Values": ["blue"]}, {"Name": "vpc-id", "Values": ["vpc-causeway"]}]
    [found] = ec2.describe_security_groups(Filters=mine)["SecurityGroups"]
    assert (found["GroupId"], found["GroupName"], found["Description"]) == (group, "managed", "of a test")
    assert found["Tags"] == [{"Key": "team", "Value": "blue"}]
    assert found["IpPermissions"] == []
    [egress] = found["IpPermissionsEgress"]
    assert (egress["IpProtocol"], egress["IpRanges"]) == ("-1", [{"CidrIp": "0.0.0.0/0"}])
    with refused("InvalidGroup.Duplicate"):
        ec2.create_security_group(VpcId="vpc-causeway", GroupName="managed", Description="again")
    with refused("InvalidGroup.NotFound"):
        ec2.describe_security_groups(GroupIds=["sg-0123456789abcdef0"])


def test_inbound_rules_come_and_go(ec2: BaseClient, group: str) -> None:
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=inbound("0.0.0.0/0", Description="everyone"))
    with refused("InvalidPermission.Duplicate"):
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=inbound("0.0.0.0/0", Description="other"))
    with refused("InvalidPermission.Duplicate"):
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=inbound("10.0.0.0/8") + inbound("0.0.0.0/0"))
    [found] = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    assert [it["IpRanges"] for it in found["IpPermissions"]] == [[{"CidrIp": "0.0.0.0/0", "Description": "everyone"}]]
    with refused("InvalidPermission.NotFound"):
        ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=inbound("0.0.0.0/0", port=81))
    ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=inbound("0.0.0.0/0"))
    assert ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"] == []


def test_host_bits_are_cleared(ec2: BaseClient, group: str) -> None:
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=inbound("10.1.2.3/8"))
    [found] = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]
    assert found["IpRanges"] == [{"CidrIp": "10.0.0.0/8"}]
    with refused("InvalidPermission.Duplicate"):
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=inbound("10.3.2.1/8"))


def test_groups_let_one_another_in(ec2: BaseClient, group: str) -> None:
    pair = [{"IpProtocol": "tcp", "FromPort": 1, "ToPort": 65535, "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.authorize_security_group_ingress(GroupId="sg-other", IpPermissions=pair)
    with refused("InvalidPermission.Duplicate"):
        ec2.authorize_security_group_ingress(GroupId="sg-other", IpPermissions=pair)
    with refused("DependencyViolation"):
        ec2.delete_security_group(GroupId=group)
    ec2.revoke_security_group_ingress(GroupId="sg-other", IpPermissions=pair)
    ec2.delete_security_group(GroupId=group)
    with refused("InvalidGroup.NotFound"):
        ec2.delete_security_group(GroupId=group)


def test_instances_are_found(ec2: BaseClient) -> None:
    created = ec2.run_instances(ImageId="ami-12345678", MinCount=1, MaxCount=1, SubnetId="subnet-abc")["Instances"][0]
    [reservation] = ec2.describe_instances(InstanceIds=[created["InstanceId"]])["Reservations"]
    [found] = reservation["Instances"]
    assert (found["VpcId"], found["State"]["Name"]) == ("vpc-causeway", "running")
    assert found["PrivateIpAddress"].startswith("198.18.")
    with refused("InvalidInstanceID.NotFound"):
        ec2.describe_instances(InstanceIds=["i-0123456789abcdef0"])
    ec2.terminate_instances(InstanceIds=[created["InstanceId"]])


def test_inbound_rules_of_every_kind_are_kept(ec2: BaseClient, group: str) -> None:
    prefixes = ec2.create_managed_prefix_list(PrefixListName="offices", MaxEntries=1, AddressFamily="IPv4")
    listed = prefixes["PrefixList"]["PrefixListId"]
    wanted: dict[str, list[dict[str, str]]] = {
        "IpRanges": [{"CidrIp": "10.0.0.0/8", "Description": "inner"}],
        "Ipv6Ranges": [{"CidrIpv6": "::/0", "Description": "everyone"}],
        "PrefixListIds": [{"PrefixListId": listed}],
        "UserIdGroupPairs": [{"GroupId": "sg-web", "Description": "balancers"}],
    }
    permission = [{"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, **wanted}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=permission)
    found = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]
    kept = {field: [it for one in found for it in one.get(field) or []] for field in wanted}
    for pair in kept["UserIdGroupPairs"]:
        del pair["UserId"]
    assert kept == wanted
    for field, sources in wanted.items():
        with refused("InvalidPermission.Duplicate"):
            again = [{"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, field: sources}]
            ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=again)
    ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=found)
    assert ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"] == []
    ec2.delete_managed_prefix_list(PrefixListId=listed)


def let_in_list(listed: str, port: int = 443) -> list[dict[str, Any]]:
    return [{"IpProtocol": "tcp", "FromPort": port, "ToPort": port, "PrefixListIds": [{"PrefixListId": listed}]}]


def test_a_prefix_list_that_does_not_exist_is_refused(ec2: BaseClient, group: str) -> None:
    with refused("InvalidPrefixListID.NotFound", "The prefix list ID 'pl-0123456789abcdef0' does not exist"):
        mixed = inbound("10.0.0.0/8") + let_in_list("pl-0123456789abcdef0")
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=mixed)
    assert ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"] == []
    listed = ec2.create_managed_prefix_list(PrefixListName="gone", MaxEntries=1, AddressFamily="IPv4")
    listed = listed["PrefixList"]["PrefixListId"]
    ec2.delete_managed_prefix_list(PrefixListId=listed)
    with refused("InvalidPrefixListID.NotFound", listed):
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=let_in_list(listed))


def test_a_prefix_list_counts_as_the_entries_it_may_have(ec2: BaseClient, group: str) -> None:
    listed = ec2.create_managed_prefix_list(PrefixListName="offices", MaxEntries=58, AddressFamily="IPv4")
    listed = listed["PrefixList"]["PrefixListId"]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=inbound("10.0.0.0/8"))
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=let_in_list(listed))
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=inbound("172.16.0.0/12"))
    with refused("RulesPerSecurityGroupLimitExceeded", "The maximum number of rules per security group"):
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=inbound("192.168.0.0/16"))
    six = [{"IpProtocol": "tcp", "FromPort": 80, "ToPort": 80, "Ipv6Ranges": [{"CidrIpv6": "2001:db8::/32"}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=six)
    with refused("RulesPerSecurityGroupLimitExceeded"):
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=let_in_list(listed, port=80))
    ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=let_in_list(listed))
    [origins] = ec2.describe_managed_prefix_lists(
        Filters=[{"Name": "prefix-list-name", "Values": ["com.amazonaws.global.cloudfront.origin-facing"]}]
    )["PrefixLists"]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=let_in_list(origins["PrefixListId"]))
    with refused("RulesPerSecurityGroupLimitExceeded"):
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=let_in_list(origins["PrefixListId"], port=80))
    ec2.delete_managed_prefix_list(PrefixListId=listed)


def test_outbound_rules_come_and_go(ec2: BaseClient, group: str) -> None:
    networks = {"IpRanges": [{"CidrIp": "0.0.0.0/0"}], "Ipv6Ranges": [{"CidrIpv6": "::/0"}]}
    everything = [{"IpProtocol": "-1"} | networks]
    with refused("InvalidPermission.Duplicate"):
        ec2.authorize_security_group_egress(GroupId=group, IpPermissions=everything)
    ec2.revoke_security_group_egress(GroupId=group, IpPermissions=everything)
    assert ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissionsEgress"] == []


@pytest.mark.parametrize(
    ("about", "words"),
    [
        (
            {"Description": "a" * 256},
            "Invalid security group description. Valid descriptions are strings less",
        ),
        ({"Description": "it's ours"}, "Invalid security group description"),
        ({"Description": "für alle"}, "for parameter GroupDescription is invalid. Character sets beyond ASCII"),
        ({"GroupName": "sg-ours"}, "Group names may not be in the format sg-*"),
        ({"GroupName": "a" * 256}, "Invalid security group name"),
    ],
)
def test_names_and_descriptions_have_few_characters(ec2: BaseClient, about: dict[str, str], words: str) -> None:
    with refused("InvalidParameterValue", words):
        ec2.create_security_group(**({"VpcId": "vpc-causeway", "GroupName": "managed", "Description": "a"} | about))


def test_so_have_descriptions_of_rules(ec2: BaseClient, group: str) -> None:
    for description in ("a" * 256, "a -> b"):
        permission = inbound("10.0.0.0/8")
        permission[0]["IpRanges"][0]["Description"] = description
        with refused("InvalidParameterValue", "Invalid rule description. Valid descriptions are strings less than 256"):
            ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=permission)


def test_outbound_rules_come_and_go_as_inbound_ones(ec2: BaseClient, group: str) -> None:
    everything = [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]

    def outbound() -> list[str]:
        [found] = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]
        return sorted(it["CidrIp"] for rule in found["IpPermissionsEgress"] for it in rule["IpRanges"])

    with refused("InvalidPermission.Duplicate"):
        ec2.authorize_security_group_egress(GroupId=group, IpPermissions=everything)
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=inbound("192.0.2.1/24", 25))
    assert outbound() == ["0.0.0.0/0", "192.0.2.0/24"]
    ec2.revoke_security_group_egress(GroupId=group, IpPermissions=everything)
    assert outbound() == ["192.0.2.0/24"]
    with refused("InvalidPermission.NotFound"):
        ec2.revoke_security_group_egress(GroupId=group, IpPermissions=everything)
    ec2.authorize_security_group_egress(GroupId=group, IpPermissions=everything)
    assert outbound() == ["0.0.0.0/0", "192.0.2.0/24"]
