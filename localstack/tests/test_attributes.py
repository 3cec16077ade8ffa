import pytest
from conftest import Aws, refused


def test_attributes_are_kept(aws: Aws) -> None:
    elbv2, arn = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]

    def read() -> dict[str, str]:
        answer = elbv2.describe_load_balancer_attributes(LoadBalancerArn=arn)
        return {it["Key"]: it["Value"] for it in answer["Attributes"]}

    before = read()
    assert before["idle_timeout.timeout_seconds"] == "60"
    change = {"Key": "idle_timeout.timeout_seconds", "Value": "4000"}
    answer = elbv2.modify_load_balancer_attributes(LoadBalancerArn=arn, Attributes=[change])
    assert change in answer["Attributes"]
    assert read() == before | {"idle_timeout.timeout_seconds": "4000"}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("idle_timeout.timeout_seconds", "0", "must be between '1-4000'"),
        ("idle_timeout.timeout_seconds", "4001", "must be between '1-4000'"),
        ("idle_timeout.timeout_seconds", "soon", "must be between '1-4000'"),
        ("client_keep_alive.seconds", "59", "must be between '60-604800'"),
        ("deletion_protection.enabled", "yes", "must be one of"),
        ("routing.http.desync_mitigation_mode", "none", "must be one of"),
        ("no.such.key", "1", "is not recognized"),
    ],
)
def test_wrong_attributes_are_refused(aws: Aws, key: str, value: str, message: str) -> None:
    arn = aws.create("web")["LoadBalancerArn"]
    with refused("ValidationError", message):
        aws.client("elbv2").modify_load_balancer_attributes(
            LoadBalancerArn=arn, Attributes=[{"Key": key, "Value": value}]
        )


def test_attributes_of_the_unknown_are_refused(aws: Aws) -> None:
    arn = aws.create("web")["LoadBalancerArn"] + "0"
    with refused("LoadBalancerNotFound"):
        aws.client("elbv2").describe_load_balancer_attributes(LoadBalancerArn=arn)
