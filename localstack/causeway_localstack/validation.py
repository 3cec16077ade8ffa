"""Requests against the service's own model, as AWS checks them before anything else: required members, lengths, ranges,
patterns and enumerations. botocore's validator, which SDKs share, looks at types and minima only.

The model is botocore's: https://github.com/boto/botocore/tree/develop/botocore/data (the pinned version, and `models`).
"""

import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from botocore.model import Shape
from localstack.aws.api import CommonServiceException, RequestContext

from .errors import invalid
from .permissions import table

_CODES = {
    "acm": "ValidationException",
    "ec2": "InvalidParameterValue",
    "elbv2": "ValidationError",
    "resourcegroupstaggingapi": "InvalidParameterException",
    "s3": "InvalidArgument",
    "sts": "ValidationError",
    "wafv2": "ValidationException",
}
"""The services whose requests are checked, and the code of a refusal. Of EC2 it is the calls in the permissions' table.

https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/CommonErrors.html
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
https://docs.aws.amazon.com/waf/latest/APIReference/CommonErrors.html
"""

_MISSING = {"ec2": "MissingParameter"}
"""Where what is missing has a code of its own."""


def violations(shape: Shape, value: Any, path: str = "") -> Iterator[str]:
    """Lists the violations of the model by a value, in AWS's words."""
    match shape.type_name:
        case "structure":
            for name in shape.required_members:
                if value.get(name) is None:
                    yield _said(None, _below(path, name), "Member must not be null")
            for name, member in shape.members.items():
                if value.get(name) is not None:
                    yield from violations(member, value[name], _below(path, name))
        case "list":
            yield from _length(shape, value, path)
            for number, item in enumerate(value, 1):
                yield from violations(shape.member, item, f"{path}.{number}.member")
        case "map":
            yield from _length(shape, value, path)
            for key, item in value.items():
                yield from violations(shape.key, key, f"{path}.key")
                yield from violations(shape.value, item, f"{path}.{key}.member")
        case "string":
            yield from _length(shape, value, path)
            yield from _text(shape, value, path)
        case "integer" | "long" | "float" | "double":
            yield from _range(shape, value, path)


def check(context: RequestContext) -> str | None:
    """Lists the violations of a request, if its service is checked."""
    service, shape = context.service.service_name, context.operation.input_shape
    if service not in _CODES or shape is None:
        return None
    if service == "ec2" and table.find(f"ec2:{context.operation.name}") is None:
        return None
    found = list(violations(shape, context.service_request or {}))
    if not found:
        return None
    return f"{len(found)} validation error{'s' if len(found) > 1 else ''} detected: {'; '.join(found)}"


def refusal(service: str, violation: str) -> CommonServiceException:
    """The service's error for it."""
    code = _CODES[service]
    if "must not be null" in violation:
        code = _MISSING.get(service, code)
    return invalid(code, violation)


def _below(path: str, name: str) -> str:
    """AWS writes members with a small letter."""
    name = name[0].lower() + name[1:]
    return f"{path}.{name}" if path else name


def _said(value: Any, path: str, constraint: str) -> str:
    told = "null" if value is None else f"'{_short(value)}'"
    return f"Value {told} at '{path}' failed to satisfy constraint: {constraint}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 256 else f"{text[:256]}…"


def _length(shape: Shape, value: Any, path: str) -> Iterator[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if least is not None and len(value) < least:
        yield _said(value, path, f"Member must have length greater than or equal to {least}")
    if most is not None and len(value) > most:
        yield _said(value, path, f"Member must have length less than or equal to {most}")


def _range(shape: Shape, value: Any, path: str) -> Iterator[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if least is not None and value < least:
        yield _said(value, path, f"Member must have value greater than or equal to {least}")
    if most is not None and value > most:
        yield _said(value, path, f"Member must have value less than or equal to {most}")


def _text(shape: Shape, value: str, path: str) -> Iterator[str]:
    choices, pattern = shape.metadata.get("enum"), shape.metadata.get("pattern")
    if choices and value not in choices:
        yield _said(value, path, f"Member must satisfy enum value set: [{', '.join(choices)}]")
    if pattern and not compiled(pattern).fullmatch(value):
        yield _said(value, path, f"Member must satisfy regular expression pattern: {pattern}")


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern of the models, which are Java's. Of what `re` lacks they use Unicode's classes, inside of brackets."""
    return re.compile(re.sub(r"\\p\{(\w+)\}", lambda found: _class(found[1]), pattern), re.DOTALL)


@lru_cache(maxsize=8)
def _class(category: str) -> str:
    """All characters whose category begins so, as ranges for a class."""
    ranges: list[tuple[int, int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)).startswith(category):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1] = (ranges[-1][0], code)
            else:
                ranges.append((code, code))
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


_HIDDEN = ("ClientSecret", "PrivateKey", "WebIdentityToken", "Body")
"""Members that must not appear in a journal, or that are long."""


def shown(value: Any, name: str = "") -> Any:
    """Parameters for the journal, without secrets."""
    if name in _HIDDEN:
        return "(hidden)"
    if isinstance(value, Mapping):
        return {key: shown(item, key) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    return value if isinstance(value, str | int | float | bool) or value is None else f"({type(value).__name__})"
