"""The Service Authorization Reference: which resources an action is about, and which condition keys AWS gives it.

`reference.json` is written by `tools/service_reference.py`; its head names where it comes from.
https://docs.aws.amazon.com/service-authorization/latest/reference/
"""

import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ..policy import Request

_GLOBAL = ("aws:resourceaccount", "aws:securetransport")
"""Keys that the reference does not repeat for each action, as nearly every one has them.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
"""

_TABLE = json.loads(Path(__file__).with_name("reference.json").read_text())


@dataclass(frozen=True)
class Kind:
    """A type of resource that an action is about."""

    name: str
    required: bool
    arn: re.Pattern[str]
    keys: frozenset[str]
    """AWS's condition keys for such a resource, beside those of the action."""


@dataclass(frozen=True)
class Action:
    """An action's row; all keys in lower case, those of tags without the tag's own."""

    name: str
    keys: frozenset[str]
    kinds: tuple[Kind, ...]
    dependents: tuple[str, ...]
    """Actions that its caller must be allowed too."""

    def knows(self, resource: str, key: str) -> bool:
        """Reports whether AWS puts this condition key into a request for the action on this resource."""
        general = _general(key)
        return (
            general in _GLOBAL
            or general in self.keys
            or any(general in it.keys for it in self.kinds if it.arn.fullmatch(resource))
        )


def find(name: str) -> Action | None:
    """The row of an action; IAM does not tell cases apart."""
    return _actions().get(name.lower())


def as_aws_sees(request: Request) -> Request:
    """A request with those keys only that AWS would know, on `*` where the action is about no resource in particular.

    An action that the table lacks has no keys at all.
    """
    action = find(request.action)
    if action is None:
        return replace(request, context={})
    known = {key: value for key, value in request.context.items() if action.knows(request.resource, key)}
    return replace(request, context=known, resource=request.resource if action.kinds else "*")


@lru_cache(maxsize=1)
def _actions() -> dict[str, Action]:
    return {name.lower(): _action(name) for name in _TABLE["actions"]}


def _action(name: str) -> Action:
    row, service = _TABLE["actions"][name], name.partition(":")[0]
    kinds = (
        Kind(kind, about["required"], _compiled(_TABLE["arns"][f"{service}:{kind}"]), _keys(about["keys"]))
        for kind, about in row["resources"].items()
    )
    return Action(name, _keys(row["keys"]), tuple(kinds), tuple(row["dependents"]))


def _keys(names: list[str]) -> frozenset[str]:
    return frozenset(_general(name) for name in names)


def _general(key: str) -> str:
    """`aws:ResourceTag/team` and `aws:ResourceTag/${TagKey}` are `aws:resourcetag/`."""
    head, slash, _ = key.partition("/")
    return (head + slash).lower()


def _compiled(arn: str) -> re.Pattern[str]:
    """The ARNs of a type of resource; those that an action is yet to make may end in a star."""
    parts = re.split(r"\$\{[^}]*\}", arn)
    return re.compile(".*".join(re.escape(part) for part in parts), re.DOTALL)
