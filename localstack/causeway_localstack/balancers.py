"""The operations on load balancers themselves. They work on moto's records directly: its own are lax and slow."""

import random
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from localstack.aws.api import RequestContext, ServiceRequest, ServiceResponse
from moto.elbv2.models import FakeLoadBalancer

from . import fleet as fleets
from . import known, listeners, service_linked_role, wafv2
from .errors import invalid, validation
from .fleet import Fleet
from .pages import page
from .rules import attributes, deletion, names, network, quotas, tags

_HOSTED_ZONES = {
    "eu-central-1": "Z215JYRZR1TBD5",
    "eu-west-1": "Z32O12XQLNTSW2",
    "us-east-1": "Z35SXDOTRQ7X7K",
    "us-east-2": "Z3AADJGX6KTTL2",
    "us-west-2": "Z1H1FL5HABSF5",
}
"""https://docs.aws.amazon.com/general/latest/gr/elb.html"""


def create(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """CreateLoadBalancer. A taken name answers with its owner if all settings are equal; tags are no setting.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateLoadBalancer.html
    """
    fleet = fleets.of_caller(context)
    name = request["Name"]
    kind = request.get("Type") or "application"
    wanted_tags = request.get("Tags") or []
    names.load_balancer_name(name)
    tags.lawful_at_creation(wanted_tags)
    with fleet.lock:
        subnets = network.known_subnets(fleet.network, network.asked_for(request, kind))
        if kind == "application":
            network.two_zones(subnets)
        vpc_id = network.one_vpc(subnets)
        network.room_for_nodes(subnets)
        groups = request.get("SecurityGroups") or []
        network.known_security_groups(fleet.network, groups, vpc_id)
        wanted = {
            "scheme": request.get("Scheme") or "internet-facing",
            "type": kind,
            "subnets": {subnet.id for subnet in subnets},
            "security_groups": set(groups or _default_group(fleet, vpc_id)),
            "ip_address_type": request.get("IpAddressType") or "ipv4",
        }
        names.load_balancer_kind(wanted["scheme"], kind)
        network.lawful_ip_address_type(wanted["ip_address_type"], wanted["scheme"], subnets)
        existing = fleet.named(name)
        if existing:
            if _settings(existing) != wanted:
                raise invalid(
                    "DuplicateLoadBalancerName",
                    f"A load balancer with the same name '{name}' exists, but with different settings",
                )
            return {"LoadBalancers": [_shown(fleet, existing, fleet.state(existing))]}
        quotas.room_for_a_load_balancer(fleet)
        service_linked_role.ensure(fleet.account)
        balancer = fleet.backend.create_load_balancer(
            name=name,
            security_groups=groups or _default_group(fleet, vpc_id),
            subnet_ids=[subnet.id for subnet in subnets],
            scheme=wanted["scheme"],
            loadbalancer_type=kind,
            tags=wanted_tags,
        )
        balancer.ip_address_type = wanted["ip_address_type"]
        balancer.dns_name = _dns_name(balancer, fleet.region)
        balancer.canonical_hosted_zone_id = _HOSTED_ZONES.get(fleet.region, "Z35SXDOTRQ7X7K")
        balancer.attrs = attributes.defaults(balancer.scheme)
        fleet.born(balancer)
    return {"LoadBalancers": [_shown(fleet, balancer, "provisioning")]}


def describe(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeLoadBalancers: by name, by ARN, or all in pages."""
    fleet = fleets.of_caller(context)
    arns, wanted = request.get("LoadBalancerArns") or [], request.get("Names") or []
    if arns and wanted:
        raise validation("Load balancer names and load balancer ARNs cannot be specified at the same time")
    tags.twenty_at_once(request, "LoadBalancerArns")
    tags.twenty_at_once(request, "Names")
    seen = list(fleet.visible())
    if arns or wanted:
        key: Callable[[FakeLoadBalancer], str] = (lambda it: it.arn) if arns else (lambda it: it.name)
        missing = sorted(set(arns or wanted) - {key(balancer) for balancer in seen})
        if missing:
            raise invalid("LoadBalancerNotFound", f"Load balancers '[{', '.join(missing)}]' not found")
        seen = [balancer for balancer in seen if key(balancer) in (arns or wanted)]
    shown, marker = page(request, seen, lambda it: f"{fleet.birth(it).serial:012}{it.arn}")
    answer: dict[str, Any] = {"LoadBalancers": [_shown(fleet, it, fleet.state(it)) for it in shown]}
    if marker:
        answer["NextMarker"] = marker
    return answer


def delete(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DeleteLoadBalancer: with its listeners and rules; one that is gone already is fine."""
    fleet = fleets.of_caller(context)
    with fleet.lock:
        balancer = fleet.backend.load_balancers.get(request["LoadBalancerArn"])
        if balancer:
            deletion.not_protected(balancer)
            for listener in list(balancer.listeners.values()):
                for arn in {arn for rule in listener.in_order() for arn in rule.forwards_to()}:
                    fleet.backend.target_groups[arn].released = time.monotonic()
                listeners.remove(fleet, balancer, listener)
            fleet.backend.delete_load_balancer(balancer.arn)
            fleet.backend.tagging_service.delete_all_tags_for_resource(balancer.arn)
            fleet.births.pop(balancer.arn, None)
            fleet.capacities.pop(balancer.arn, None)
            wafv2.forget(fleet.account, fleet.region, balancer.arn)
    return {}


def set_subnets(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """SetSubnets: the new ones replace the old."""
    fleet = fleets.of_caller(context)
    with fleet.lock:
        balancer = known.balancer(fleet, request["LoadBalancerArn"])
        subnets = network.known_subnets(fleet.network, network.asked_for(request, balancer.type))
        if balancer.type == "application":
            network.two_zones(subnets)
        if network.one_vpc(subnets) != balancer.vpc_id:
            raise invalid(
                "InvalidConfigurationRequest", f"The subnets must be in the load balancer's VPC {balancer.vpc_id}"
            )
        network.room_for_nodes(it for it in subnets if it not in balancer.subnets)
        kind = request.get("IpAddressType") or balancer.ip_address_type
        network.lawful_ip_address_type(kind, balancer.scheme, subnets)
        balancer.ip_address_type = kind
        balancer.subnets = subnets
        return {"AvailabilityZones": _zones(balancer), "IpAddressType": balancer.ip_address_type}


def set_security_groups(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """SetSecurityGroups: the new ones replace the old."""
    fleet = fleets.of_caller(context)
    with fleet.lock:
        balancer = known.balancer(fleet, request["LoadBalancerArn"])
        groups = request.get("SecurityGroups") or []
        if not groups:
            raise validation("At least one security group must be specified")
        network.known_security_groups(fleet.network, groups, balancer.vpc_id)
        balancer.security_groups = list(groups)
        return {"SecurityGroupIds": list(groups)}


def set_ip_address_type(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """SetIpAddressType."""
    fleet = fleets.of_caller(context)
    with fleet.lock:
        balancer = known.balancer(fleet, request["LoadBalancerArn"])
        network.lawful_ip_address_type(request["IpAddressType"], balancer.scheme, balancer.subnets)
        balancer.ip_address_type = request["IpAddressType"]
        return {"IpAddressType": balancer.ip_address_type}


def modify_attributes(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """ModifyLoadBalancerAttributes: changes what is named, answers with all."""
    fleet = fleets.of_caller(context)
    with fleet.lock:
        balancer = known.balancer(fleet, request["LoadBalancerArn"])
        changes = {it["Key"]: it.get("Value", "") for it in request["Attributes"]}
        if balancer.type == "application":
            attributes.lawful_attributes(changes)
            attributes.logs_have_a_bucket(fleet, {**balancer.attrs, **changes})
        balancer.attrs.update(changes)
        return {"Attributes": _pairs(balancer.attrs)}


def describe_attributes(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeLoadBalancerAttributes."""
    fleet = fleets.of_caller(context)
    return {"Attributes": _pairs(known.balancer(fleet, request["LoadBalancerArn"]).attrs)}


def _default_group(fleet: Fleet, vpc_id: str) -> list[str]:
    group = fleet.network.get_security_group_from_name("default", vpc_id)
    return [group.id] if group else []


def _settings(balancer: FakeLoadBalancer) -> dict[str, Any]:
    return {
        "scheme": balancer.scheme,
        "type": balancer.type,
        "subnets": {subnet.id for subnet in balancer.subnets},
        "security_groups": set(balancer.security_groups),
        "ip_address_type": balancer.ip_address_type,
    }


def _dns_name(balancer: FakeLoadBalancer, region: str) -> str:
    prefix = "internal-" if balancer.scheme == "internal" else ""
    return f"{prefix}{balancer.name}-{random.randint(10**8, 2 * 10**9)}.{region}.elb.amazonaws.com"


def _zones(balancer: FakeLoadBalancer) -> list[dict[str, Any]]:
    return [
        {"ZoneName": it.availability_zone, "SubnetId": it.id, "LoadBalancerAddresses": []} for it in balancer.subnets
    ]


def _pairs(values: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": str(value)} for key, value in sorted(values.items())]


def _shown(fleet: Fleet, balancer: FakeLoadBalancer, state: str) -> dict[str, Any]:
    return {
        "LoadBalancerArn": balancer.arn,
        "DNSName": balancer.dns_name,
        "CanonicalHostedZoneId": balancer.canonical_hosted_zone_id,
        "CreatedTime": datetime.fromisoformat(balancer.created_time),
        "LoadBalancerName": balancer.name,
        "Scheme": balancer.scheme,
        "VpcId": balancer.vpc_id,
        "State": {"Code": state},
        "Type": balancer.type,
        "AvailabilityZones": _zones(balancer),
        "SecurityGroups": list(balancer.security_groups),
        "IpAddressType": balancer.ip_address_type,
    }
