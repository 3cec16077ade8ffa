"""Settings of an account that tests may change: its delays and quotas."""

import threading
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from localstack.constants import DEFAULT_AWS_ACCOUNT_ID

from .dataplane import proxy


@dataclass(frozen=True)
class Settings:
    """One account's settings; the defaults are a fresh AWS account's, with nothing to wait for."""

    provisioning_seconds: float = 0
    """How long a new load balancer stays `provisioning`."""
    lag_seconds: float = 0
    """How long reads do not see what is new: load balancers, listeners, rules and target groups."""
    load_balancers: int = 50
    """The quota of application load balancers per region."""
    target_groups: int = 3000
    """The quota of target groups per region."""
    listeners_per_balancer: int = 50
    rules_per_balancer: int = 100
    """Default rules do not count."""
    certificates_per_balancer: int = 25
    """Default certificates do not count."""
    targets_per_group: int = 1000
    targets_per_balancer: int = 1000
    """Quotas that AWS raises on request. What it never raises is a constant of the rule."""
    in_use_seconds: float = 0
    """How long target groups stay in use after the load balancer that used them has gone."""
    initial_seconds: float = 0
    """How long a new target is `initial` before it is healthy, where no traffic is carried."""
    draining_scale: float = 1
    """How long a target drains, in units of its group's deregistration delay."""
    traffic: bool = False
    """True if load balancers carry requests, and targets are as healthy as the data plane finds them; the default
    account's do, where there is a HAProxy."""
    throttle: float = 0
    """How much of AWS's default rates of calls the account has: 1 for just these, 0 for no limit."""


_lock = threading.Lock()
_accounts: dict[str, Settings] = {}


def of(account: str) -> Settings:
    """The account's settings now."""
    return _accounts.get(account) or Settings(traffic=account == DEFAULT_AWS_ACCOUNT_ID and proxy.is_installed())


def change(account: str, changes: dict[str, Any]) -> Settings:
    """Changes what is named and returns all; raises ValueError for what no setting can be."""
    kinds = {field.name: field.type for field in fields(Settings)}
    for name, value in changes.items():
        if name not in kinds:
            raise ValueError(f"no setting is called {name!r}; there are {', '.join(kinds)}")
        if kinds[name] is bool:
            if not isinstance(value, bool):
                raise ValueError(f"{name} must be true or false")
        elif isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise ValueError(f"{name} must be a number, 0 or more")
    with _lock:
        _accounts[account] = replace(of(account), **changes)
        return _accounts[account]


def reset(account: str) -> None:
    """Back to the defaults."""
    with _lock:
        _accounts.pop(account, None)


def as_json(settings: Settings) -> dict[str, Any]:
    """For the admin route."""
    return asdict(settings)
