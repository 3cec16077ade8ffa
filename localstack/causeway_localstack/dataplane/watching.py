"""Notices the calls that may change what is carried."""

from localstack.aws.api import RequestContext
from localstack.aws.chain import HandlerChain
from localstack.http import Response

from . import engine

_OTHERS = {
    "acm": {"ImportCertificate", "RequestCertificate", "DeleteCertificate"},
    "ec2": {"RunInstances", "StartInstances", "StopInstances", "TerminateInstances"},
}


def after(chain: HandlerChain, context: RequestContext, response: Response) -> None:
    """A change is counted before its caller gets the answer: who waits for the count waits for the change."""
    if not context.operation or response.status_code >= 400:
        return
    service, operation = context.service.service_name, context.operation.name
    matters = not operation.startswith("Describe") if service == "elbv2" else operation in _OTHERS.get(service, ())
    if matters:
        engine.changed(context.account_id)
