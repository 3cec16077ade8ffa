"""Who calls: the account its access key names, or the role its session assumed."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localstack.aws.api import RequestContext
from localstack.utils.aws.request_context import extract_access_key_id_from_auth_header

from .errors import invalid


@dataclass(frozen=True)
class Caller:
    """Whom AWS would see."""

    account: str
    principal: str
    role: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    """Of the session."""


@dataclass(frozen=True)
class Session:
    """Credentials from AssumeRole and AssumeRoleWithWebIdentity."""

    caller: Caller
    expires: float


_sessions: dict[str, Session] = {}
_lock = threading.Lock()


def remember(context: RequestContext) -> None:
    """Keeps the session a successful AssumeRole* call has just given out."""
    request = context.service_request
    tags = {tag["Key"]: tag.get("Value") or "" for tag in request.get("Tags") or []}
    keep(request["RoleArn"], context.service_response, tags)


def keep(role: str, answer: Mapping[str, Any], tags: Mapping[str, str]) -> None:
    """Keeps a session of a role, as STS answered, with its tags."""
    credentials = answer["Credentials"]
    caller = Caller(account=account_of(role), principal=answer["AssumedRoleUser"]["Arn"], role=role, tags=tags)
    with _lock:
        _sessions[credentials["AccessKeyId"]] = Session(caller, credentials["Expiration"].timestamp())


def caller(context: RequestContext) -> Caller:
    """The call's caller, whether or not its credentials are still good."""
    session = _session(context)
    if session:
        return session.caller
    if context.operation.name == "AssumeRoleWithWebIdentity":
        account = account_of(context.service_request.get("RoleArn", "")) or context.account_id
        return Caller(account=account, principal="anonymous")
    return Caller(account=context.account_id, principal=f"arn:aws:iam::{context.account_id}:root")


def check_session(context: RequestContext) -> None:
    """A session's credentials must be known and not expired."""
    session = _session(context)
    if session is None:
        if (_access_key(context) or "").startswith(("LSIA", "ASIA")):
            raise invalid("InvalidClientTokenId", "The security token included in the request is invalid.", 403)
    elif time.time() > session.expires:
        raise invalid("ExpiredToken", "The security token included in the request is expired", 403)


def account_of(arn: str) -> str:
    """The account an ARN names, or nothing."""
    parts = arn.split(":")
    return parts[4] if len(parts) > 5 else ""


def _session(context: RequestContext) -> Session | None:
    return _sessions.get(_access_key(context) or "")


def _access_key(context: RequestContext) -> str | None:
    return extract_access_key_id_from_auth_header(context.request.headers)
