"""IAM policy documents: does one allow, or forbid, an action on a resource?

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
"""

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any


class Verdict(enum.Enum):
    """What policies say about a request."""

    ALLOWED = "allowed"
    DENIED = "denied"
    """By a statement with Effect Deny."""
    SILENT = "silent"
    """No statement allows it."""


@dataclass(frozen=True)
class Request:
    """What is asked for, with the condition keys AWS would know."""

    action: str
    resource: str = "*"
    context: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Keys in lower case, as IAM does not tell cases apart."""


def evaluate(documents: Iterable[Mapping[str, Any]], request: Request) -> Verdict:
    """All policies together: one Deny outweighs every Allow."""
    verdict = Verdict.SILENT
    for document in documents:
        for statement in _list(document.get("Statement")):
            if not _applies(statement, request):
                continue
            if statement["Effect"] == "Deny":
                return Verdict.DENIED
            verdict = Verdict.ALLOWED
    return verdict


def conditions_hold(block: Mapping[str, Any], context: Mapping[str, Sequence[str]]) -> bool:
    """Whether every condition of a statement holds. Raises ValueError for an operator it does not know."""
    return all(
        _condition_holds(operator, [_text(it) for it in _list(wanted)], key, context)
        for operator, keys in block.items()
        for key, wanted in keys.items()
    )


def matches(pattern: str, text: str) -> bool:
    """IAM's wildcards: `*` is any text, `?` any character."""
    return _compiled(pattern).fullmatch(text) is not None


def _applies(statement: Mapping[str, Any], request: Request) -> bool:
    action, resource = request.action.lower(), request.resource
    if "Action" in statement:
        if not any(matches(it.lower(), action) for it in _list(statement["Action"])):
            return False
    elif any(matches(it.lower(), action) for it in _list(statement.get("NotAction"))):
        return False
    if "Resource" in statement:
        if not any(matches(it, resource) for it in _list(statement["Resource"])):
            return False
    elif any(matches(it, resource) for it in _list(statement.get("NotResource"))):
        return False
    return conditions_hold(statement.get("Condition") or {}, request.context)


_SINGLE = {
    "StringEquals": lambda wanted, given: wanted == given,
    "StringLike": matches,
    "StringEqualsIgnoreCase": lambda wanted, given: wanted.lower() == given.lower(),
    "ArnEquals": matches,
    "ArnLike": matches,
    "Bool": lambda wanted, given: wanted == given.lower(),
}


def _condition_holds(operator: str, wanted: list[str], key: str, context: Mapping[str, Sequence[str]]) -> bool:
    given = context.get(key.lower())
    if operator == "Null":
        return (given is None) == (wanted == ["true"])
    quantifier, _, name = operator.rpartition(":")
    if_exists = name.endswith("IfExists")
    name = name.removesuffix("IfExists")
    positive = name.replace("StringNot", "String").replace("ArnNot", "Arn")
    negated = positive != name
    if positive not in _SINGLE:
        raise ValueError(f"condition operator {operator} is not supported")
    if given is None:
        # A missing key fails what asks for a value, and passes what forbids one or asks it of every value there is.
        return if_exists or quantifier == "ForAllValues" or (negated and quantifier != "ForAnyValue")
    held = [any(_SINGLE[positive](it, value) for it in wanted) != negated for value in given]
    return any(held) if quantifier == "ForAnyValue" else all(held)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)
