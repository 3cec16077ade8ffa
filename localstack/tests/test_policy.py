from typing import Any

import pytest

from causeway_localstack.policy import Request, Verdict, conditions_hold, evaluate, matches


def statement(**about: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": "a:B", "Resource": "*"} | about


@pytest.mark.parametrize(
    ("statements", "verdict"),
    [
        ([], Verdict.SILENT),
        (statement(), Verdict.ALLOWED),
        ([statement(Action="A:b")], Verdict.ALLOWED),
        ([statement(Action=["x:Y", "a:*"])], Verdict.ALLOWED),
        ([statement(Action="a:C")], Verdict.SILENT),
        ([statement(Resource="arn:x/*")], Verdict.ALLOWED),
        ([statement(Resource="arn:y/*")], Verdict.SILENT),
        ([statement(Resource="ARN:X/*")], Verdict.SILENT),
        ([statement(Effect="Deny"), statement()], Verdict.DENIED),
        ([statement(), statement(Effect="Deny", Resource="arn:x/1")], Verdict.DENIED),
        ([{"Effect": "Allow", "NotAction": "c:*", "NotResource": "arn:y"}], Verdict.ALLOWED),
        ([{"Effect": "Allow", "NotAction": "a:*", "Resource": "*"}], Verdict.SILENT),
    ],
)
def test_statements(statements: Any, verdict: Verdict) -> None:
    assert evaluate([{"Statement": statements}], Request("a:B", "arn:x/1")) is verdict


@pytest.mark.parametrize(
    ("block", "holds"),
    [
        ({"StringEquals": {"k": "v"}}, True),
        ({"StringEquals": {"K": ["x", "v"]}}, True),
        ({"StringEquals": {"k": "V"}}, False),
        ({"StringEquals": {"none": "v"}}, False),
        ({"StringEqualsIfExists": {"none": "v"}}, True),
        ({"StringNotEquals": {"k": "v"}}, False),
        ({"StringNotEquals": {"none": "v"}}, True),
        ({"StringEqualsIgnoreCase": {"k": "V"}}, True),
        ({"StringLike": {"k": "?"}}, True),
        ({"StringNotLike": {"k": "v*"}}, False),
        ({"Null": {"k": "false"}}, True),
        ({"Null": {"k": "true"}}, False),
        ({"Null": {"none": True}}, True),
        ({"ForAllValues:StringEquals": {"keys": ["a", "b", "c"]}}, True),
        ({"ForAllValues:StringEquals": {"keys": ["a"]}}, False),
        ({"ForAllValues:StringEquals": {"none": ["a"]}}, True),
        ({"ForAnyValue:StringLike": {"keys": ["a*"]}}, True),
        ({"ForAnyValue:StringEquals": {"none": ["a"]}}, False),
        ({"Bool": {"flag": True}}, True),
        ({"StringEquals": {"k": "v"}, "Null": {"k": "true"}}, False),
    ],
)
def test_conditions(block: dict[str, Any], holds: bool) -> None:
    assert conditions_hold(block, {"k": ["v"], "keys": ["a", "b"], "flag": ["true"]}) is holds


def test_an_unknown_operator_is_an_error_and_no_guess() -> None:
    with pytest.raises(ValueError, match="IpAddress"):
        conditions_hold({"IpAddress": {"k": "v"}}, {"k": ["v"]})


def test_only_stars_and_question_marks_are_wild() -> None:
    assert matches("a.[b]*", "a.[b]/c/d")
    assert not matches("a.b", "axb")
