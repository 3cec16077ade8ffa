"""The way of a client through its provider, as AWS documents it.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html (2026-11-23)
https://repost.aws/knowledge-center/elb-configure-authentication-alb (2026-11-23): the nonce's cookie, and statuses.
https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-troubleshooting.html (2026-11-23): 401
where a log-in is not over within 15 minutes or its state is wrong, 500 where the provider cannot be reached or says too
much, 561 where it says no.

The pages were read as stored excerpts. The 15 minutes, 561 and 11K did not appear in them: they are from memory, and
docs/real-aws.md asks users with an account to try them.
"""

import base64
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from . import calls, sessions
from .sessions import Seal
from .tokens import Signer

BACK = "/oauth2/idpresponse"
"""Where providers send clients back to."""
NONCE = "AWSALBAuthNonce"
LOGIN_TIMEOUT = 15 * 60
"""Seconds that a client has to log in."""


@dataclass(frozen=True)
class Login:
    """A rule's authentication."""

    balancer: str
    config: Mapping[str, Any]
    secret: str

    @property
    def purpose(self) -> str:
        """The scope of sessions: rules of the same balancer with the same provider and cookie share them."""
        config = self.config
        return json.dumps([self.balancer, config["Issuer"], config["ClientId"], config["SessionCookieName"]])


@dataclass(frozen=True)
class Request:
    """The relevant parts of a client's request."""

    method: str
    host: str
    url: str
    cookies: Mapping[str, str]


@dataclass(frozen=True)
class Answer:
    """Go on, with these headers; or what the client gets instead."""

    passes: bool = False
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    text: str = ""


@dataclass
class Desk:
    """Where clients log in, and show that they have."""

    seal: Seal = field(default_factory=Seal)
    signer: Signer = field(default_factory=Signer)

    def check(self, login: Login, key: str, request: Request) -> Answer:
        """A request that meets the rule."""
        held = sessions.joined(login.config["SessionCookieName"], request.cookies)
        session = self.seal.open(login.purpose, held) if held else None
        if session and session["until"] > time.time():
            fresh = self._refreshed(login, session)
            if fresh:
                cookies = () if fresh is session else self._cookies(login, fresh)
                return Answer(passes=True, headers=(*self._about(login, fresh), *cookies))
        match login.config["OnUnauthenticatedRequest"]:
            case "allow":
                return Answer(passes=True)
            case "deny":
                return refused(401, "Authorization is required.")
            case _:
                return self._send_away(login, key, request)

    def back(self, find: Any, request: Request) -> Answer:
        """A client that the provider has sent back; `find` knows log-ins by their keys."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(request.url).query).items()}
        state = self.seal.open("state", query.get("state", ""))
        if state is None:
            return refused(401, "The state is missing or wrong.")
        if state["until"] < time.time():
            return refused(401, "The log-in took too long.")
        if request.cookies.get(NONCE) != state["nonce"]:
            return refused(401, "Another client began the log-in.")
        login = find(state["key"])
        if login is None:
            return refused(401, "The rule is not there any more.")
        if "error" in query or "code" not in query:
            return refused(561, f"The provider says: {query.get('error', 'no code')}.")
        try:
            session = self._begun(login, query["code"], _redirect_uri(request))
        except calls.Refusal as refusal:
            return refused(561, str(refusal))
        except calls.ProviderError as error:
            return refused(500, str(error))
        if len(json.dumps(session["claims"])) + len(session["access"]) > sessions.MOST:
            return refused(500, "The provider says more of the user than a session holds.")
        gone = ("set-cookie", sessions.cookie(NONCE, "", 0))
        headers = (("location", state["url"]), *self._cookies(login, session), gone)
        return Answer(status=302, headers=headers)

    def _send_away(self, login: Login, key: str, request: Request) -> Answer:
        nonce = base64.urlsafe_b64encode(os.urandom(18)).decode()
        url = f"https://{request.host}{request.url}"
        state = self.seal.close("state", {"key": key, "url": url, "nonce": nonce, "until": time.time() + LOGIN_TIMEOUT})
        config = login.config
        asked = {
            "client_id": config["ClientId"],
            "redirect_uri": _redirect_uri(request),
            "response_type": "code",
            "scope": config["Scope"],
            "state": state,
        } | dict(config.get("AuthenticationRequestExtraParams") or {})
        endpoint = config["AuthorizationEndpoint"]
        location = f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"
        cookie = sessions.cookie(NONCE, nonce, LOGIN_TIMEOUT)
        return Answer(status=302, headers=(("location", location), ("set-cookie", cookie)))

    def _begun(self, login: Login, code: str, redirect_uri: str) -> dict[str, Any]:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        granted = _granted(login, form)
        claims = calls.ask(login.config["UserInfoEndpoint"], headers={"Authorization": f"Bearer {granted['access']}"})
        if not isinstance(claims, dict) or not isinstance(claims.get("sub"), str):
            raise calls.ProviderError("the user info has no sub")
        return granted | {"claims": claims, "until": time.time() + login.config["SessionTimeout"]}

    def _refreshed(self, login: Login, session: dict[str, Any]) -> dict[str, Any] | None:
        """The session, with a new access token where the old one is expired and the provider gives another.

        A session without a refresh token lasts until it times out; one whose refresh fails is over.
        """
        if session["expires"] is None or session["expires"] > time.time() or not session["refresh"]:
            return session
        form = {"grant_type": "refresh_token", "refresh_token": session["refresh"]}
        try:
            granted = _granted(login, form)
            headers = {"Authorization": f"Bearer {granted['access']}"}
            claims = calls.ask(login.config["UserInfoEndpoint"], headers=headers)
        except (calls.Refusal, calls.ProviderError):
            return None
        granted["refresh"] = granted["refresh"] or session["refresh"]
        return session | granted | {"claims": claims}

    def _cookies(self, login: Login, session: dict[str, Any]) -> tuple[tuple[str, str], ...]:
        value = self.seal.close(login.purpose, session)
        lasting = max(round(session["until"] - time.time()), 1)
        split = sessions.split(login.config["SessionCookieName"], value, lasting)
        return tuple(("set-cookie", cookie) for cookie in split)

    def _about(self, login: Login, session: dict[str, Any]) -> tuple[tuple[str, str], ...]:
        """The headers about the user for targets."""
        return (
            ("x-amzn-oidc-accesstoken", session["access"]),
            ("x-amzn-oidc-identity", session["claims"]["sub"]),
            ("x-amzn-oidc-data", self.signer.signed(login.balancer, login.config, session["claims"])),
        )


def _granted(login: Login, form: dict[str, str]) -> dict[str, Any]:
    """Fetches the tokens of the client whose secret we hold."""
    config = login.config
    pair = f"{quote(config['ClientId'], safe='')}:{quote(login.secret, safe='')}".encode()
    headers = {
        "Authorization": f"Basic {base64.b64encode(pair).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    answer = calls.ask(config["TokenEndpoint"], urlencode(form).encode(), headers)
    if not isinstance(answer, dict) or not isinstance(answer.get("access_token"), str):
        raise calls.ProviderError("the token endpoint gives no access token")
    seconds = answer.get("expires_in")
    expires = time.time() + seconds if isinstance(seconds, int | float) else None
    return {"access": answer["access_token"], "refresh": answer.get("refresh_token"), "expires": expires}


def _redirect_uri(request: Request) -> str:
    return f"https://{request.host}{BACK}"


def refused(status: int, text: str) -> Answer:
    """The answer to a client that may not continue."""
    return Answer(status=status, headers=(("content-type", "text/plain"),), text=f"{text}\n")
