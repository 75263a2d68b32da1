"""A store on this machine: moto's S3, in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest


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
    for variable, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "a secret that nobody may see",
    }.items():
        monkeypatch.setenv(variable, value)
