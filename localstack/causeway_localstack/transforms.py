"""Transforms of rules: checked, and settled into what DescribeRules answers.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-transforms.html
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .conditions import check_regex
from .errors import validation
from .records import Document

_CONFIGS = {"host-header-rewrite": "HostHeaderRewriteConfig", "url-rewrite": "UrlRewriteConfig"}
_LONGEST = 1024


def settled(asked: Sequence[Mapping[str, Any]]) -> list[Document]:
    """A rule's transforms: at most one of each type, each with one rewrite."""
    types = [transform.get("Type") for transform in asked]
    for kind in types:
        if kind not in _CONFIGS:
            raise validation(f"Transform type '{kind}' must be one of '[{', '.join(_CONFIGS)}]'")
        if types.count(kind) > 1:
            raise validation(f"A rule can have only one '{kind}' transform")
    return [_settled(transform) for transform in asked]


def _settled(transform: Mapping[str, Any]) -> Document:
    kind = transform["Type"]
    name = _CONFIGS[kind]
    foreign = [it for it in _CONFIGS.values() if transform.get(it) and it != name]
    if foreign:
        raise validation(f"{', '.join(foreign)} cannot be used with transform type '{kind}'")
    rewrites = (transform.get(name) or {}).get("Rewrites") or []
    if len(rewrites) != 1:
        raise validation(f"A transform of type '{kind}' must have exactly one rewrite")
    regex, replacement = rewrites[0].get("Regex") or "", rewrites[0].get("Replace")
    check_regex(regex, _LONGEST)
    if replacement is None or len(replacement) > _LONGEST:
        raise validation(f"A replacement of at most {_LONGEST} characters must be specified")
    return {"Type": kind, name: {"Rewrites": [{"Regex": regex, "Replace": replacement}]}}
