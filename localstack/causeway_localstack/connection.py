"""Closing a client's connection instead of answering, which LocalStack's server has no way to ask for."""

from typing import Any

import rolo.serving.twisted as server
from localstack.aws.api import RequestContext
from twisted.internet import reactor

_KEY = "causeway.request"


def install() -> None:
    """Lets every request's environment carry the server's own request, and with it the connection."""
    update = server.update_wsgi_environment

    def update_and_remember(environ: dict[str, Any], request: Any) -> None:
        update(environ, request)
        environ[_KEY] = request

    server.update_wsgi_environment = update_and_remember


def drop(context: RequestContext) -> None:
    """Resets the connection at once; whatever is written to it afterwards goes nowhere."""
    request = context.request.environ[_KEY]

    def reset() -> None:
        # A client that has gone already has taken the channel with it.
        if request.channel:
            request.channel.forceAbortClient()

    reactor.callFromThread(reset)
