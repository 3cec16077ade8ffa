"""Policy variables: `${aws:PrincipalTag/team}` stands for a value of the request.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html, read on 2026-11-23. What it says,
and what is done here:

- Only policies of version 2012-10-17 have variables; in others they are plain text.
- They stand in the resource portion of the ARNs of Resource and NotResource, which begins after the fifth colon, and in
  values of conditions with string or ARN operators. Elsewhere they are plain text.
- A variable without a value is null, and nothing is equal to or like null: Resource and NotResource match nothing by
  it, StringEquals and StringLike do not hold, and their inversions do.
- A key with several values is no variable.
- `${key, 'default'}` has a value in any case. `${*}`, `${?}` and `${$}` are these characters, without their meaning.

The page does not say what a `*` in the value of a variable is; here it is itself, and matches nothing else.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

VERSION = "2012-10-17"
"""https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_version.html"""

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_DEFAULT = re.compile(r"(?P<key>[^,]*?)\s*,\s+'(?P<default>[^']*)'")
_CHARACTERS = ("*", "?", "$")


@dataclass(frozen=True)
class Text:
    """A text of a policy with its variables filled in."""

    plain: str
    """As it compares for equality."""
    pattern: str
    """As a regular expression, in which only the policy's own `*` and `?` are wild."""


Resolver = Callable[[str], Text | None]
"""The value of a text of a policy; None where a variable in it has no value."""


def of(document: Mapping[str, Any], context: Mapping[str, Sequence[str]]) -> Resolver:
    """Fills variables of a policy in from the keys of a request, in lower case: IAM does not tell cases apart."""
    if document.get("Version") != VERSION:
        return literally
    return lambda text: _filled(text, lambda name: _value(name, context))


def literally(text: str) -> Text:
    """The text of a policy without variables."""
    return Text(text, _wild(text))


def in_arn(arn: str, resolve: Resolver) -> Text | None:
    """An ARN: what comes before its fifth colon has no variables."""
    parts = arn.split(":", 5)
    if len(parts) < 6:
        return resolve(arn)
    head, rest = literally(":".join(parts[:5]) + ":"), resolve(parts[5])
    return rest and Text(head.plain + rest.plain, head.pattern + rest.pattern)


def _filled(text: str, value_of: Callable[[str], str | None]) -> Text | None:
    plain, pattern, end = "", "", 0
    for variable in _VARIABLE.finditer(text):
        value = value_of(variable[1])
        if value is None:
            return None
        before = text[end : variable.start()]
        plain, pattern, end = plain + before + value, pattern + _wild(before) + re.escape(value), variable.end()
    return Text(plain + text[end:], pattern + _wild(text[end:]))


def _value(name: str, context: Mapping[str, Sequence[str]]) -> str | None:
    if name in _CHARACTERS:
        return name
    given = _DEFAULT.fullmatch(name)
    key, default = (given["key"], given["default"]) if given else (name, None)
    values = context.get(key.strip().lower()) or ()
    return values[0] if len(values) == 1 else default


def _wild(text: str) -> str:
    return re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")
