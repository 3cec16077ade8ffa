"""What tests may change about an account: how slow it is and how much it may hold."""

import threading
from dataclasses import asdict, dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class Settings:
    """One account's settings; the defaults are a fresh AWS account's, with nothing to wait for."""

    provisioning_seconds: float = 0
    """How long a new load balancer stays `provisioning`."""
    lag_seconds: float = 0
    """How long reads do not see a new load balancer."""
    load_balancers: int = 50
    """The quota of application load balancers per region."""
    target_groups: int = 3000
    """The quota of target groups per region."""


_lock = threading.Lock()
_accounts: dict[str, Settings] = {}


def of(account: str) -> Settings:
    """The account's settings now."""
    return _accounts.get(account, Settings())


def change(account: str, changes: dict[str, Any]) -> Settings:
    """Changes what is named and returns all; raises ValueError for what no setting can be."""
    kinds = {field.name: field.type for field in fields(Settings)}
    for name, value in changes.items():
        if name not in kinds:
            raise ValueError(f"no setting is called {name!r}; there are {', '.join(kinds)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
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
