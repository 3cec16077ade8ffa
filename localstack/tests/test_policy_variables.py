"""https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html"""

from typing import Any

import pytest

from causeway_localstack.policy import Request, Verdict, evaluate

TEAM = "${aws:PrincipalTag/team}"
CONTEXT = {
    "aws:principaltag/team": ["blue"],
    "aws:principaltag/star": ["b*"],
    "aws:tagkeys": ["a", "b"],
    "s3:prefix": ["blue/1"],
    "s3:team": ["blue"],
    "flag": ["true"],
}


KEY = "arn:aws:s3:::bucket/blue/key"


def verdict(resource: str = KEY, version: str | None = "2012-10-17", **about: Any) -> Verdict:
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"} | about
    if "NotResource" in about:
        del statement["Resource"]
    document = {"Statement": statement} | ({"Version": version} if version else {})
    return evaluate([document], Request("s3:GetObject", resource, CONTEXT))


@pytest.mark.parametrize(
    ("resource", "matches"),
    [
        (f"arn:aws:s3:::bucket/{TEAM}/*", True),
        ("arn:aws:s3:::bucket/${AWS:principaltag/TEAM}/*", True),
        ("arn:aws:s3:::bucket/${aws:PrincipalTag/star}/*", False),
        ("arn:aws:s3:::bucket/${aws:PrincipalTag/none}/*", False),
        ("arn:aws:s3:::bucket/${aws:TagKeys}/*", False),
        ("arn:aws:s3:::bucket/${aws:PrincipalTag/none, 'blue'}/*", True),
        ("arn:aws:s3:::bucket/${aws:PrincipalTag/team, 'red'}/*", True),
        ("arn:aws:s3:::bucket/${aws:PrincipalTag/none, 'red'}/*", False),
        ("arn:aws:s3:::bucket/${*}", False),
        ("arn:aws:${aws:PrincipalTag/service, 's3'}:::bucket/*", False),
    ],
)
def test_resources(resource: str, matches: bool) -> None:
    assert verdict(Resource=resource) is (Verdict.ALLOWED if matches else Verdict.SILENT)
    assert verdict(NotResource=resource) is (Verdict.SILENT if matches else Verdict.ALLOWED)


def test_characters_that_are_not_wild() -> None:
    for character in "*?$":
        literal = f"arn:aws:s3:::bucket/${{{character}}}"
        assert verdict(f"arn:aws:s3:::bucket/{character}", Resource=literal) is Verdict.ALLOWED
        assert verdict("arn:aws:s3:::bucket/x", Resource=literal) is Verdict.SILENT


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({"StringEquals": {"s3:team": TEAM}}, True),
        ({"StringEquals": {"s3:team": ["x", TEAM]}}, True),
        ({"StringEqualsIgnoreCase": {"s3:team": "${aws:PrincipalTag/none, 'BLUE'}"}}, True),
        ({"StringLike": {"s3:prefix": f"{TEAM}/*"}}, True),
        ({"StringLike": {"s3:prefix": "${aws:PrincipalTag/star}"}}, False),
        ({"ArnLike": {"s3:prefix": f"{TEAM}/?"}}, True),
        ({"ForAnyValue:StringEquals": {"aws:TagKeys": "${flag, 'a'}"}}, False),
        ({"StringNotEquals": {"s3:team": TEAM}}, False),
        # Nothing is equal to what has no value, or like it.
        ({"StringEquals": {"s3:team": "${aws:PrincipalTag/none}"}}, False),
        ({"StringEquals": {"s3:team": ["${aws:PrincipalTag/none}", "blue"]}}, True),
        ({"StringLike": {"s3:team": "${aws:PrincipalTag/none}*"}}, False),
        ({"StringEqualsIfExists": {"s3:team": "${aws:PrincipalTag/none}"}}, False),
        ({"StringNotEquals": {"s3:team": "${aws:PrincipalTag/none}"}}, True),
        ({"StringNotLike": {"s3:team": "${aws:PrincipalTag/none}*"}}, True),
        ({"ArnNotLike": {"s3:team": "${aws:TagKeys}"}}, True),
        # Other operators have no variables.
        ({"Bool": {"flag": "${flag}"}}, False),
    ],
)
def test_conditions(condition: dict[str, Any], holds: bool) -> None:
    assert verdict(Condition=condition) is (Verdict.ALLOWED if holds else Verdict.SILENT)


def test_a_deny_that_asks_for_what_is_not_there_denies_only_by_an_inversion() -> None:
    allow = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    for operator, expected in (("StringEquals", Verdict.ALLOWED), ("StringNotEquals", Verdict.DENIED)):
        deny = allow | {"Effect": "Deny", "Condition": {operator: {"s3:team": "${aws:PrincipalTag/none}"}}}
        document = {"Version": "2012-10-17", "Statement": [allow, deny]}
        assert evaluate([document], Request("s3:GetObject", "arn:aws:s3:::b/k", CONTEXT)) is expected


@pytest.mark.parametrize("version", [None, "2008-10-17"])
def test_policies_of_older_versions_have_no_variables(version: str | None) -> None:
    arn = f"arn:aws:s3:::bucket/{TEAM}/key"
    assert verdict(Resource=arn, version=version) is Verdict.SILENT
    assert verdict(arn, Resource=arn, version=version) is Verdict.ALLOWED
