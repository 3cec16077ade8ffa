"""The routes under `/_causeway`, by which tests read and steer all this. README.md shows them in use."""

import json
import os
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError
from localstack.aws.api import CommonServiceException
from localstack.constants import DEFAULT_AWS_ACCOUNT_ID
from localstack.http import Request, Response, Router

from . import fleet, pod_identity, roles, settings, web_identity
from .dataplane import engine as dataplane
from .dataplane.authentication import calls
from .faults import faults
from .journal import journal
from .seed import seed
from .throttling import throttle

VERSION = "CAUSEWAY_LOCALSTACK_VERSION"
"""The variable by which the starting process marks this one, to recognise it later."""

Answer = Callable[..., Any]


def install(router: Router[Any]) -> None:
    """Adds the routes to LocalStack's."""
    for path, answers in _ROUTES.items():
        router.add(f"/_causeway/{path}", _answering(answers), methods=list(answers))


def _version(request: Request) -> Any:
    return {"version": os.environ.get(VERSION, "")}


def _read_journal(request: Request) -> Any:
    wanted = request.args.get("parameters", "false") == "true"
    return journal.read(_account_or_all(request), int(request.args.get("since", 0)), wanted)


def _clear_journal(request: Request) -> Any:
    journal.clear(_account_or_all(request))
    return {}


def _add_fault(request: Request) -> Any:
    return faults.add(_body(request)).as_json()


def _read_faults(request: Request) -> Any:
    return faults.read(_account_or_all(request))


def _clear_faults(request: Request) -> Any:
    faults.clear(_account_or_all(request))
    return {}


def _read_settings(request: Request) -> Any:
    return settings.as_json(settings.of(_account(request)))


def _change_settings(request: Request) -> Any:
    account = _account(request)
    changed = settings.change(account, _body(request))
    dataplane.changed(account)
    return settings.as_json(changed)


def _seed(request: Request) -> Any:
    return seed(_account(request), request.args.get("region", "us-east-1"))


def _reset(request: Request) -> Any:
    account = _account(request)
    fleet.forget(account)
    faults.clear(account)
    settings.reset(account)
    throttle.forget(account)
    dataplane.changed(account)
    return {}


def _read_dataplane(request: Request) -> Any:
    return dataplane.status()


def _trust_issuer(request: Request) -> Any:
    wanted = _body(request)
    web_identity.trust_issuer(wanted["issuer"], wanted["jwks"])
    return {}


def _trust_authority(request: Request) -> Any:
    calls.trust(_body(request)["pem"])
    return {}


def _put_role(request: Request) -> Any:
    wanted = _body(request)
    policies, tags = wanted.get("policies") or {}, wanted.get("tags") or {}
    return {"arn": roles.put(_account(request), wanted["name"], wanted["trust_policy"], policies, tags)}


def _assume_for_pod(request: Request) -> Any:
    wanted = _body(request)
    return pod_identity.assume(wanted["role"], wanted["tags"])


_ROUTES: dict[str, dict[str, Answer]] = {
    "version": {"GET": _version},
    "journal": {"GET": _read_journal, "DELETE": _clear_journal},
    "faults": {"POST": _add_fault, "GET": _read_faults, "DELETE": _clear_faults},
    "settings": {"POST": _change_settings, "GET": _read_settings},
    "seed": {"POST": _seed},
    "reset": {"POST": _reset},
    "dataplane": {"GET": _read_dataplane},
    "oidc": {"POST": _trust_issuer},
    "authorities": {"POST": _trust_authority},
    "role": {"POST": _put_role},
    "pod-identity": {"POST": _assume_for_pod},
}


def _answering(answers: dict[str, Answer]) -> Callable[..., Response]:
    def answer(request: Request, **_: Any) -> Response:
        try:
            return _json(answers[request.method](request))
        except (ClientError, CommonServiceException, KeyError, TypeError, ValueError) as error:
            return _json({"error": f"{type(error).__name__}: {error}"}, 400)

    return answer


def _account(request: Request) -> str:
    return request.args.get("account", DEFAULT_AWS_ACCOUNT_ID)


def _account_or_all(request: Request) -> str | None:
    return request.args.get("account")


def _body(request: Request) -> dict[str, Any]:
    body = request.get_json(force=True)
    if not isinstance(body, dict):
        raise TypeError("the body must be a JSON object")
    return body


def _json(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value), status=status, mimetype="application/json")
