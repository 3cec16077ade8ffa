"""The DNS names of balancers: lines of a file in the format of /etc/hosts that the cluster's DNS answers from."""

import os
from collections.abc import Mapping
from pathlib import Path

_OURS = "# load balancer"
"""The end of each line of ours; the other lines are others'."""


def publish(path: Path, names: Mapping[str, str]) -> None:
    """Makes the file name these addresses (by their names), and no other balancer."""
    before = path.read_text() if path.exists() else ""
    foreign = [line for line in before.splitlines() if not line.endswith(_OURS)]
    ours = [f"{address} {name} {_OURS}" for name, address in sorted(names.items())]
    after = "".join(f"{line}\n" for line in [*foreign, *ours])
    if after != before:
        new = path.with_name(f"{path.name}.new")
        new.write_text(after)
        os.replace(new, path)
