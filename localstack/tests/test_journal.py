import pytest
from botocore.exceptions import ClientError
from conftest import Aws


def test_every_call_is_written_down_with_its_outcome(aws: Aws) -> None:
    arn = aws.create("web")["LoadBalancerArn"]
    with pytest.raises(ClientError):
        aws.describe("none")
    aws.client("elbv2").describe_tags(ResourceArns=[arn])
    aws.client("sts").get_caller_identity()
    told = [(it["service"], it["operation"], it["resource"], it["outcome"], it["status"]) for it in aws.journal()]
    assert told == [
        ("elbv2", "CreateLoadBalancer", "web", "OK", 200),
        ("elbv2", "DescribeLoadBalancers", "none", "LoadBalancerNotFound", 400),
        ("elbv2", "DescribeTags", arn, "OK", 200),
        ("sts", "GetCallerIdentity", None, "OK", 200),
    ]
    entry = aws.journal()[0]
    assert entry["account"] == aws.account
    assert entry["principal"] == f"arn:aws:iam::{aws.account}:root"
    assert (entry["role"], entry["fault"], entry["client"]) == (None, None, "127.0.0.1")
    assert 0 < entry["duration_ms"] < 10_000


def test_since_tells_only_what_is_new(aws: Aws) -> None:
    aws.create("one")
    last = aws.journal()[-1]["id"]
    aws.create("two")
    assert [it["resource"] for it in aws.admin("GET", f"journal?since={last}")] == ["two"]


def test_accounts_are_apart_and_forgotten_apart(aws: Aws, endpoint: str) -> None:
    other = Aws(endpoint, "100000000000")
    other.describe()
    aws.describe()
    assert {it["account"] for it in aws.journal()} == {aws.account}
    aws.admin("DELETE", "journal")
    assert aws.journal() == []
    assert other.journal() != []


def test_the_seed_is_no_call(aws: Aws) -> None:
    assert aws.journal() == []


def test_a_reply_names_its_request_in_the_header(aws: Aws) -> None:
    """As on AWS, where clients log it: https://docs.aws.amazon.com/sdkref/latest/guide/feature-request-id.html"""
    answer = aws.client("elbv2").describe_load_balancers()["ResponseMetadata"]
    assert answer["HTTPHeaders"]["x-amzn-requestid"] == answer["RequestId"]
