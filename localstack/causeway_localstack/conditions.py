"""Conditions of rules: checked, and settled into what DescribeRules answers.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-condition-types.html
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import validation
from .records import Document

MOST_VALUES = 5
"""Per rule: https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html. The page of
conditions speaks of three in one condition; AWS refuses the sixth of a rule (aws-cloudformation/cfn-lint #3833)."""
MOST_WILDCARDS = 5
"""Per rule, by the page of conditions and by `condition-wildcards-per-alb-rule` of DescribeAccountLimits; the page of
quotas says 6. The stricter holds."""

_CONFIGS = {
    "host-header": "HostHeaderConfig",
    "path-pattern": "PathPatternConfig",
    "http-header": "HttpHeaderConfig",
    "query-string": "QueryStringConfig",
    "http-request-method": "HttpRequestMethodConfig",
    "source-ip": "SourceIpConfig",
}
_OLD_FORM = ("host-header", "path-pattern")
"""Their values may stand beside the field instead of in its config; they are answered in both places."""
_REGEX = ("host-header", "path-pattern", "http-header")
_ONCE = ("host-header", "path-pattern", "http-request-method", "source-ip")
"""The others may come several times, and then must all be met."""
_WILD = ("host-header", "path-pattern", "http-header", "query-string")

_HOST = re.compile(r"[A-Za-z0-9*?_-][A-Za-z0-9.*?_-]*", re.ASCII)
_PATH = re.compile(r"[A-Za-z0-9_\-.$/~\"'@:+&*?]+", re.ASCII)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,40}", re.ASCII)
_METHOD = re.compile(r"[A-Z_-]{1,40}", re.ASCII)
_UNSUPPORTED = re.compile(r"\(\?(?:[=!>]|<[=!])|\\[1-9]|\\[pP]\{|(?<!\\)[*+?}]\+|\(\?(?:R|\d)")
"""Lookaround, atomic groups, backreferences, Unicode classes, possessive quantifiers, recursion."""


def settled(asked: Sequence[Mapping[str, Any]]) -> list[Document]:
    """A rule's conditions; every one must hold."""
    if not asked:
        raise validation("A condition must be specified")
    fields = [condition.get("Field") for condition in asked]
    for field in fields:
        if field not in _CONFIGS:
            raise validation(f"Condition field '{field}' must be one of '[{', '.join(_CONFIGS)}]'")
        if field in _ONCE and fields.count(field) > 1:
            raise validation(f"A rule can have only one '{field}' condition")
    kept = [_settled(condition) for condition in asked]
    values = [text for condition in kept for text in _texts(condition)]
    if len(values) > MOST_VALUES:
        raise validation(f"A rule can only have '{MOST_VALUES}' condition values")
    wild = sum(_wildcards(condition) for condition in kept)
    if wild > MOST_WILDCARDS:
        raise validation(f"A rule can only have '{MOST_WILDCARDS}' condition wildcards")
    return kept


def check_regex(regex: str, most: int) -> None:
    """A regular expression that AWS can compile.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-rules.html
    """
    if not 1 <= len(regex) <= most:
        raise validation(f"The regular expression '{regex}' must have 1 to {most} characters")
    if _UNSUPPORTED.search(regex):
        raise validation(f"The regular expression '{regex}' uses a feature that is not supported")
    try:
        re.compile(regex)
    except re.error as error:
        raise validation(f"The regular expression '{regex}' is not valid: {error}") from None


def _settled(condition: Mapping[str, Any]) -> Document:
    field = condition["Field"]
    name = _CONFIGS[field]
    foreign = [it for it in _CONFIGS.values() if condition.get(it) and it != name]
    if foreign:
        raise validation(f"{', '.join(foreign)} cannot be used with condition field '{field}'")
    config = dict(condition.get(name) or {})
    for form in ("Values", "RegexValues"):
        outside = condition.get(form)
        if not outside:
            continue
        if field not in (_OLD_FORM if form == "Values" else _REGEX):
            raise validation(f"{form} cannot be used with condition field '{field}'; use {name}")
        if config.get(form):
            raise validation(f"You cannot specify both {form} and {name}.{form}")
        config[form] = list(outside)
    if config.get("RegexValues") and field not in _REGEX:
        raise validation(f"RegexValues cannot be used with condition field '{field}'")
    values, regexes = config.get("Values") or [], config.get("RegexValues") or []
    if not values and not regexes:
        raise validation(f"Condition '{field}' must have values")
    if values and regexes:
        raise validation(f"Condition '{field}' can have values or regular expressions, not both")
    for regex in regexes:
        check_regex(regex, 128)
    for value in values:
        _check(field, value)
    if field == "http-header":
        _check_header_name(config.get("HttpHeaderName") or "")
    config = {key: value for key, value in config.items() if value}
    kept: Document = {"Field": field}
    if field in _OLD_FORM:
        kept.update({key: list(config[key]) for key in ("Values", "RegexValues") if key in config})
    kept[name] = config
    return kept


def _check(field: str, value: Any) -> None:
    texts = [value.get("Key", ""), value.get("Value", "")] if field == "query-string" else [value]
    if any(len(text) > 128 for text in texts) or not texts[-1]:
        raise validation(f"Condition value '{texts[-1]}' of '{field}' must have 1 to 128 characters")
    match field:
        case "host-header":
            last = value.rpartition(".")
            if not _HOST.fullmatch(value) or not last[1] or not re.fullmatch(r"[A-Za-z*?]+", last[2]):
                raise validation(f"The host name '{value}' is not valid")
        case "path-pattern" if not _PATH.fullmatch(value):
            raise validation(f"The path pattern '{value}' is not valid")
        case "http-request-method" if not _METHOD.fullmatch(value):
            raise validation(f"The HTTP request method '{value}' is not valid")
        case "source-ip":
            try:
                if "/" not in value:
                    raise ValueError("it has no prefix length")
                ipaddress.ip_network(value)
                # https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-condition-types.html#source-ip-conditions
                if value == "255.255.255.255/32":
                    raise ValueError("it is the address of a broadcast")
            except ValueError as error:
                raise validation(f"The CIDR block '{value}' is not valid: {error}") from None


def _check_header_name(name: str) -> None:
    if not _HEADER_NAME.fullmatch(name) or "*" in name:
        raise validation(f"The HTTP header name '{name}' is not valid")
    if name.lower() == "host":
        raise validation("The host header cannot be used in an 'http-header' condition; use 'host-header'")


def _texts(condition: Document) -> list[Any]:
    config = condition[_CONFIGS[condition["Field"]]]
    return [*(config.get("Values") or []), *(config.get("RegexValues") or [])]


def _wildcards(condition: Document) -> int:
    if condition["Field"] not in _WILD:
        return 0
    values = condition[_CONFIGS[condition["Field"]]].get("Values") or []
    texts = [text for it in values for text in (it.values() if isinstance(it, dict) else [it])]
    return sum(len(re.findall(r"(?<!\\)[*?]", text)) for text in texts)
