"""The operations on reserved capacity.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/capacity-unit-reservation.html
"""

from datetime import UTC, datetime

from localstack.aws.api import RequestContext, ServiceRequest, ServiceResponse
from moto.elbv2.models import FakeLoadBalancer

from . import fleet as fleets
from . import known
from .errors import invalid, validation
from .fleet import Fleet
from .records import Capacity

LEAST_UNITS = 100
MOST_UNITS = 1500


def modify(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """ModifyCapacityReservation: reserves capacity or gives it back.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ModifyCapacityReservation.html
    """
    fleet = fleets.of_caller(context)
    with fleet.lock:
        balancer = known.balancer(fleet, request["LoadBalancerArn"])
        asked, reset = request.get("MinimumLoadBalancerCapacity") or {}, request.get("ResetCapacityReservation")
        if bool(asked) == bool(reset):
            raise validation("You must specify either MinimumLoadBalancerCapacity or ResetCapacityReservation")
        if reset:
            fleet.capacities.pop(balancer.arn, None)
        else:
            _reserve(fleet, balancer, asked.get("CapacityUnits") or 0)
        return _shown(fleet, balancer)


def describe(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeCapacityReservation."""
    fleet = fleets.of_caller(context)
    return _shown(fleet, known.balancer(fleet, request["LoadBalancerArn"]))


def _reserve(fleet: Fleet, balancer: FakeLoadBalancer, units: int) -> None:
    if units < LEAST_UNITS:
        raise validation(f"CapacityUnits '{units}' must be at least {LEAST_UNITS}")
    if units > MOST_UNITS:
        raise invalid("CapacityUnitsLimitExceeded", f"At most {MOST_UNITS} capacity units can be reserved")
    held = fleet.capacities.get(balancer.arn)
    left = held.decreases_left if held else 2
    if held and units < held.units:
        if left == 0:
            raise invalid("CapacityDecreaseRequestLimitExceeded", "No more decreases are possible today")
        left -= 1
    fleet.capacities[balancer.arn] = Capacity(units, datetime.now(UTC), left)


def _shown(fleet: Fleet, balancer: FakeLoadBalancer) -> ServiceResponse:
    held = fleet.capacities.get(balancer.arn)
    if held is None:
        return {"DecreaseRequestsRemaining": 2, "CapacityReservationState": []}
    share = held.units / len(balancer.subnets)
    return {
        "LastModifiedTime": held.changed,
        "DecreaseRequestsRemaining": held.decreases_left,
        "MinimumLoadBalancerCapacity": {"CapacityUnits": held.units},
        "CapacityReservationState": [
            {
                "State": {"Code": "provisioned"},
                "AvailabilityZone": subnet.availability_zone,
                "EffectiveCapacityUnits": share,
            }
            for subnet in balancer.subnets
        ],
    }
