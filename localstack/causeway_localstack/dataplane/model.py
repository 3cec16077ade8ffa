"""A picture of what is to be carried: plain data, taken at one moment."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]
"""A structure of AWS's API, as the Describe operations answer it."""


@dataclass(frozen=True)
class Target:
    """Where requests go in the end."""

    id: str
    port: int
    address: str
    """The IP address; of an instance, its private one."""
    registered: float
    """By the monotonic clock: one that comes back is another."""

    @property
    def server(self) -> str:
        """Its name in HAProxy; the checks' Host header is made from it."""
        return f"{self.address.replace(':', '-')}_{self.port}"


@dataclass(frozen=True)
class Group:
    """A target group that some rule uses."""

    arn: str
    account: str
    region: str
    target_type: str
    protocol: str
    protocol_version: str
    health: Document
    """The fields of CreateTargetGroup about health checks."""
    attributes: Mapping[str, str]
    targets: tuple[Target, ...]

    @property
    def backend(self) -> str:
        """Its name in HAProxy."""
        return self.arn.partition(":targetgroup/")[2].replace("/", "-")


@dataclass(frozen=True)
class Rule:
    """The actions for requests that meet all conditions."""

    conditions: tuple[Document, ...]
    actions: tuple[Document, ...]
    transforms: tuple[Document, ...]
    client_secret: str | None = None
    """Of its log-in."""


@dataclass(frozen=True)
class Listener:
    """A port of a balancer."""

    protocol: str
    port: int
    ssl_policy: str
    certificates: tuple[bytes, ...]
    """Each with its chain and key, as PEM; the first is for clients that name no host."""
    attributes: Mapping[str, str]
    rules: tuple[Rule, ...]
    """In the order they apply; the last one takes what the others leave."""


@dataclass(frozen=True)
class Balancer:
    """A balancer with at least one listener."""

    account: str
    region: str
    arn: str
    name: str
    dns_name: str
    attributes: Mapping[str, str]
    listeners: tuple[Listener, ...]
    groups: tuple[Group, ...]
    """Those its rules use."""

    def frontend(self, listener: Listener) -> str:
        """A listener's name in HAProxy."""
        return f"{self.name}-{self.arn.rpartition('/')[2]}-{listener.port}"

    @property
    def idle_seconds(self) -> int:
        """How long a connection may be silent.

        https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html
        """
        return int(self.attributes.get("idle_timeout.timeout_seconds", 60))


@dataclass(frozen=True)
class Snapshot:
    """Everything that is carried, at one moment."""

    balancers: tuple[Balancer, ...] = ()

    def groups(self) -> Iterator[Group]:
        """All target groups in use."""
        return (group for balancer in self.balancers for group in balancer.groups)

    def servers(self) -> dict[tuple[str, str], tuple[Group, Target]]:
        """All targets, by their backend's and their own name in HAProxy."""
        return {(group.backend, target.server): (group, target) for group in self.groups() for target in group.targets}
