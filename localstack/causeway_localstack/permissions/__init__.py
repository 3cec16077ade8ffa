"""The rights of a role, by its policies, on the services that the operator uses."""

from collections.abc import Callable
from dataclasses import replace

from localstack.aws.api import RequestContext

from .. import roles
from ..errors import access_denied
from ..identity import Caller
from ..policy import Request, Verdict, evaluate, evaluate_of_resource
from . import acm, demands, ec2, elbv2, keys, s3, table, wafv2

_PREFIXES = {"elbv2": "elasticloadbalancing", "resourcegroupstaggingapi": "tag"}
"""Where IAM's name of a service is not LocalStack's."""


def _alone(context: RequestContext) -> list[Request]:
    """An action that is about no resource in particular."""
    return [Request(action_of(context))]


def _with_demands(context: RequestContext) -> list[Request]:
    """An ELBv2 call, and what AWS does in its caller's name."""
    return [*elbv2.requests(context), *demands.requests(context)]


_ENFORCED: dict[str, Callable[[RequestContext], list[Request]]] = {
    "acm": acm.requests,
    "ec2": ec2.requests,
    "elbv2": _with_demands,
    "resourcegroupstaggingapi": _alone,
    "s3": s3.requests,
    "wafv2": wafv2.requests,
}


def check(context: RequestContext, caller: Caller) -> None:
    """Denies a role's call its policies do not allow, in AWS's words. Other services and callers are not restricted."""
    service = context.service.service_name
    if service not in _ENFORCED or caller.role is None:
        return
    role = roles.find(caller.role)
    documents = roles.policies(role) if role else []
    # Tags of the session stand before the role's own.
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/id_session-tags.html
    tags = [*(roles.tags(role) if role else {}).items(), *caller.tags.items()]
    principal = keys.principal(caller.account, caller.role, {key.lower(): value for key, value in tags})
    for seen in map(table.as_aws_sees, _ENFORCED[service](context)):
        request = replace(seen, context={**principal, **seen.context})
        of_bucket = evaluate_of_resource(s3.policy(context) if service == "s3" else {}, request, _names(caller))
        if of_bucket is Verdict.DENIED:
            denied = denial(caller.principal, request.action, request.resource, of_bucket, "a resource-based")
            raise access_denied(denied, service)
        verdict = evaluate(documents, request)
        # In one account either of them is enough.
        # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
        if verdict is Verdict.DENIED or Verdict.ALLOWED not in (verdict, of_bucket):
            raise access_denied(denial(caller.principal, request.action, request.resource, verdict), service)


def _names(caller: Caller) -> list[str]:
    """By which a policy may name a role's session: itself, its role, their account."""
    return [caller.principal, caller.role or "", caller.account, f"arn:aws:iam::{caller.account}:root"]


def denial(
    principal: str, action: str, resource: str, verdict: Verdict = Verdict.SILENT, whose: str = "an identity-based"
) -> str:
    """AWS's message."""
    because = (
        f"with an explicit deny in {whose} policy"
        if verdict is Verdict.DENIED
        else f"because no identity-based policy allows the {action} action"
    )
    return f"User: {principal} is not authorized to perform: {action} on resource: {resource} {because}"


def action_of(context: RequestContext) -> str:
    """The IAM action of a call."""
    service = context.service.service_name
    return f"{_PREFIXES.get(service, service)}:{context.operation.name}"


def resource_of(context: RequestContext) -> str:
    """The ARN a call is about, as IAM sees it; the first of several."""
    return table.as_aws_sees(_ENFORCED.get(context.service.service_name, _alone)(context)[0]).resource
