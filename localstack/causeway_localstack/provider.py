"""ELBv2 for LocalStack: which function answers which operation."""

from collections.abc import Callable

from localstack.aws.api import RequestContext, ServiceRequest, ServiceResponse
from localstack.aws.skeleton import Skeleton
from localstack.aws.spec import load_service
from localstack.services.plugins import Service, aws_provider

from . import (
    balancers,
    capacity,
    limits,
    listener_rules,
    listeners,
    ssl_policies,
    tagging,
    target_groups,
    targets,
    trust_stores,
)

Operation = Callable[[RequestContext, ServiceRequest], ServiceResponse]

_OPERATIONS: dict[str, Operation] = {
    "AddListenerCertificates": listeners.add_certificates,
    "AddTags": tagging.add,
    "CreateListener": listeners.create,
    "CreateLoadBalancer": balancers.create,
    "CreateRule": listener_rules.create,
    "CreateTargetGroup": target_groups.create,
    "CreateTrustStore": trust_stores.create,
    "DeleteListener": listeners.delete,
    "DeleteLoadBalancer": balancers.delete,
    "DeleteRule": listener_rules.delete,
    "DeleteTargetGroup": target_groups.delete,
    "DeleteTrustStore": trust_stores.delete,
    "DeregisterTargets": targets.deregister,
    "DescribeAccountLimits": limits.describe,
    "DescribeCapacityReservation": capacity.describe,
    "DescribeListenerAttributes": listeners.describe_attributes,
    "DescribeListenerCertificates": listeners.describe_certificates,
    "DescribeListeners": listeners.describe,
    "DescribeLoadBalancerAttributes": balancers.describe_attributes,
    "DescribeLoadBalancers": balancers.describe,
    "DescribeRules": listener_rules.describe,
    "DescribeSSLPolicies": ssl_policies.describe,
    "DescribeTags": tagging.describe,
    "DescribeTargetGroupAttributes": target_groups.describe_attributes,
    "DescribeTargetGroups": target_groups.describe,
    "DescribeTargetHealth": targets.describe_health,
    "DescribeTrustStoreAssociations": trust_stores.describe_associations,
    "DescribeTrustStores": trust_stores.describe,
    "ModifyCapacityReservation": capacity.modify,
    "ModifyListener": listeners.modify,
    "ModifyListenerAttributes": listeners.modify_attributes,
    "ModifyLoadBalancerAttributes": balancers.modify_attributes,
    "ModifyRule": listener_rules.modify,
    "ModifyTargetGroup": target_groups.modify,
    "ModifyTargetGroupAttributes": target_groups.modify_attributes,
    "ModifyTrustStore": trust_stores.modify,
    "RegisterTargets": targets.register,
    "RemoveListenerCertificates": listeners.remove_certificates,
    "RemoveTags": tagging.remove,
    "SetIpAddressType": balancers.set_ip_address_type,
    "SetRulePriorities": listener_rules.set_priorities,
    "SetSecurityGroups": balancers.set_security_groups,
    "SetSubnets": balancers.set_subnets,
}


@aws_provider(api="elbv2")
def elbv2() -> Service:
    """LocalStack's entry point."""
    return Service(name="elbv2", skeleton=Skeleton(load_service("elbv2"), dict(_OPERATIONS)))
