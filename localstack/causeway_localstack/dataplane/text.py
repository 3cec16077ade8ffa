"""Text as HAProxy's configuration takes it."""

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def quoted(text: str) -> str:
    """One word, whatever is in it: the configuration's syntax ends inside of single quotes."""
    text = text.replace("\0", "").replace("'", r"'\''")
    return "'" + _CONTROL.sub(lambda found: f"'\\x{ord(found[0]):02x}'", text) + "'"


def literal(text: str) -> str:
    """Text that stays what it is in a format, where `%` begins what is to be filled in."""
    return text.replace("%", "%%")
