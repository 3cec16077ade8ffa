"""What LocalStack calls as it starts."""

from localstack.aws import handlers
from localstack.runtime import hooks
from localstack.services.edge import ROUTER

from . import admin, calls, connection, listening


@hooks.on_infra_start()
def install() -> None:
    """Puts our handlers around every call and our routes beside LocalStack's."""
    listening.install()
    connection.install()
    handlers.serve_custom_service_request_handlers.append(calls.before)
    handlers.run_custom_response_handlers.append(calls.after)
    handlers.run_custom_finalizers.append(calls.finish)
    admin.install(ROUTER)
