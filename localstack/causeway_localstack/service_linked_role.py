"""The role by which Elastic Load Balancing acts in an account. It comes with the first load balancer or target group.

https://docs.aws.amazon.com/elasticloadbalancing/latest/userguide/elb-service-linked-roles.html
"""

import threading

from moto.iam.exceptions import NotFoundException
from moto.iam.models import SERVICE_NAME_CONVERSION, iam_backends

SERVICE = "elasticloadbalancing.amazonaws.com"
_NAME = "AWSServiceRoleForElasticLoadBalancing"

SERVICE_NAME_CONVERSION["elasticloadbalancing"] = "ElasticLoadBalancing"
"""How moto comes from a service to its role's name; it lacks this one."""

_lock = threading.Lock()


def arn(account: str) -> str:
    """The present or future name of the role."""
    return f"arn:aws:iam::{account}:role/aws-service-role/{SERVICE}/{_NAME}"


def exists(account: str) -> bool:
    """Reports whether the account has it."""
    try:
        iam_backends[account]["aws"].get_role(_NAME)
    except NotFoundException:
        return False
    return True


def ensure(account: str) -> None:
    """Makes it unless it is there."""
    with _lock:
        if not exists(account):
            iam_backends[account]["aws"].create_service_linked_role(SERVICE, "", "")
