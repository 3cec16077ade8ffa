"""Actions on certificates.

https://docs.aws.amazon.com/service-authorization/latest/reference/list_awscertificatemanager.html
"""

from localstack.aws.api import RequestContext
from moto.acm.models import acm_backends

from ..policy import Request
from . import keys


def requests(context: RequestContext) -> list[Request]:
    """The action on the certificate it names, or on all."""
    action, arn = f"acm:{context.operation.name}", context.service_request.get("CertificateArn")
    if not arn:
        return [Request(action)]
    certificate = acm_backends[context.account_id][context.region]._certificates.get(arn)
    return [Request(action, arn, keys.resource_tags("acm", certificate.tags if certificate else {}))]
