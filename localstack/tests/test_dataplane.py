"""Load balancers carry requests: HAProxy does what listeners and their rules say."""

import http.client
import os
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest
from carrying import Site, ask, condition, fixed, forward, site, until
from conftest import Aws


@pytest.fixture
def web(aws: Aws) -> Iterator[Site]:
    with site(aws) as made:
        yield made


def paths(*values: str) -> dict[str, object]:
    return condition("path-pattern", "PathPatternConfig", *values)


def hosts(*values: str) -> dict[str, object]:
    return condition("host-header", "HostHeaderConfig", *values)


def test_requests_reach_healthy_targets_with_what_they_must_know(web: Site) -> None:
    group = web.group("app", web.backend("a"))
    web.listen(forward(group))
    web.healthy(group)
    got = web.get("/path?x=1", X_Forwarded_For="10.1.2.3")
    assert got.status == 200
    assert (got.said["backend"], got.said["path"]) == ("a", "/path?x=1")
    headers = got.said["headers"]
    assert headers["x-forwarded-for"] == "10.1.2.3, 127.0.0.1"
    assert (headers["x-forwarded-proto"], headers["x-forwarded-port"]) == ("http", "80")
    assert headers["x-amzn-trace-id"].startswith("Root=1-")
    assert web.get().said["headers"]["x-forwarded-for"] == "127.0.0.1"


def test_the_first_rule_whose_conditions_all_hold_is_done(web: Site) -> None:
    listener = web.listen(fixed("none", "404"))
    rules = [
        ("both", [hosts("a.example.com"), paths("/x")]),
        ("host", hosts("a.example.com", "*.wild.example.com")),
        ("path", paths("/img/*", "/one?", "/dot.gif")),
        ("header", condition("http-header", "HttpHeaderConfig", "*Mobile*", HttpHeaderName="User-Agent")),
        ("query", condition("query-string", "QueryStringConfig", {"Key": "v", "Value": "1*"}, {"Value": "beta"})),
        ("method", condition("http-request-method", "HttpRequestMethodConfig", "PUT", "DELETE")),
        ("host regex", {"Field": "host-header", "HostHeaderConfig": {"RegexValues": ["^r[0-9]+\\.example"]}}),
        ("path regex", {"Field": "path-pattern", "PathPatternConfig": {"RegexValues": ["^/v[12]/(a|b)$"]}}),
        ("quotes", paths("/it's")),
        ("source", [paths("/source"), condition("source-ip", "SourceIpConfig", "127.0.0.0/8")]),
        ("elsewhere", [paths("/elsewhere"), condition("source-ip", "SourceIpConfig", "10.0.0.0/8")]),
    ]
    for number, (name, conditions) in enumerate(rules, 1):
        web.rule(listener, number * 10, conditions, fixed(name))
    web.in_force()

    def answer(path: str = "/", method: str = "GET", **headers: str) -> str:
        return web.get(path, method=method, **headers).text

    assert answer() == "none"
    assert answer("/x", Host="A.Example.com:80") == "both"
    assert answer("/y", Host="a.example.com") == "host"
    assert answer(Host="b.wild.example.com") == "host"
    assert answer(Host="wild.example.com") == "none"
    assert answer("/img/a/b?c") == "path"
    assert answer("/one1") == "path"
    assert answer("/one") == "none"
    assert answer("/IMG/a") == "none"
    assert answer("/dotXgif") == "none"
    assert answer(User_Agent="some mobile thing") == "header"
    assert answer("/?a=b&V=12") == "query"
    assert answer("/?v=21") == "none"
    assert answer("/?any=beta&x") == "query"
    assert answer("/?beta=any") == "none"
    assert answer(method="PUT") == "method"
    assert answer(Host="r12.example.org") == "host regex"
    assert answer("/v2/b") == "path regex"
    assert answer("/v3/b") == "none"
    assert answer("/it's") == "quotes"
    assert answer("/source") == "source"
    assert answer("/elsewhere") == "none"


def test_priorities_decide_and_can_be_exchanged(web: Site) -> None:
    listener = web.listen(fixed("default"))
    one = web.rule(listener, 1, paths("/*"), fixed("one"))
    two = web.rule(listener, 2, paths("/*"), fixed("two"))
    web.in_force()
    assert web.get().text == "one"
    priorities = [{"RuleArn": one, "Priority": 9}, {"RuleArn": two, "Priority": 3}]
    web.elbv2.set_rule_priorities(RulePriorities=priorities)
    web.in_force()
    assert web.get().text == "two"
    web.elbv2.delete_rule(RuleArn=two)
    web.in_force()
    assert web.get().text == "one"


