"""Actions of listeners and rules: checked, and settled into what the Describe operations answer.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-action-types.html
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import invalid, validation
from .records import Document

TERMINAL = ("forward", "redirect", "fixed-response")
"""One of these ends every list of actions."""

AUTHENTICATION = ("authenticate-oidc", "authenticate-cognito", "jwt-validation")
"""At most one of these comes before, on HTTPS listeners only."""

MOST_GROUPS = 5
WEEK = 604_800

_CONTENT_TYPES = ("text/plain", "text/css", "text/html", "application/javascript", "application/json")
_CONFIGS = {
    "forward": "ForwardConfig",
    "redirect": "RedirectConfig",
    "fixed-response": "FixedResponseConfig",
    "authenticate-oidc": "AuthenticateOidcConfig",
    "authenticate-cognito": "AuthenticateCognitoConfig",
    "jwt-validation": "JwtValidationConfig",
}
_CLAIM_FORMATS = ("single-string", "string-array", "space-separated-values")
_CHECKED_ANYWAY = ("exp", "iss", "nbf", "iat")


@dataclass(frozen=True)
class Settled:
    """Actions as they are kept, and the client secret among them, which is kept apart."""

    actions: list[Document]
    client_secret: str | None


def settled(asked: Sequence[Mapping[str, Any]], protocol: str, port: int, secret: str | None = None) -> Settled:
    """The actions of a rule on a listener of this protocol and port; `secret` is the one the rule has already."""
    if not asked:
        raise validation("At least one action must be specified")
    for action in asked:
        if action.get("Type") not in _CONFIGS:
            raise validation(f"Action type '{action.get('Type')}' is not valid; there are {', '.join(_CONFIGS)}")
        foreign = [name for name in _CONFIGS.values() if action.get(name) and name != _CONFIGS[action["Type"]]]
        if foreign or (action.get("TargetGroupArn") and action["Type"] != "forward"):
            named = ", ".join(foreign) or "TargetGroupArn"
            raise invalid("InvalidLoadBalancerAction", f"{named} cannot be used with action type '{action['Type']}'")
    ordered = in_order(asked)
    fits_listener(ordered, protocol)
    actions = []
    for action in ordered:
        kept = _settled(action, protocol, port)
        if "Order" in action:
            kept["Order"] = action["Order"]
        if action["Type"] == "authenticate-oidc":
            secret = _client_secret(action["AuthenticateOidcConfig"], secret)
        actions.append(kept)
    return Settled(actions, secret if any(it["Type"] == "authenticate-oidc" for it in actions) else None)


def in_order(asked: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """By Order, which several actions must have; one terminal action, at the end, at most one other before it."""
    if len(asked) > 1:
        orders = [action.get("Order") for action in asked]
        if None in orders:
            raise validation("An action order must be specified when there are several actions")
        if len(set(orders)) < len(orders):
            raise validation("Action orders must be unique")
    for action in asked:
        if not 1 <= action.get("Order", 1) <= 50_000:
            raise validation(f"Action order '{action['Order']}' must be between 1 and 50000")
    ordered = sorted(asked, key=lambda action: action.get("Order", 1))
    terminal = [action["Type"] in TERMINAL for action in ordered]
    if terminal.count(True) != 1 or not terminal[-1]:
        raise invalid(
            "InvalidLoadBalancerAction",
            f"There must be exactly one action of the types {', '.join(TERMINAL)}, and it must be the last",
        )
    if len(ordered) > 2:
        raise invalid("TooManyActions", "At most one authentication action can precede the last action")
    return ordered


def fits_listener(actions: Sequence[Mapping[str, Any]], protocol: str) -> None:
    """Authentication needs HTTPS.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/listener-authenticate-users.html
    """
    for action in actions:
        if action["Type"] in AUTHENTICATION and protocol != "HTTPS":
            raise invalid(
                "InvalidLoadBalancerAction",
                f"Actions of type '{action['Type']}' are supported only on HTTPS listeners",
            )


def _settled(action: Mapping[str, Any], protocol: str, port: int) -> Document:
    kind = action["Type"]
    config = action.get(_CONFIGS[kind])
    if kind == "forward":
        return _forward(action)
    if not config:
        raise validation(f"{_CONFIGS[kind]} must be specified with action type '{kind}'")
    match kind:
        case "redirect":
            answer = _redirect(config, protocol, port)
        case "fixed-response":
            answer = _fixed_response(config)
        case "authenticate-oidc":
            answer = _oidc(config)
        case "authenticate-cognito":
            answer = _cognito(config)
        case _:
            answer = _jwt(config)
    return {"Type": kind, _CONFIGS[kind]: answer}


def _forward(action: Mapping[str, Any]) -> Document:
    """One target group may be named alone; several are weighted. Both forms are answered where there is one.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ForwardActionConfig.html
    """
    alone, config = action.get("TargetGroupArn"), action.get("ForwardConfig") or {}
    groups = [dict(group) for group in config.get("TargetGroups") or []]
    if not groups and alone:
        groups = [{"TargetGroupArn": alone}]
    if not groups:
        raise validation("A target group ARN must be specified")
    if alone and [group.get("TargetGroupArn") for group in groups] != [alone]:
        raise validation("You cannot specify both a target group ARN and a forward config with other target groups")
    if len(groups) > MOST_GROUPS:
        raise validation(f"A forward action can have at most '{MOST_GROUPS}' target groups")
    arns = [group.get("TargetGroupArn") or "" for group in groups]
    if len(set(arns)) < len(arns):
        raise validation("A target group can be specified only once in a forward action")
    for group in groups:
        group.setdefault("Weight", 1)
        if not 0 <= group["Weight"] <= 999:
            raise validation(f"Target group weight '{group['Weight']}' must be between 0 and 999")
    kept: Document = {"Type": "forward"}
    if len(groups) == 1:
        kept["TargetGroupArn"] = arns[0]
    kept["ForwardConfig"] = {"TargetGroups": groups, "TargetGroupStickinessConfig": _stickiness(config)}
    return kept


def _stickiness(config: Mapping[str, Any]) -> Document:
    asked = config.get("TargetGroupStickinessConfig") or {}
    kept: Document = {"Enabled": asked.get("Enabled", False)}
    seconds = asked.get("DurationSeconds")
    if seconds is None and kept["Enabled"]:
        raise validation("A duration must be specified when target group stickiness is enabled")
    if seconds is not None:
        if not 1 <= seconds <= WEEK:
            raise validation(f"Target group stickiness duration '{seconds}' must be between 1 and {WEEK} seconds")
        kept["DurationSeconds"] = seconds
    return kept


def _redirect(config: Mapping[str, Any], protocol: str, port: int) -> Document:
    """Something must change, and HTTPS stays HTTPS.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RedirectActionConfig.html
    """
    same = {"Protocol": "#{protocol}", "Port": "#{port}", "Host": "#{host}", "Path": "/#{path}", "Query": "#{query}"}
    kept = {key: config.get(key, value) for key, value in same.items()}
    kept["StatusCode"] = config.get("StatusCode")
    if kept["StatusCode"] not in ("HTTP_301", "HTTP_302"):
        raise validation(f"Redirect status code '{kept['StatusCode']}' must be HTTP_301 or HTTP_302")
    if kept["Protocol"] not in ("HTTP", "HTTPS", "#{protocol}"):
        raise validation(f"Redirect protocol '{kept['Protocol']}' must be HTTP, HTTPS or #{{protocol}}")
    if kept["Port"] != "#{port}" and not (kept["Port"].isdecimal() and 1 <= int(kept["Port"]) <= 65535):
        raise validation(f"Redirect port '{kept['Port']}' must be from 1 to 65535 or #{{port}}")
    for key, least in (("Host", 1), ("Path", 1), ("Query", 0)):
        if not least <= len(kept[key]) <= 128:
            raise validation(f"Redirect {key.lower()} must have {least} to 128 characters")
    if not kept["Path"].startswith("/"):
        raise validation(f"Redirect path '{kept['Path']}' must start with '/'")
    keywords = {"protocol", "host", "port", "path", "query"}
    for key in ("Host", "Path", "Query"):
        for keyword in re.findall(r"#\{([^}]*)\}", kept[key]):
            if keyword not in keywords:
                raise validation(f"Redirect {key.lower()} uses the unknown keyword '#{{{keyword}}}'")
    if protocol == "HTTPS" and kept["Protocol"] == "HTTP":
        raise invalid("InvalidLoadBalancerAction", "HTTPS cannot be redirected to HTTP")
    stays = (
        kept["Protocol"] in ("#{protocol}", protocol)
        and kept["Port"] in ("#{port}", str(port))
        and kept["Host"] == "#{host}"
        and kept["Path"] == "/#{path}"
    )
    if stays:
        raise invalid(
            "InvalidLoadBalancerAction",
            "The redirect configuration is not valid because it creates a loop: "
            "at least one of protocol, port, host and path must change",
        )
    return kept


def _fixed_response(config: Mapping[str, Any]) -> Document:
    """https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_FixedResponseActionConfig.html"""
    kept = {key: config[key] for key in ("MessageBody", "StatusCode", "ContentType") if key in config}
    if not re.fullmatch(r"[245]\d\d", kept.get("StatusCode", ""), re.ASCII):
        raise validation(f"Fixed response status code '{kept.get('StatusCode')}' must be 2XX, 4XX or 5XX")
    if len(kept.get("MessageBody", "")) > 1024:
        raise validation("A fixed response message body can have at most '1024' characters")
    if "ContentType" in kept and kept["ContentType"] not in _CONTENT_TYPES:
        raise validation(f"Fixed response content type must be one of {', '.join(_CONTENT_TYPES)}")
    return kept


def _oidc(config: Mapping[str, Any]) -> Document:
    """https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_AuthenticateOidcActionConfig.html"""
    for key in ("Issuer", "AuthorizationEndpoint", "TokenEndpoint", "UserInfoEndpoint"):
        _https_url(key, config.get(key))
    if not config.get("ClientId"):
        raise validation("ClientId must be specified")
    shown = {key: value for key, value in config.items() if key not in ("ClientSecret", "UseExistingClientSecret")}
    return shown | _session(config)


def _client_secret(config: Mapping[str, Any], existing: str | None) -> str:
    if config.get("UseExistingClientSecret"):
        if config.get("ClientSecret"):
            raise validation("You cannot specify both a client secret and UseExistingClientSecret")
        if existing is None:
            raise validation("There is no existing client secret to use")
        return existing
    if not config.get("ClientSecret"):
        raise validation("A client secret must be specified")
    return config["ClientSecret"]


def _cognito(config: Mapping[str, Any]) -> Document:
    """https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_AuthenticateCognitoActionConfig.html"""
    for key in ("UserPoolArn", "UserPoolClientId", "UserPoolDomain"):
        if not config.get(key):
            raise validation(f"{key} must be specified")
    if not re.fullmatch(r"arn:[\w-]+:cognito-idp:[\w-]+:\d{12}:userpool/\S+", config["UserPoolArn"], re.ASCII):
        raise validation(f"UserPoolArn '{config['UserPoolArn']}' is not valid")
    return {**config} | _session(config)


def _session(config: Mapping[str, Any]) -> Document:
    kept = {
        "SessionCookieName": config.get("SessionCookieName") or "AWSELBAuthSessionCookie",
        "Scope": config.get("Scope") or "openid",
        "SessionTimeout": config.get("SessionTimeout", WEEK),
        "OnUnauthenticatedRequest": config.get("OnUnauthenticatedRequest") or "authenticate",
    }
    if not 1 <= kept["SessionTimeout"] <= WEEK:
        raise validation(f"SessionTimeout '{kept['SessionTimeout']}' must be between 1 and {WEEK} seconds")
    if kept["OnUnauthenticatedRequest"] not in ("deny", "allow", "authenticate"):
        raise validation(f"OnUnauthenticatedRequest '{kept['OnUnauthenticatedRequest']}' is not valid")
    if len(config.get("AuthenticationRequestExtraParams") or {}) > 10:
        raise validation("At most 10 extra authentication request parameters can be specified")
    return kept


def _jwt(config: Mapping[str, Any]) -> Document:
    """https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_JwtValidationActionConfig.html"""
    _https_url("JwksEndpoint", config.get("JwksEndpoint"))
    for key in ("JwksEndpoint", "Issuer"):
        if not 1 <= len(config.get(key) or "") <= 256:
            raise validation(f"{key} must have 1 to 256 characters")
    claims = config.get("AdditionalClaims") or []
    if len(claims) > 10:
        raise validation("At most 10 additional claims can be specified")
    for claim in claims:
        if claim.get("Format") not in _CLAIM_FORMATS:
            raise validation(f"Claim format '{claim.get('Format')}' must be one of {', '.join(_CLAIM_FORMATS)}")
        if not claim.get("Name") or claim["Name"] in _CHECKED_ANYWAY:
            raise validation(f"Claim name '{claim.get('Name')}' is not valid")
        values = claim.get("Values") or []
        if not 1 <= len(values) <= 10 or any(len(value) > 256 for value in values):
            raise validation(f"Claim '{claim['Name']}' must have 1 to 10 values of at most 256 characters")
        if claim["Format"] == "space-separated-values" and any(" " in value for value in values):
            raise validation(f"The values of claim '{claim['Name']}' cannot include spaces")
    return dict(config)


def _https_url(key: str, url: str | None) -> None:
    if not re.fullmatch(r"https://[^/\s]+\S*", url or ""):
        raise validation(f"{key} '{url}' must be a full URL that begins with https://")
