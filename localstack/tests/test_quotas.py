from certificates import imported
from conftest import Aws, refused
from test_listeners import FIXED, listen, secure, target_group


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


def test_quotas_that_aws_raises_can_be_raised(aws: Aws) -> None:
    raised = {"listeners_per_balancer": 1, "rules_per_balancer": 1, "certificates_per_balancer": 1}
    aws.admin("POST", "settings", raised | {"targets_per_group": 2, "targets_per_balancer": 3})
    elbv2, balancer = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    listener = secure(aws, balancer, imported(aws, "a.example.com"))["ListenerArn"]
    with refused("TooManyListeners", "(1)"):
        listen(aws, balancer, 80, FIXED)
    rule = {"ListenerArn": listener, "Conditions": [{"Field": "path-pattern", "Values": ["/a"]}], "Actions": FIXED}
    elbv2.create_rule(Priority=1, **rule)
    with refused("TooManyRules", "(1)"):
        elbv2.create_rule(Priority=2, **rule)
    more = [{"CertificateArn": imported(aws, f"{name}.example.com")} for name in "bc"]
    elbv2.add_listener_certificates(ListenerArn=listener, Certificates=more[:1])
    with refused("TooManyCertificates", "(1)"):
        elbv2.add_listener_certificates(ListenerArn=listener, Certificates=more[1:])
    targets = [{"Id": f"198.18.1.{number}"} for number in range(1, 4)]
    with refused("TooManyTargets", "per target group is 2"):
        elbv2.register_targets(TargetGroupArn=target_group(aws, "one"), Targets=targets)
    assert limits(aws)["rules-per-application-load-balancer"] == "1"


def test_every_limit_has_the_name_that_aws_gives_it(aws: Aws) -> None:
    told = limits(aws)
    assert told["certificates-per-application-load-balancer"] == "25"
    assert told["condition-values-per-alb-rule"] == told["condition-wildcards-per-alb-rule"] == "5"
    assert told["target-id-registrations-per-application-load-balancer"] == "1000"
    assert told["targets-per-target-group"] == "1000"
    assert told["network-load-balancers"] == "50"
