"""Refusals of EC2 about security groups that moto lacks.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_AuthorizeSecurityGroupIngress.html
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_AuthorizeSecurityGroupEgress.html
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from localstack.aws.api import RequestContext
from moto.ec2.models.managed_prefixes import ManagedPrefixList
from moto.ec2.models.security_groups import SecurityGroup, SecurityGroupRule

from . import fleet as fleets
from .errors import invalid
from .fleet import Fleet
from .rules import deletion

Permission = tuple[str, int | None, int | None, str]
"""Protocol, first and last port, and what is let in: a range of addresses, a prefix list or a group."""

_MOST_RULES = 60
"""Of each address family: https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html"""

_WEIGHTS = {
    "cloudfront.origin-facing": 55,
    "dynamodb": 1,
    "groundstation": 5,
    "s3": 1,
    "vpc-lattice": 10,
}
"""The weights of AWS's own lists, by the end of their names.

https://docs.aws.amazon.com/vpc/latest/userguide/working-with-aws-managed-prefix-lists.html, read on 2026-11-27
"""

_DESCRIPTION = re.compile(r"[a-zA-Z0-9. _\-:/()#,@\[\]+=&;{}!$*]{0,255}", re.ASCII)
_DESCRIPTIONS = "strings less than 256 characters from the following set:  a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*"


def check(context: RequestContext) -> None:
    """Refuses an EC2 call that AWS would refuse as a whole."""
    asked = context.service_request
    group_id = asked.get("GroupId")
    if context.operation.name == "CreateSecurityGroup":
        _named_lawfully(asked)
    if not group_id:
        return
    fleet = fleets.of_caller(context)
    match context.operation.name:
        case "DeleteSecurityGroup":
            deletion.security_group_not_attached(fleet, group_id)
            _not_named_by_others(fleet, group_id)
        case "AuthorizeSecurityGroupIngress" | "AuthorizeSecurityGroupEgress" as name:
            held = list(_held(fleet, group_id, outbound=name.endswith("Egress")))
            _described_lawfully(asked.get("IpPermissions") or [])
            _lists_known(fleet, asked.get("IpPermissions") or [])
            _nothing_twice(held, asked.get("IpPermissions") or [])
            _within_quota(fleet, held, asked.get("IpPermissions") or [])
        case "RevokeSecurityGroupIngress" | "RevokeSecurityGroupEgress" as name:
            held = list(_held(fleet, group_id, outbound=name.endswith("Egress")))
            _everything_there(held, asked.get("IpPermissions") or [])


def settle(context: RequestContext) -> None:
    """Clears the host bits of what an accepted call let in, as EC2 does: 10.0.0.1/8 is 10.0.0.0/8 from then on."""
    name = context.operation.name
    if name not in ("AuthorizeSecurityGroupIngress", "AuthorizeSecurityGroupEgress"):
        return
    fleet = fleets.of_caller(context)
    group = fleet.network.get_security_group_from_id(context.service_request.get("GroupId") or "")
    for rule in _rules(group, outbound=name.endswith("Egress")):
        for key in ("CidrIp", "CidrIpv6"):
            if rule.ip_range.get(key):
                rule.ip_range[key] = _canonical(rule.ip_range[key])


def _named_lawfully(asked: Mapping[str, Any]) -> None:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateSecurityGroup.html

    AWS's words: https://github.com/cds-snc/notification-terraform/pull/561,
    https://github.com/hashicorp/terraform-provider-aws/pull/43854
    """
    fields = {"GroupName": asked.get("GroupName") or "", "GroupDescription": asked.get("Description") or ""}
    for parameter, value in fields.items():
        if not value.isascii():
            raise invalid(
                "InvalidParameterValue",
                f"Value ({value}) for parameter {parameter} is invalid. Character sets beyond ASCII are not supported.",
            )
        if not _DESCRIPTION.fullmatch(value):
            what = "name" if parameter == "GroupName" else "description"
            raise invalid("InvalidParameterValue", f"Invalid security group {what}. Valid {what}s are {_DESCRIPTIONS}")
    if fields["GroupName"].startswith("sg-"):
        raise invalid(
            "InvalidParameterValue",
            f"Value ({fields['GroupName']}) for parameter GroupName is invalid. "
            "Group names may not be in the format sg-*.",
        )


def _described_lawfully(permissions: Iterable[Mapping[str, Any]]) -> None:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpRange.html

    AWS's words: https://github.com/aws-cloudformation/cfn-lint/issues/173
    """
    for permission in permissions:
        for field in ("IpRanges", "Ipv6Ranges", "PrefixListIds", "UserIdGroupPairs"):
            for source in permission.get(field) or []:
                if not _DESCRIPTION.fullmatch(source.get("Description") or ""):
                    raise invalid(
                        "InvalidParameterValue", f"Invalid rule description. Valid descriptions are {_DESCRIPTIONS}"
                    )


def _not_named_by_others(fleet: Fleet, group_id: str) -> None:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteSecurityGroup.html"""
    for group in _groups(fleet):
        if group.id == group_id:
            continue
        for rule in [*group.ingress_rules, *group.egress_rules]:
            if rule.source_group.get("GroupId") == group_id:
                raise invalid("DependencyViolation", f"resource {group_id} has a dependent object")


