"""The operations on targets."""

from localstack.aws.api import RequestContext, ServiceRequest, ServiceResponse

from . import fleet as fleets
from . import known, target_health
from .records import Document, Target, TargetGroup
from .rules import targets


def register(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """RegisterTargets: all or none; one that is registered already is fine.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RegisterTargets.html
    """
    fleet = fleets.of_caller(context)
    with fleet.lock:
        group = known.target_group(fleet, request["TargetGroupArn"])
        asked = request.get("Targets") or []
        wanted = targets.keys(group, asked)
        targets.lawful(fleet, group, asked)
        targets.room(fleet, group, wanted)
        for key, target in zip(wanted, asked, strict=True):
            if key not in group.targets:
                target_health.forget(group.arn, *key)
                group.draining.pop(key, None)
                group.targets[key] = Target(*key, zone=target.get("AvailabilityZone"))
    return {}


def deregister(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DeregisterTargets: one that is not registered is fine.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DeregisterTargets.html
    """
    fleet = fleets.of_caller(context)
    with fleet.lock:
        group = known.target_group(fleet, request["TargetGroupArn"])
        for key in targets.keys(group, request.get("Targets") or []):
            group.deregister(key)
        for key, target in list(group.draining.items()):
            if target_health.of_deregistered(fleet, group, target) is None:
                del group.draining[key]
    return {}


def describe_health(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeTargetHealth: of all targets, draining ones too, or of those named.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DescribeTargetHealth.html
    """
    fleet = fleets.of_caller(context)
    anomalies = bool({"AnomalyDetection", "All"}.intersection(request.get("Include") or []))
    with fleet.lock:
        group = known.target_group(fleet, request["TargetGroupArn"])
        if not fleet.is_visible(group.born):
            raise known.not_found(group.arn)
        healths = {
            key: (target, health)
            for key, target in group.draining.items()
            if (health := target_health.of_deregistered(fleet, group, target))
        }
        for key, target in group.targets.items():
            healths[key] = (target, target_health.of_target(fleet, group, target))
        asked = request.get("Targets") or []
        chosen = targets.keys(group, asked) if asked else list(healths)
        described = []
        for key in chosen:
            target, health = healths.get(key) or (Target(*key), target_health.of_stranger())
            described.append(_shown(group, target, health, anomalies))
    return {"TargetHealthDescriptions": described}


def _shown(group: TargetGroup, target: Target, health: Document, anomalies: bool) -> Document:
    port = group.health_check["HealthCheckPort"]
    answer: Document = {
        "Target": {"Id": target.id, "Port": target.port},
        "HealthCheckPort": str(target.port) if port == "traffic-port" else port,
        "TargetHealth": health,
    }
    if target.zone:
        answer["Target"]["AvailabilityZone"] = target.zone
    if anomalies:
        answer["AnomalyDetection"] = {"Result": "normal", "MitigationInEffect": "no"}
    return answer
