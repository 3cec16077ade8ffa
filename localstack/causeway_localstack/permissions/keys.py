"""Condition keys that all services have in common.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Keys = dict[str, Sequence[str]]
"""By name, in lower case."""


def request_tags(tags: Iterable[Mapping[str, Any]], keys: Iterable[str] = ()) -> Keys:
    """The keys of a request that sets tags, or takes away those of `keys`."""
    pairs = {tag["Key"]: tag.get("Value") or "" for tag in tags}
    found: Keys = {f"aws:requesttag/{key}".lower(): [value] for key, value in pairs.items()}
    if names := [*pairs, *keys]:
        found["aws:tagkeys"] = names
    return found


def resource_tags(service: str, tags: Mapping[str, str | None]) -> Keys:
    """The keys of a resource that carries tags, by both of their names."""
    return {
        f"{prefix}:resourcetag/{key}".lower(): [value or ""]
        for key, value in tags.items()
        for prefix in ("aws", service)
    }


def principal(account: str, role: str, tags: Mapping[str, str]) -> Keys:
    """The keys of a role that calls, which every request has: `tags` are the role's and the session's.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html#condition-keys-principal-properties
    """
    found: Keys = {f"aws:principaltag/{key}".lower(): [value] for key, value in tags.items()}
    kind = {"aws:principaltype": ["AssumedRole"]}
    return {**found, **kind, "aws:principalaccount": [account], "aws:principalarn": [role]}
