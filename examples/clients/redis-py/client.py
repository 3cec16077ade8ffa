"""Counts in Redis, and tells how long it could not. See docs/clients.md.

REDIS_ADDRESS=cache.shop.svc:6379 REDIS_PASSWORD=… python client.py
"""

import os
import signal
import time

import redis

from connect import connect

KEY = "counter:redis-py"


class Report:
    """A line each second and for each error: how long no write was acknowledged."""

    def __init__(self) -> None:
        self.begun = self.told = self.last = time.monotonic()
        self.ok = self.failed = self.lost = self.acknowledged = 0
        self.gap = self.longest = 0.0  # between two acknowledged writes: since the last line, and ever

    def acknowledge(self, number: int) -> None:
        now = time.monotonic()
        self.gap = max(self.gap, now - self.last)
        self.longest = max(self.longest, self.gap)
        self.ok, self.acknowledged, self.last = self.ok + 1, number, now
        if now - self.told >= 1:
            self.tell()

    def stored(self, number: int) -> None:
        """If the server has a lower number than an acknowledged one, the writes between are lost."""
        if number < self.acknowledged:
            self.lost += self.acknowledged - number
            self.acknowledged = number

    def fail(self, error: Exception) -> None:
        self.failed += 1
        self.tell(f' error="{error}"')

    def tell(self, more: str = "") -> None:
        self.told = time.monotonic()
        print(
            f"time={self.told - self.begun:.1f} ok={self.ok} acknowledged={self.acknowledged} lost={self.lost} "
            f"gap={self.gap:.2f} longest={self.longest:.2f}{more}",
            flush=True,
        )
        self.gap = 0.0

    def end(self) -> None:
        print(f"end ok={self.ok} failed={self.failed} lost={self.lost} longest={self.longest:.2f}", flush=True)


def main() -> None:
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    host, port = os.environ["REDIS_ADDRESS"].rsplit(":", 1)
    client = connect(host, int(port), os.environ.get("REDIS_PASSWORD"))
    report = Report()
    while not stopping:
        try:
            number = client.incr(KEY)
            report.stored(number - 1)
            report.acknowledge(number)
            report.stored(int(client.get(KEY)))
        except redis.RedisError as error:
            report.fail(error)
        time.sleep(0.02)
    report.end()


if __name__ == "__main__":
    main()
