from typing import Any

import pytest
from botocore.client import BaseClient
from certificates import imported
from conftest import Aws, refused
from test_actions import OIDC, SESSION
from test_listeners import FIXED, forward, listen, target_group


def path(value: str) -> list[dict[str, Any]]:
    return [{"Field": "path-pattern", "PathPatternConfig": {"Values": [value]}}]


@pytest.fixture
def elbv2(aws: Aws) -> BaseClient:
    return aws.client("elbv2", validate=False)


@pytest.fixture
def listener(aws: Aws) -> str:
    return listen(aws, aws.create("web")["LoadBalancerArn"], 80, FIXED)


def create(elbv2: BaseClient, listener: str, priority: int, **about: Any) -> dict[str, Any]:
    asked = {"Conditions": path(f"/{priority}"), "Actions": FIXED} | about
    return elbv2.create_rule(ListenerArn=listener, Priority=priority, **asked)["Rules"][0]


def priorities(elbv2: BaseClient, listener: str) -> dict[str, str]:
    rules = elbv2.describe_rules(ListenerArn=listener)["Rules"]
    return {it["RuleArn"]: it["Priority"] for it in rules if not it["IsDefault"]}


def test_a_rule_is_what_was_asked_for(aws: Aws, elbv2: BaseClient, listener: str) -> None:
    group = target_group(aws, "web")
    transform = {"Type": "url-rewrite", "UrlRewriteConfig": {"Rewrites": [{"Regex": "^/api", "Replace": "/"}]}}
    created = create(
        elbv2,
        listener,
        7,
        Conditions=[{"Field": "path-pattern", "RegexValues": ["^/api"]}],
        Actions=forward(group),
        Transforms=[transform],
        Tags=[{"Key": "team", "Value": "blue"}],
    )
    arn = created.pop("RuleArn")
    assert arn.startswith(listener.replace(":listener/", ":listener-rule/") + "/")
    weighted = {"TargetGroups": [{"TargetGroupArn": group, "Weight": 1}]}
    assert created == {
        "Priority": "7",
        "Conditions": [
            {"Field": "path-pattern", "RegexValues": ["^/api"], "PathPatternConfig": {"RegexValues": ["^/api"]}}
        ],
        "Actions": [
            {
                "Type": "forward",
                "TargetGroupArn": group,
                "ForwardConfig": weighted | {"TargetGroupStickinessConfig": {"Enabled": False}},
            }
        ],
        "IsDefault": False,
        "Transforms": [transform],
    }
    assert elbv2.describe_rules(RuleArns=[arn])["Rules"] == [created | {"RuleArn": arn}]
    default = elbv2.describe_rules(ListenerArn=listener)["Rules"][-1]
    assert (default["Priority"], default["IsDefault"], default["Actions"]) == ("default", True, FIXED)
    tags = elbv2.describe_tags(ResourceArns=[arn, default["RuleArn"]])["TagDescriptions"]
    assert [it["Tags"] for it in tags] == [[{"Key": "team", "Value": "blue"}], []]


def test_modify_replaces_only_what_is_named(aws: Aws, elbv2: BaseClient, listener: str) -> None:
    transform = {"Type": "url-rewrite", "UrlRewriteConfig": {"Rewrites": [{"Regex": "^/a", "Replace": "/b"}]}}
    rule = create(elbv2, listener, 1, Transforms=[transform])
    arn, group = rule["RuleArn"], target_group(aws, "web")

    def modified(**changes: Any) -> dict[str, Any]:
        [answer] = elbv2.modify_rule(RuleArn=arn, **changes)["Rules"]
        assert elbv2.describe_rules(RuleArns=[arn])["Rules"] == [answer]
        return answer

    after = modified(Conditions=path("/other"))
    assert after == rule | {"Conditions": after["Conditions"]} != rule
    rule, after = after, modified(Actions=forward(group))
    assert after == rule | {"Actions": after["Actions"]} != rule
    with refused("ResourceInUse"):
        elbv2.delete_target_group(TargetGroupArn=group)
    rule, after = after, modified(ResetTransforms=True)
    assert after == rule | {"Transforms": []} != rule
    modified(Actions=FIXED)
    elbv2.delete_target_group(TargetGroupArn=group)
    with refused("ValidationError", "cannot specify both"):
        modified(Transforms=[transform], ResetTransforms=True)
    with refused("ValidationError"):
        modified()


def test_a_priority_is_used_once(elbv2: BaseClient, listener: str) -> None:
    create(elbv2, listener, 50_000)
    with refused("PriorityInUse", "'50000' is currently in use"):
        create(elbv2, listener, 50_000)
    for priority in (0, 50_001, -1):
        with refused("ValidationError", "at 'priority' failed to satisfy constraint"):
            create(elbv2, listener, priority)


