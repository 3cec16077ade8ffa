"""Actions on web ACLs: those that protect a load balancer are about both.

https://docs.aws.amazon.com/service-authorization/latest/reference/list_awswafv2.html
"""

from localstack.aws.api import RequestContext
from moto.wafv2.models import wafv2_backends

from .. import fleet as fleets
from ..policy import Request
from . import keys

_ON_BALANCERS = {
    "AssociateWebACL": ("CreateWebACLAssociation", "SetWebACL"),
    "DisassociateWebACL": ("DeleteWebACLAssociation", "SetWebACL"),
    "GetWebACLForResource": ("GetLoadBalancerWebACL",),
}
"""Rights that each of these needs in Elastic Load Balancing, by the reference. SetWebACL is the older permission, the
others are the newer; whether both are asked for is not documented, so both are."""


def requests(context: RequestContext) -> list[Request]:
    """All that must be allowed for the call."""
    operation, asked = context.operation.name, context.service_request
    action, balancer = f"wafv2:{operation}", asked.get("ResourceArn") or "*"
    if operation not in _ON_BALANCERS:
        arn = asked.get("ARN") or "*"
        return [Request(action, arn, _tags_of_acl(context, arn))]
    acl = asked.get("WebACLArn")
    if operation == "GetWebACLForResource":
        found = wafv2_backends[context.account_id][context.region].get_web_acl_for_resource(balancer)
        acl = found.arn if found else None
    tags = fleets.of_caller(context).tags(balancer)
    needed = [Request(action, balancer, keys.resource_tags("wafv2", tags))]
    if acl:
        needed.append(Request(action, acl, _tags_of_acl(context, acl)))
        if operation == "GetWebACLForResource":
            needed.append(Request("wafv2:GetWebACL", acl, _tags_of_acl(context, acl)))
    own = keys.resource_tags("elasticloadbalancing", tags)
    needed += [Request(f"elasticloadbalancing:{it}", balancer, own) for it in _ON_BALANCERS[operation]]
    return needed


def _tags_of_acl(context: RequestContext, arn: str) -> keys.Keys:
    backend = wafv2_backends[context.account_id][context.region]
    return keys.resource_tags("wafv2", backend.tagging_service.get_tag_dict_for_resource(arn))
