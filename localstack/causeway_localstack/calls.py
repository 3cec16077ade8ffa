"""The way of every call: before it reaches its service, and after."""

from localstack.aws.api import RequestContext, ServiceRequest
from localstack.aws.chain import HandlerChain
from localstack.http import Response

from . import connection, identity, permissions, security_groups, throttling, validation, web_identity
from . import faults as fault_kinds
from .faults import Fault, faults
from .journal import Entry, journal

_NAMES = ("Name", "Names", "LoadBalancerArn", "LoadBalancerArns", "TargetGroupArn", "TargetGroupArns", "ListenerArn")
_NAMES += ("ListenerArns", "RuleArn", "RuleArns", "ResourceArns", "RoleArn", "Bucket", "GroupId")
_NAMES += ("TrustStoreArn", "CertificateArn", "ResourceArn", "GroupName")


def before(chain: HandlerChain, context: RequestContext, response: Response) -> None:
    """Journals the call, lets faults strike it, checks its rate, credentials, form and permissions."""
    if not context.operation or context.is_internal_call:
        return
    caller = identity.caller(context)
    service, operation = context.service.service_name, context.operation.name
    parameters = validation.shown(context.service_request or {})
    entry = journal.begin(
        service=service,
        operation=operation,
        account=caller.account,
        region=context.region,
        principal=caller.principal,
        role=caller.role,
        client=context.request.remote_addr or "",
        resource=_resource(context.service_request),
        parameters=parameters,
    )
    context.causeway_entry = entry
    delay, fault = faults.strike(caller.account, service, operation, str(parameters))
    if delay:
        entry.fault = "delay"
        fault_kinds.wait(delay)
    if fault:
        entry.fault = fault.kind
        if fault.kind == "reset_before":
            _drop(context, entry)
            chain.terminate()
            return
        _fail(context, fault, caller.principal)
    throttling.check(caller.account, context.region, service, operation)
    identity.check_session(context)
    entry.violation = validation.check(context)
    if entry.violation:
        raise validation.refusal(service, entry.violation)
    permissions.check(context, caller)
    if operation == "AssumeRoleWithWebIdentity":
        web_identity.check(context.service_request)
    if service == "ec2":
        security_groups.check(context)


def after(chain: HandlerChain, context: RequestContext, response: Response) -> None:
    """Names the call in the reply, completes what was done, and loses replies that are to be lost."""
    entry = _entry(context)
    if entry is None:
        return
    response.headers.setdefault("x-amzn-RequestId", context.request_id)
    if context.operation.name in ("AssumeRole", "AssumeRoleWithWebIdentity") and response.status_code == 200:
        identity.remember(context)
    if context.service.service_name == "ec2" and response.status_code == 200:
        security_groups.settle(context)
    if entry.fault == "reset_after":
        _drop(context, entry)


def finish(chain: HandlerChain, context: RequestContext, response: Response) -> None:
    """Journals the outcome, unless the connection was closed instead."""
    entry = _entry(context)
    if entry is None or entry.outcome:
        return
    error = context.service_exception
    journal.end(entry, error.code if error else "OK", response.status_code)


def _fail(context: RequestContext, fault: Fault, principal: str) -> None:
    resource = permissions.resource_of(context)
    error = fault_kinds.error(fault, context.service.service_name, principal, permissions.action_of(context), resource)
    if error:
        raise error


def _drop(context: RequestContext, entry: Entry) -> None:
    connection.drop(context)
    journal.end(entry, "ConnectionReset", None)


def _entry(context: RequestContext) -> Entry | None:
    return context.get("causeway_entry")


def _resource(request: ServiceRequest) -> str | None:
    for name in _NAMES:
        value = request.get(name)
        if value:
            return ",".join(value) if isinstance(value, list) else str(value)
    return None
