"""The quotas that hold here."""

from localstack.aws.api import RequestContext, ServiceRequest, ServiceResponse

from . import actions, conditions, settings
from .pages import page
from .rules import forwarding, listeners, targets


def describe(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeAccountLimits.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DescribeAccountLimits.html
    """
    held = settings.of(context.account_id)
    quotas = {
        "application-load-balancers": held.load_balancers,
        "condition-values-per-alb-rule": conditions.MOST_VALUES,
        "condition-wildcards-per-alb-rule": conditions.MOST_WILDCARDS,
        "listeners-per-application-load-balancer": listeners.MOST_LISTENERS,
        "rules-per-application-load-balancer": listeners.MOST_RULES,
        "target-groups": held.target_groups,
        "target-groups-per-action-on-application-load-balancer": actions.MOST_GROUPS,
        "target-groups-per-application-load-balancer": forwarding.MOST_GROUPS,
        "targets-per-application-load-balancer": targets.MOST_TARGETS,
    }
    limits = [{"Name": name, "Max": str(most)} for name, most in quotas.items()]
    shown, marker = page(request, limits, lambda limit: limit["Name"])
    return {"Limits": shown} | ({"NextMarker": marker} if marker else {})
