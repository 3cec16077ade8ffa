"""ELBv2 for LocalStack: what is strict is ours, the rest is moto's."""

from collections.abc import Callable
from typing import Any

from localstack.aws.api import RequestContext, ServiceRequest, ServiceResponse
from localstack.aws.skeleton import Skeleton
from localstack.aws.spec import load_service
from localstack.services.moto import call_moto, call_moto_with_request
from localstack.services.plugins import Service, aws_provider

from . import balancers, settings, tagging
from . import fleet as fleets
from .pages import page
from .rules import listeners, quotas
from .rules.tags import twenty_at_once

Operation = Callable[[RequestContext, ServiceRequest], ServiceResponse]


def create_listener(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """CreateListener: one per port, its target groups on no other load balancer."""
    fleet = fleets.of_caller(context)
    with fleet.lock:
        balancer = balancers.known(fleet, request["LoadBalancerArn"])
        listeners.free_port(fleet, balancer.arn, request.get("Port", 0))
        listeners.target_groups_of_one_balancer(fleet, balancer.arn, request["DefaultActions"])
        return call_moto(context)


def change_listener_or_rule(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """CreateRule, ModifyRule and ModifyListener: their target groups on no other load balancer."""
    fleet = fleets.of_caller(context)
    with fleet.lock:
        arn = request.get("ListenerArn") or request["RuleArn"]
        balancer_arn = "/".join(arn.split("/")[:4]).replace(":listener-rule/", ":loadbalancer/")
        balancer_arn = balancer_arn.replace(":listener/", ":loadbalancer/")
        actions = request.get("DefaultActions") or request.get("Actions") or []
        listeners.target_groups_of_one_balancer(fleet, balancer_arn, actions)
        return call_moto(context)


def create_target_group(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """CreateTargetGroup, within the quota."""
    fleet = fleets.of_caller(context)
    with fleet.lock:
        quotas.room_for_a_target_group(fleet)
        return call_moto(context)


def describe_account_limits(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeAccountLimits, with the quotas that hold here."""
    held = settings.of(context.account_id)
    ours = {"application-load-balancers": held.load_balancers, "target-groups": held.target_groups}
    answer = call_moto(context)
    for limit in answer["Limits"]:
        limit["Max"] = str(ours.get(limit["Name"], limit["Max"]))
    return answer


def paged(field: str, place: Callable[[dict[str, Any]], str]) -> Operation:
    """A Describe* of moto's, in AWS's pages: `field` holds the entries, in the order of their `place`."""

    def describe(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
        for names in ("Names", "ListenerArns", "RuleArns", "TargetGroupArns"):
            twenty_at_once(request, names)
        everything = {key: value for key, value in request.items() if key not in ("Marker", "PageSize")}
        if field == "Rules":
            everything["PageSize"] = 10_000
        answer = call_moto_with_request(context, everything)
        answer.pop("NextMarker", None)
        answer[field], marker = page(request, answer.get(field) or [], place)
        if marker:
            answer["NextMarker"] = marker
        return answer

    return describe


def _moto(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    return call_moto(context)


_STRICT: dict[str, Operation] = {
    "AddTags": tagging.add,
    "CreateListener": create_listener,
    "CreateLoadBalancer": balancers.create,
    "CreateRule": change_listener_or_rule,
    "CreateTargetGroup": create_target_group,
    "DeleteLoadBalancer": balancers.delete,
    "DescribeAccountLimits": describe_account_limits,
    "DescribeListeners": paged("Listeners", lambda it: f"{it.get('Port', 0):05}"),
    "DescribeLoadBalancerAttributes": balancers.describe_attributes,
    "DescribeLoadBalancers": balancers.describe,
    "DescribeRules": paged("Rules", lambda it: it["Priority"].rjust(5, "0")),
    "DescribeTags": tagging.describe,
    "DescribeTargetGroups": paged("TargetGroups", lambda it: it["TargetGroupName"]),
    "ModifyListener": change_listener_or_rule,
    "ModifyLoadBalancerAttributes": balancers.modify_attributes,
    "ModifyRule": change_listener_or_rule,
    "RemoveTags": tagging.remove,
    "SetIpAddressType": balancers.set_ip_address_type,
    "SetSecurityGroups": balancers.set_security_groups,
    "SetSubnets": balancers.set_subnets,
}


@aws_provider(api="elbv2")
def elbv2() -> Service:
    """LocalStack's entry point."""
    model = load_service("elbv2")
    table = {operation: _STRICT.get(operation, _moto) for operation in model.operation_names}
    return Service(name="elbv2", skeleton=Skeleton(model, table))
