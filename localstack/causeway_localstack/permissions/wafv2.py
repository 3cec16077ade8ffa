"""Actions on web ACLs: those that protect a load balancer are about both.

https://docs.aws.amazon.com/service-authorization/latest/reference/list_awswafv2.html
"""

from localstack.aws.api import RequestContext
from moto.wafv2.models import wafv2_backends

from .. import fleet as fleets
from ..policy import Request
from . import keys

_OF_BALANCERS = ("AssociateWebACL", "DisassociateWebACL", "GetWebACLForResource")


def requests(context: RequestContext) -> list[Request]:
    """All that must be allowed for the call; a change needs elasticloadbalancing:SetWebACL too."""
    operation, asked = context.operation.name, context.service_request
    action, balancer = f"wafv2:{operation}", asked.get("ResourceArn") or "*"
    if operation not in _OF_BALANCERS:
        return [Request(action, asked.get("ARN") or "*")]
    tags = fleets.of_caller(context).tags(balancer)
    needed = [Request(action, balancer, keys.resource_tags("wafv2", tags))]
    if asked.get("WebACLArn"):
        needed.append(Request(action, asked["WebACLArn"], _tags_of_acl(context, asked["WebACLArn"])))
    if operation != "GetWebACLForResource":
        own = keys.resource_tags("elasticloadbalancing", tags)
        needed.append(Request("elasticloadbalancing:SetWebACL", balancer, own))
    return needed


def _tags_of_acl(context: RequestContext, arn: str) -> keys.Keys:
    backend = wafv2_backends[context.account_id][context.region]
    return keys.resource_tags("wafv2", backend.tagging_service.get_tag_dict_for_resource(arn))
