"""Decides whether a role's trust policy lets a caller assume it."""

from collections.abc import Mapping, Sequence
from typing import Any

from . import variables
from .policy import conditions_hold, matches


def allows(
    document: Mapping[str, Any], principal: tuple[str, str], action: str, context: Mapping[str, Sequence[str]]
) -> bool:
    """Reports whether a principal, such as `("Service", "pods.eks.amazonaws.com")`, may do this with the role."""
    statements = document.get("Statement") or []
    verdicts = set()
    kind, name = principal
    for statement in statements if isinstance(statements, list) else [statements]:
        named = statement.get("Principal")
        trusted = _list(named.get(kind)) if isinstance(named, Mapping) else []
        if (
            any(matches(it.lower(), action.lower()) for it in _list(statement.get("Action")))
            and name in trusted
            and conditions_hold(statement.get("Condition") or {}, context, variables.of(document, context))
        ):
            verdicts.add(statement["Effect"])
    return verdicts == {"Allow"}


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
