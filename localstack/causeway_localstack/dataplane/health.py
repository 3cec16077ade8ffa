"""Tells ELBv2 how the targets are.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/target-group-health-checks.html
"""

import time

from .. import target_health
from . import backends
from .model import Group, Snapshot, Target
from .proxy import Proxy
from .states import State, read

_TIMED_OUT = ("L4TOUT", "L6TOUT", "L7TOUT")
_PASSED = ("L7OK", "L7OKC")


class Health:
    """The results of checks of each target since it was registered."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._judged: set[tuple[str, Target]] = set()
        """Targets that were found healthy or unhealthy once: they are not `initial` any more."""
        self._passing: dict[tuple[str, Target], float] = {}
        """Since when those that are down pass their checks, by the monotonic clock: HAProxy forgets it in a reload."""

    def report(self, snapshot: Snapshot) -> None:
        """Asks HAProxy and passes it on."""
        states = read(self._proxy.say("show stat"))
        servers = snapshot.servers()
        known = {(group.arn, target) for group, target in servers.values()}
        self._judged &= known
        self._passing = {key: since for key, since in self._passing.items() if key in known}
        for server, (group, target) in servers.items():
            if server in states:
                self._report(group, target, states[server])

    def _report(self, group: Group, target: Target, state: State) -> None:
        key = (group.arn, target)
        if not state.is_up and self._has_recovered(key, group, state):
            self._proxy.say(f"set server {group.backend}/{target.server} health up")
            state = State(True, state.check, state.code)
        if state.is_up:
            self._passing.pop(key, None)
            self._judged.add(key)
            self._tell(group, target, "healthy")
        elif key in self._judged or self._has_failed(group, target, state):
            self._judged.add(key)
            self._tell(group, target, "unhealthy", *_reason(state))
        else:
            reason, said = "Elb.InitialHealthChecking", "Initial health checks in progress"
            self._tell(group, target, "initial", reason, said)

    def _has_recovered(self, key: tuple[str, Target], group: Group, state: State) -> bool:
        """Reports whether a target that is down has passed enough checks: one for a new target that failed at first."""
        if state.check not in _PASSED:
            if state.check:
                self._passing.pop(key, None)
            return False
        since = self._passing.setdefault(key, time.monotonic())
        enough = (backends.rise(group) - 1) * backends.interval(group) if key in self._judged else 0
        return time.monotonic() - since >= enough

    @staticmethod
    def _has_failed(group: Group, target: Target, state: State) -> bool:
        """Reports whether there was time for as many failures as it takes."""
        enough = (backends.fall(group) - 1) * backends.interval(group)
        return bool(state.check) and time.monotonic() - target.registered >= enough

    @staticmethod
    def _tell(group: Group, target: Target, state: str, reason: str | None = None, said: str | None = None) -> None:
        target_health.report(group.account, group.region, group.arn, target.id, target.port, state, reason, said)


def _reason(state: State) -> tuple[str, str]:
    if state.check == "L7STS":
        return "Target.ResponseCodeMismatch", f"Health checks failed with these codes: [{state.code}]"
    if state.check in _TIMED_OUT:
        return "Target.Timeout", "Request timed out"
    return "Target.FailedHealthChecks", "Health checks failed"
