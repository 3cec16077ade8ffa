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


def test_logs_need_a_bucket_that_exists(aws: Aws) -> None:
    elbv2, arn, bucket = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"], f"logs-{aws.account}"

    def log_to(name: str) -> None:
        values = {"access_logs.s3.enabled": "true", "access_logs.s3.bucket": name}
        pairs = [{"Key": key, "Value": value} for key, value in values.items()]
        elbv2.modify_load_balancer_attributes(LoadBalancerArn=arn, Attributes=pairs)

    with refused("ValidationError", "access_logs.s3.bucket"):
        log_to("")
    with refused("InvalidConfigurationRequest", f"Access Denied for bucket: {bucket}"):
        log_to(bucket)
    aws.client("s3").create_bucket(Bucket=bucket)
    log_to(bucket)
    aws.client("s3").delete_bucket(Bucket=bucket)


def test_twenty_attributes_at_once(aws: Aws) -> None:
    elbv2, arn = aws.client("elbv2", validate=False), aws.create("web")["LoadBalancerArn"]
    pairs = [{"Key": f"k{number}", "Value": ""} for number in range(21)]
    with refused("ValidationError", "length less than or equal to 20"):
        elbv2.modify_load_balancer_attributes(LoadBalancerArn=arn, Attributes=pairs)


def test_internal_ones_deny_internet_gateways(aws: Aws) -> None:
    elbv2 = aws.client("elbv2")
    for scheme, denied in (("internet-facing", "false"), ("internal", "true")):
        arn = aws.create(f"web-{scheme}", Scheme=scheme)["LoadBalancerArn"]
        attributes = elbv2.describe_load_balancer_attributes(LoadBalancerArn=arn)["Attributes"]
        assert {"Key": "ipv6.deny_all_igw_traffic", "Value": denied} in attributes
