from conftest import Aws, refused


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
    for key, value in (("a" * 129, "v"), ("k", "v" * 257), ("aws:k", "v")):
        with refused("ValidationError", key[:5]):
            aws.create("web", Tags=[{"Key": key, "Value": value}])


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
