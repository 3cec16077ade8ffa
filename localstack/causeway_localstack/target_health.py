"""How targets are: what the data plane found, or what AWS would say where no traffic is carried.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/target-group-health-checks.html
"""

import threading
import time

from . import settings
from .fleet import Fleet
from .records import Document, Target, TargetGroup

_REGISTERING = ("initial", "Elb.RegistrationInProgress", "Target registration is in progress")
_UNUSED = (
    "unused",
    "Target.NotInUse",
    "Target group is not configured to receive traffic from the load balancer",
)
_STOPPED = ("unused", "Target.InvalidState", "Target is in the stopped state")
_DRAINING = ("draining", "Target.DeregistrationInProgress", "Target deregistration is in progress")
_NOT_REGISTERED = ("unused", "Target.NotRegistered", "Target is not registered to the target group")

_reports: dict[tuple[str, str, int], tuple[str, str | None, str | None]] = {}
_lock = threading.Lock()


def report(
    account: str,
    region: str,
    group_arn: str,
    target_id: str,
    port: int,
    state: str,
    reason: str | None = None,
    description: str | None = None,
) -> None:
    """Takes the data plane's word on a target; it counts while the account's `traffic` is on."""
    with _lock:
        _reports[(group_arn, target_id, port)] = (state, reason, description)


def forget(group_arn: str, target_id: str | None = None, port: int | None = None) -> None:
    """Drops what was reported of a target, or of all targets of a group."""
    with _lock:
        for key in [key for key in _reports if key[0] == group_arn]:
            if target_id is None or key[1:] == (target_id, port):
                del _reports[key]


def of_target(fleet: Fleet, group: TargetGroup, target: Target) -> Document:
    """The health of a registered target, as DescribeTargetHealth answers it."""
    if not group.rules_using:
        return _health(*_UNUSED)
    if group.target_type == "instance":
        instance = fleet.network.get_instance_by_id(target.id)
        if instance is None or instance.state != "running":
            return _health(*_STOPPED)
    held = settings.of(fleet.account)
    if held.traffic:
        return _health(*_reports.get((group.arn, target.id, target.port), _REGISTERING))
    if time.monotonic() - target.registered < held.initial_seconds:
        return _health(*_REGISTERING)
    return _health("healthy")


def of_deregistered(fleet: Fleet, group: TargetGroup, target: Target) -> Document | None:
    """The health of a target that was deregistered; None once it has drained."""
    if target.deregistered is None or not group.rules_using:
        return None
    delay = float(group.attributes.get("deregistration_delay.timeout_seconds", 0))
    scaled = delay * settings.of(fleet.account).draining_scale
    return _health(*_DRAINING) if time.monotonic() - target.deregistered < scaled else None


def of_stranger() -> Document:
    """The health of what is no target of the group."""
    return _health(*_NOT_REGISTERED)


def _health(state: str, reason: str | None = None, description: str | None = None) -> Document:
    answer = {"State": state, "Reason": reason, "Description": description}
    return {key: value for key, value in answer.items() if value is not None}