def test_fixed_responses_carry_any_text(web: Site) -> None:
    text = 'It\'s 100% "quoted" \\ {} ; #\n\tüber' + "." * 900
    response = {"StatusCode": "503", "MessageBody": text, "ContentType": "application/json"}
    web.listen({"Type": "fixed-response", "FixedResponseConfig": response})
    got = web.get()
    assert (got.status, got.text) == (503, text)
    assert got.headers["Content-Type"].startswith("application/json")


@pytest.mark.parametrize("response", [{"StatusCode": "204"}, {"StatusCode": "204", "MessageBody": "none"}])
def test_a_response_without_content_has_no_body(web: Site, response: dict[str, str]) -> None:
    web.listen({"Type": "fixed-response", "FixedResponseConfig": response})
    got = web.get()
    assert (got.status, got.text) == (204, "")


@pytest.mark.parametrize(
    ("redirect", "location"),
    [
        ({"Protocol": "HTTPS", "Port": "443"}, "https://a.example:443/p/q?x=1&y=%20"),
        ({"Host": "www.#{host}", "Path": "/new/#{path}"}, "http://www.a.example:80/new/p/q?x=1&y=%20"),
        ({"Path": "/100%", "Query": ""}, "http://a.example:80/100%"),
        ({"Path": "/#{protocol}/#{port}", "Query": "was=#{path}"}, "http://a.example:80/http/80?was=p/q"),
    ],
)
def test_redirects_fill_in_what_was_asked(web: Site, redirect: dict[str, str], location: str) -> None:
    web.listen({"Type": "redirect", "RedirectConfig": {"StatusCode": "HTTP_302"} | redirect})
    got = web.get("/p/q?x=1&y=%20", Host="a.example")
    assert (got.status, got.headers["Location"]) == (302, location)


def test_a_redirect_without_query_has_no_question_mark(web: Site) -> None:
    redirect = {"StatusCode": "HTTP_301", "Protocol": "HTTPS", "Port": "443"}
    web.listen({"Type": "redirect", "RedirectConfig": redirect})
    got = web.get("/p", Host="a.example")
    assert (got.status, got.headers["Location"]) == (301, "https://a.example:443/p")


def test_weights_share_requests_out(web: Site) -> None:
    one, two, none = (web.group(name, web.backend(name)) for name in ("one", "two", "none"))
    listener = web.listen(forward((one, 3), (two, 1), (none, 0)))
    web.healthy(one)
    web.healthy(two)
    seen = Counter(web.get().said["backend"] for _ in range(200))
    assert seen["none"] == 0
    assert 100 < seen["one"] < 190 and seen["one"] + seen["two"] == 200
    web.elbv2.modify_listener(ListenerArn=listener, DefaultActions=[forward((one, 0), (two, 1))])
    web.in_force()
    assert {web.get().said["backend"] for _ in range(20)} == {"two"}
    web.elbv2.modify_listener(ListenerArn=listener, DefaultActions=[forward((one, 0), (two, 0))])
    web.in_force()
    assert web.get().status == 503


def test_clients_stick_to_a_group_and_to_a_target(web: Site) -> None:
    sticky = {"stickiness.enabled": "true", "stickiness.type": "lb_cookie"}
    one = web.group("one", web.backend("a"), web.backend("b"), attributes=sticky)
    two = web.group("two", web.backend("c"), web.backend("d"), attributes=sticky)
    web.listen(forward((one, 1), (two, 1), stick=60))
    web.healthy(one)
    web.healthy(two)
    first = web.get()
    cookies = [it.partition(";")[0] for it in first.headers.get_all("Set-Cookie")]
    assert sorted(it.partition("=")[0] for it in cookies) == ["AWSALB", "AWSALBTG"]
    assert {web.get(Cookie="; ".join(cookies)).said["backend"] for _ in range(20)} == {first.said["backend"]}
    assert {web.get().said["backend"] for _ in range(60)} == {"a", "b", "c", "d"}


def test_clients_stick_to_a_target_by_the_applications_cookie(web: Site) -> None:
    sticky = {
        "stickiness.enabled": "true",
        "stickiness.type": "app_cookie",
        "stickiness.app_cookie.cookie_name": "session",
    }
    group = web.group("app", *(web.backend(name) for name in "abc"), attributes=sticky)
    web.listen(forward(group))
    web.healthy(group)
    first = web.get("/login")
    cookie = first.headers["Set-Cookie"]
    answers = [web.get(Cookie=cookie).said for _ in range(20)]
    assert {it["backend"] for it in answers} == {first.said["backend"]}
    assert {it["headers"]["cookie"] for it in answers} == {"session=abc"}
    assert {web.get().said["backend"] for _ in range(20)} == {"a", "b", "c"}


