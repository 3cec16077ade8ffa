"""Listeners and rules in GetResources, where moto has only load balancers and target groups.

https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/API_GetResources.html
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moto.resourcegroupstaggingapi.models import ResourceGroupsTaggingAPIBackend

from . import fleet as fleets
from .fleet import Fleet

_SERVICE = "elasticloadbalancing"


def install() -> None:
    """Lets moto's listing go on with ours."""
    listing = ResourceGroupsTaggingAPIBackend._get_resources_generator

    def all_of_both(
        self: ResourceGroupsTaggingAPIBackend,
        tag_filters: Sequence[Mapping[str, Any]] | None = None,
        resource_type_filters: Sequence[str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        yield from listing(self, tag_filters, resource_type_filters)
        fleet = fleets.of(self.account_id, self.region_name)
        for kind, arn in _listeners_and_rules(fleet):
            tags = fleet.tags(arn)
            if tags and _is_wanted(kind, resource_type_filters) and _matches(tags, tag_filters or []):
                yield {"ResourceARN": arn, "Tags": [{"Key": key, "Value": value or ""} for key, value in tags.items()]}

    ResourceGroupsTaggingAPIBackend._get_resources_generator = all_of_both


def _listeners_and_rules(fleet: Fleet) -> Iterator[tuple[str, str]]:
    for balancer in fleet.balancers():
        for listener in list(balancer.listeners.values()):
            yield "listener", listener.arn
            for rule in listener.in_order():
                yield "listener-rule", rule.arn


def _is_wanted(kind: str, types: Sequence[str] | None) -> bool:
    return not types or _SERVICE in types or f"{_SERVICE}:{kind}" in types


def _matches(tags: Mapping[str, str], filters: Sequence[Mapping[str, Any]]) -> bool:
    """Every filter's key is there, with one of its values if it has any."""
    return all(it["Key"] in tags and (not it.get("Values") or tags[it["Key"]] in it["Values"]) for it in filters)
