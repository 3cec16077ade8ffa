"""Where several target groups share requests, sticky targets need clients that stay with their group."""

from typing import Any

import pytest
from conftest import Aws, refused
from test_listeners import listen, target_group

STICKY = [{"Key": "stickiness.enabled", "Value": "true"}]
APP = [*STICKY, {"Key": "stickiness.type", "Value": "app_cookie"}]
APP += [{"Key": "stickiness.app_cookie.cookie_name", "Value": "session"}]
STAYING = {"Enabled": True, "DurationSeconds": 60}


def shared(*arns: str, **config: Any) -> list[dict[str, Any]]:
    groups = [{"TargetGroupArn": arn, "Weight": 1} for arn in arns]
    return [{"Type": "forward", "ForwardConfig": {"TargetGroups": groups, **config}}]


@pytest.mark.parametrize("attributes", [STICKY, APP])
def test_targets_do_not_become_sticky_where_groups_are_not(aws: Aws, attributes: list[dict[str, str]]) -> None:
    elbv2, balancer = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    one, two = target_group(aws, "one"), target_group(aws, "two")
    listener = listen(aws, balancer, 80, shared(one, two))
    with refused(
        "InvalidConfigurationRequest",
        "This target group appears behind a rule with group stickiness disabled (arn:",
    ):
        elbv2.modify_target_group_attributes(TargetGroupArn=one, Attributes=attributes)
    elbv2.modify_listener(ListenerArn=listener, DefaultActions=shared(one, two, TargetGroupStickinessConfig=STAYING))
    elbv2.modify_target_group_attributes(TargetGroupArn=one, Attributes=attributes)


def test_groups_with_sticky_targets_are_not_shared_without_stickiness(aws: Aws) -> None:
    elbv2, balancer = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    one, two = target_group(aws, "one"), target_group(aws, "two")
    elbv2.modify_target_group_attributes(TargetGroupArn=one, Attributes=STICKY)
    for config in ({}, {"TargetGroupStickinessConfig": {"Enabled": False}}):
        with refused("InvalidConfigurationRequest", "You must enable group stickiness on a rule"):
            listen(aws, balancer, 80, shared(one, two, **config))
    listener = listen(aws, balancer, 80, shared(one))
    with refused("InvalidConfigurationRequest", one):
        elbv2.modify_listener(ListenerArn=listener, DefaultActions=shared(one, two))
    path = [{"Field": "path-pattern", "Values": ["/a"]}]
    with refused("InvalidConfigurationRequest", one):
        elbv2.create_rule(ListenerArn=listener, Priority=1, Conditions=path, Actions=shared(two, one))
    unused = shared(two, one)
    unused[0]["ForwardConfig"]["TargetGroups"][1]["Weight"] = 0
    elbv2.modify_listener(ListenerArn=listener, DefaultActions=unused)
    staying = shared(two, one, TargetGroupStickinessConfig=STAYING)
    elbv2.create_rule(ListenerArn=listener, Priority=1, Conditions=path, Actions=staying)
