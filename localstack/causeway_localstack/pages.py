"""Pages of Describe* operations: 400 entries, or fewer when asked.

https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DescribeLoadBalancers.html
"""

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import TypeVar

from localstack.aws.api import ServiceRequest

from .errors import validation

MOST = 400

Entry = TypeVar("Entry")


def page(
    request: ServiceRequest, entries: Iterable[Entry], place: Callable[[Entry], str]
) -> tuple[list[Entry], str | None]:
    """The entries behind the request's Marker and, if there are more, the next Marker.

    `place` puts the entries in order; a page continues behind the last place shown, so that what comes and goes
    between two pages neither repeats nor hides anything else.
    """
    size = request.get("PageSize")
    size = MOST if size is None else size
    if not 1 <= size <= MOST:
        raise validation(f"PageSize must be between 1 and {MOST}, not {size}")
    behind = _read(request.get("Marker"))
    left = sorted((place(entry), index, entry) for index, entry in enumerate(entries) if place(entry) > behind)
    shown = [entry for _, _, entry in left[:size]]
    return shown, _write(place(shown[-1])) if len(left) > size else None


def _write(place: str) -> str:
    return base64.urlsafe_b64encode(place.encode()).decode()


def _read(marker: str | None) -> str:
    if not marker:
        return ""
    try:
        return base64.b64decode(marker, altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise validation(f"Marker '{marker}' is not valid") from None
