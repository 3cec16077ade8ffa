"""Attributes of an application load balancer's listeners.

https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ListenerAttribute.html
"""

import re
from collections.abc import Mapping

from ..errors import validation

_REQUEST = "routing.http.request."
_RESPONSE = "routing.http.response."

_RENAMED = {
    f"{_REQUEST}{name}.header_name": default
    for name, default in {
        "x_amzn_mtls_clientcert_serial_number": "X-Amzn-Mtls-Clientcert-Serial-Number",
        "x_amzn_mtls_clientcert_issuer": "X-Amzn-Mtls-Clientcert-Issuer",
        "x_amzn_mtls_clientcert_subject": "X-Amzn-Mtls-Clientcert-Subject",
        "x_amzn_mtls_clientcert_validity": "X-Amzn-Mtls-Clientcert-Validity",
        "x_amzn_mtls_clientcert_leaf": "X-Amzn-Mtls-Clientcert-Leaf",
        "x_amzn_mtls_clientcert": "X-Amzn-Mtls-Clientcert",
        "x_amzn_tls_version": "X-Amzn-Tls-Version",
        "x_amzn_tls_cipher_suite": "X-Amzn-Tls-Cipher-Suite",
    }.items()
}
"""Headers the load balancer adds to requests on HTTPS listeners, whose names can be changed."""

_VALUES = {
    f"{_RESPONSE}{name}.header_value": pattern
    for name, pattern in {
        "strict_transport_security": r"max-age=\d+.*",
        "access_control_allow_origin": r"\*|null|https?://\S+",
        "access_control_allow_methods": r"\*|[A-Z]+(\s*,\s*[A-Z]+)*",
        "access_control_allow_headers": r"\S.*",
        "access_control_allow_credentials": r"true|false",
        "access_control_expose_headers": r"\S.*",
        "access_control_max_age": r"\d+",
        "content_security_policy": r"\S.*",
        "x_content_type_options": r"nosniff",
        "x_frame_options": r"DENY|SAMEORIGIN|ALLOW-FROM \S+",
    }.items()
}
"""Headers the load balancer puts into responses; nothing unless set."""

_SERVER = f"{_RESPONSE}server.enabled"
_TCP = "tcp.idle_timeout.seconds"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}", re.ASCII)
_LONGEST = 1024


def defaults(protocol: str) -> dict[str, str]:
    """The attributes of a new listener of this protocol."""
    if protocol not in ("HTTP", "HTTPS"):
        return {_TCP: "350"}
    values = dict.fromkeys(_VALUES, "") | {_SERVER: "true"}
    return values | (_RENAMED if protocol == "HTTPS" else {})


def lawful(attributes: Mapping[str, str], protocol: str) -> None:
    """Keys a listener of this protocol has, with values that can be header names or values."""
    for key, value in attributes.items():
        if key not in defaults(protocol):
            raise validation(f"Listener attribute key '{key}' is not recognized for {protocol} listeners")
        if key == _SERVER:
            good = value in ("true", "false")
        elif key == _TCP:
            good = value.isdecimal() and 60 <= int(value) <= 6000
        elif key in _RENAMED:
            good = _NAME.fullmatch(value) is not None
        else:
            good = value == "" or (len(value) <= _LONGEST and re.fullmatch(_VALUES[key], value) is not None)
        if not good:
            raise validation(f"Listener attribute '{key}' cannot have the value '{value}'")
