"""Old workers and the targets that left: requests under way may finish, but not for ever."""

import re
import time
from dataclasses import dataclass

from .. import settings
from .backends import OPEN
from .model import Group, Snapshot
from .proxy import Proxy, Workers
from .states import Server, read

_SESSION = re.compile(r"^(0x\w+): proto=tcp\S+ .*? be=(\S+) srv=(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Session:
    """A request under way."""

    id: str
    server: Server
    """The names of its backend and server."""


class Draining:
    """Follows what left until it is gone."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._ends: dict[Server, float] = {}
        """When the requests under way to a server that left are cut off, by the monotonic clock."""

    def begin(self, before: Snapshot, after: Snapshot) -> None:
        """Takes servers that are about to leave out of the worker's choice at once, where others are healthy."""
        old, new = before.servers(), after.servers()
        left = {server: group for server, (group, _) in old.items() if server not in new}
        for server in new:
            self._ends.pop(server, None)
        if not left:
            return
        states = read(self._proxy.say("show stat"))
        healthy = {server[0] for server, state in states.items() if state.is_up and server in new}
        for (backend, name), group in left.items():
            self._ends[(backend, name)] = time.monotonic() + _delay(group)
            if backend in healthy:
                for server in (name, f"{name}{OPEN}"):
                    self._proxy.say(f"set server {backend}/{server} state maint")

    def cut_off(self, workers: Workers) -> None:
        """Ends the requests to servers whose time is over; those are with old workers."""
        over = {server for server, end in self._ends.items() if end <= time.monotonic()}
        if not over:
            return
        for worker in workers.old:
            for session in self._sessions(worker):
                if session.server in over:
                    self._proxy.ask(worker, f"shutdown session {session.id}")
        for server in over:
            del self._ends[server]

    def in_force(self, workers: Workers) -> bool:
        """Reports whether every request that comes now meets the current worker.

        An old worker has stopped listening when it says so; it also answers one more request on each idle connection.
        """
        return not any(self._takes_requests(worker) for worker in workers.old)

    def _takes_requests(self, worker: int) -> bool:
        info = self._proxy.ask(worker, "show info")
        if _number(info, "Stopping") == 0:
            # Or it has said nothing: if it has ended, it is not among the workers the next time.
            return True
        return _number(info, "CurrConns") > len(self._sessions(worker))

    def _sessions(self, worker: int) -> list[Session]:
        """The requests under way in a worker."""
        found = _SESSION.finditer(self._proxy.ask(worker, "show sess"))
        return [Session(it[1], (it[2], it[3].removesuffix(OPEN))) for it in found]


def _number(info: str, name: str) -> int:
    found = re.search(rf"^{name}: (\d+)$", info, re.MULTILINE)
    return int(found[1]) if found else 0


def _delay(group: Group) -> float:
    seconds = float(group.attributes.get("deregistration_delay.timeout_seconds", 300))
    return seconds * settings.of(group.account).draining_scale
