from conftest import Aws, refused


def limits(aws: Aws) -> dict[str, str]:
    return {it["Name"]: it["Max"] for it in aws.client("elbv2").describe_account_limits()["Limits"]}


def test_fifty_load_balancers_unless_set_otherwise(aws: Aws) -> None:
    for number in range(50):
        aws.create(f"web-{number}")
    with refused("TooManyLoadBalancers", "(50)"):
        aws.create("web-50")
    assert aws.create("web-0")["LoadBalancerName"] == "web-0", "an existing name needs no room"
    assert limits(aws)["application-load-balancers"] == "50"
    aws.admin("POST", "settings", {"load_balancers": 51})
    assert limits(aws)["application-load-balancers"] == "51"
    aws.create("web-50")


def test_target_groups_have_a_quota(aws: Aws) -> None:
    aws.admin("POST", "settings", {"target_groups": 1})
    elbv2 = aws.client("elbv2")
    about = {"Protocol": "HTTP", "Port": 80, "VpcId": "vpc-causeway", "TargetType": "ip"}
    elbv2.create_target_group(Name="one", **about)
    with refused("TooManyTargetGroups"):
        elbv2.create_target_group(Name="two", **about)
