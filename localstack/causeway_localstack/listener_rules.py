"""The operations on rules of listeners."""

import secrets
from typing import Any

from localstack.aws.api import RequestContext, ServiceRequest, ServiceResponse

from . import actions, conditions, known, transforms
from . import fleet as fleets
from .errors import invalid, validation
from .fleet import Fleet
from .pages import page
from .records import DEFAULT, Document, Listener, Rule
from .rules import forwarding, listeners, tags


def create(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """CreateRule.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateRule.html
    """
    fleet = fleets.of_caller(context)
    wanted_tags = request.get("Tags") or []
    tags.lawful_at_creation(wanted_tags)
    with fleet.lock:
        listener = known.listener(fleet, request["ListenerArn"])
        balancer = known.balancer(fleet, listener.load_balancer_arn)
        priority = request.get("Priority")
        _lawful_priority(priority)
        settled = actions.settled(request.get("Actions") or [], listener.protocol, listener.port)
        rule = Rule(
            arn=f"{listener.arn.replace(':listener/', ':listener-rule/')}/{secrets.token_hex(8)}",
            listener_arn=listener.arn,
            priority=priority,
            conditions=conditions.settled(request.get("Conditions") or []),
            actions=settled.actions,
            transforms=transforms.settled(request.get("Transforms") or []),
            client_secret=settled.client_secret,
        )
        if any(other.priority == priority for other in listener.others.values()):
            raise invalid("PriorityInUse", f"Priority '{priority}' is currently in use")
        listeners.room_for_a_rule(balancer)
        forwarding.target_groups_fit(fleet, balancer, listener.protocol, rule.actions)
        listener.others[rule.arn] = rule
        fleet.enforce(rule, before=set())
        if wanted_tags:
            fleet.backend.tagging_service.tag_resource(rule.arn, wanted_tags)
    return {"Rules": [shown(rule)]}


def modify(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """ModifyRule: replaces conditions, actions and transforms, each only if named.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ModifyRule.html
    """
    fleet = fleets.of_caller(context)
    with fleet.lock:
        rule = known.rule(fleet, request["RuleArn"])
        _not_default(rule, "modified")
        listener = known.listener(fleet, rule.listener_arn)
        if request.get("Transforms") and request.get("ResetTransforms"):
            raise validation("You cannot specify both Transforms and ResetTransforms")
        if not any(request.get(it) for it in ("Conditions", "Actions", "Transforms", "ResetTransforms")):
            raise validation("Conditions, actions or transforms must be specified")
        changes: dict[str, Any] = {}
        if request.get("Conditions"):
            changes["conditions"] = conditions.settled(request["Conditions"])
        if request.get("Actions"):
            settled = actions.settled(request["Actions"], listener.protocol, listener.port, rule.client_secret)
            balancer = known.balancer(fleet, listener.load_balancer_arn)
            forwarding.target_groups_fit(fleet, balancer, listener.protocol, settled.actions, rule)
            changes |= {"actions": settled.actions, "client_secret": settled.client_secret}
        if request.get("Transforms"):
            changes["transforms"] = transforms.settled(request["Transforms"])
        if request.get("ResetTransforms"):
            changes["transforms"] = []
        before = rule.forwards_to()
        for name, value in changes.items():
            setattr(rule, name, value)
        fleet.enforce(rule, before)
    return {"Rules": [shown(rule)]}


def delete(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DeleteRule: any but the default one."""
    fleet = fleets.of_caller(context)
    with fleet.lock:
        rule = known.rule(fleet, request["RuleArn"])
        _not_default(rule, "deleted")
        del known.listener(fleet, rule.listener_arn).others[rule.arn]
        fleet.drop(rule)
    return {}


def set_priorities(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """SetRulePriorities: all at once, so that only the outcome must be free of collisions.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_SetRulePriorities.html
    """
    fleet = fleets.of_caller(context)
    with fleet.lock:
        wanted: dict[str, int] = {}
        touched: dict[str, Listener] = {}
        for pair in request.get("RulePriorities") or []:
            rule = known.rule(fleet, pair.get("RuleArn") or "")
            _not_default(rule, "given a priority")
            _lawful_priority(pair.get("Priority"))
            if rule.arn in wanted:
                raise validation(f"Rule '{rule.arn}' was specified more than once")
            wanted[rule.arn] = pair["Priority"]
            touched[rule.listener_arn] = known.listener(fleet, rule.listener_arn)
        if not wanted:
            raise validation("At least one rule priority must be specified")
        for listener in touched.values():
            outcome = [wanted.get(rule.arn, rule.priority) for rule in listener.others.values()]
            for priority in wanted.values():
                if outcome.count(priority) > 1:
                    raise invalid("PriorityInUse", f"Priority '{priority}' is currently in use")
        rules = [known.rule(fleet, arn) for arn in wanted]
        for rule in rules:
            rule.priority = wanted[rule.arn]
    return {"Rules": [shown(rule) for rule in rules]}


def describe(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeRules: of a listener, in pages, or by ARN."""
    fleet = fleets.of_caller(context)
    parent, arns = request.get("ListenerArn"), request.get("RuleArns") or []
    if bool(parent) == bool(arns):
        raise validation("You must specify either listener rule ARNs or a listener ARN")
    tags.twenty_at_once(request, "RuleArns")
    if parent:
        listener = known.listener(fleet, parent)
        if not fleet.is_visible(listener.born):
            raise known.not_found(parent)
        rules = [rule for rule in listener.in_order() if fleet.is_visible(rule.born)]
    else:
        rules = [_seen(fleet, arn) for arn in arns]
    found, marker = page(request, rules, lambda rule: f"{rule.listener_arn} {str(rule.priority).rjust(7, '0')}")
    return {"Rules": [shown(rule) for rule in found]} | ({"NextMarker": marker} if marker else {})


def shown(rule: Rule) -> Document:
    """A rule as AWS answers it."""
    return {
        "RuleArn": rule.arn,
        "Priority": str(rule.priority),
        "Conditions": rule.conditions,
        "Actions": rule.actions,
        "IsDefault": rule.is_default,
        "Transforms": rule.transforms,
    }


def _seen(fleet: Fleet, arn: str) -> Rule:
    rule = known.rule(fleet, arn)
    if not fleet.is_visible(rule.born):
        raise known.not_found(arn)
    return rule


def _lawful_priority(priority: int | None) -> None:
    if priority is None or not 1 <= priority <= 50_000:
        raise validation(f"Rule priority '{priority}' must be between 1 and 50000")


def _not_default(rule: Rule, verb: str) -> None:
    if rule.priority == DEFAULT:
        raise invalid("OperationNotPermitted", f"Default rule '{rule.arn}' cannot be {verb}")
