"""One account's load balancers in one region: moto's records, and beside them what moto does not keep."""

import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from localstack.aws.api import RequestContext
from moto.ec2.models import EC2Backend, ec2_backends
from moto.elbv2.models import ELBv2Backend, FakeLoadBalancer, elbv2_backends

from . import settings
from .records import Capacity, Listener, Rule, TargetGroup, TrustStore, balancer_arn, listener_arn


@dataclass(frozen=True)
class Birth:
    """When a load balancer was made: its place in every listing, and the moment its clocks started."""

    serial: int
    at: float


class Fleet:
    """The load balancers of one account and region. Hold `lock` from the first check to the change it allows."""

    def __init__(self, account: str, region: str) -> None:
        self.account = account
        self.region = region
        self.lock = threading.RLock()
        self.births: dict[str, Birth] = {}
        self.trust_stores: dict[str, TrustStore] = {}
        self.capacities: dict[str, Capacity] = {}
        """The reserved capacity of load balancers, by their ARN."""
        self._serials = itertools.count(1)

    @property
    def backend(self) -> ELBv2Backend:
        """moto's records of load balancers, listeners, rules and target groups."""
        return elbv2_backends[self.account][self.region]

    @property
    def network(self) -> EC2Backend:
        """moto's records of subnets and security groups."""
        return ec2_backends[self.account][self.region]

    def balancers(self) -> Iterator[FakeLoadBalancer]:
        """All of them, oldest first."""
        return iter(list(self.backend.load_balancers.values()))

    def visible(self) -> Iterator[FakeLoadBalancer]:
        """Those a read sees: on AWS reads may lag behind writes."""
        lag = settings.of(self.account).lag_seconds
        return (balancer for balancer in self.balancers() if self.age(balancer) >= lag)

    def named(self, name: str) -> FakeLoadBalancer | None:
        """The one of this name."""
        return next((balancer for balancer in self.balancers() if balancer.name == name), None)

    def listener(self, arn: str) -> Listener | None:
        """The listener of this ARN."""
        balancer = self.backend.load_balancers.get(balancer_arn(arn))
        return balancer.listeners.get(arn) if balancer else None

    def rule(self, arn: str) -> Rule | None:
        """The rule of this ARN, a default one too."""
        listener = self.listener(listener_arn(arn))
        if listener is None:
            return None
        return listener.default_rule if listener.default_rule.arn == arn else listener.others.get(arn)

    def target_group(self, arn: str) -> TargetGroup | None:
        """The target group of this ARN."""
        return self.backend.target_groups.get(arn)

    def is_visible(self, born: float) -> bool:
        """Reports whether a read sees what was made then."""
        return time.monotonic() - born >= settings.of(self.account).lag_seconds

    def enforce(self, rule: Rule, before: set[str]) -> None:
        """Notes which target groups a new or changed rule uses; `before` are those it used until now."""
        for arn in before - rule.forwards_to():
            self._release(arn, rule.arn)
        for arn in rule.forwards_to():
            self.backend.target_groups[arn].rules_using.add(rule.arn)

    def drop(self, rule: Rule) -> None:
        """Forgets a rule that has gone: its use of target groups and its tags."""
        for arn in rule.forwards_to():
            self._release(arn, rule.arn)
        self.backend.tagging_service.delete_all_tags_for_resource(rule.arn)

    def _release(self, group_arn: str, rule_arn: str) -> None:
        group = self.backend.target_groups.get(group_arn)
        if group:
            group.rules_using.discard(rule_arn)

    def tags(self, arn: str) -> dict[str, str]:
        """The tags of any ELBv2 resource."""
        return self.backend.tagging_service.get_tag_dict_for_resource(arn)

    def born(self, balancer: FakeLoadBalancer) -> None:
        """Starts a new balancer's clocks."""
        self.births[balancer.arn] = Birth(next(self._serials), time.monotonic())

    def birth(self, balancer: FakeLoadBalancer) -> Birth:
        """When it was made; one that came by another way (CloudFormation) counts as old."""
        return self.births.get(balancer.arn, Birth(0, 0))

    def age(self, balancer: FakeLoadBalancer) -> float:
        """Seconds since it was made."""
        return time.monotonic() - self.birth(balancer).at

    def state(self, balancer: FakeLoadBalancer) -> str:
        """`provisioning` at first, then `active`."""
        if self.age(balancer) < settings.of(self.account).provisioning_seconds:
            return "provisioning"
        return "active"


_fleets: dict[tuple[str, str], Fleet] = {}
_fleets_lock = threading.Lock()


def of(account: str, region: str) -> Fleet:
    """The fleet of an account and region."""
    with _fleets_lock:
        return _fleets.setdefault((account, region), Fleet(account, region))


def of_caller(context: RequestContext) -> Fleet:
    """The fleet the call is about."""
    return of(context.account_id, context.region)


def forget(account: str) -> None:
    """Drops everything the account has in ELBv2, in all regions."""
    with _fleets_lock:
        for key in [key for key in _fleets if key[0] == account]:
            del _fleets[key]
    for backend in elbv2_backends[account].values():
        backend.reset()
