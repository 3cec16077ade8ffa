"""AWS's errors, as the services phrase them."""

import base64
import secrets

from localstack.aws.api import CommonServiceException


def invalid(code: str, message: str, status: int = 400) -> CommonServiceException:
    """An error the caller made; raise it."""
    return CommonServiceException(code, message, status_code=status, sender_fault=True)


def validation(message: str) -> CommonServiceException:
    """A parameter that cannot be right whatever exists."""
    return invalid("ValidationError", message)


_DENIALS = {
    "acm": ("AccessDeniedException", 400, ""),
    "ec2": ("UnauthorizedOperation", 403, "You are not authorized to perform this operation. "),
    "resourcegroupstaggingapi": ("AccessDeniedException", 400, ""),
    "wafv2": ("AccessDeniedException", 400, ""),
}
"""Code, status and first words where they are not those of most services."""


def access_denied(message: str, service: str = "") -> CommonServiceException:
    """The caller may not do this, as the service says it.

    EC2 adds details that only its account can read, and that are others with every call:
    https://docs.aws.amazon.com/STS/latest/APIReference/API_DecodeAuthorizationMessage.html
    """
    code, status, words = _DENIALS.get(service, ("AccessDenied", 403, ""))
    if service == "ec2":
        details = base64.urlsafe_b64encode(secrets.token_bytes(240)).decode()
        message = f"{message}. Encoded authorization failure message: {details}"
    return invalid(code, words + message, status)
