"""Actions on load balancers and what belongs to them.

Condition keys and resources of each action:
https://docs.aws.amazon.com/service-authorization/latest/reference/list_awselasticloadbalancingv2.html
"""

from localstack.aws.api import RequestContext, ServiceRequest

from .. import fleet as fleets
from ..policy import Request
from . import keys

_SERVICE = "elasticloadbalancing"

_CREATED = {
    "CreateLoadBalancer": "loadbalancer/app",
    "CreateTargetGroup": "targetgroup",
    "CreateTrustStore": "truststore",
}
"""Resources that do not exist yet when the call is authorized: the ARN ends in `*`."""

_ARN_FIELDS = ("RuleArn", "ListenerArn", "TargetGroupArn", "TrustStoreArn", "LoadBalancerArn")

_KEYS = {
    "Scheme": "scheme",
    "Subnets": "subnet",
    "SecurityGroups": "securitygroup",
    "Protocol": "listenerprotocol",
    "SslPolicy": "securitypolicy",
}
"""Fields of a request that are condition keys."""


def requests(context: RequestContext) -> list[Request]:
    """All that must be allowed for the call: its action on each resource, and AddTags where it tags what it makes."""
    operation, asked = context.operation.name, context.service_request
    tagging = keys.request_tags(asked.get("Tags") or [], asked.get("TagKeys") or [])
    needed = []
    for resource in _resources(context):
        tags = fleets.of_caller(context).tags(resource)
        known = {**tagging, **_fields(asked), **keys.resource_tags(_SERVICE, tags)}
        needed.append(Request(f"{_SERVICE}:{operation}", resource, known))
        if operation.startswith("Create") and asked.get("Tags"):
            creating = {**tagging, f"{_SERVICE}:createaction": [operation]}
            needed.append(Request(f"{_SERVICE}:AddTags", _made(operation, resource), creating))
    return needed


def _resources(context: RequestContext) -> list[str]:
    operation, asked = context.operation.name, context.service_request
    if operation.startswith("Describe"):
        return ["*"]
    if operation in _CREATED:
        name = f"{_CREATED[operation]}/{asked.get('Name', '')}/*"
        return [f"arn:aws:{_SERVICE}:{context.region}:{context.account_id}:{name}"]
    if asked.get("ResourceArns"):
        return list(asked["ResourceArns"])
    if asked.get("RulePriorities"):
        return [rule.get("RuleArn") or "*" for rule in asked["RulePriorities"]]
    return [next((asked[name] for name in _ARN_FIELDS if asked.get(name)), "*")]


def _made(operation: str, parent: str) -> str:
    """The ARN of what a Create* call makes: below its parent for listeners and rules."""
    match operation:
        case "CreateListener":
            return parent.replace(":loadbalancer/", ":listener/") + "/*"
        case "CreateRule":
            return parent.replace(":listener/", ":listener-rule/") + "/*"
    return parent


def _fields(asked: ServiceRequest) -> keys.Keys:
    found: keys.Keys = {}
    for field, key in _KEYS.items():
        value = asked.get(field)
        if value:
            found[f"{_SERVICE}:{key}"] = value if isinstance(value, list) else [value]
    return found
