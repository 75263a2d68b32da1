"""Stores on this machine: moto's S3 and azurite's Azure, each in a process of its own."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

SECRET = "a secret that nobody may see"
_HOST = "127.0.0.1"
_ACCOUNT = "devstoreaccount1"  # azurite's own, and its published key
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Its address."""
    for name in ("obstore", "moto", "boto3"):
        pytest.importorskip(name, reason=f"needs {name}: make readers")
    with _started(sys.executable, "-m", "moto.server", "-H", _HOST, "-p") as port:
        yield f"http://{_HOST}:{port}"


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of its one account."""
    for name in ("obstore", "azure.storage.blob"):
        pytest.importorskip(name, reason=f"needs {name}: make readers")
    program = os.environ.get("DATAPREP_AZURITE") or shutil.which("azurite-blob")
    if program is None:
        pytest.skip(
            "set DATAPREP_AZURITE to azurite's azurite-blob: make readers, make test-remote"
        )
    place = str(tmp_path_factory.mktemp("azurite"))
    options = ("--silent", "--disableTelemetry", "--skipApiVersionCheck", "--location", place)
    with _started(program, *options, "--blobHost", _HOST, "--blobPort") as port:
        yield f"http://{_HOST}:{port}/{_ACCOUNT}"


@contextmanager
def _started(*command: str) -> Iterator[int]:
    """Start a server, whose last argument is the port, and wait until it listens."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port = probe.getsockname()[1]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([*command, str(port)], stdout=quiet, stderr=quiet)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex((_HOST, port)) == 0:
                    break
            time.sleep(0.1)
        yield port
    finally:
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


@pytest.fixture
def container(azurite: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An empty container, as Microsoft's client has it; its address is in the environment."""
    from azure.storage.blob import BlobServiceClient

    for variable, value in {
        "AZURE_STORAGE_ENDPOINT": azurite,
        "AZURE_ALLOW_HTTP": "true",
        "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": _KEY,
    }.items():
        monkeypatch.setenv(variable, value)
    secret = {"account_name": _ACCOUNT, "account_key": _KEY}
    with BlobServiceClient(azurite, credential=secret) as client:
        yield client.create_container(f"container-{os.urandom(4).hex()}")


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
