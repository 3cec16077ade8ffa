"""The entry point that LocalStack calls as it starts."""

import gc

from localstack.aws import handlers, spec
from localstack.runtime import hooks
from localstack.services.edge import ROUTER

from . import admin, calls, connection, found_by_tags, listening, loading, models
from .dataplane import engine, watching


@hooks.on_infra_start()
def install() -> None:
    """Puts our handlers around every call and our routes beside LocalStack's."""
    models.add_to(spec.loader)
    listening.install()
    loading.install()
    connection.install()
    found_by_tags.install()
    handlers.serve_custom_service_request_handlers.append(calls.before)
    handlers.run_custom_response_handlers.append(calls.after)
    handlers.run_custom_response_handlers.append(watching.after)
    handlers.run_custom_finalizers.append(calls.finish)
    admin.install(ROUTER)
    engine.start()
    # Imported modules stay for good. The collector looked at all of it again and again: a tenth of LocalStack's time.
    gc.freeze()
    gc.set_threshold(50_000)
