"""The operations on target groups and their attributes."""

import secrets
import time
from typing import Any

from localstack.aws.api import RequestContext, ServiceRequest, ServiceResponse

from . import fleet as fleets
from . import known, service_linked_role, settings, target_health
from .errors import invalid, validation
from .fleet import Fleet
from .pages import page
from .records import Document, TargetGroup, balancer_arn
from .rules import forwarding, quotas, tags, target_group_attributes, target_groups


def create(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """CreateTargetGroup. A taken name answers with its owner if all settings are equal; tags are no setting.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateTargetGroup.html
    """
    fleet = fleets.of_caller(context)
    wanted_tags = request.get("Tags") or []
    target_groups.lawful_name(request["Name"])
    tags.lawful_at_creation(wanted_tags)
    with fleet.lock:
        group = _new(fleet, request)
        existing = next((it for it in fleet.backend.target_groups.values() if it.name == group.name), None)
        if existing:
            if _settings(existing) != _settings(group):
                raise invalid(
                    "DuplicateTargetGroupName",
                    f"A target group with the same name '{group.name}' exists, but with different settings",
                )
            return {"TargetGroups": [shown(existing)]}
        quotas.room_for_a_target_group(fleet)
        service_linked_role.ensure(fleet.account)
        fleet.backend.target_groups[group.arn] = group
        if wanted_tags:
            fleet.backend.tagging_service.tag_resource(group.arn, wanted_tags)
    return {"TargetGroups": [shown(group)]}


def modify(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """ModifyTargetGroup: the health check, each field only if named.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ModifyTargetGroup.html
    """
    fleet = fleets.of_caller(context)
    with fleet.lock:
        group = known.target_group(fleet, request["TargetGroupArn"])
        check = group.health_check | _health_check(request)
        target_groups.lawful_health_check(check, group.protocol_version, group.target_type)
        group.health_check = check
        return {"TargetGroups": [shown(group)]}


def delete(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DeleteTargetGroup: unless a rule forwards to it; one that is gone already is fine."""
    fleet = fleets.of_caller(context)
    with fleet.lock:
        group = fleet.target_group(request["TargetGroupArn"])
        if group:
            target_groups.not_in_use(group.arn, bool(group.rules_using) or _lingers(fleet, group))
            del fleet.backend.target_groups[group.arn]
            fleet.backend.tagging_service.delete_all_tags_for_resource(group.arn)
            target_health.forget(group.arn)
    return {}


def describe(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeTargetGroups: by name, by ARN, of a load balancer, or all, in pages."""
    fleet = fleets.of_caller(context)
    arns, names, parent = (request.get(it) for it in ("TargetGroupArns", "Names", "LoadBalancerArn"))
    if sum(bool(it) for it in (arns, names, parent)) > 1:
        raise validation("Target group names, target group ARNs and a load balancer cannot be specified together")
    tags.twenty_at_once(request, "TargetGroupArns")
    tags.twenty_at_once(request, "Names")
    seen = [it for it in list(fleet.backend.target_groups.values()) if fleet.is_visible(it.born)]
    if arns:
        missing = sorted(set(arns) - {group.arn for group in seen})
        seen = [group for group in seen if group.arn in arns]
    elif names:
        missing = sorted(set(names) - {group.name for group in seen})
        seen = [group for group in seen if group.name in names]
    else:
        missing = []
    if missing:
        raise invalid("TargetGroupNotFound", f"Target groups '{', '.join(missing)}' not found")
    if parent:
        known.balancer(fleet, parent)
        seen = [group for group in seen if parent in _balancers(group)]
    found, marker = page(request, seen, lambda group: group.name)
    return {"TargetGroups": [shown(it) for it in found]} | ({"NextMarker": marker} if marker else {})


def describe_attributes(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeTargetGroupAttributes."""
    fleet = fleets.of_caller(context)
    group = known.target_group(fleet, request["TargetGroupArn"])
    if not fleet.is_visible(group.born):
        raise known.not_found(group.arn)
    return {"Attributes": _attributes(group)}


def modify_attributes(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """ModifyTargetGroupAttributes: changes what is named, answers with all."""
    fleet = fleets.of_caller(context)
    with fleet.lock:
        group = known.target_group(fleet, request["TargetGroupArn"])
        changes = {it["Key"]: it.get("Value") or "" for it in request["Attributes"]}
        target_group_attributes.lawful(changes, group.attributes)
        forwarding.sticky_where_shared(fleet, group, changes)
        group.attributes.update(changes)
        return {"Attributes": _attributes(group)}


def shown(group: TargetGroup) -> Document:
    """A target group as AWS answers it."""
    answer: dict[str, Any] = {
        "TargetGroupArn": group.arn,
        "TargetGroupName": group.name,
        "Protocol": group.protocol,
        "Port": group.port,
        "VpcId": group.vpc_id,
        "LoadBalancerArns": sorted(_balancers(group)),
        "TargetType": group.target_type,
        "ProtocolVersion": group.protocol_version,
        "IpAddressType": group.ip_address_type,
        "TargetControlPort": group.control_port,
        **group.health_check,
    }
    return {key: value for key, value in answer.items() if value is not None}


def _new(fleet: Fleet, request: ServiceRequest) -> TargetGroup:
    name = request["Name"]
    unchangeable = target_groups.settled(fleet.network, request)
    kind, version = unchangeable["target_type"], unchangeable["protocol_version"]
    check = target_groups.default_health_check(unchangeable["protocol"], version, kind) | _health_check(request)
    target_groups.lawful_health_check(check, version, kind)
    arn = f"arn:aws:elasticloadbalancing:{fleet.region}:{fleet.account}:targetgroup/{name}/{secrets.token_hex(8)}"
    attributes = dict(target_group_attributes.DEFAULTS)
    return TargetGroup(arn=arn, name=name, health_check=check, attributes=attributes, **unchangeable)


def _health_check(request: ServiceRequest) -> Document:
    return {key: request[key] for key in target_groups.HEALTH_CHECK if request.get(key) is not None}


def _settings(group: TargetGroup) -> tuple[Any, ...]:
    return (
        group.target_type,
        group.protocol,
        group.protocol_version,
        group.port,
        group.vpc_id,
        group.ip_address_type,
        group.control_port,
        group.health_check,
    )


def _balancers(group: TargetGroup) -> set[str]:
    return {balancer_arn(rule) for rule in list(group.rules_using)}


def _lingers(fleet: Fleet, group: TargetGroup) -> bool:
    if group.released is None:
        return False
    return time.monotonic() - group.released < settings.of(fleet.account).in_use_seconds


def _attributes(group: TargetGroup) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in sorted(group.attributes.items())]
