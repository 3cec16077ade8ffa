from conftest import Aws, refused
from test_listeners import FIXED


def pairs(count: int, first: int = 0) -> list[dict[str, str]]:
    return [{"Key": f"k{number}", "Value": "v"} for number in range(first, first + count)]


def test_fifty_tags_and_no_more(aws: Aws) -> None:
    elbv2, arn = aws.client("elbv2"), aws.create("web", Tags=pairs(50))["LoadBalancerArn"]
    elbv2.add_tags(ResourceArns=[arn], Tags=pairs(50))
    with refused("TooManyTags"):
        elbv2.add_tags(ResourceArns=[arn], Tags=pairs(1, first=50))
    with refused("TooManyTags"):
        aws.create("other", Tags=pairs(51))
    elbv2.remove_tags(ResourceArns=[arn], TagKeys=["k0", "none"])
    elbv2.add_tags(ResourceArns=[arn], Tags=pairs(1, first=50))
    assert len(elbv2.describe_tags(ResourceArns=[arn])["TagDescriptions"][0]["Tags"]) == 50


def test_a_key_twice_is_refused(aws: Aws) -> None:
    twice = [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]
    with refused("DuplicateTagKeys", "'a'"):
        aws.create("web", Tags=twice)
    arn = aws.create("web")["LoadBalancerArn"]
    with refused("DuplicateTagKeys", "'a'"):
        aws.client("elbv2").add_tags(ResourceArns=[arn], Tags=twice)


def test_unlawful_tags_are_refused(aws: Aws) -> None:
    """By length, and by characters: letters, numbers and spaces of any script, and a few signs."""
    for key, value, words in (
        ("a" * 129, "v", "at 'tags.1.member.key' failed to satisfy constraint: Member must have length"),
        ("k", "v" * 257, "at 'tags.1.member.value' failed to satisfy constraint: Member must have length"),
        (
            "a*b",
            "v",
            "'a*b' at 'tags.1.member.key' failed to satisfy constraint: Member must satisfy regular",
        ),
        (
            "k",
            "50%",
            "'50%' at 'tags.1.member.value' failed to satisfy constraint: Member must satisfy regular",
        ),
        ("aws:k", "v", "aws:k"),
    ):
        with refused("ValidationError", words):
            aws.create("web", Tags=[{"Key": key, "Value": value}])


def test_tags_of_any_script_are_lawful(aws: Aws) -> None:
    aws.create("web", Tags=[{"Key": "équipe", "Value": "支払い ½ a_b.c:d/e=f+g-h@i"}])


def test_tags_of_twenty_resources_at_once(aws: Aws) -> None:
    elbv2 = aws.client("elbv2")
    arns = [aws.create(f"web-{number}", Tags=pairs(1))["LoadBalancerArn"] for number in range(21)]
    described = elbv2.describe_tags(ResourceArns=arns[:20])["TagDescriptions"]
    assert [it["ResourceArn"] for it in described] == arns[:20]
    with refused("ValidationError", "at most 20"):
        elbv2.describe_tags(ResourceArns=arns)


def test_tags_of_the_unknown_are_refused_and_none_is_set(aws: Aws) -> None:
    elbv2, arn = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    with refused("LoadBalancerNotFound"):
        elbv2.add_tags(ResourceArns=[arn, arn + "0"], Tags=pairs(1))
    assert elbv2.describe_tags(ResourceArns=[arn])["TagDescriptions"][0]["Tags"] == []
    with refused("LoadBalancerNotFound"):
        elbv2.describe_tags(ResourceArns=[arn + "0"])


def test_everything_is_found_by_its_tags(aws: Aws) -> None:
    elbv2, tags = aws.client("elbv2"), [{"Key": "owner", "Value": "blue"}]
    balancer = aws.create("web", Tags=tags)["LoadBalancerArn"]
    aws.create("other", Tags=[{"Key": "owner", "Value": "red"}])
    about = {"Protocol": "HTTP", "Port": 80}
    group = elbv2.create_target_group(Name="web", VpcId="vpc-causeway", TargetType="ip", Tags=tags, **about)
    listener = elbv2.create_listener(LoadBalancerArn=balancer, DefaultActions=FIXED, Tags=tags, **about)
    listener_arn = listener["Listeners"][0]["ListenerArn"]
    path = [{"Field": "path-pattern", "Values": ["/a"]}]
    rule = elbv2.create_rule(ListenerArn=listener_arn, Priority=1, Conditions=path, Actions=FIXED, Tags=tags)
    elbv2.create_rule(ListenerArn=listener_arn, Priority=2, Conditions=path, Actions=FIXED)
    rule_arn, group_arn = rule["Rules"][0]["RuleArn"], group["TargetGroups"][0]["TargetGroupArn"]

    def found(*types: str) -> set[str]:
        filters = [{"Key": "owner", "Values": ["blue", "green"]}]
        tagging = aws.client("resourcegroupstaggingapi")
        answer = tagging.get_resources(TagFilters=filters, ResourceTypeFilters=list(types))
        return {it["ResourceARN"] for it in answer["ResourceTagMappingList"]}

    assert found("elasticloadbalancing") == {balancer, group_arn, listener_arn, rule_arn}
    assert found("elasticloadbalancing:listener") == {listener_arn}
    assert found("elasticloadbalancing:listener-rule") == {rule_arn}


def test_what_is_required_must_be_there(aws: Aws) -> None:
    with refused("ValidationError", "Value null at 'resourceArns'"):
        aws.client("elbv2", validate=False).describe_tags()
