"""A store on this machine: moto's S3, in a process of its own."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

SECRET = "a secret that nobody may see"


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Its address."""
    for name in ("obstore", "moto", "boto3"):
        pytest.importorskip(name, reason=f"needs {name}: make readers")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An empty bucket, as boto3 has it; its address is in the environment."""
    import boto3

    use(server, monkeypatch)
    name = f"bucket-{os.urandom(4).hex()}"
    found = boto3.resource("s3", endpoint_url=server).Bucket(name)
    found.create()
    return found


def use(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have S3 be there."""
    for variable, value in variables(server).items():
        monkeypatch.setenv(variable, value)


def variables(server: str) -> dict[str, str]:
    """What makes an S3 on this machine be the S3."""
    return {
        "AWS_ENDPOINT_URL": server,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }


def misbehaving(*options: str) -> str:
    """Start a server of ours, which ends with this process, and return its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.remote.server", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    atexit.register(process.wait)
    assert process.stdin is not None
    atexit.register(process.stdin.close)
    return process.stdout.readline().strip()
