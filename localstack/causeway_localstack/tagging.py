"""The operations on tags, of any ELBv2 resource."""

from localstack.aws.api import RequestContext, ServiceRequest, ServiceResponse

from . import fleet as fleets
from . import known
from .rules import tags


def add(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """AddTags: all resources or none."""
    fleet = fleets.of_caller(context)
    tags.twenty_at_once(request, "ResourceArns")
    wanted = request["Tags"]
    tags.no_duplicate_keys(wanted)
    tags.lawful_tags(wanted)
    with fleet.lock:
        for arn in request["ResourceArns"]:
            known.anything(fleet, arn)
            tags.not_too_many(fleet.tags(arn) | {tag["Key"]: tag.get("Value", "") for tag in wanted})
        for arn in request["ResourceArns"]:
            fleet.backend.tagging_service.tag_resource(arn, wanted)
    return {}


def remove(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """RemoveTags: keys that are not there are fine."""
    fleet = fleets.of_caller(context)
    tags.twenty_at_once(request, "ResourceArns")
    with fleet.lock:
        for arn in request["ResourceArns"]:
            known.anything(fleet, arn)
        for arn in request["ResourceArns"]:
            fleet.backend.tagging_service.untag_resource_using_names(arn, request["TagKeys"])
    return {}


def describe(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeTags: of at most 20 resources."""
    fleet = fleets.of_caller(context)
    tags.twenty_at_once(request, "ResourceArns")
    described = []
    for arn in request["ResourceArns"]:
        if not fleet.is_visible(known.anything(fleet, arn)):
            raise known.not_found(arn)
        pairs = [{"Key": key, "Value": value or ""} for key, value in fleet.tags(arn).items()]
        described.append({"ResourceArn": arn, "Tags": pairs})
    return {"TagDescriptions": described}
