"""The quotas that hold here."""

from localstack.aws.api import RequestContext, ServiceRequest, ServiceResponse

from . import actions, conditions, settings
from .pages import page
from .rules import forwarding

_OF_OTHERS = {
    "certificates-per-network-load-balancer": 25,
    "gateway-load-balancers": 100,
    "gateway-load-balancers-per-vpc": 100,
    "geneve-target-groups": 100,
    "listeners-per-network-load-balancer": 50,
    "network-load-balancer-enis-per-vpc": 1200,
    "network-load-balancers": 50,
    "target-groups-per-action-on-network-load-balancer": 1,
    "targets-per-availability-zone-per-gateway-load-balancer": 300,
    "targets-per-availability-zone-per-network-load-balancer": 500,
    "targets-per-network-load-balancer": 3000,
}
"""Of load balancers that are not carried here; an answer of AWS has them too."""


def describe(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeAccountLimits, with the names of an answer of AWS.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DescribeAccountLimits.html
    https://github.com/aws/aws-cli/blob/develop/awscli/examples/elbv2/describe-account-limits.rst
    """
    held = settings.of(context.account_id)
    quotas = _OF_OTHERS | {
        "application-load-balancers": held.load_balancers,
        "certificates-per-application-load-balancer": held.certificates_per_balancer,
        "condition-values-per-alb-rule": conditions.MOST_VALUES,
        "condition-wildcards-per-alb-rule": conditions.MOST_WILDCARDS,
        "listeners-per-application-load-balancer": held.listeners_per_balancer,
        "rules-per-application-load-balancer": held.rules_per_balancer,
        "target-groups": held.target_groups,
        "target-groups-per-action-on-application-load-balancer": actions.MOST_GROUPS,
        "target-groups-per-application-load-balancer": forwarding.MOST_GROUPS,
        "target-id-registrations-per-application-load-balancer": held.targets_per_balancer,
        "targets-per-application-load-balancer": held.targets_per_balancer,
        "targets-per-target-group": held.targets_per_group,
    }
    limits = [{"Name": name, "Max": str(most)} for name, most in quotas.items()]
    shown, marker = page(request, limits, lambda limit: limit["Name"])
    return {"Limits": shown} | ({"NextMarker": marker} if marker else {})
