"""Targets come and go, are checked, and no request is lost on the way."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from carrying import Answer, Backend, Site, condition, fixed, forward, site, until
from conftest import Aws

MISMATCH = "Target.ResponseCodeMismatch"


@pytest.fixture
def web(aws: Aws) -> Iterator[Site]:
    with site(aws) as made:
        yield made


def test_a_new_target_gets_nothing_before_its_first_check_is_passed(web: Site) -> None:
    good, bad = web.backend("good"), web.backend("bad")
    bad.healthy.clear()
    group = web.group("app", good)
    web.listen(forward(group))
    web.healthy(group)
    web.elbv2.register_targets(TargetGroupArn=group, Targets=[bad.target])
    web.in_force()
    assert {web.get().said["backend"] for _ in range(10)} == {"good"}
    state = dict((port, state) for port, state, _ in web.health(group))
    assert state[good.port] == "healthy"
    assert state[bad.port] in ("initial", "unhealthy")
    bad.healthy.set()
    web.healthy(group)
    assert {web.get().said["backend"] for _ in range(10)} == {"good", "bad"}


def test_failing_checks_make_a_target_unhealthy_and_say_why(web: Site) -> None:
    good, bad = web.backend("good"), web.backend("bad")
    group = web.group("app", good, bad, UnhealthyThresholdCount=2)
    web.listen(forward(group))
    web.healthy(group)
    bad.healthy.clear()
    unhealthy = (bad.port, "unhealthy", MISMATCH)
    until(lambda: unhealthy in web.health(group), "the bad target to be unhealthy")
    assert {web.get().said["backend"] for _ in range(10)} == {"good"}
    described = web.elbv2.describe_target_health(TargetGroupArn=group, Targets=[bad.target])
    assert "[404]" in described["TargetHealthDescriptions"][0]["TargetHealth"]["Description"]
    # The known health of targets outlives a change of something else.
    web.listen(fixed("other"), port=81)
    assert unhealthy in web.health(group)
    assert {web.get().said["backend"] for _ in range(10)} == {"good"}


def test_when_none_is_healthy_all_get_requests(web: Site) -> None:
    backends = [web.backend(name) for name in "ab"]
    for backend in backends:
        backend.healthy.clear()
    group = web.group("app", *backends, UnhealthyThresholdCount=2)
    web.listen(forward(group))
    until(lambda: {state for _, state, _ in web.health(group)} == {"unhealthy"}, "all to be unhealthy")
    assert {web.get().said["backend"] for _ in range(20)} == {"a", "b"}


def test_checks_go_to_the_port_and_accept_the_codes_of_the_group(web: Site) -> None:
    checked, served = web.backend("checked"), web.backend("served")
    served.healthy.clear()
    checked.healthy.clear()
    group = web.group(
        "app",
        served,
        HealthCheckPort=str(checked.port),
        Matcher={"HttpCode": "200,404-405"},
        UnhealthyThresholdCount=2,
    )
    web.listen(forward(group))
    web.healthy(group)
    assert web.get().said["backend"] == "served"
    web.elbv2.modify_target_group(TargetGroupArn=group, Matcher={"HttpCode": "200"})
    until(lambda: web.health(group) == [(served.port, "unhealthy", MISMATCH)], "the new matcher to count")


def test_a_group_in_no_rule_is_unused(web: Site) -> None:
    group = web.group("app", web.backend("a"))
    assert [state for _, state, _ in web.health(group)] == ["unused"]


def test_an_instance_is_reached_at_its_private_address(web: Site) -> None:
    address = "127.0.0.77"
    ec2, backend = web.aws.client("ec2"), web.backend("instance", address=address)
    about = {"ImageId": "ami-12345678", "MinCount": 1, "MaxCount": 1, "SubnetId": web.subnet}
    instance = ec2.run_instances(PrivateIpAddress=address, **about)["Instances"][0]["InstanceId"]
    group = web.group("app", TargetType="instance")
    web.elbv2.register_targets(TargetGroupArn=group, Targets=[{"Id": instance, "Port": backend.port}])
    web.listen(forward(group))
    web.healthy(group)
    assert web.get().said["backend"] == "instance"
    ec2.stop_instances(InstanceIds=[instance])
    web.in_force()
    assert web.get().status == 503


def test_requests_under_way_finish_while_a_target_drains(web: Site) -> None:
    leaving, staying = web.backend("leaving"), web.backend("staying")
    group = web.group("app", leaving, attributes={"deregistration_delay.timeout_seconds": "60"})
    web.listen(forward(group))
    web.healthy(group)
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(web.get, "/slow")
        assert leaving.waiting.acquire(timeout=60)
        web.elbv2.register_targets(TargetGroupArn=group, Targets=[staying.target])
        web.in_force()
        web.elbv2.deregister_targets(TargetGroupArn=group, Targets=[leaving.target])
        web.in_force()
        assert {web.get().said["backend"] for _ in range(10)} == {"staying"}
        described = web.elbv2.describe_target_health(TargetGroupArn=group, Targets=[leaving.target])
        assert described["TargetHealthDescriptions"][0]["TargetHealth"]["State"] == "draining"
        leaving.go_on.set()
        assert slow.result().said["backend"] == "leaving"


def test_requests_under_way_are_cut_off_when_the_delay_is_over(web: Site) -> None:
    leaving, staying = web.backend("leaving"), web.backend("staying")
    group = web.group("app", leaving, staying, attributes={"deregistration_delay.timeout_seconds": "1"})
    web.listen(forward(group))
    web.healthy(group)
    with ThreadPoolExecutor() as pool:
        slow = [pool.submit(web.get, "/slow") for _ in range(2)]
        assert leaving.waiting.acquire(timeout=60) and staying.waiting.acquire(timeout=60)
        web.elbv2.deregister_targets(TargetGroupArn=group, Targets=[leaving.target])

        def cut_off() -> int:
            return sum(it.done() for it in slow)

        assert until(cut_off, "the request to be cut off") == 1
        staying.go_on.set()
        answers = [answer for it in slow if (answer := _answer(it.result))]
        assert [it.said["backend"] for it in answers if it.status == 200] == ["staying"]


def test_two_hundred_changes_lose_no_request_and_send_none_astray(web: Site) -> None:
    backends = [web.backend(name) for name in "abc"]
    delay = {"deregistration_delay.timeout_seconds": "30"}
    group = web.group("app", backends[0], attributes=delay)
    other = web.group("other", web.backend("other"))
    listener = web.listen(forward(group))
    rule = web.rule(listener, 10, condition("path-pattern", "PathPatternConfig", "/other"), forward(other))
    web.in_force()
    web.healthy(group)
    web.healthy(other)
    done, wrong, counts = threading.Event(), [], []

    def load(address: str, keep: bool, path: str, allowed: set[str]) -> None:
        connection, count = http.client.HTTPConnection(address, 80, timeout=120), 0
        asked = 0.0
        while not done.is_set():
            # A connection is closed two seconds after an answer was sent. On a busy machine a client may
            # neither read that answer nor ask again in that time.
            idle = kept = connection.sock is not None
            before, asked = asked, time.monotonic()
            try:
                connection.request("GET", path)
                idle = kept and time.monotonic() - before > 1
                reply = connection.getresponse()
                text = reply.read().decode()
                if reply.status != 200 or json.loads(text)["backend"] not in allowed:
                    wrong.append(f"{path}: {reply.status} {text}")
            except (OSError, http.client.HTTPException) as error:
                if not idle:
                    wrong.append(f"{path}: {error!r}")
                connection.close()
            count += 1
            if not keep:
                connection.close()
        counts.append(count)

    expected = {"/": {"a", "b", "c"}, "/other": {"other"}}
    with ThreadPoolExecutor() as pool:
        for path, allowed in expected.items():
            for keep in (True, False):
                pool.submit(load, web.address, keep, path, allowed)
        try:
            for number in range(200):
                _change(web, number, backends, group, other, listener, rule)
                if number % 5 == 4:
                    web.in_force()
        finally:
            done.set()
    assert not wrong, wrong[:10]
    assert min(counts) > 100


def _change(web: Site, number: int, backends: list[Backend], group: str, other: str, listener: str, rule: str) -> None:
    """Each target leaves and comes back in turn while another stays; between them rules change."""
    turn = number // 4
    match number % 4:
        case 0:
            web.elbv2.register_targets(TargetGroupArn=group, Targets=[backends[(turn + 1) % 3].target])
        case 1:
            web.rule(listener, 100 + number, condition("path-pattern", "PathPatternConfig", f"/{number}"), fixed("x"))
        case 2:
            web.elbv2.deregister_targets(TargetGroupArn=group, Targets=[backends[turn % 3].target])
        case 3:
            conditions = [condition("path-pattern", "PathPatternConfig", "/other", f"/other/{number}")]
            web.elbv2.modify_rule(RuleArn=rule, Conditions=conditions, Actions=[forward((other, number))])


def _answer(result) -> Answer | None:
    """None for a connection that was closed instead."""
    try:
        return result()
    except (OSError, http.client.HTTPException):
        return None
