"""Rights that the caller of ELBv2 needs in other services: AWS reads the network in its name, and makes a role.

`demands.json` has what is asked, with where AWS says so.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from localstack.aws.api import RequestContext
from moto.ec2.exceptions import InvalidSubnetIdError

from .. import fleet as fleets
from .. import service_linked_role
from ..fleet import Fleet
from ..policy import Request
from . import keys

_TABLE = json.loads(Path(__file__).with_name("demands.json").read_text())


def requests(context: RequestContext) -> Iterator[Request]:
    """All that must be allowed for an ELBv2 call beside its own action."""
    for demand in _TABLE["demands"]:
        if context.operation.name not in demand["of"]:
            continue
        for resource, known in _resources(demand.get("resource"), context):
            yield from (Request(action, resource, known) for action in demand["actions"])


def _resources(kind: str | None, context: RequestContext) -> Iterator[tuple[str, keys.Keys]]:
    fleet = fleets.of_caller(context)
    match kind:
        case None:
            yield "*", {}
        case "vpc":
            if vpc := _vpc(fleet, context.service_request):
                tags = fleet.network.tags.get(vpc) or {}
                arn = f"arn:aws:ec2:{fleet.region}:{fleet.account}:vpc/{vpc}"
                yield arn, keys.resource_tags("ec2", tags)
        case "service-linked-role":
            if not service_linked_role.exists(fleet.account):
                yield service_linked_role.arn(fleet.account), {"iam:awsservicename": [service_linked_role.SERVICE]}
        case "userpool":
            yield from ((pool, {}) for pool in _user_pools(context.service_request))
        case _:
            raise ValueError(f"demands.json names the unknown resource {kind!r}")


def _vpc(fleet: Fleet, asked: Any) -> str | None:
    """Of the load balancer that is there or of the subnets it is to be in; None where neither exists."""
    balancer = fleet.backend.load_balancers.get(asked.get("LoadBalancerArn") or "")
    if balancer:
        return balancer.vpc_id
    subnets = [*(asked.get("Subnets") or []), *(it.get("SubnetId") for it in asked.get("SubnetMappings") or [])]
    try:
        return fleet.network.get_subnet(subnets[0]).vpc_id if subnets else None
    except InvalidSubnetIdError:
        return None


def _user_pools(asked: Any) -> Iterator[str]:
    for action in [*(asked.get("Actions") or []), *(asked.get("DefaultActions") or [])]:
        if pool := (action.get("AuthenticateCognitoConfig") or {}).get("UserPoolArn"):
            yield pool