def test_priorities_change_all_at_once(aws: Aws, elbv2: BaseClient, listener: str) -> None:
    one, two, three = (create(elbv2, listener, number)["RuleArn"] for number in (1, 2, 3))

    def reorder(**wanted: int) -> None:
        arns = {"one": one, "two": two, "three": three}
        pairs = [{"RuleArn": arns[name], "Priority": priority} for name, priority in wanted.items()]
        elbv2.set_rule_priorities(RulePriorities=pairs)

    reorder(one=2, two=1)
    assert priorities(elbv2, listener) == {two: "1", one: "2", three: "3"}
    with refused("PriorityInUse", "'3'"):
        reorder(one=5, two=3)
    with refused("PriorityInUse", "'9'"):
        reorder(one=9, two=9)
    assert priorities(elbv2, listener) == {two: "1", one: "2", three: "3"}
    reorder(one=3, two=2, three=1)
    assert list(priorities(elbv2, listener)) == [three, two, one]


def test_the_default_rule_stays_as_it_is(elbv2: BaseClient, listener: str) -> None:
    [default] = elbv2.describe_rules(ListenerArn=listener)["Rules"]
    arn = default["RuleArn"]
    for call in (
        lambda: elbv2.delete_rule(RuleArn=arn),
        lambda: elbv2.modify_rule(RuleArn=arn, Actions=FIXED),
        lambda: elbv2.set_rule_priorities(RulePriorities=[{"RuleArn": arn, "Priority": 1}]),
    ):
        with refused("OperationNotPermitted", "Default rule"):
            call()


def test_a_deleted_rule_is_gone_with_its_tags(elbv2: BaseClient, listener: str) -> None:
    arn = create(elbv2, listener, 1, Tags=[{"Key": "a", "Value": "b"}])["RuleArn"]
    elbv2.delete_rule(RuleArn=arn)
    for call in (
        lambda: elbv2.delete_rule(RuleArn=arn),
        lambda: elbv2.describe_rules(RuleArns=[arn]),
        lambda: elbv2.describe_tags(ResourceArns=[arn]),
        lambda: elbv2.add_tags(ResourceArns=[arn], Tags=[{"Key": "a", "Value": "b"}]),
        lambda: elbv2.set_rule_priorities(RulePriorities=[{"RuleArn": arn, "Priority": 1}]),
    ):
        with refused("RuleNotFound"):
            call()
    with refused("ListenerNotFound"):
        create(elbv2, listener + "0", 1)
    with refused("ListenerNotFound"):
        elbv2.describe_rules(ListenerArn=listener + "0")


def test_a_hundred_rules_on_a_load_balancer(aws: Aws, elbv2: BaseClient, listener: str) -> None:
    other = listen(aws, elbv2.describe_listeners(ListenerArns=[listener])["Listeners"][0]["LoadBalancerArn"], 81, FIXED)
    for number in range(1, 101):
        create(elbv2, listener if number % 2 else other, number)
    with refused("TooManyRules", "(100)"):
        create(elbv2, other, 101)
    shown = elbv2.describe_rules(ListenerArn=listener, PageSize=50)
    assert [it["Priority"] for it in shown["Rules"][:3]] == ["1", "3", "5"]
    rest = elbv2.describe_rules(ListenerArn=listener, Marker=shown["NextMarker"])
    assert [it["Priority"] for it in rest["Rules"]] == ["default"]


def test_a_refused_rule_leaves_nothing(aws: Aws, elbv2: BaseClient, listener: str) -> None:
    group = target_group(aws, "web")
    for about, code in (
        ({"Actions": forward(group + "0")}, "TargetGroupNotFound"),
        ({"Actions": []}, "ValidationError"),
        ({"Conditions": []}, "ValidationError"),
        ({"Actions": forward(group), "Transforms": [{"Type": "url-rewrite"}]}, "ValidationError"),
    ):
        with refused(code):
            create(elbv2, listener, 1, **about)
    assert priorities(elbv2, listener) == {}
    elbv2.delete_target_group(TargetGroupArn=group)


def test_a_client_secret_is_never_shown(aws: Aws) -> None:
    elbv2, balancer = aws.client("elbv2", validate=False), aws.create("web")["LoadBalancerArn"]
    certificate = [{"CertificateArn": imported(aws, "a.example.com")}]
    answer = elbv2.create_listener(
        LoadBalancerArn=balancer, Protocol="HTTPS", Port=443, Certificates=certificate, DefaultActions=FIXED
    )
    oidc = {"Type": "authenticate-oidc", "Order": 1}
    last = [FIXED[0] | {"Order": 2}]
    listener = answer["Listeners"][0]["ListenerArn"]
    rule = create(elbv2, listener, 1, Actions=[oidc | {"AuthenticateOidcConfig": OIDC}, *last])
    shown = {key: value for key, value in OIDC.items() if key != "ClientSecret"}
    assert rule["Actions"][0]["AuthenticateOidcConfig"] == shown | SESSION
    keeping = shown | {"UseExistingClientSecret": True, "Scope": "email"}
    after = elbv2.modify_rule(RuleArn=rule["RuleArn"], Actions=[oidc | {"AuthenticateOidcConfig": keeping}, *last])
    assert after["Rules"][0]["Actions"][0]["AuthenticateOidcConfig"] == shown | SESSION | {"Scope": "email"}
