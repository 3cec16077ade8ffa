import pytest
from conftest import Aws, refused


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a" * 33, "cannot be longer than '32' characters"),
        ("under_score", "alphanumeric characters and hyphens"),
        ("-front", "cannot begin or end with a hyphen"),
        ("back-", "cannot begin or end with a hyphen"),
        ("internal-web", "cannot begin with 'internal-'"),
    ],
)
def test_a_bad_name_is_refused(aws: Aws, name: str, message: str) -> None:
    with refused("ValidationError", message):
        aws.create(name)
    assert aws.describe() == []


@pytest.mark.parametrize("name", ["a", "A-1", "internal", "a" * 32])
def test_a_good_name_is_taken(aws: Aws, name: str) -> None:
    assert aws.create(name)["LoadBalancerName"] == name
