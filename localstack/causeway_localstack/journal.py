"""Every call, as it came in and as it ended."""

import itertools
import threading
import time
from collections import deque
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

MOST_ENTRIES = 50_000
"""Older ones are dropped."""

MOST_PARAMETERS = 10_000
"""Entries before the last so many forget their parameters, unless they were refused for them."""


@dataclass(slots=True)
class Entry:
    """One call; `outcome` is None until it ended."""

    id: int
    """Counts up by one from call to call; `since` refers to it."""
    time: str
    service: str
    operation: str
    account: str
    region: str
    principal: str
    """Who called: the ARN AWS would name."""
    role: str | None
    """The role's ARN, if the caller assumed one."""
    client: str
    """The address the call came from: a pod's, in the cluster."""
    resource: str | None
    """The subject of the call: a name or an ARN, several joined by commas."""
    outcome: str | None = None
    """`OK`, AWS's error code, or `ConnectionReset`."""
    status: int | None = None
    duration_ms: float | None = None
    fault: str | None = None
    """The kind of fault that struck."""
    violation: str | None = None
    """The part of the request that the service's model does not allow."""
    parameters: dict[str, Any] | None = None
    """The parameters, secrets hidden; returned only on request."""


_NAMES = [field.name for field in fields(Entry) if field.name != "parameters"]


class Journal:
    """A ring of entries."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._of: dict[str, deque[Entry]] = {}
        """The same by account: each account asks for its own, again and again."""
        self._with_parameters: deque[Entry] = deque()
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._begun: dict[int, float] = {}

    def begin(self, **about: Any) -> Entry:
        """Writes a call down before anything happens to it."""
        with self._lock:
            entry = Entry(id=next(self._ids), time=datetime.now(UTC).isoformat(timespec="milliseconds"), **about)
            self._entries.append(entry)
            self._of.setdefault(entry.account, deque()).append(entry)
            if len(self._entries) > MOST_ENTRIES:
                self._of[self._entries.popleft().account].popleft()
            self._with_parameters.append(entry)
            if len(self._with_parameters) > MOST_PARAMETERS:
                old = self._with_parameters.popleft()
                if old.violation is None:
                    old.parameters = None
            self._begun[entry.id] = time.monotonic()
            return entry

    def end(self, entry: Entry, outcome: str, status: int | None) -> None:
        """Writes down how it ended."""
        with self._lock:
            begun = self._begun.pop(entry.id, None)
            if begun is not None:
                entry.duration_ms = round((time.monotonic() - begun) * 1000, 2)
            entry.status = status
            entry.outcome = outcome

    def read(self, account: str | None, since: int, parameters: bool = False) -> list[dict[str, Any]]:
        """The entries after `since`, oldest first, of one account or of all, with their parameters if wanted."""
        with self._lock:
            entries = self._entries if account is None else self._of.get(account, ())
            return [_shown(it, parameters) for it in entries if it.id > since]

    def clear(self, account: str | None) -> None:
        """Forgets the entries of one account or of all; ids go on counting."""
        with self._lock:
            kept = [] if account is None else [it for it in self._entries if it.account != account]
            self._entries = deque(kept)
            self._of = {} if account is None else {other: of for other, of in self._of.items() if other != account}
            self._with_parameters = deque(kept[-MOST_PARAMETERS:])


def _shown(entry: Entry, parameters: bool) -> dict[str, Any]:
    told = {name: getattr(entry, name) for name in _NAMES}
    return told | {"parameters": entry.parameters} if parameters or entry.violation else told


journal = Journal()
