"""Transforms of rules: what a target gets instead of the request's own host or URL.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-transforms.html
"""

import re
from collections.abc import Sequence

from .model import Document
from .text import literal, quoted

_MOST_GROUPS = 6
"""HAProxy's replacements know \\1 to \\9; three of them hold the match and what is around it."""


def directives(transforms: Sequence[Document], condition: str) -> list[str]:
    """The directives that change requests that meet the condition."""
    lines = []
    for transform in transforms:
        match transform["Type"]:
            case "host-header-rewrite":
                change = f"replace-header Host {_replacement(transform['HostHeaderRewriteConfig'])}"
            case "url-rewrite":
                change = f"replace-pathq {_replacement(transform['UrlRewriteConfig'])}"
            case kind:
                raise ValueError(f"there is no transform {kind!r}")
        lines.append(f"http-request {change} if {condition}")
    return lines


def _replacement(config: Document) -> str:
    """The arguments of HAProxy's replacements, which replace the whole text where AWS replaces the match."""
    rewrite = config["Rewrites"][0]
    groups = re.compile(rewrite["Regex"]).groups
    if groups > _MOST_GROUPS:
        raise ValueError(f"the regular expression {rewrite['Regex']!r} has more than {_MOST_GROUPS} groups")
    regex = f"^(.*?)({rewrite['Regex']})(.*)$"
    whole = f"\\1{_filled(rewrite['Replace'])}\\{groups + 3}"
    return f"{quoted(regex)} {quoted(whole)}"


def _filled(replacement: str) -> str:
    """`$1` becomes the group it is within ours, `$0` the whole match."""
    parts = re.split(r"\$(?:(\d)|\{(\d)\})", replacement)
    filled = [_escaped(parts[0])]
    for short, long, plain in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        filled.append(f"\\{int(short or long) + 2}{_escaped(plain)}")
    return "".join(filled)


def _escaped(text: str) -> str:
    return literal(text).replace("\\", "\\\\")