def _lists_known(fleet: Fleet, permissions: Iterable[Mapping[str, Any]]) -> None:
    """AWS's words: https://github.com/aws-cloudformation/rain/issues/308; its code: Terraform's provider for AWS."""
    for permission in permissions:
        for source in permission.get("PrefixListIds") or []:
            asked = source.get("PrefixListId") or ""
            if _list(fleet, asked) is None:
                raise invalid("InvalidPrefixListID.NotFound", f"The prefix list ID '{asked}' does not exist")


def _within_quota(fleet: Fleet, held: Iterable[Permission], permissions: Iterable[Mapping[str, Any]]) -> None:
    """Each family has its quota, for inbound rules and for outbound ones. A group counts in both, and so does a prefix list, as the entries it may have at most.

    https://docs.aws.amazon.com/vpc/latest/userguide/work-with-cust-managed-prefix-lists.html, read on 2026-11-27: "You
    can't add a prefix list to a security group rule if the number of rules plus the max entries for the prefix list
    exceeds the quota for rules per security group for your account."
    """
    sources = [source for *_, source in [*held, *_asked_for(permissions)]]
    for other_family in (":", "."):
        if sum(_weight(fleet, source) for source in sources if other_family not in source) > _MOST_RULES:
            raise invalid(
                "RulesPerSecurityGroupLimitExceeded",
                "The maximum number of rules per security group has been reached.",
            )


def _weight(fleet: Fleet, source: str) -> int:
    listed = _list(fleet, source)
    if listed is None:
        return 1
    if listed.max_entries is not None:
        return int(listed.max_entries)
    name = listed.prefix_list_name or ""
    return next((weight for end, weight in _WEIGHTS.items() if name.endswith(end)), 1)


def _list(fleet: Fleet, list_id: str) -> ManagedPrefixList | None:
    found: ManagedPrefixList | None = fleet.network.managed_prefix_lists.get(list_id)
    return found if found and found.state != "delete-complete" else None


def _nothing_twice(held: Iterable[Permission], permissions: Iterable[Mapping[str, Any]]) -> None:
    seen = set(held)
    for permission in _asked_for(permissions):
        if permission in seen:
            raise invalid("InvalidPermission.Duplicate", f'the specified rule "{_told(permission)}" already exists')
        seen.add(permission)


def _everything_there(held: Iterable[Permission], permissions: Iterable[Mapping[str, Any]]) -> None:
    there = set(held)
    for permission in _asked_for(permissions):
        if permission not in there:
            raise invalid("InvalidPermission.NotFound", "The specified rule does not exist in this security group.")


def _groups(fleet: Fleet) -> list[SecurityGroup]:
    return [group for groups in list(fleet.network.groups.values()) for group in list(groups.values())]


def _held(fleet: Fleet, group_id: str, *, outbound: bool) -> Iterator[Permission]:
    group = fleet.network.get_security_group_from_id(group_id)
    for rule in _rules(group, outbound=outbound):
        source = rule.cidr_ipv4 or rule.cidr_ipv6 or rule.prefix_list_id or rule.source_group.get("GroupId") or ""
        yield (rule.ip_protocol or "", rule.from_port, rule.to_port, source)


def _rules(group: SecurityGroup | None, *, outbound: bool) -> list[SecurityGroupRule]:
    if group is None:
        return []
    rules: list[SecurityGroupRule] = group.egress_rules if outbound else group.ingress_rules
    return rules


def _asked_for(permissions: Iterable[Mapping[str, Any]]) -> Iterator[Permission]:
    sources = {"IpRanges": "CidrIp", "Ipv6Ranges": "CidrIpv6", "PrefixListIds": "PrefixListId"}
    for permission in permissions:
        protocol = str(permission.get("IpProtocol", "-1")).lower()
        ports = (None, None) if protocol == "-1" else (permission.get("FromPort"), permission.get("ToPort"))
        for field, key in (sources | {"UserIdGroupPairs": "GroupId"}).items():
            for source in permission.get(field) or []:
                peer = source.get(key) or ""
                yield (protocol, *ports, _canonical(peer) if key.startswith("Cidr") else peer)


def _canonical(cidr: str) -> str:
    try:
        return str(ipaddress.ip_network(cidr, strict=False))
    except ValueError:
        return cidr


def _told(permission: Permission) -> str:
    protocol, first, last, source = permission
    return f"peer: {source}, {protocol.upper()}, from port: {first}, to port: {last}, ALLOW"
