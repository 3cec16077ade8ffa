"""Conditions of rules, as HAProxy's access lists. Lines of the same name are alternatives.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-condition-types.html
"""

import re

from .model import Document
from .text import quoted


def access_list(name: str, condition: Document) -> list[str]:
    """The lines that define the list `name`, which holds when one of the condition's values does."""
    match condition["Field"]:
        case "host-header":
            return _patterns(name, "var(txn.host) -m reg -i", condition["HostHeaderConfig"])
        case "path-pattern":
            return _patterns(name, "path -m reg", condition["PathPatternConfig"])
        case "http-header":
            config = condition["HttpHeaderConfig"]
            return _patterns(name, f"req.fhdr({config['HttpHeaderName']}) -m reg -i", config)
        case "query-string":
            return [
                f"acl {name} query -m reg -i -- {quoted(_pair(value))}"
                for value in condition["QueryStringConfig"]["Values"]
            ]
        case "http-request-method":
            return [f"acl {name} method -- {quoted(it)}" for it in condition["HttpRequestMethodConfig"]["Values"]]
        case "source-ip":
            return [f"acl {name} src -- {quoted(value)}" for value in condition["SourceIpConfig"]["Values"]]
        case field:
            raise ValueError(f"there is no condition field {field!r}")


def _patterns(name: str, fetch: str, config: Document) -> list[str]:
    regexes = [f"^{_regex(value)}$" for value in config.get("Values") or []]
    regexes += config.get("RegexValues") or []
    method, _, rest = fetch.partition(" ")
    return [f"acl {name} {quoted(method)} {rest} -- {quoted(regex)}" for regex in regexes]


def _pair(value: Document) -> str:
    """A key and value anywhere in the query; without a key, any key's value."""
    key = _regex(value["Key"], "[^&]") if value.get("Key") else "[^&=]*"
    return f"(?:^|&){key}={_regex(value.get('Value', ''), '[^&]')}(?:&|$)"


def _regex(pattern: str, character: str = ".") -> str:
    """A pattern with `*` and `?` for any character; behind a backslash they stand for themselves."""
    parts = re.findall(r"\\[*?]|.", pattern, re.DOTALL)
    wild = {"*": f"{character}*", "?": character}
    return "".join(wild.get(part) or re.escape(part[-1]) for part in parts)
