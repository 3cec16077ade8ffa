"""The first calls of a service, many at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from localstack.aws.api import RequestContext
from localstack.aws.handlers.service import ServiceRequestRouter
from localstack.aws.handlers.service_plugin import ServiceLoader
from localstack.aws.skeleton import Skeleton
from localstack.aws.spec import load_service
from localstack.services.plugins import Service, ServiceManager

from causeway_localstack import loading


class SlowRouter(ServiceRequestRouter):
    """Adds handlers only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.adding, self.go_on = threading.Event(), threading.Event()

    def add_skeleton(self, skeleton: Skeleton) -> None:
        """Says that it begins, and waits."""
        self.adding.set()
        assert self.go_on.wait(10)
        super().add_skeleton(skeleton)


def test_a_second_first_call_waits_for_the_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of two calls that come at once may find a service without operations."""
    monkeypatch.setattr(ServiceLoader, "require_service", ServiceLoader.require_service)
    loading.install()
    sns = load_service("sns")
    manager, router = ServiceManager(), SlowRouter()
    manager.add_service(Service("sns", skeleton=Skeleton(sns, {"ListTopics": lambda *_: {}})))
    loader, context = ServiceLoader(manager, router), RequestContext(None)
    context.service = sns

    def handlers_after_loading() -> int:
        nothing: Any = None
        loader(nothing, context, nothing)
        return len(router.handlers)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(handlers_after_loading)
        assert router.adding.wait(10)
        second = pool.submit(handlers_after_loading)
        with pytest.raises(TimeoutError):
            second.result(0.2)
        router.go_on.set()
        assert [first.result(10), second.result(10)] == [1, 1]
