"""The records that ARNs in a request name, else AWS's NotFound errors."""

from collections.abc import Iterable

from localstack.aws.api import CommonServiceException
from moto.elbv2.models import FakeLoadBalancer

from .errors import invalid
from .fleet import Fleet
from .records import Listener, Rule, TargetGroup, TrustStore

_KINDS = {
    ":targetgroup/": ("TargetGroupNotFound", "Target groups '{}' not found"),
    ":listener-rule/": ("RuleNotFound", "Rule '{}' not found"),
    ":listener/": ("ListenerNotFound", "Listener '{}' not found"),
    ":truststore/": ("TrustStoreNotFound", "Trust store '{}' not found"),
    ":loadbalancer/": ("LoadBalancerNotFound", "Load balancer '{}' not found"),
}


def not_found(*arns: str) -> CommonServiceException:
    """The error for ARNs of one kind; raise it."""
    kind = next((kind for kind in _KINDS if kind in arns[0]), ":loadbalancer/")
    code, message = _KINDS[kind]
    return invalid(code, message.format(", ".join(arns)))


def balancer(fleet: Fleet, arn: str) -> FakeLoadBalancer:
    """The load balancer, else LoadBalancerNotFound."""
    found = fleet.backend.load_balancers.get(arn)
    if found is None:
        raise invalid("LoadBalancerNotFound", f"Load balancer '{arn}' not found")
    return found


def listener(fleet: Fleet, arn: str) -> Listener:
    """The listener, else ListenerNotFound."""
    found = fleet.listener(arn)
    if found is None:
        raise invalid("ListenerNotFound", f"Listener '{arn}' not found")
    return found


def rule(fleet: Fleet, arn: str) -> Rule:
    """The rule, else RuleNotFound."""
    found = fleet.rule(arn)
    if found is None:
        raise invalid("RuleNotFound", f"Rule '{arn}' not found")
    return found


def target_group(fleet: Fleet, arn: str) -> TargetGroup:
    """The target group, else TargetGroupNotFound."""
    return target_groups(fleet, [arn])[0]


def target_groups(fleet: Fleet, arns: Iterable[str]) -> list[TargetGroup]:
    """All these target groups, else TargetGroupNotFound."""
    found = {arn: fleet.target_group(arn) for arn in arns}
    missing = [arn for arn, group in found.items() if group is None]
    if missing:
        raise invalid("TargetGroupNotFound", f"Target groups '{', '.join(missing)}' not found")
    return [group for group in found.values() if group]


def trust_store(fleet: Fleet, arn: str) -> TrustStore:
    """The trust store, else TrustStoreNotFound."""
    found = fleet.trust_stores.get(arn)
    if found is None:
        raise invalid("TrustStoreNotFound", f"Trust store '{arn}' not found")
    return found


def anything(fleet: Fleet, arn: str) -> float:
    """Any resource that can carry tags, else the NotFound error of its kind; answers with when it was made."""
    if ":targetgroup/" in arn:
        return target_group(fleet, arn).born
    if ":listener-rule/" in arn:
        return rule(fleet, arn).born
    if ":listener/" in arn:
        return listener(fleet, arn).born
    if ":truststore/" in arn:
        return trust_store(fleet, arn).born
    return fleet.birth(balancer(fleet, arn)).at
