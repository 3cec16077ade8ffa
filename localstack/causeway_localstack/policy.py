"""IAM policy documents: does one allow, or forbid, an action on a resource?

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html; what stands for a value of
the request is in `variables`.
"""

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from . import variables
from .variables import Resolver, Text


class Verdict(enum.Enum):
    """The decision of policies about a request."""

    ALLOWED = "allowed"
    DENIED = "denied"
    """By a statement with Effect Deny."""
    SILENT = "silent"
    """No statement allows it."""


@dataclass(frozen=True)
class Request:
    """A request, with the condition keys that AWS would know."""

    action: str
    resource: str = "*"
    context: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Keys in lower case, as IAM does not tell cases apart."""


def evaluate(documents: Iterable[Mapping[str, Any]], request: Request) -> Verdict:
    """All policies together: one Deny outweighs every Allow."""
    verdict = Verdict.SILENT
    for document in documents:
        resolve = variables.of(document, request.context)
        for statement in _list(document.get("Statement")):
            if not _applies(statement, request, resolve):
                continue
            if statement["Effect"] == "Deny":
                return Verdict.DENIED
            verdict = Verdict.ALLOWED
    return verdict


def evaluate_of_resource(document: Mapping[str, Any], request: Request, principals: Iterable[str]) -> Verdict:
    """The policy of a resource: only statements about one of these principals apply; `*` is every principal.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
    """
    known = {"*", *principals}
    about = [it for it in _list(document.get("Statement")) if known & set(_principals(it))]
    return evaluate([{**document, "Statement": about}], request)


def _principals(statement: Mapping[str, Any]) -> list[str]:
    if "Principal" not in statement:
        raise ValueError("a statement of a resource's policy without Principal is not supported")
    principal = statement["Principal"]
    return _list(principal.get("AWS")) if isinstance(principal, Mapping) else _list(principal)


def conditions_hold(
    block: Mapping[str, Any], context: Mapping[str, Sequence[str]], resolve: Resolver = variables.literally
) -> bool:
    """Reports whether every condition of a statement holds. Raises ValueError for an operator it does not know."""
    return all(
        _condition_holds(operator, [_text(it) for it in _list(wanted)], key, context, resolve)
        for operator, keys in block.items()
        for key, wanted in keys.items()
    )


def matches(pattern: str, text: str) -> bool:
    """IAM's wildcards: `*` is any text, `?` any character."""
    return _like(variables.literally(pattern), text)


def _applies(statement: Mapping[str, Any], request: Request, resolve: Resolver) -> bool:
    action, resource = request.action.lower(), request.resource
    if "Action" in statement:
        if not any(matches(it.lower(), action) for it in _list(statement["Action"])):
            return False
    elif any(matches(it.lower(), action) for it in _list(statement.get("NotAction"))):
        return False
    if "Resource" in statement:
        if not any(_is(it, resource, resolve) for it in _list(statement["Resource"])):
            return False
    elif any(_is(it, resource, resolve) for it in _list(statement.get("NotResource"))):
        return False
    return conditions_hold(statement.get("Condition") or {}, request.context, resolve)


def _is(arn: str, resource: str, resolve: Resolver) -> bool:
    wanted = variables.in_arn(arn, resolve)
    return wanted is not None and _like(wanted, resource)


def _like(wanted: Text, given: str) -> bool:
    return _compiled(wanted.pattern).fullmatch(given) is not None


_SINGLE = {
    "StringEquals": lambda wanted, given: wanted.plain == given,
    "StringLike": _like,
    "StringEqualsIgnoreCase": lambda wanted, given: wanted.plain.lower() == given.lower(),
    "ArnEquals": _like,
    "ArnLike": _like,
    "Bool": lambda wanted, given: wanted.plain == given.lower(),
}


def _condition_holds(
    operator: str, wanted: list[str], key: str, context: Mapping[str, Sequence[str]], resolve: Resolver
) -> bool:
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
    # Other operators have no variables, and nothing equals one that has no value.
    texts = [(resolve if positive != "Bool" else variables.literally)(it) for it in wanted]
    known = [it for it in texts if it is not None]
    held = [any(_SINGLE[positive](it, value) for it in known) != negated for value in given]
    return any(held) if quantifier == "ForAnyValue" else all(held)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)
