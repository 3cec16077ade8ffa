"""The files for HAProxy, and for the cluster's DNS, without running either."""

import subprocess
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from causeway_localstack.dataplane import names, states, text
from causeway_localstack.dataplane.addresses import Addresses
from causeway_localstack.dataplane.configuration import configuration
from causeway_localstack.dataplane.model import Balancer, Group, Listener, Rule, Snapshot, Target

ARN = "arn:aws:elasticloadbalancing:us-east-1:000000000000"
TARGET = Target("10.0.0.1", 8080, "10.0.0.1", 1.0)
GROUP = Group(
    arn=f"{ARN}:targetgroup/app/0123456789abcdef",
    account="000000000000",
    region="us-east-1",
    target_type="ip",
    protocol="HTTP",
    protocol_version="HTTP1",
    health={"HealthCheckPath": "/it's 100%", "HealthCheckPort": "traffic-port", "HealthCheckProtocol": "HTTP"},
    attributes={},
    targets=(TARGET, Target("fd00::1", 80, "fd00::1", 1.0)),
)
FORWARD = {"Type": "forward", "ForwardConfig": {"TargetGroups": [{"TargetGroupArn": GROUP.arn, "Weight": 1}]}}


def snapshot(group: Group = GROUP, rule: Rule | None = None, **attributes: str) -> Snapshot:
    default = Rule((), (FORWARD,), ())
    listener = Listener("HTTP", 80, "", (), {}, (rule, default) if rule else (default,))
    arn = f"{ARN}:loadbalancer/app/web/0123456789abcdef"
    return Snapshot(
        (Balancer("000000000000", "us-east-1", arn, "web", "web.example", attributes, (listener,), (group,)),)
    )


def check(snapshot: Snapshot, home: Path) -> str:
    """The configuration; HAProxy must take it."""
    addresses = {balancer.arn: "127.0.0.1" for balancer in snapshot.balancers}
    made = configuration(snapshot, addresses, lambda _: home / "none.pem", home, "127.0.0.1:1")
    (home / "states").write_text(states.file("", [], snapshot.servers().values()))
    path = home / "haproxy.cfg"
    path.write_text(made)
    checked = subprocess.run(["haproxy", "-c", "-f", path], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    warnings = [line for line in checked.stderr.splitlines() if "[WARNING]" in line and "server-state" not in line]
    assert not warnings
    return made


@pytest.mark.parametrize("protocol", ["HTTP", "HTTPS"])
@pytest.mark.parametrize("version", ["HTTP1", "HTTP2", "GRPC"])
@pytest.mark.parametrize("checks", ["HTTP", "HTTPS"])
def test_every_protocol_of_targets_and_checks(protocol: str, version: str, checks: str, tmp_path: Path) -> None:
    health = {**GROUP.health, "HealthCheckProtocol": checks, "HealthCheckPort": "9000"}
    made = check(snapshot(replace(GROUP, protocol=protocol, protocol_version=version, health=health)), tmp_path)
    assert ("ssl verify none" in made) == ("HTTPS" in (protocol, checks))
    assert "port 9000" in made


@pytest.mark.parametrize(
    ("attributes", "written"),
    [
        ({"load_balancing.algorithm.type": "least_outstanding_requests"}, "balance leastconn"),
        ({"load_balancing.algorithm.type": "weighted_random"}, "balance random(1)"),
        ({"slow_start.duration_seconds": "45"}, "slowstart 45s"),
        ({"stickiness.enabled": "true", "stickiness.lb_cookie.duration_seconds": "7"}, "maxlife 7s"),
    ],
)
def test_attributes_of_groups(attributes: dict[str, str], written: str, tmp_path: Path) -> None:
    assert written in check(snapshot(replace(GROUP, attributes=attributes)), tmp_path)


@pytest.mark.parametrize(
    ("attributes", "written"),
    [
        ({"idle_timeout.timeout_seconds": "7"}, "timeout server 7s"),
        ({"routing.http.drop_invalid_header_fields.enabled": "true"}, "http-restrict-req-hdr-names delete"),
        ({"routing.http.xff_header_processing.mode": "remove"}, "del-header X-Forwarded-For"),
        ({"routing.http.xff_client_port.enabled": "true"}, "%[src]:%[src_port]"),
    ],
)
def test_attributes_of_balancers(attributes: dict[str, str], written: str, tmp_path: Path) -> None:
    assert written in check(snapshot(**attributes), tmp_path)


def test_no_text_escapes_from_its_place(tmp_path: Path) -> None:
    nasty = 'a\' "b" \\ # } ${HOME} %[src]\n    http-request deny\n'
    header = {"HttpHeaderName": "X-Nasty", "Values": [nasty]}
    conditions = (
        {"Field": "http-header", "HttpHeaderConfig": header},
        {"Field": "query-string", "QueryStringConfig": {"Values": [{"Key": nasty, "Value": nasty}]}},
    )
    response = {"StatusCode": "200", "MessageBody": nasty}
    rule = Rule(conditions, ({"Type": "fixed-response", "FixedResponseConfig": response},), ())
    made = check(snapshot(rule=rule), tmp_path)
    assert not [line for line in made.splitlines() if line.strip() == "http-request deny"]


def test_what_cannot_be_rewritten_is_answered_instead(tmp_path: Path) -> None:
    rewrite = {"Rewrites": [{"Regex": "(a)" * 7, "Replace": "$7"}]}
    rule = Rule((), (FORWARD,), ({"Type": "url-rewrite", "UrlRewriteConfig": rewrite},))
    assert "more than 6 groups" in check(snapshot(rule=rule), tmp_path)


def test_quoting() -> None:
    assert text.quoted("it's") == r"'it'\''s'"
    assert text.quoted("a\nb") == r"'a'\x0a'b'"


def test_names_leave_other_lines_alone(tmp_path: Path) -> None:
    path = tmp_path / "names"
    path.write_text("198.18.0.10 node-1\n# mine\n")
    names.publish(path, {"b.example": "198.18.8.2", "a.example": "198.18.8.1"})
    ours = "198.18.8.1 a.example # load balancer\n198.18.8.2 b.example # load balancer\n"
    assert path.read_text() == f"198.18.0.10 node-1\n# mine\n{ours}"
    names.publish(path, {})
    assert path.read_text() == "198.18.0.10 node-1\n# mine\n"


def test_addresses_stay_and_are_given_again_last() -> None:
    addresses = Addresses(IPv4Network("10.0.0.0/30"))
    assert addresses.assign(["a", "b"]) == {"a": "10.0.0.1", "b": "10.0.0.2"}
    assert addresses.assign(["b"]) == {"b": "10.0.0.2"}
    assert addresses.assign(["b", "c"]) == {"b": "10.0.0.2", "c": "10.0.0.1"}
    with pytest.raises(ValueError, match="only 2 addresses"):
        addresses.assign(["b", "c", "d"])


def test_states_outlive_a_reload_and_new_targets_are_down() -> None:
    (group, target), *_ = snapshot().servers().values()
    begun = states.file("", [], [(group, target)]).splitlines()[2].split()
    assert (begun[1], begun[3], begun[5], begun[12]) == ("app-0123456789abcdef", "10.0.0.1_8080", "0", "4")
    up = " ".join(["7", *begun[1:5], "2", "1", *begun[7:12], "6", *begun[13:]])
    kept = states.file(f"1\n# header\n{up}\n", [(group, target)], []).splitlines()[2].split()
    assert (kept[5], kept[6], kept[12]) == ("2", "0", "6")
