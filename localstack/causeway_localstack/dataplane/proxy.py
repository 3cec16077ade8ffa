"""The HAProxy process: a master that outlives its workers, each of which has one configuration.

A reload starts a worker that takes over the listening sockets; the old one finishes the requests under way.
"""

import functools
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "haproxy"

_RELOAD_TIMEOUT = 10.0
"""Seconds a start or reload may take."""
_HEARD = 1.0
"""Seconds after which a master that says nothing of a reload has not heard of it."""


class ProxyError(Exception):
    """HAProxy does not do what it is told; the message says why, in its words."""


@dataclass(frozen=True)
class Workers:
    """The processes that carry requests, by their ids."""

    current: int
    old: frozenset[int]
    """Those that still have requests under way, or clients they have not told to go."""


@functools.cache
def is_installed() -> bool:
    """Reports whether there is a HAProxy to run, and what lets it end with us."""
    return bool(shutil.which(PROGRAM) and shutil.which("setpriv"))


class Proxy:
    """HAProxy with all its files in one folder."""

    def __init__(self, home: Path) -> None:
        self.states = home / "states"
        """The file with the states that servers begin with; written before each `apply`."""
        self._configuration = home / "haproxy.cfg"
        self._log = home / "haproxy.log"
        self._control = home / "control"
        self._process: subprocess.Popen[bytes] | None = None
        self._workers: list[int] = []
        """The newest last."""

    @property
    def is_running(self) -> bool:
        """Reports whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> int | None:
        """The master's id, if it runs."""
        return self._process.pid if self._process and self.is_running else None

    def apply(self, configuration: str) -> None:
        """Makes this the configuration; if it is a wrong one, nothing changes."""
        new = self._configuration.with_suffix(".new")
        new.write_text(configuration)
        checked = subprocess.run([PROGRAM, "-c", "-f", new], capture_output=True, text=True)
        if checked.returncode:
            raise ProxyError(_alerts(checked.stderr))
        os.replace(new, self._configuration)
        if self._process and self.is_running:
            self._reload(self._process)
        else:
            self._start()

    def workers(self) -> Workers:
        """The processes now."""
        *old, current = self._workers
        alive = [worker for worker in old if Path(f"/proc/{worker}").exists()]
        self._workers = [*alive, current]
        return Workers(current, frozenset(alive))

    def ask(self, worker: int, command: str) -> str:
        """A worker's answer; an empty one if it has ended."""
        try:
            return self._master(f"@!{worker} {command}")
        except OSError:
            return ""

    def say(self, command: str) -> str:
        """The current worker's answer; an empty one if there is none."""
        return self.ask(self.workers().current, command) if self.is_running else ""

    def _start(self) -> None:
        # With setpriv it ends when we do, however that is.
        command = ["setpriv", "--pdeathsig", "TERM", PROGRAM, "-W", "-S", self._control, "-f", self._configuration]
        begin = self._end_of_log()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._workers = []
        self._await_worker(self._process, begin)

    def _reload(self, process: subprocess.Popen[bytes]) -> None:
        begin = self._end_of_log()
        process.send_signal(signal.SIGUSR2)
        self._await_worker(process, begin, again=signal.SIGUSR2)

    def _await_worker(self, process: subprocess.Popen[bytes], begin: int, again: signal.Signals | None = None) -> None:
        """Follows the log until the master says how it went. A signal that it has not heard, because it was just
        executing itself again, is sent `again`."""
        now = time.monotonic()
        until, unheard = now + _RELOAD_TIMEOUT, now + _HEARD
        while time.monotonic() < until:
            said = self._said_since(begin)
            if again and "Reloading HAProxy" not in said and time.monotonic() > unheard:
                process.send_signal(again)
                unheard += _HEARD
            worker = re.search(r"New worker \((\d+)\) forked", said)
            if worker and "Loading success" in said:
                self._workers.append(int(worker[1]))
                return
            if "Loading failure" in said or process.poll() is not None:
                raise ProxyError(_alerts(said))
            time.sleep(0.01)
        raise ProxyError(f"HAProxy has no new worker after {_RELOAD_TIMEOUT:g} s")

    def _said_since(self, begin: int) -> str:
        with self._log.open(errors="replace") as log:
            log.seek(begin)
            return log.read()

    def _end_of_log(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def _master(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(5)
            control.connect(str(self._control))
            control.sendall(f"{command}\n".encode())
            control.shutdown(socket.SHUT_WR)
            answer = bytearray()
            while part := control.recv(1 << 16):
                answer += part
        return answer.decode()


def _alerts(said: str) -> str:
    alerts = [line for line in said.splitlines() if line.startswith("[ALERT]")]
    return "\n".join(alerts) or said.strip() or "HAProxy ended without a word"
