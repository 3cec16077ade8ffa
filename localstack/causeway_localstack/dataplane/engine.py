"""Runs the data plane: takes up changes as they come, looks after HAProxy, and says what is in force."""

import hashlib
import logging
import os
import tempfile
import threading
import time
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from localstack import config

from .. import settings
from . import names, reading, states
from .addresses import Addresses
from .authentication.gate import Gate
from .configuration import configuration
from .draining import Draining
from .health import Health
from .model import Snapshot
from .proxy import Proxy, is_installed

ADDRESSES = "CAUSEWAY_DATAPLANE_ADDRESSES"
"""The variable with the range of the balancers' addresses, which must be local; otherwise loopback ones are used."""
NAMES = "CAUSEWAY_DATAPLANE_NAMES"
"""The variable with the path of the hosts file for the balancers' names; without it they are not published."""

_QUIET = 0.05
"""Changes come in bursts: seconds without one that end a burst."""
_LONGEST_BURST = 0.2
_TICK = 0.1
_PAUSE = 1.0

_MISSING = "haproxy and setpriv are not installed"

LOG = logging.getLogger(__name__)


class Engine:
    """The data plane of all accounts."""

    def __init__(self, network: IPv4Network, names_file: Path | None) -> None:
        self._addresses = Addresses(network)
        self._names_file = names_file
        self._home = Path(tempfile.mkdtemp(prefix="dataplane-"))
        self._proxy = Proxy(self._home)
        self._health = Health(self._proxy)
        self._draining = Draining(self._proxy)
        self._gate = Gate()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._generation = 0
        """Counts the changes."""
        self._carried = 0
        """The generation that HAProxy was given last."""
        self._applied = 0
        """The generation that every request meets."""
        self._refused: str | None = None
        """The reason why the last change is not in force."""
        self._try_again = 0.0
        """When to try it once more, by the monotonic clock."""
        self._trouble: str | None = None
        """The last failure of the supervision of HAProxy."""
        self._snapshot = Snapshot()
        self._given: dict[str, str] = {}
        self._text = ""

    def start(self) -> None:
        """Begins; nothing of it holds up LocalStack's end."""
        if self._names_file:
            names.publish(self._names_file, {})
        # HAProxy ends with the thread that started it: this one, which lives as long as the process.
        threading.Thread(target=self._run, name="dataplane", daemon=True).start()

    def changed(self, account: str) -> None:
        """Something of this account may be different now."""
        if settings.of(account).traffic or any(it.account == account for it in self._snapshot.balancers):
            with self._lock:
                self._generation += 1
            self._wake.set()

    def status(self) -> dict[str, Any]:
        """For the admin route."""
        with self._lock:
            shown = [
                {
                    "account": it.account,
                    "region": it.region,
                    "arn": it.arn,
                    "name": it.name,
                    "dns_name": it.dns_name,
                    "address": self._given[it.arn],
                    "ports": [listener.port for listener in it.listeners],
                }
                for it in self._snapshot.balancers
            ]
            return {
                "generation": self._generation,
                "applied": self._applied,
                "error": self._refused or self._trouble,
                "process": self._proxy.process,
                "public_key": self._gate.public_key,
                "balancers": shown,
            }

    def _run(self) -> None:
        while True:
            self._wake.wait(_TICK if self._proxy.is_running or self._snapshot.balancers or self._refused else None)
            if self._wake.is_set() or self._must_try_again():
                try:
                    self._await_quiet()
                    self._carry()
                    self._refused = None
                except Exception as error:
                    self._refused, self._try_again = _told(error, self._refused), time.monotonic() + _PAUSE
            try:
                self._look_after()
                self._trouble = None
            except Exception as error:
                self._trouble = _told(error, self._trouble)

    def _must_try_again(self) -> bool:
        """After a failure, perhaps because another process held a port; or if HAProxy ended."""
        if self._snapshot.balancers and not self._proxy.is_running:
            self._text = ""
            return not self._refused or time.monotonic() >= self._try_again
        return bool(self._refused) and time.monotonic() >= self._try_again

    def _await_quiet(self) -> None:
        until = time.monotonic() + _LONGEST_BURST
        while self._wake.is_set() and time.monotonic() < until:
            self._wake.clear()
            self._wake.wait(_QUIET)
        self._wake.clear()

    def _carry(self) -> None:
        """Takes a snapshot and, if it differs from the last one, gives it to HAProxy."""
        with self._lock:
            generation = self._generation
        snapshot = reading.snapshot()
        given = self._addresses.assign(balancer.arn for balancer in snapshot.balancers)
        self._gate.learn(snapshot)
        text = configuration(snapshot, given, self._certificate, self._home, self._gate.address)
        before, now = self._snapshot.servers(), snapshot.servers()
        fresh = [it for server, it in now.items() if server not in before or before[server][1] != it[1]]
        kept = [it for server, it in now.items() if server in before and before[server][1] == it[1]]
        if (snapshot.balancers or self._proxy.is_running) and (text != self._text or fresh):
            self._draining.begin(self._snapshot, snapshot)
            self._proxy.states.write_text(states.file(self._proxy.say("show servers state"), kept, fresh))
            self._proxy.apply(text)
        with self._lock:
            self._snapshot, self._given, self._text = snapshot, given, text
            self._carried = generation
        if self._names_file:
            names.publish(self._names_file, {it.dns_name: given[it.arn] for it in snapshot.balancers})

    def _look_after(self) -> None:
        if not self._proxy.is_running:
            self._applied = self._carried
            return
        workers = self._proxy.workers()
        if self._applied != self._carried and self._draining.in_force(workers):
            with self._lock:
                self._applied = self._carried
        self._draining.cut_off(workers)
        self._health.report(self._snapshot)

    def _certificate(self, pem: bytes) -> Path:
        path = self._home / f"{hashlib.sha256(pem).hexdigest()[:32]}.pem"
        if not path.exists():
            path.write_bytes(pem)
        return path


def _told(error: Exception, before: str | None) -> str:
    said = f"{type(error).__name__}: {error}"
    if said != before:
        LOG.error("the data plane: %s", said)
    return said


_engine: Engine | None = None


def start() -> None:
    """Starts the data plane, if there is a HAProxy."""
    global _engine
    if is_installed():
        names_file = os.environ.get(NAMES)
        _engine = Engine(_network(), Path(names_file) if names_file else None)
        _engine.start()


def changed(account: str) -> None:
    """Something of this account may be different now."""
    if _engine:
        _engine.changed(account)


def status() -> dict[str, Any]:
    """The configuration in force, and the next one."""
    if _engine is None:
        return {"generation": 0, "applied": 0, "error": _MISSING, "process": None, "public_key": None, "balancers": []}
    return _engine.status()


def _network() -> IPv4Network:
    """The range of addresses: of the loopback, those of no other LocalStack, by the port it listens on."""
    port = config.GATEWAY_LISTEN[0].port
    return IPv4Network(os.environ.get(ADDRESSES) or f"127.{port >> 8}.{port & 255}.0/24")
