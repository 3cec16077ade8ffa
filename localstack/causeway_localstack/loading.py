"""Loading of services at their first call, which LocalStack calls done before it is."""

from typing import Any

from localstack.aws.api import RequestContext
from localstack.aws.chain import HandlerChain
from localstack.aws.handlers.service_plugin import ServiceLoader


def install() -> None:
    """Lets the other first calls of a service wait until its operations have handlers.

    LocalStack marks a service as loaded and then adds its handlers. A call that arrives in between is answered with
    501 "no handler for operation", as if AWS did not know the operation.
    """
    load = ServiceLoader.require_service

    def load_alone(self: ServiceLoader, chain: HandlerChain, context: RequestContext, response: Any) -> None:
        if not context.service:
            return
        with self.service_locks[context.service.service_name]:
            load(self, chain, context, response)

    ServiceLoader.require_service = load_alone