def test_transforms_change_what_the_target_gets(web: Site) -> None:
    group = web.group("app", web.backend("a"))
    listener = web.listen(forward(group))
    transforms = [
        {"Type": "url-rewrite", "UrlRewriteConfig": {"Rewrites": [{"Regex": "^/api/(v\\d)/", "Replace": "/$1/100%/"}]}},
        {
            "Type": "host-header-rewrite",
            "HostHeaderRewriteConfig": {"Rewrites": [{"Regex": "^(.+)\\.example", "Replace": "${1}.internal"}]},
        },
    ]
    web.rule(listener, 1, paths("/api/*"), forward(group), Transforms=transforms)
    web.in_force()
    web.healthy(group)
    got = web.get("/api/v2/list?x=1", Host="a.example.com").said
    assert (got["path"], got["headers"]["host"]) == ("/v2/100%/list?x=1", "a.internal.com")
    got = web.get("/api/list", Host="other").said
    assert (got["path"], got["headers"]["host"]) == ("/api/list", "other")


def test_a_group_without_targets_is_unavailable_and_one_that_refuses_a_bad_gateway(web: Site) -> None:
    group, backend = web.group("app"), web.backend("a")
    web.listen(forward(group))
    assert web.get().status == 503
    web.elbv2.register_targets(TargetGroupArn=group, Targets=[backend.target])
    web.in_force()
    web.healthy(group)
    assert web.get().status == 200
    backend.close()
    assert web.get().status == 502


def test_an_idle_connection_meets_the_new_rules(web: Site) -> None:
    listener = web.listen(fixed("old"))
    connection = http.client.HTTPConnection(web.address, 80, timeout=120)
    assert ask(connection, "/", "GET", {}).text == "old"
    web.elbv2.modify_listener(ListenerArn=listener, DefaultActions=[fixed("new")])
    web.in_force()
    connection.close()
    assert web.get().text == "new"


def test_a_port_that_is_taken_is_told_and_the_others_go_on(web: Site) -> None:
    web.listen(fixed("eighty"))
    with socket.create_server((web.address, 81)):
        listener = {"LoadBalancerArn": web.arn, "Protocol": "HTTP", "Port": 81, "DefaultActions": [fixed("other")]}
        web.elbv2.create_listener(**listener)
        told = until(lambda: web.aws.admin("GET", "dataplane")["error"], "the error")
        assert f"[{web.address}:81]" in told
        assert web.get().text == "eighty"
    until(lambda: not web.aws.admin("GET", "dataplane")["error"], "the next try")
    web.in_force()
    assert web.get(port=81).text == "other"


def test_a_proxy_that_ends_is_started_again(web: Site) -> None:
    group = web.group("app", web.backend("a"))
    web.listen(forward(group))
    web.healthy(group)
    before = web.aws.admin("GET", "dataplane")["process"]
    os.kill(before, signal.SIGKILL)
    until(lambda: web.aws.admin("GET", "dataplane")["process"] not in (None, before), "another process")

    def answered() -> bool:
        with suppress(ConnectionRefusedError):
            return web.get().said["backend"] == "a"
        return False

    until(answered, "its listeners")


def test_listeners_and_balancers_come_and_go(web: Site) -> None:
    first = web.listen(fixed("eighty"))
    web.listen(fixed("other"), port=8080)
    address = web.address
    assert (web.get().text, web.get(port=8080).text) == ("eighty", "other")
    web.elbv2.delete_listener(ListenerArn=first)
    web.in_force()
    with pytest.raises(ConnectionRefusedError):
        web.get()
    assert (web.address, web.get(port=8080).text) == (address, "other")
    web.elbv2.delete_load_balancer(LoadBalancerArn=web.arn)
    web.in_force()
    assert web.aws.admin("GET", "dataplane")["balancers"] == []


def test_an_account_without_traffic_costs_nothing(aws: Aws) -> None:
    before = aws.admin("GET", "dataplane")
    arn = aws.create("web")["LoadBalancerArn"]
    elbv2 = aws.client("elbv2")
    elbv2.create_listener(LoadBalancerArn=arn, Protocol="HTTP", Port=80, DefaultActions=[fixed("none")])
    assert aws.admin("GET", "dataplane") == before
