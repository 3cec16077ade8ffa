"""Faults on demand: what AWS and the network do on a bad day."""

import itertools
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from localstack.aws.api import CommonServiceException

from .errors import access_denied, invalid

KINDS = ("throttle", "500", "503", "access_denied", "expired_token", "error", "delay", "reset_before", "reset_after")

_THROTTLES = {
    "ec2": ("RequestLimitExceeded", 503, "Request limit exceeded."),
    "s3": ("SlowDown", 503, "Please reduce your request rate."),
}
"""Where it is not `Throttling` with status 400."""


@dataclass
class Fault:
    """The effect on matching calls, `times` times (None: always) or each time with `probability`."""

    id: int
    kind: str
    account: str = "*"
    service: str = "*"
    operation: str = "*"
    naming: str = ""
    """Strikes only calls with this text among their parameters."""
    times: int | None = None
    after: int = 0
    """Spares this many matching calls first."""
    probability: float = 1.0
    seed: int = 0
    delay_ms: float = 0
    code: str = "InternalFailure"
    message: str = "Injected error"
    status: int = 400
    struck: int = 0
    """How often it struck so far."""
    _random: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"no fault is of kind {self.kind!r}; there are {', '.join(KINDS)}")
        if not 0 <= self.probability <= 1:
            raise ValueError("probability must be between 0 and 1")
        self._random = random.Random(self.seed)

    def strikes(self, account: str, service: str, operation: str, parameters: str = "") -> bool:
        """Reports whether it strikes this call; counts."""
        if self.naming not in parameters:
            return False
        wanted = zip((self.account, self.service, self.operation), (account, service, operation), strict=True)
        if not all(mine in ("*", its) for mine, its in wanted):
            return False
        if self.times is not None and self.struck >= self.times:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self._random.random() >= self.probability:
            return False
        self.struck += 1
        return True

    def as_json(self) -> dict[str, Any]:
        """For the admin route."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


class Faults:
    """All that are set, in the order they were."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def add(self, wanted: dict[str, Any]) -> Fault:
        """Sets a fault; raises ValueError or TypeError for what is none."""
        with self._lock:
            fault = Fault(id=next(self._ids), **wanted)
            self._faults.append(fault)
            return fault

    def read(self, account: str | None) -> list[dict[str, Any]]:
        """Those of one account or all."""
        with self._lock:
            return [it.as_json() for it in self._faults if account in (None, it.account)]

    def clear(self, account: str | None) -> None:
        """Ends those of one account or all."""
        with self._lock:
            self._faults = [] if account is None else [it for it in self._faults if it.account != account]

    def strike(self, account: str, service: str, operation: str, parameters: str) -> tuple[float, Fault | None]:
        """The seconds to delay a call and what then befalls it: the first fault that strikes and is no delay."""
        delay = 0.0
        with self._lock:
            for fault in self._faults:
                if fault.strikes(account, service, operation, parameters):
                    if fault.kind != "delay":
                        return delay, fault
                    delay += fault.delay_ms / 1000
        return delay, None


faults = Faults()


def wait(seconds: float) -> None:
    """A delay's wait; the caller's thread is the call's own."""
    if seconds > 0:
        time.sleep(seconds)


def error(fault: Fault, service: str, principal: str, action: str, resource: str) -> CommonServiceException | None:
    """The error a fault answers with; None for those that let the call through or close the connection."""
    match fault.kind:
        case "throttle":
            code, status, message = _THROTTLES.get(service, ("Throttling", 400, "Rate exceeded"))
            return invalid(code, message, status)
        case "500":
            return CommonServiceException("InternalFailure", "An internal error occurred", status_code=500)
        case "503":
            return CommonServiceException("ServiceUnavailable", "Service is temporarily unavailable", status_code=503)
        case "access_denied":
            return access_denied(
                f"User: {principal} is not authorized to perform: {action} on resource: {resource} "
                f"because no identity-based policy allows the {action} action",
                service,
            )
        case "expired_token":
            return invalid("ExpiredToken", "The security token included in the request is expired", 403)
        case "error":
            return invalid(fault.code, fault.message, fault.status)
    return None
