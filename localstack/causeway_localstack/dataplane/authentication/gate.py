"""Answers HAProxy whether a request may go on: a small server on the loopback, a thread of ours."""

import hashlib
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ..model import Balancer, Rule, Snapshot
from . import calls, tokens
from .login import BACK, Answer, Desk, Login, Request, refused
from .sessions import cookies

SCRIPT = Path(__file__).with_name("gate.lua")
"""The script that HAProxy runs."""
CARRIED = ("authenticate-oidc", "jwt-validation")
"""The types of actions that are known here. Cognito's endpoints are AWS's own."""
KEPT = 5000
"""Rules that are remembered, the last ones: old workers of HAProxy finish what they began."""

LOG = logging.getLogger(__name__)


def authentication(rule: Rule) -> dict[str, Any] | None:
    """The action of a rule that authenticates, if it has one that is carried."""
    first = rule.actions[0]
    return dict(first) if first["Type"] in CARRIED else None


def key(balancer: Balancer, rule: Rule) -> str:
    """The name of a rule's authentication: it changes with all that matters, the secret too."""
    content = json.dumps([balancer.arn, authentication(rule), rule.client_secret], sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()


class Gate:
    """Knows every rule that authenticates."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Login | dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self._desk = Desk()
        self._keys = tokens.Keys()
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                try:
                    answer = gate.answer(self.path.strip("/"), headers)
                except Exception:
                    LOG.exception("the gate")
                    answer = refused(500, "The gate of the local data plane failed.")
                self.send_response(answer.status)
                if answer.passes:
                    self.send_header("x-pass", "true")
                for name, value in answer.headers:
                    self.send_header(name, value)
                body = answer.text.encode()
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None:
                """HAProxy hangs up when its client does."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, name="gate", daemon=True).start()

    @property
    def public_key(self) -> dict[str, Any]:
        """By which targets check what they are told of a user."""
        return {"kid": self._desk.signer.kid, **self._desk.signer.public}

    def learn(self, snapshot: Snapshot) -> None:
        """Before HAProxy asks about them."""
        with self._lock:
            for balancer in snapshot.balancers:
                for rule in _rules(balancer):
                    action = authentication(rule)
                    if action is None:
                        continue
                    name = key(balancer, rule)
                    if action["Type"] == "jwt-validation":
                        self._known[name] = action["JwtValidationConfig"]
                    else:
                        config = action["AuthenticateOidcConfig"]
                        self._known[name] = Login(balancer.arn, config, rule.client_secret or "")
                    self._known.move_to_end(name)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)

    def answer(self, name: str, headers: dict[str, str]) -> Answer:
        """About a request with these headers that meets the rule."""
        request = Request(
            headers.get("x-method", ""),
            headers.get("x-host", ""),
            headers.get("x-url", ""),
            cookies(headers.get("cookie", "")),
        )
        if name == "back":
            return self._desk.back(self._login, request)
        with self._lock:
            known = self._known.get(name)
        if known is None:
            return refused(500, "The rule is not known.")
        if isinstance(known, Login):
            return self._desk.check(known, name, request)
        try:
            good = tokens.is_good(known, headers.get("authorization", ""), self._keys)
        except (calls.ProviderError, calls.Refusal) as error:
            return refused(500, str(error))
        return Answer(passes=True) if good else refused(401, "A valid token is required.")

    def _login(self, name: str) -> Login | None:
        with self._lock:
            known = self._known.get(name)
        return known if isinstance(known, Login) else None


def _rules(balancer: Balancer) -> Iterable[Rule]:
    return (rule for listener in balancer.listeners for rule in listener.rules)


__all__ = ["BACK", "SCRIPT", "Gate", "authentication", "key"]
