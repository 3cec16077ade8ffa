from typing import Any

from conftest import Aws, refused


def target_group(aws: Aws, name: str) -> str:
    about = {"Protocol": "HTTP", "Port": 80, "VpcId": "vpc-causeway", "TargetType": "ip"}
    return aws.client("elbv2").create_target_group(Name=name, **about)["TargetGroups"][0]["TargetGroupArn"]


def forward(arn: str) -> list[dict[str, Any]]:
    return [{"Type": "forward", "TargetGroupArn": arn}]


def listen(aws: Aws, balancer: str, port: int, actions: list[dict[str, Any]]) -> str:
    elbv2 = aws.client("elbv2")
    answer = elbv2.create_listener(LoadBalancerArn=balancer, Protocol="HTTP", Port=port, DefaultActions=actions)
    return answer["Listeners"][0]["ListenerArn"]


def test_one_listener_per_port(aws: Aws) -> None:
    balancer, group = aws.create("web")["LoadBalancerArn"], target_group(aws, "web")
    listen(aws, balancer, 80, forward(group))
    with refused("DuplicateListener"):
        listen(aws, balancer, 80, forward(group))
    listen(aws, balancer, 81, forward(group))
    ports = aws.client("elbv2").describe_listeners(LoadBalancerArn=balancer)["Listeners"]
    assert [it["Port"] for it in ports] == [80, 81]


def test_a_target_group_hangs_on_one_load_balancer(aws: Aws) -> None:
    elbv2 = aws.client("elbv2")
    one, other = aws.create("one")["LoadBalancerArn"], aws.create("other")["LoadBalancerArn"]
    mine, free = target_group(aws, "mine"), target_group(aws, "free")
    listen(aws, one, 80, forward(mine))
    weighted = [{"Type": "forward", "ForwardConfig": {"TargetGroups": [{"TargetGroupArn": mine, "Weight": 1}]}}]
    for actions in (forward(mine), weighted):
        with refused("TargetGroupAssociationLimit", mine):
            listen(aws, other, 80, actions)
    listener = listen(aws, other, 80, forward(free))
    condition = [{"Field": "path-pattern", "Values": ["/a"]}]
    with refused("TargetGroupAssociationLimit"):
        elbv2.create_rule(ListenerArn=listener, Conditions=condition, Priority=1, Actions=forward(mine))
    created = elbv2.create_rule(ListenerArn=listener, Conditions=condition, Priority=1, Actions=forward(free))
    rule = created["Rules"][0]["RuleArn"]
    with refused("TargetGroupAssociationLimit"):
        elbv2.modify_rule(RuleArn=rule, Actions=forward(mine))
    with refused("TargetGroupAssociationLimit"):
        elbv2.modify_listener(ListenerArn=listener, DefaultActions=forward(mine))
    listen(aws, one, 81, forward(mine))
    rules = elbv2.describe_rules(ListenerArn=listener)["Rules"]
    assert [it["Priority"] for it in rules] == ["1", "default"]


def test_tags_of_listeners_and_target_groups(aws: Aws) -> None:
    elbv2, group = aws.client("elbv2"), target_group(aws, "web")
    listener = listen(aws, aws.create("web")["LoadBalancerArn"], 80, forward(group))
    tag = {"Key": "a", "Value": "b"}
    elbv2.add_tags(ResourceArns=[group, listener], Tags=[tag])
    described = elbv2.describe_tags(ResourceArns=[group, listener])["TagDescriptions"]
    assert [it["Tags"] for it in described] == [[tag], [tag]]
