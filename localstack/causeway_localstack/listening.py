"""Listening where GATEWAY_LISTEN says: LocalStack's server takes only the port from it and listens on every address."""

import functools
from types import SimpleNamespace
from typing import Any

import localstack.runtime.server.twisted as server
from localstack import config


def install() -> None:
    """Gives the server endpoints that know their address; call before it starts."""
    twisteds = server.endpoints
    hosts = {it.port: it.host for it in config.GATEWAY_LISTEN}

    def on_its_address(kind: Any) -> Any:
        @functools.wraps(kind)
        def endpoint(reactor: Any, port: int, interface: str | None = None) -> Any:
            return kind(reactor, port, interface=interface or hosts.get(port, ""))

        return endpoint

    server.endpoints = SimpleNamespace(
        TCP4ServerEndpoint=on_its_address(twisteds.TCP4ServerEndpoint),
        TCP6ServerEndpoint=on_its_address(twisteds.TCP6ServerEndpoint),
    )
