"""Gives each balancer an address of its own, for as long as it is there."""

from collections.abc import Iterable
from ipaddress import IPv4Network


class Addresses:
    """The addresses of a range. One that was given back is the last to be given again, as clients may remember it."""

    def __init__(self, network: IPv4Network) -> None:
        self._free = {str(address): None for address in network.hosts()}
        self._given: dict[str, str] = {}

    def assign(self, owners: Iterable[str]) -> dict[str, str]:
        """An address for each of these, the same as before; what others had is free again."""
        wanted = list(owners)
        for gone in self._given.keys() - set(wanted):
            self._free[self._given.pop(gone)] = None
        for owner in wanted:
            if owner not in self._given:
                if not self._free:
                    raise ValueError(f"there are only {len(self._given)} addresses for load balancers")
                address = next(iter(self._free))
                del self._free[address]
                self._given[owner] = address
        return dict(self._given)
