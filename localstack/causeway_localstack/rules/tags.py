"""Tags of load balancers, listeners, rules and target groups."""

from collections.abc import Mapping, Sequence

from localstack.aws.api import ServiceRequest

from ..errors import invalid, validation

MOST_TAGS = 50
MOST_ARNS = 20


def lawful_at_creation(tags: Sequence[Mapping[str, str]]) -> None:
    """The tags of a Create call: lawful, none twice, not too many."""
    no_duplicate_keys(tags)
    lawful_tags(tags)
    not_too_many({tag["Key"]: tag.get("Value", "") for tag in tags})


def no_duplicate_keys(tags: Sequence[Mapping[str, str]]) -> None:
    """A call names a key once.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_AddTags.html
    """
    keys = [tag["Key"] for tag in tags]
    for key in keys:
        if keys.count(key) > 1:
            raise invalid("DuplicateTagKeys", f"Tag key '{key}' was specified more than once")


def lawful_tags(tags: Sequence[Mapping[str, str]]) -> None:
    """Keys have 1 to 128 characters and no `aws:` prefix, values at most 256.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_Tag.html
    """
    for tag in tags:
        key, value = tag["Key"], tag.get("Value", "")
        if not 1 <= len(key) <= 128:
            raise validation(f"Tag key '{key}' must have 1 to 128 characters")
        if len(value) > 256:
            raise validation(f"The value of tag '{key}' must have at most 256 characters")
        if key.lower().startswith("aws:"):
            raise validation(f"Tag key '{key}' must not begin with 'aws:'")


def not_too_many(tags: Mapping[str, str]) -> None:
    """A resource carries at most 50 tags.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
    """
    if len(tags) > MOST_TAGS:
        raise invalid("TooManyTags", f"The maximum number of tags per resource is {MOST_TAGS}")


def twenty_at_once(request: ServiceRequest, field: str) -> None:
    """A call names at most 20 resources.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DescribeTags.html
    """
    named = request.get(field) or []
    if len(named) > MOST_ARNS:
        raise validation(f"{field}: at most {MOST_ARNS} can be named in one call, not {len(named)}")
