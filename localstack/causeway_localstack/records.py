"""Listeners, rules, target groups and targets, as AWS describes them.

They stand where moto keeps its own (`load_balancers[…].listeners`, `target_groups`), so that what moto does with all of
them, such as finding resources by tags, goes on working. Actions, conditions and transforms are kept as the Describe
operations answer them: settled once, when they are written.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Document = dict[str, Any]
"""A structure of AWS's API."""

DEFAULT = "default"
"""The default rule's priority."""


@dataclass
class Rule:
    """A rule: a listener's actions for requests that meet its conditions."""

    arn: str
    listener_arn: str
    priority: int | str
    conditions: list[Document]
    actions: list[Document]
    transforms: list[Document] = field(default_factory=list)
    client_secret: str | None = None
    """Of its OIDC action; never shown."""
    born: float = field(default_factory=time.monotonic)

    @property
    def is_default(self) -> bool:
        """Reports whether it takes the requests that no other rule takes."""
        return self.priority == DEFAULT

    def forwards_to(self) -> set[str]:
        """The ARNs of the target groups it forwards to, with whatever weight."""
        return set(forwarded_to(self.actions))


@dataclass
class Listener:
    """A port of a load balancer."""

    arn: str
    load_balancer_arn: str
    protocol: str
    port: int
    default_rule: Rule
    ssl_policy: str | None = None
    certificates: list[str] = field(default_factory=list)
    """ARNs; the first is the default certificate."""
    mutual_authentication: Document | None = None
    alpn_policy: list[str] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)
    others: dict[str, Rule] = field(default_factory=dict)
    """The rules but the default one, by ARN."""
    born: float = field(default_factory=time.monotonic)

    @property
    def rules(self) -> dict[str, Rule]:
        """All rules by ARN, in the order they apply, the default one last."""
        return {rule.arn: rule for rule in self.in_order()}

    def in_order(self) -> list[Rule]:
        """The rules in the order they apply."""
        return [*sorted(self.others.values(), key=lambda rule: int(rule.priority)), self.default_rule]


@dataclass
class Target:
    """An address or instance that takes a target group's requests on a port."""

    id: str
    port: int
    zone: str | None = None
    registered: float = field(default_factory=time.monotonic)
    deregistered: float | None = None


@dataclass
class TargetGroup:
    """Targets, and how they are reached and checked."""

    arn: str
    name: str
    target_type: str
    protocol: str | None
    protocol_version: str | None
    port: int | None
    vpc_id: str | None
    ip_address_type: str
    health_check: Document
    """The fields of CreateTargetGroup that begin with `HealthCheck`, the thresholds and the `Matcher`."""
    control_port: int | None = None
    attributes: dict[str, str] = field(default_factory=dict)
    targets: dict[tuple[str, int], Target] = field(default_factory=dict)
    draining: dict[tuple[str, int], Target] = field(default_factory=dict)
    """Deregistered ones; some may have finished draining."""
    rules_using: set[str] = field(default_factory=set)
    """The ARNs of the rules that forward to it; kept by `Fleet`."""
    released: float | None = None
    """When the load balancer that used it was deleted."""
    born: float = field(default_factory=time.monotonic)

    def deregister_terminated_instances(self, instance_ids: Iterable[str]) -> None:
        """moto's EC2 calls this when instances end."""
        for key, target in list(self.targets.items()):
            if target.id in instance_ids:
                self.deregister(key)

    def deregister(self, key: tuple[str, int]) -> None:
        """Starts draining a target; one that is not registered is fine."""
        target = self.targets.pop(key, None)
        if target:
            target.deregistered = time.monotonic()
            self.draining[key] = target


@dataclass
class TrustStore:
    """Certificate authorities whose clients a listener lets in."""

    arn: str
    name: str
    certificates: int
    """How many certificates its bundle holds."""
    born: float = field(default_factory=time.monotonic)


@dataclass
class Capacity:
    """The capacity units a load balancer has reserved."""

    units: int
    changed: datetime
    decreases_left: int = 2


def forwarded_to(actions: Iterable[Document]) -> Iterable[str]:
    """The target groups actions forward to."""
    for action in actions:
        if action.get("TargetGroupArn"):
            yield action["TargetGroupArn"]
        for group in (action.get("ForwardConfig") or {}).get("TargetGroups") or []:
            yield group["TargetGroupArn"]


def balancer_arn(arn: str) -> str:
    """The load balancer that a listener or a rule belongs to, by their ARN."""
    head, kind, rest = arn.partition(":listener-rule/" if ":listener-rule/" in arn else ":listener/")
    return f"{head}:loadbalancer/{'/'.join(rest.split('/')[:3])}" if kind else arn


def listener_arn(rule_arn: str) -> str:
    """The listener that a rule belongs to, by its ARN."""
    return rule_arn.replace(":listener-rule/", ":listener/").rpartition("/")[0]
