"""AWS's limits on the rate of ELBv2 calls: token buckets per account and region.

https://docs.aws.amazon.com/elasticloadbalancing/latest/userguide/elb-api-throttling.html
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from . import settings
from .errors import invalid


@dataclass(frozen=True)
class Rate:
    """How many calls may come at once, and how many per second in the long run."""

    burst: float
    per_second: float


ALL = "all"
RATES = {
    ALL: Rate(40, 10),
    "reading": Rate(40, 10),
    "registration": Rate(20, 4),
    "placing": Rate(10, 0.2),
    "changing": Rate(20, 3),
    "trust stores": Rate(10, 0.2),
    "contents of trust stores": Rate(20, 4),
}
"""Each call takes a token from the bucket for all calls and from that of its class."""


def class_of(operation: str) -> str:
    """The class of an ELBv2 operation."""
    if operation in ("GetTrustStoreCaCertificatesBundle", "GetTrustStoreRevocationContent"):
        return "contents of trust stores"
    if operation.startswith(("Describe", "Get")):
        return "reading"
    if operation in ("RegisterTargets", "DeregisterTargets"):
        return "registration"
    if "TrustStore" in operation:
        return "trust stores"
    return "placing" if operation in ("CreateLoadBalancer", "SetSubnets") else "changing"


@dataclass
class Bucket:
    """Tokens that come back with time."""

    rate: Rate
    tokens: float
    filled: float

    def fill(self, now: float) -> None:
        """Adds the tokens of the time that has passed."""
        self.tokens = min(self.rate.burst, self.tokens + (now - self.filled) * self.rate.per_second)
        self.filled = now


@dataclass
class Throttle:
    """The buckets of all accounts and regions."""

    clock: Callable[[], float] = time.monotonic
    _buckets: dict[tuple[str, str, str], Bucket] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admits(self, account: str, region: str, operation: str, share: float = 1.0) -> bool:
        """Takes the tokens a call needs, if they are there; a refused call takes none. The rates are AWS's times
        `share`."""
        with self._lock:
            now = self.clock()
            needed = []
            for name in (ALL, class_of(operation)):
                rate = Rate(RATES[name].burst * share, RATES[name].per_second * share)
                bucket = self._buckets.setdefault((account, region, name), Bucket(rate, rate.burst, now))
                bucket.fill(now)
                needed.append(bucket)
            if any(bucket.tokens < 1 for bucket in needed):
                return False
            for bucket in needed:
                bucket.tokens -= 1
            return True

    def forget(self, account: str) -> None:
        """Fills the account's buckets."""
        with self._lock:
            for key in [key for key in self._buckets if key[0] == account]:
                del self._buckets[key]


throttle = Throttle()


def check(account: str, region: str, service: str, operation: str) -> None:
    """Refuses an ELBv2 call that comes too soon, in accounts where `throttle` says what share of AWS's rates holds."""
    share = settings.of(account).throttle
    if service == "elbv2" and share > 0 and not throttle.admits(account, region, operation, share):
        raise invalid("Throttling", "Rate exceeded")
