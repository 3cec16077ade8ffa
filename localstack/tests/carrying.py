"""Shared parts of tests of the data plane: an account with traffic, targets that say who they are, and clients."""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

from conftest import REGION, Aws

Value = TypeVar("Value")

NETWORK = "127.0.0.0/16"
"""The VPC's: targets are on the loopback."""


def until(look: Callable[[], Value | None], what: str, seconds: float = 90) -> Value:
    """Waits until it sees something true, and returns that."""
    end = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.02)
    return seen


@dataclass
class Answer:
    """The answer to a client."""

    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def said(self) -> dict[str, Any]:
        """A target's report about its request."""
        return json.loads(self.text)


class Backend:
    """A tiny server that tells its name and the request; `/slow` waits until it may go on, `/login` sets a cookie."""

    def __init__(self, name: str, address: str = "127.0.0.1", context: ssl.SSLContext | None = None) -> None:
        self.name = name
        self.address = address
        self.healthy = threading.Event()
        self.healthy.set()
        self.go_on = threading.Event()
        self.waiting = threading.Semaphore(0)
        backend = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                status = 200
                if self.path == "/health" and not backend.healthy.is_set():
                    status = 404
                if self.path == "/slow":
                    backend.waiting.release()
                    backend.go_on.wait(60)
                headers = {key.lower(): value for key, value in self.headers.items()}
                said = {"backend": backend.name, "path": self.path, "method": self.command, "headers": headers}
                body = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                if self.path == "/login":
                    self.send_header("Set-Cookie", "session=abc")
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None:
                """A client that hangs up, as one that checks does, is no error."""

        self._server = Server((address, 0), Handler)
        if context:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def target(self) -> dict[str, Any]:
        return {"Id": self.address, "Port": self.port}

    def close(self) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Site:
    """A load balancer of an account with traffic, in a VPC of loopback addresses."""

    aws: Aws
    vpc: str
    subnet: str
    arn: str
    backends: list[Backend] = field(default_factory=list)

    @property
    def elbv2(self) -> Any:
        return self.aws.client("elbv2")

    def backend(self, name: str, **about: Any) -> Backend:
        """A new server."""
        self.backends.append(Backend(name, **about))
        return self.backends[-1]

    def group(self, name: str, *backends: Backend, attributes: dict[str, str] | None = None, **about: Any) -> str:
        """A target group with these as targets."""
        about = {
            "Protocol": "HTTP",
            "Port": 80,
            "TargetType": "ip",
            "HealthCheckPath": "/health",
            "HealthCheckIntervalSeconds": 5,
            # A busy machine answers late: that makes no target unhealthy, where a test does not ask for it.
            "HealthCheckTimeoutSeconds": 4,
            "UnhealthyThresholdCount": 5,
            "HealthyThresholdCount": 2,
        } | about
        created = self.elbv2.create_target_group(Name=name, VpcId=self.vpc, **about)
        arn = created["TargetGroups"][0]["TargetGroupArn"]
        if attributes:
            pairs = [{"Key": key, "Value": value} for key, value in attributes.items()]
            self.elbv2.modify_target_group_attributes(TargetGroupArn=arn, Attributes=pairs)
        if backends:
            self.elbv2.register_targets(TargetGroupArn=arn, Targets=[it.target for it in backends])
        return arn

    def listen(self, action: dict[str, Any], port: int = 80, **about: Any) -> str:
        """A listener with this default action, in force."""
        about = {"Protocol": "HTTP"} | about
        created = self.elbv2.create_listener(LoadBalancerArn=self.arn, Port=port, DefaultActions=[action], **about)
        self.in_force()
        return created["Listeners"][0]["ListenerArn"]

    def rule(self, listener: str, priority: int, conditions: Any, *actions: dict[str, Any], **about: Any) -> str:
        """A rule."""
        conditions = conditions if isinstance(conditions, list) else [conditions]
        about = {"Conditions": conditions, "Priority": priority, "Actions": list(actions)} | about
        return self.elbv2.create_rule(ListenerArn=listener, **about)["Rules"][0]["RuleArn"]

    def in_force(self) -> None:
        """Waits until all changes made so far are what every request meets."""
        made = self.aws.admin("GET", "dataplane")["generation"]

        def applied() -> bool:
            status = self.aws.admin("GET", "dataplane")
            assert not status["error"], status["error"]
            return status["applied"] >= made

        until(applied, "the change to be in force")

    def health(self, group: str) -> list[tuple[int, str, str | None]]:
        """Port, state and reason of each target."""
        described = self.elbv2.describe_target_health(TargetGroupArn=group)["TargetHealthDescriptions"]
        return sorted(
            (it["Target"]["Port"], it["TargetHealth"]["State"], it["TargetHealth"].get("Reason")) for it in described
        )

    def healthy(self, group: str) -> None:
        """Waits until all targets of a group are."""
        until(lambda: all(state == "healthy" for _, state, _ in self.health(group)), f"all of {group} to be healthy")

    @property
    def address(self) -> str:
        """Where the balancer is."""
        balancers = self.aws.admin("GET", "dataplane")["balancers"]
        return next(it["address"] for it in balancers if it["arn"] == self.arn)

    def get(self, path: str = "/", port: int = 80, method: str = "GET", **headers: str) -> Answer:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection(self.address, port, timeout=120)
        try:
            return ask(connection, path, method, {key.replace("_", "-"): value for key, value in headers.items()})
        finally:
            connection.close()


def ask(connection: http.client.HTTPConnection, path: str, method: str, headers: dict[str, str]) -> Answer:
    """One request."""
    connection.request(method, path, headers=headers)
    got = connection.getresponse()
    return Answer(got.status, got.headers, got.read().decode())


def forward(*groups: str | tuple[str, int], stick: int = 0) -> dict[str, Any]:
    """Forwards to groups, or to groups with weights; clients may stick to one for some seconds."""
    weighted = [(it, 1) if isinstance(it, str) else it for it in groups]
    config: dict[str, Any] = {"TargetGroups": [{"TargetGroupArn": arn, "Weight": weight} for arn, weight in weighted]}
    if stick:
        config["TargetGroupStickinessConfig"] = {"Enabled": True, "DurationSeconds": stick}
    return {"Type": "forward", "ForwardConfig": config}


def fixed(text: str, status: str = "200") -> dict[str, Any]:
    """Answers itself."""
    return {"Type": "fixed-response", "FixedResponseConfig": {"StatusCode": status, "MessageBody": text}}


def condition(field: str, config: str, *values: Any, **about: Any) -> dict[str, Any]:
    """A condition with these values."""
    return {"Field": field, config: {"Values": list(values)} | about}


@contextmanager
def site(aws: Aws) -> Iterator[Site]:
    """An account's load balancer that carries requests, without listeners yet."""
    aws.admin("POST", "settings", {"traffic": True})
    ec2 = aws.client("ec2")
    vpc = ec2.create_vpc(CidrBlock=NETWORK)["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"127.0.{number}.0/24", AvailabilityZone=f"{REGION}{zone}")
        for number, zone in enumerate("ab")
    ]
    ids = [it["Subnet"]["SubnetId"] for it in subnets]
    site = Site(aws, vpc, ids[0], aws.create("web", Subnets=ids, SecurityGroups=[])["LoadBalancerArn"])
    try:
        yield site
    finally:
        aws.admin("POST", "reset")
        for backend in site.backends:
            backend.close()
