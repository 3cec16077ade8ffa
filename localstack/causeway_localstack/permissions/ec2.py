"""Actions on networks. Those on security groups and tags are about single resources, the others about all.

https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
"""

from localstack.aws.api import RequestContext

from .. import fleet as fleets
from ..policy import Request
from . import keys

_GROUP_ACTIONS = (
    "AuthorizeSecurityGroupEgress",
    "AuthorizeSecurityGroupIngress",
    "DeleteSecurityGroup",
    "ModifySecurityGroupRules",
    "RevokeSecurityGroupEgress",
    "RevokeSecurityGroupIngress",
    "UpdateSecurityGroupRuleDescriptionsEgress",
    "UpdateSecurityGroupRuleDescriptionsIngress",
)

_KINDS = {"sg": "security-group", "sgr": "security-group-rule", "subnet": "subnet", "vpc": "vpc", "i": "instance"}
"""The types of resources, by the beginning of their ids."""


def requests(context: RequestContext) -> list[Request]:
    """All that must be allowed for the call."""
    operation, asked = context.operation.name, context.service_request
    action = f"ec2:{operation}"
    if operation == "CreateSecurityGroup":
        return _creation(context)
    if operation in ("CreateTags", "DeleteTags"):
        tags = asked.get("Tags") or []
        return [
            Request(action, _arn(context, it), {**keys.request_tags(tags), **_tags(context, it)})
            for it in asked.get("Resources") or []
        ] or [Request(action)]
    if operation in _GROUP_ACTIONS and asked.get("GroupId"):
        group = asked["GroupId"]
        return [Request(action, _arn(context, group), _tags(context, group))]
    return [Request(action)]


def _creation(context: RequestContext) -> list[Request]:
    asked = context.service_request
    made = f"arn:aws:ec2:{context.region}:{context.account_id}:security-group/*"
    tags = [tag for it in asked.get("TagSpecifications") or [] for tag in it.get("Tags") or []]
    tagging = keys.request_tags(tags)
    vpc = asked.get("VpcId")
    needed = [Request("ec2:CreateSecurityGroup", made, tagging)]
    if vpc:
        needed.append(Request("ec2:CreateSecurityGroup", _arn(context, vpc), _tags(context, vpc)))
    if tags:
        creating = {**tagging, "ec2:createaction": ["CreateSecurityGroup"]}
        needed.append(Request("ec2:CreateTags", made, creating))
    return needed


def _arn(context: RequestContext, resource_id: str) -> str:
    kind = _KINDS.get(resource_id.partition("-")[0], "*")
    return f"arn:aws:ec2:{context.region}:{context.account_id}:{kind}/{resource_id}"


def _tags(context: RequestContext, resource_id: str) -> keys.Keys:
    return keys.resource_tags("ec2", fleets.of_caller(context).network.tags.get(resource_id) or {})
