"""A LocalStack of its own for the whole run, with an account that is empty as every test begins."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from botocore.config import Config
from botocore.exceptions import ClientError

from causeway_localstack import models

PROJECT = Path(__file__).parents[1]
REGION = "us-east-1"

SESSION = boto3.Session()
models.add_to(SESSION._loader)


@dataclass(frozen=True)
class Aws:
    """One account on the running LocalStack."""

    endpoint: str
    account: str

    def client(self, service: str, *, validate: bool = True, **credentials: str) -> BaseClient:
        """A client that never retries; without other credentials, of the account itself.

        One that does not `validate` leaves bounds and required fields to AWS, as SDKs of other languages do.
        """
        return SESSION.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            config=Config(retries={"total_max_attempts": 1}, max_pool_connections=32, parameter_validation=validate),
            **(credentials or {"aws_access_key_id": self.account, "aws_secret_access_key": "any"}),
        )

    def admin(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """A call of an admin route, about this account."""
        url = f"{self.endpoint}/_causeway/{path}{'&' if '?' in path else '?'}account={self.account}"
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(url, method=method, data=data)) as answer:
            return json.load(answer)

    def fault(self, kind: str, **about: Any) -> dict[str, Any]:
        """Sets a fault for this account."""
        return self.admin("POST", "faults", {"account": self.account, "kind": kind, **about})

    def journal(self, operation: str | None = None) -> list[dict[str, Any]]:
        """The calls of this account."""
        return [it for it in self.admin("GET", "journal") if operation in (None, it["operation"])]

    def create(self, name: str, **about: Any) -> dict[str, Any]:
        """Creates a load balancer in two zones, unless told otherwise."""
        about = {"Subnets": ["subnet-abc", "subnet-def"], "SecurityGroups": ["sg-web"]} | about
        return self.client("elbv2").create_load_balancer(Name=name, **about)["LoadBalancers"][0]

    def describe(self, *names: str) -> list[dict[str, Any]]:
        """The load balancers of these names, or all on the first page."""
        named = {"Names": list(names)} if names else {}
        return self.client("elbv2").describe_load_balancers(**named)["LoadBalancers"]


def refused(code: str, message: str = "") -> Any:
    """Expects AWS's error of this code whose message contains `message`."""

    class Refused:
        def __enter__(self) -> "Refused":
            return self

        def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
            assert isinstance(error, ClientError), f"expected {code}, got {error!r}"
            self.status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            assert error.response["Error"]["Code"] == code
            assert message in error.response["Error"]["Message"]
            return True

    return Refused()


@pytest.fixture(scope="session")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Installs the package as it is now beside LocalStack, and starts it on a free port of the loopback."""
    state = tmp_path_factory.mktemp("localstack")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", state / "package", PROJECT], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for folder in ("home", "tmp", "cache"):
        (state / folder).mkdir()
    # Where `cargo xtask` made the environment, it built LocalStack's index of AWS's services, which takes seconds.
    index = Path("usr/lib/localstack")
    if (sys.prefix / index).is_dir():
        shutil.copytree(sys.prefix / index, state / "files" / index)
    environment = os.environ | {
        "PYTHONPATH": str(state / "package"),
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        "OVERRIDE_IN_DOCKER": "0",
        "FILESYSTEM_ROOT": str(state / "files"),
        "LOCALSTACK_VOLUME_DIR": str(state / "volume"),
        "HOME": str(state / "home"),
        "TMPDIR": str(state / "tmp"),
        "XDG_CACHE_HOME": str(state / "cache"),
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "DISABLE_EVENTS": "1",
        "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
        "DNS_ADDRESS": "0",
    }
    log = state / "log"
    with log.open("wb") as output:
        command = [sys.executable, "-P", "-m", "localstack.runtime.main"]
        server = subprocess.Popen(command, cwd=state, env=environment, stdout=output, stderr=output)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(url, server, log)
        yield url
    finally:
        server.kill()
        server.wait()
    assert "Traceback" not in log.read_text(), log.read_text()


@pytest.fixture
def aws(endpoint: str) -> Aws:
    """An account nothing was done in yet but laying its network."""
    aws = Aws(endpoint, "100000000001")
    aws.admin("POST", "reset")
    aws.admin("DELETE", "journal")
    aws.admin("POST", "seed")
    return aws


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    # Other tests may leave it little of the processors.
    until = time.monotonic() + 300
    while True:
        try:
            with urllib.request.urlopen(f"{url}/_localstack/health"):
                return
        except (urllib.error.URLError, ConnectionError):
            assert server.poll() is None, f"LocalStack ended:\n{log.read_text()}"
            assert time.monotonic() < until, f"LocalStack does not answer:\n{log.read_text()}"
            time.sleep(0.1)
