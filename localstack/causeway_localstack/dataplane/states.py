"""The states of servers: what a worker says about them, and what the next one is to begin with.

A worker of HAProxy takes a server for healthy until a check tells otherwise. A target of a load balancer gets nothing
before its first check was passed, and a reload must not change what is known of the others.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from . import backends
from .backends import OPEN
from .model import Group, Target

_FIELDS = (
    *("be_id", "be_name", "srv_id", "srv_name", "srv_addr", "srv_op_state", "srv_admin_state", "srv_uweight"),
    *("srv_iweight", "srv_time_since_last_change", "srv_check_status", "srv_check_result", "srv_check_health"),
    *("srv_check_state", "srv_agent_state", "bk_f_forced_id", "srv_f_forced_id", "srv_fqdn", "srv_port", "srvrecord"),
    *("srv_use_ssl", "srv_check_port", "srv_check_addr", "srv_agent_addr", "srv_agent_port"),
)
"""Of `show servers state`, in HAProxy's order."""

_RUNNING = "2"
_NOT_CHECKED_YET = "1"
"""Its 0, for unknown, makes version 2.6 crash with the first check."""

Server = tuple[str, str]
"""The names of a backend and of a server in it."""


@dataclass(frozen=True)
class State:
    """A worker's report about a server."""

    is_up: bool
    check: str
    """The last check's outcome, such as L7OK; empty before the first."""
    code: str
    """The HTTP status of the last check's answer, if there was one."""


def file(said: str, kept: Iterable[tuple[Group, Target]], fresh: Iterable[tuple[Group, Target]]) -> str:
    """The file a worker begins with: of those `kept` what the last worker `said`, all others not healthy yet."""
    known: dict[Server, dict[str, str]] = {}
    for line in said.splitlines()[2:]:
        values = dict(zip(_FIELDS, line.split(), strict=False))
        if len(values) == len(_FIELDS):
            known[(values["be_name"], values["srv_name"])] = values
    lines = ["1", f"# {' '.join(_FIELDS)}"]
    for group, target in kept:
        state = known.get((group.backend, target.server))
        lines.append(_line(_continued(group, state) if state else _begun(group, target)))
    lines += [_line(_begun(group, target)) for group, target in fresh]
    return "\n".join([*lines, ""])


def read(said: str) -> dict[Server, State]:
    """Parses the report of `show stat` about servers that are checked."""
    if not said:
        return {}
    header, *lines = said.splitlines()
    fields = header.removeprefix("# ").split(",")
    found: dict[Server, State] = {}
    for line in lines:
        values = dict(zip(fields, line.split(","), strict=False))
        name = values.get("svname", "")
        if name in ("", "FRONTEND", "BACKEND") or name.endswith(OPEN):
            continue
        check = values["check_status"].removeprefix("* ")
        check = "" if check in ("INI", "UNK") else check
        found[(values["pxname"], name)] = State(values["status"].startswith("UP"), check, values["check_code"])
    return found


def _continued(group: Group, state: dict[str, str]) -> dict[str, str]:
    """The same state, within thresholds that may have changed; no server is in maintenance."""
    health, rise = int(state["srv_check_health"]), backends.rise(group)
    is_up = state["srv_op_state"] == _RUNNING
    health = min(max(health, rise), rise + backends.fall(group) - 1) if is_up else min(health, rise - 1)
    status = state["srv_check_status"]
    return state | {
        "srv_admin_state": "0",
        "srv_check_health": str(health),
        "srv_check_status": _NOT_CHECKED_YET if status == "0" else status,
    }


def _begun(group: Group, target: Target) -> dict[str, str]:
    """Down, and up with the first check that is passed."""
    return dict.fromkeys(_FIELDS, "0") | {
        "be_name": group.backend,
        "srv_name": target.server,
        "srv_addr": target.address,
        "srv_uweight": "1",
        "srv_iweight": "1",
        "srv_check_status": _NOT_CHECKED_YET,
        "srv_check_health": str(backends.rise(group) - 1),
        "srv_check_state": "6",
        "srv_fqdn": "-",
        "srv_port": str(target.port),
        "srvrecord": "-",
        "srv_use_ssl": "1" if group.protocol == "HTTPS" else "0",
        "srv_check_addr": "-",
        "srv_agent_addr": "-",
    }


def _line(values: dict[str, str]) -> str:
    return " ".join(values[field] for field in _FIELDS)
