"""What a role's policies allow it to do with load balancers.

Condition keys and resources of each action:
https://docs.aws.amazon.com/service-authorization/latest/reference/list_awselasticloadbalancingv2.html
"""

from collections.abc import Mapping, Sequence

from localstack.aws.api import RequestContext, ServiceRequest

from . import fleet as fleets
from . import roles
from .errors import access_denied
from .identity import Caller
from .policy import Request, Verdict, evaluate

_CREATED = {"CreateLoadBalancer": "loadbalancer/app", "CreateTargetGroup": "targetgroup"}
"""What does not exist yet when it is asked for: its ARN ends in `*`."""

_ARN_FIELDS = ("LoadBalancerArn", "TargetGroupArn", "ListenerArn", "RuleArn")


def check(context: RequestContext, caller: Caller) -> None:
    """Denies a role's ELBv2 call its policies do not allow, in AWS's words. Others are not restricted."""
    if context.service.service_name != "elbv2" or caller.role is None:
        return
    role = roles.find(caller.role)
    documents = roles.policies(role) if role else []
    for request in requests(context):
        verdict = evaluate(documents, request)
        if verdict is not Verdict.ALLOWED:
            raise access_denied(denial(caller.principal, request.action, request.resource, verdict))


def denial(principal: str, action: str, resource: str, verdict: Verdict = Verdict.SILENT) -> str:
    """AWS's message."""
    because = (
        "with an explicit deny in an identity-based policy"
        if verdict is Verdict.DENIED
        else f"because no identity-based policy allows the {action} action"
    )
    return f"User: {principal} is not authorized to perform: {action} on resource: {resource} {because}"


def requests(context: RequestContext) -> list[Request]:
    """All that must be allowed for the call: its action on each resource, and AddTags where it tags what it makes."""
    operation, asked = context.operation.name, context.service_request
    action = action_of(context)
    tagging = {f"aws:requesttag/{tag['Key']}".lower(): [tag.get("Value") or ""] for tag in asked.get("Tags") or []}
    keys = [tag["Key"] for tag in asked.get("Tags") or []] or list(asked.get("TagKeys") or [])
    if keys:
        tagging["aws:tagkeys"] = keys
    needed = []
    for resource in resources(context):
        needed.append(Request(action, resource, {**tagging, **_resource_tags(context, resource)}))
        if operation.startswith("Create") and asked.get("Tags"):
            creating = {**tagging, "elasticloadbalancing:createaction": [operation]}
            needed.append(Request("elasticloadbalancing:AddTags", _made(context, resource), creating))
    return needed


def action_of(context: RequestContext) -> str:
    """The IAM action of a call."""
    service = context.service.service_name
    return f"{'elasticloadbalancing' if service == 'elbv2' else service}:{context.operation.name}"


def resources(context: RequestContext) -> list[str]:
    """The ARNs a call is about, as IAM sees them."""
    operation, asked = context.operation.name, context.service_request
    if context.service.service_name != "elbv2" or operation.startswith("Describe"):
        return ["*"]
    if operation in _CREATED:
        return [_arn(context, f"{_CREATED[operation]}/{asked.get('Name', '')}/*")]
    if asked.get("ResourceArns"):
        return list(asked["ResourceArns"])
    if asked.get("RulePriorities"):
        return [rule["RuleArn"] for rule in asked["RulePriorities"]]
    return _first_arn(asked) or ["*"]


def _first_arn(asked: ServiceRequest) -> list[str]:
    return next(([asked[name]] for name in _ARN_FIELDS if asked.get(name)), [])


def _made(context: RequestContext, parent: str) -> str:
    """The ARN of what a Create* call makes: below its parent for listeners and rules."""
    match context.operation.name:
        case "CreateListener":
            return parent.replace(":loadbalancer/", ":listener/") + "/*"
        case "CreateRule":
            return parent.replace(":listener/", ":listener-rule/") + "/*"
    return parent


def _arn(context: RequestContext, rest: str) -> str:
    return f"arn:aws:elasticloadbalancing:{context.region}:{context.account_id}:{rest}"


def _resource_tags(context: RequestContext, resource: str) -> Mapping[str, Sequence[str]]:
    tags = fleets.of_caller(context).tags(resource)
    return {f"aws:resourcetag/{key}".lower(): [value or ""] for key, value in tags.items()}
