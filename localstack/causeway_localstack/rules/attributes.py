"""Attributes of an application load balancer.

https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_LoadBalancerAttribute.html
"""

from collections.abc import Mapping

from ..errors import validation

_SWITCH = ("true", "false")

_CHOICES: dict[str, tuple[str, ...]] = {
    "access_logs.s3.enabled": _SWITCH,
    "connection_logs.s3.enabled": _SWITCH,
    "deletion_protection.enabled": _SWITCH,
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
_TEXTS = {"access_logs.s3.bucket", "access_logs.s3.prefix", "connection_logs.s3.bucket", "connection_logs.s3.prefix"}

DEFAULTS: Mapping[str, str] = {
    "access_logs.s3.enabled": "false",
    "access_logs.s3.bucket": "",
    "access_logs.s3.prefix": "",
    "client_keep_alive.seconds": "3600",
    "connection_logs.s3.enabled": "false",
    "connection_logs.s3.bucket": "",
    "connection_logs.s3.prefix": "",
    "deletion_protection.enabled": "false",
    "idle_timeout.timeout_seconds": "60",
    "ipv6.deny_all_igw_traffic": "false",
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
"""What a new application load balancer has."""


def lawful_attributes(attributes: Mapping[str, str]) -> None:
    """Keys an application load balancer has, with values in their ranges."""
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
