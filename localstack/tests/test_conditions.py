from typing import Any

import pytest
from localstack.aws.api import CommonServiceException

from causeway_localstack import conditions, transforms

HOST = {"Field": "host-header", "Values": ["*.example.com"]}


def path(*values: str) -> dict[str, Any]:
    return {"Field": "path-pattern", "PathPatternConfig": {"Values": list(values)}}


def header(name: str = "X-Team", *values: str) -> dict[str, Any]:
    return {"Field": "http-header", "HttpHeaderConfig": {"HttpHeaderName": name, "Values": list(values or ["blue"])}}


def query(*pairs: dict[str, str]) -> dict[str, Any]:
    return {"Field": "query-string", "QueryStringConfig": {"Values": list(pairs)}}


def method(*values: str) -> dict[str, Any]:
    return {"Field": "http-request-method", "HttpRequestMethodConfig": {"Values": list(values)}}


def source(*values: str) -> dict[str, Any]:
    return {"Field": "source-ip", "SourceIpConfig": {"Values": list(values)}}


@pytest.mark.parametrize("field, config", [("host-header", "HostHeaderConfig"), ("path-pattern", "PathPatternConfig")])
@pytest.mark.parametrize("form", ["Values", "RegexValues"])
def test_both_forms_are_answered(field: str, config: str, form: str) -> None:
    values = ["/a.bc"] if field == "path-pattern" else ["a.bc"]
    answer = [{"Field": field, form: values, config: {form: values}}]
    assert conditions.settled([{"Field": field, form: values}]) == answer
    assert conditions.settled([{"Field": field, config: {form: values}}]) == answer


def test_the_others_are_answered_as_they_were_asked_for() -> None:
    asked = [
        header("User-Agent", "*Mozilla*"),
        {"Field": "http-header", "HttpHeaderConfig": {"HttpHeaderName": "X-Team", "RegexValues": ["blue|red"]}},
        query({"Key": "a", "Value": "b"}),
        method("GET"),
        source("10.0.0.0/8"),
    ]
    assert conditions.settled(asked) == asked


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([], "A condition must be specified"),
        ([{"Field": "cookie", "Values": ["a"]}], "field 'cookie'"),
        ([HOST, HOST], "only one 'host-header'"),
        ([path("/a"), path("/b")], "only one 'path-pattern'"),
        ([path()], "must have values"),
        ([path("/" * 129)], "1 to 128"),
        ([path("")], "1 to 128"),
        ([path("/a b")], "'/a b' is not valid"),
        ([path("/a", "/b", "/c", "/d", "/e", "/f")], "'5' condition values"),
        ([path("/a", "/b", "/c"), header("X-Team", "a", "b", "c")], "'5' condition values"),
        ([path("/*/*/*"), header("X-Team", "*a*", "?")], "'5' condition wildcards"),
        ([{"Field": "host-header", "Values": ["localhost"]}], "'localhost' is not valid"),
        ([{"Field": "host-header", "Values": ["10.0.0.1"]}], "'10.0.0.1' is not valid"),
        ([{"Field": "host-header", "Values": ["a_b.com:80"]}], "is not valid"),
        ([{"Field": "source-ip", "Values": ["10.0.0.0/8"]}], "use SourceIpConfig"),
        ([HOST | {"HostHeaderConfig": {"Values": ["a.com"]}}], "cannot specify both"),
        ([HOST | {"RegexValues": ["a"]}], "not both"),
        ([HOST | {"PathPatternConfig": {"Values": ["/a"]}}], "cannot be used with condition field"),
        ([header("Host")], "use 'host-header'"),
        ([header("X Team")], "'X Team' is not valid"),
        ([header("X" * 41)], "is not valid"),
        ([method("get")], "'get' is not valid"),
        ([method("G*")], "'G*' is not valid"),
        ([source("10.0.0.1")], "no prefix length"),
        ([source("10.0.0.1/8")], "is not valid"),
        ([source("255.255.255.255/32")], "The CIDR block '255.255.255.255/32' is not valid"),
        ([source("10.*/8")], "is not valid"),
        ([query({"Key": "a"})], "1 to 128"),
        ([{"Field": "path-pattern", "RegexValues": ["("]}], "is not valid"),
        ([{"Field": "path-pattern", "RegexValues": ["a" * 129]}], "1 to 128"),
        ([{"Field": "path-pattern", "RegexValues": ["(?=a)"]}], "not supported"),
        ([{"Field": "path-pattern", "RegexValues": [r"(a)\1"]}], "not supported"),
        ([{"Field": "query-string", "RegexValues": ["a"]}], "cannot be used with condition field"),
    ],
)
def test_what_no_condition_can_be_is_refused(asked: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(CommonServiceException) as refusal:
        conditions.settled(asked)
    assert refusal.value.code == "ValidationError"
    assert message in refusal.value.message


def url(**rewrite: str) -> dict[str, Any]:
    return {"Type": "url-rewrite", "UrlRewriteConfig": {"Rewrites": [rewrite]}}


def test_transforms_are_answered_as_they_were_asked_for() -> None:
    host = {"Type": "host-header-rewrite", "HostHeaderRewriteConfig": {"Rewrites": [{"Regex": "^a$", "Replace": "b"}]}}
    asked = [host, url(Regex="^/api/(.*)$", Replace="/$1")]
    assert transforms.settled(asked) == asked


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([{"Type": "query-rewrite"}], "'query-rewrite'"),
        ([url(Regex="a", Replace="b"), url(Regex="c", Replace="d")], "only one 'url-rewrite'"),
        ([{"Type": "url-rewrite", "UrlRewriteConfig": {"Rewrites": []}}], "exactly one rewrite"),
        ([{"Type": "url-rewrite", "HostHeaderRewriteConfig": {"Rewrites": [{"Regex": "a"}]}}], "cannot be used"),
        ([url(Regex="(", Replace="b")], "is not valid"),
        ([url(Regex="a" * 1025, Replace="b")], "1 to 1024"),
        ([url(Regex="a")], "replacement"),
    ],
)
def test_what_no_transform_can_be_is_refused(asked: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(CommonServiceException) as refusal:
        transforms.settled(asked)
    assert refusal.value.code == "ValidationError"
    assert message in refusal.value.message
