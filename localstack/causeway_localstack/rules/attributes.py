"""Attributes of an application load balancer.

https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_LoadBalancerAttribute.html
"""

from collections.abc import Mapping

from botocore.exceptions import ClientError
from localstack.aws.connect import connect_to

from ..errors import invalid, validation
from ..fleet import Fleet

_SWITCH = ("true", "false")

_CHOICES: dict[str, tuple[str, ...]] = {
    "access_logs.s3.enabled": _SWITCH,
    "connection_logs.s3.enabled": _SWITCH,
    "deletion_protection.enabled": _SWITCH,
    "health_check_logs.s3.enabled": _SWITCH,
    "ipv6.deny_all_igw_traffic": _SWITCH,
    "load_balancing.cross_zone.enabled": ("true",),
    "routing.http.desync_mitigation_mode": ("monitor", "defensive", "strictest"),
    "routing.http.drop_invalid_header_fields.enabled": _SWITCH,
    "routing.http.preserve_host_header.enabled": _SWITCH,
    "routing.http.x_amzn_tls_version_and_cipher_suite.enabled": _SWITCH,
    "routing.http.xff_client_port.enabled": _SWITCH,
    "routing.http.xff_header_processing.mode": ("append", "preserve", "remove"),
    "routing.http2.enabled": _SWITCH,
    "waf.fail_open.enabled": _SWITCH,
    "zonal_shift.config.enabled": _SWITCH,
}
_RANGES: dict[str, range] = {
    "idle_timeout.timeout_seconds": range(1, 4001),
    "client_keep_alive.seconds": range(60, 604801),
}
_LOGS = ("access_logs", "connection_logs", "health_check_logs")
_TEXTS = {f"{logs}.s3.{name}" for logs in _LOGS for name in ("bucket", "prefix")}

_DEFAULTS: Mapping[str, str] = {
    "access_logs.s3.enabled": "false",
    "access_logs.s3.bucket": "",
    "access_logs.s3.prefix": "",
    "client_keep_alive.seconds": "3600",
    "connection_logs.s3.enabled": "false",
    "connection_logs.s3.bucket": "",
    "connection_logs.s3.prefix": "",
    "deletion_protection.enabled": "false",
    "health_check_logs.s3.enabled": "false",
    "health_check_logs.s3.bucket": "",
    "health_check_logs.s3.prefix": "",
    "idle_timeout.timeout_seconds": "60",
    "load_balancing.cross_zone.enabled": "true",
    "routing.http.desync_mitigation_mode": "defensive",
    "routing.http.drop_invalid_header_fields.enabled": "false",
    "routing.http.preserve_host_header.enabled": "false",
    "routing.http.x_amzn_tls_version_and_cipher_suite.enabled": "false",
    "routing.http.xff_client_port.enabled": "false",
    "routing.http.xff_header_processing.mode": "append",
    "routing.http2.enabled": "true",
    "waf.fail_open.enabled": "false",
    "zonal_shift.config.enabled": "false",
}


def defaults(scheme: str) -> dict[str, str]:
    """The attributes of a new application load balancer of this scheme."""
    return {**_DEFAULTS, "ipv6.deny_all_igw_traffic": "true" if scheme == "internal" else "false"}


def lawful_attributes(attributes: Mapping[str, str]) -> None:
    """Keys an application load balancer has, with values in their ranges, at most 20 in a call."""
    if len(attributes) > 20:
        raise validation("At most 20 attributes can be changed in one call")
    for key, value in attributes.items():
        if key in _TEXTS:
            continue
        if key in _CHOICES:
            if value not in _CHOICES[key]:
                raise validation(f"Load balancer attribute '{key}' must be one of {list(_CHOICES[key])}, not '{value}'")
        elif key in _RANGES:
            limits = _RANGES[key]
            if not value.isdecimal() or int(value) not in limits:
                raise validation(
                    f"'{key}' value '{value}' must be between '{limits.start}-{limits.stop - 1}' inclusive"
                )
        else:
            raise validation(f"Load balancer attribute key '{key}' is not recognized")


def logs_have_a_bucket(fleet: Fleet, attributes: Mapping[str, str]) -> None:
    """Logs that are on go to a bucket that exists.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/enable-access-logging.html
    """
    s3 = connect_to(aws_access_key_id=fleet.account, region_name=fleet.region).s3
    for logs in _LOGS:
        if attributes[f"{logs}.s3.enabled"] != "true":
            continue
        bucket = attributes[f"{logs}.s3.bucket"]
        if not bucket:
            raise validation(f"The attribute '{logs}.s3.bucket' must be specified when '{logs}.s3.enabled' is true")
        try:
            s3.head_bucket(Bucket=bucket)
        except ClientError:
            raise invalid(
                "InvalidConfigurationRequest", f"Access Denied for bucket: {bucket}. Please check S3bucket permission"
            ) from None
