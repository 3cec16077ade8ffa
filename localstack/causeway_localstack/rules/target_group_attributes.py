"""Attributes of target groups of application load balancers.

https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetGroupAttribute.html
"""

from collections.abc import Mapping

from ..errors import validation

_SWITCH = ("true", "false")
_COUNT = "minimum_healthy_targets.count"
_PERCENTAGE = "minimum_healthy_targets.percentage"
_ALGORITHM = "load_balancing.algorithm.type"
_ANOMALIES = "load_balancing.algorithm.anomaly_mitigation"
_CROSS_ZONE = "load_balancing.cross_zone.enabled"
_SLOW_START = "slow_start.duration_seconds"

_CHOICES: dict[str, tuple[str, ...]] = {
    "stickiness.enabled": _SWITCH,
    "stickiness.type": ("lb_cookie", "app_cookie"),
    _ALGORITHM: ("round_robin", "least_outstanding_requests", "weighted_random"),
    _ANOMALIES: ("on", "off"),
    _CROSS_ZONE: ("true", "false", "use_load_balancer_configuration"),
}
_RANGES: dict[str, tuple[int, int]] = {
    "deregistration_delay.timeout_seconds": (0, 3600),
    _SLOW_START: (30, 900),
    "stickiness.lb_cookie.duration_seconds": (1, 604800),
    "stickiness.app_cookie.duration_seconds": (1, 604800),
    f"target_group_health.dns_failover.{_COUNT}": (1, 1000),
    f"target_group_health.dns_failover.{_PERCENTAGE}": (1, 100),
    f"target_group_health.unhealthy_state_routing.{_COUNT}": (1, 1000),
    f"target_group_health.unhealthy_state_routing.{_PERCENTAGE}": (1, 100),
}
_BESIDES = {
    _SLOW_START: "0",
    f"target_group_health.dns_failover.{_COUNT}": "off",
    f"target_group_health.dns_failover.{_PERCENTAGE}": "off",
    f"target_group_health.unhealthy_state_routing.{_PERCENTAGE}": "off",
}
"""Values that a number may have beside those in its range."""

_DNS, _ROUTING = "target_group_health.dns_failover", "target_group_health.unhealthy_state_routing"
_COOKIE = "stickiness.app_cookie.cookie_name"
_RESERVED = ("AWSALB", "AWSALBAPP", "AWSALBTG")

DEFAULTS: Mapping[str, str] = {
    "deregistration_delay.timeout_seconds": "300",
    _ANOMALIES: "off",
    _ALGORITHM: "round_robin",
    _CROSS_ZONE: "use_load_balancer_configuration",
    _SLOW_START: "0",
    _COOKIE: "",
    "stickiness.app_cookie.duration_seconds": "86400",
    "stickiness.enabled": "false",
    "stickiness.lb_cookie.duration_seconds": "86400",
    "stickiness.type": "lb_cookie",
    f"target_group_health.dns_failover.{_COUNT}": "1",
    f"target_group_health.dns_failover.{_PERCENTAGE}": "off",
    f"target_group_health.unhealthy_state_routing.{_COUNT}": "1",
    f"target_group_health.unhealthy_state_routing.{_PERCENTAGE}": "off",
}
"""The attributes of a new target group of instances or addresses."""


def lawful(changes: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Keys a target group has, with values in their ranges, which go with one another and with what it has."""
    for key, value in changes.items():
        if key not in before:
            raise validation(f"Target group attribute key '{key}' is not recognized")
        if key in _CHOICES and value not in _CHOICES[key]:
            raise validation(f"Target group attribute '{key}' must be one of {', '.join(_CHOICES[key])}, not '{value}'")
        if key in _RANGES and value != _BESIDES.get(key):
            least, most = _RANGES[key]
            if not value.isdecimal() or not least <= int(value) <= most:
                raise validation(f"'{key}' value '{value}' must be between '{least}-{most}' inclusive")
    _go_together({**before, **changes})


def _go_together(attributes: Mapping[str, str]) -> None:
    """https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-target-group-attributes.html"""
    algorithm = attributes.get(_ALGORITHM)
    if attributes.get(_ANOMALIES) == "on" and algorithm != "weighted_random":
        raise validation("Anomaly mitigation is only supported with the algorithm weighted_random")
    if attributes.get(_SLOW_START, "0") != "0" and algorithm != "round_robin":
        raise validation(f"Slow start is not supported with the algorithm {algorithm}")
    cookie = attributes.get(_COOKIE, "")
    if cookie.upper().startswith(_RESERVED):
        raise validation(f"The cookie name '{cookie}' is reserved")
    for threshold in (_COUNT, _PERCENTAGE):
        _fails_over_in_order(threshold, attributes)
    sticky = attributes.get("stickiness.enabled") == "true"
    if sticky and attributes.get(_CROSS_ZONE) == "false":
        raise validation("Stickiness is not supported while cross-zone load balancing is off")
    if sticky and attributes.get("stickiness.type") == "app_cookie" and not cookie:
        raise validation("A cookie name must be specified with stickiness type app_cookie")


def _fails_over_in_order(threshold: str, attributes: Mapping[str, str]) -> None:
    """"If you specify thresholds for both actions, the threshold for DNS failover must be greater than or equal to the
    threshold for routing failover"

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/target-group-health.html
    """
    dns, routing = attributes.get(f"{_DNS}.{threshold}", "off"), attributes.get(f"{_ROUTING}.{threshold}", "off")
    if "off" not in (dns, routing) and int(dns) < int(routing):
        raise validation(
            f"'{_DNS}.{threshold}' value '{dns}' must be greater than or equal to "
            f"'{_ROUTING}.{threshold}' value '{routing}'"
        )
