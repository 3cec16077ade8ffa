"""AWS's errors, as the services phrase them."""

from localstack.aws.api import CommonServiceException


def invalid(code: str, message: str, status: int = 400) -> CommonServiceException:
    """An error the caller made; raise it."""
    return CommonServiceException(code, message, status_code=status, sender_fault=True)


def validation(message: str) -> CommonServiceException:
    """A parameter that cannot be right whatever exists."""
    return invalid("ValidationError", message)


def access_denied(message: str) -> CommonServiceException:
    """The caller may not do this."""
    return invalid("AccessDenied", message, 403)
