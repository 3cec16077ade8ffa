"""WAF for LocalStack: moto's, with web ACLs that are associated with load balancers which exist."""

from localstack.aws.api import RequestContext, ServiceRequest, ServiceResponse
from localstack.aws.skeleton import Skeleton
from localstack.aws.spec import load_service
from localstack.services.moto import call_moto
from localstack.services.plugins import Service, aws_provider
from moto.wafv2.models import WAFV2Backend, wafv2_backends

from . import fleet as fleets
from .errors import invalid

_MISSING = "AWS WAF couldn't perform the operation because your resource doesn't exist."
_NOT_READY = "AWS WAF couldn't retrieve the resource that you requested. Retry your request."


def associate(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """AssociateWebACL: a load balancer has one at most; another takes the place of the first.

    https://docs.aws.amazon.com/waf/latest/APIReference/API_AssociateWebACL.html
    """
    backend, arn = _backend(context), request["ResourceArn"]
    _exists(context, arn)
    if request["WebACLArn"] not in backend.wacls:
        raise invalid("WAFNonexistentItemException", _MISSING)
    backend.disassociate_web_acl(arn)
    backend.associate_web_acl(request["WebACLArn"], arn)
    return {}


def disassociate(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DisassociateWebACL: where there is none it is fine.

    https://docs.aws.amazon.com/waf/latest/APIReference/API_DisassociateWebACL.html
    """
    _exists(context, request["ResourceArn"])
    _backend(context).disassociate_web_acl(request["ResourceArn"])
    return {}


def get_for_resource(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """GetWebACLForResource: no ACL in the answer if there is none.

    https://docs.aws.amazon.com/waf/latest/APIReference/API_GetWebACLForResource.html
    """
    _exists(context, request["ResourceArn"])
    return {key: value for key, value in call_moto(context).items() if value is not None}


def delete(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DeleteWebACL: unless something is protected by it.

    https://docs.aws.amazon.com/waf/latest/APIReference/API_DeleteWebACL.html
    """
    for acl in _backend(context).wacls.values():
        if acl.id == request["Id"] and acl.associated_resources:
            raise invalid(
                "WAFAssociatedItemException",
                "AWS WAF couldn't perform the operation because your resource is being used by another resource.",
            )
    return call_moto(context)


def forget(account: str, region: str, arn: str) -> None:
    """Ends the association of a load balancer that has gone."""
    wafv2_backends[account][region].disassociate_web_acl(arn)


def _exists(context: RequestContext, arn: str) -> None:
    if ":loadbalancer/app/" not in arn:
        raise invalid("WAFInvalidParameterException", f"'{arn}' is not the ARN of an application load balancer")
    fleet = fleets.of_caller(context)
    balancer = fleet.backend.load_balancers.get(arn)
    if balancer is None:
        raise invalid("WAFNonexistentItemException", _MISSING)
    if fleet.state(balancer) != "active":
        raise invalid("WAFUnavailableEntityException", _NOT_READY)


def _backend(context: RequestContext) -> WAFV2Backend:
    return wafv2_backends[context.account_id][context.region]


def _moto(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    return call_moto(context)


_OPERATIONS = {
    "AssociateWebACL": associate,
    "DeleteWebACL": delete,
    "DisassociateWebACL": disassociate,
    "GetWebACLForResource": get_for_resource,
}


@aws_provider(api="wafv2")
def wafv2() -> Service:
    """LocalStack's entry point."""
    model = load_service("wafv2")
    table = {operation: _OPERATIONS.get(operation, _moto) for operation in model.operation_names}
    return Service(name="wafv2", skeleton=Skeleton(model, table))
