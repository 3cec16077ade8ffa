import time
from concurrent.futures import ThreadPoolExecutor

from conftest import Aws, refused


def test_the_unknown_is_not_found(aws: Aws) -> None:
    arn = aws.create("web")["LoadBalancerArn"]
    elbv2 = aws.client("elbv2")
    with refused("LoadBalancerNotFound", "[none]"):
        aws.describe("web", "none")
    with refused("LoadBalancerNotFound"):
        elbv2.describe_load_balancers(LoadBalancerArns=[arn + "0"])
    assert elbv2.describe_load_balancers(LoadBalancerArns=[arn])["LoadBalancers"][0]["LoadBalancerName"] == "web"


def test_at_most_twenty_names(aws: Aws) -> None:
    with refused("ValidationError", "at most 20"):
        aws.describe(*(f"web-{number}" for number in range(21)))


def test_pages_survive_what_comes_and_goes(aws: Aws) -> None:
    elbv2 = aws.client("elbv2")
    arns = [aws.create(f"web-{number}")["LoadBalancerArn"] for number in range(5)]
    first = elbv2.describe_load_balancers(PageSize=2)
    assert [it["LoadBalancerName"] for it in first["LoadBalancers"]] == ["web-0", "web-1"]
    elbv2.delete_load_balancer(LoadBalancerArn=arns[1])
    aws.create("new")
    rest = elbv2.describe_load_balancers(Marker=first["NextMarker"])
    assert [it["LoadBalancerName"] for it in rest["LoadBalancers"]] == ["web-2", "web-3", "web-4", "new"]
    assert not rest.get("NextMarker")


def test_wrong_pages_are_refused(aws: Aws) -> None:
    elbv2 = aws.client("elbv2")
    with refused("ValidationError", "at 'pageSize' failed to satisfy constraint"):
        elbv2.describe_load_balancers(PageSize=401)
    with refused("ValidationError", "Marker"):
        elbv2.describe_load_balancers(Marker="%%%")


def test_five_hundred_come_in_two_pages_and_sooner_than_one_by_one(aws: Aws) -> None:
    aws.admin("POST", "settings", {"load_balancers": 500})
    elbv2 = aws.client("elbv2")
    about = {"Subnets": ["subnet-abc", "subnet-def"], "SecurityGroups": ["sg-web"]}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: elbv2.create_load_balancer(Name=f"web-{number}", **about), range(500)))
    began = time.monotonic()
    first = elbv2.describe_load_balancers()
    second = elbv2.describe_load_balancers(Marker=first["NextMarker"])
    all_at_once = time.monotonic() - began
    assert (len(first["LoadBalancers"]), len(second["LoadBalancers"])) == (400, 100)
    assert not second.get("NextMarker")
    began = time.monotonic()
    for number in range(500):
        elbv2.describe_load_balancers(Names=[f"web-{number}"])
    one_by_one = time.monotonic() - began
    assert all_at_once < one_by_one / 4, f"{all_at_once:.1f} s and {one_by_one:.1f} s"


def test_target_groups_come_in_pages(aws: Aws) -> None:
    elbv2 = aws.client("elbv2")
    about = {"Protocol": "HTTP", "Port": 80, "VpcId": "vpc-causeway", "TargetType": "ip"}
    for number in range(3):
        elbv2.create_target_group(Name=f"web-{number}", **about)
    first = elbv2.describe_target_groups(PageSize=2)
    rest = elbv2.describe_target_groups(Marker=first["NextMarker"])
    names = [it["TargetGroupName"] for it in first["TargetGroups"] + rest["TargetGroups"]]
    assert names == ["web-0", "web-1", "web-2"]
