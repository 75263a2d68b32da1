"""Where S3 is: what boto3 would ask is asked, and nothing that is signed goes elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import dataprep
from dataprep.errors import RemoteError
from tests.remote.conftest import SECRET
from tests.remote.test_open import out as out  # a fixture

pytest.importorskip("obstore", reason="needs obstore: make readers")
_KEYS = f"aws_access_key_id = somebody\naws_secret_access_key = {SECRET}\n"
_WRONG = "http://127.0.0.1:1"

# In a config file, with the environment that goes with it; `HERE` is where the store is.
CASES: dict[str, tuple[str, dict[str, str]]] = {
    "profile": (f"[profile lab]\nendpoint_url = HERE\n{_KEYS}", {"AWS_PROFILE": "lab"}),
    "services": (
        f"[profile lab]\nservices = x\n{_KEYS}[services x]\ns3 =\n  endpoint_url = HERE\n",
        {"AWS_PROFILE": "lab"},
    ),
    "services before the profile": (
        f"[profile lab]\nservices = x\nendpoint_url = {_WRONG}\n{_KEYS}"
        "[services x]\ns3 =\n  endpoint_url = HERE\n",
        {"AWS_PROFILE": "lab"},
    ),
    "default": (f"[default]\nendpoint_url = HERE\n{_KEYS}", {}),
    "default, keys of the environment": (
        "[default]\nendpoint_url = HERE\n",
        {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": SECRET},
    ),
    "environment before the profile": (
        f"[profile lab]\nendpoint_url = {_WRONG}\n{_KEYS}",
        {"AWS_PROFILE": "lab", "AWS_ENDPOINT_URL": "HERE"},
    ),
    "S3's before the other": (
        f"[default]\n{_KEYS}",
        {"AWS_ENDPOINT_URL": _WRONG, "AWS_ENDPOINT_URL_S3": "HERE"},
    ),
}


def _use(
    place: Path, config: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_PROFILE"),
        *("AWS_ENDPOINT_URL_S3", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"),
    ):
        monkeypatch.delenv(name, raising=False)
    (place / "config").write_text(config)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(place / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(place / "none"))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("case", CASES)
def test_what_boto3_would_ask_is_asked(
    case: str, bucket: Any, server: str, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3

    config, environment = CASES[case]
    here = {name: value.replace("HERE", server) for name, value in environment.items()}
    _use(tmp_path, config.replace("HERE", server), here, monkeypatch)
    assert boto3.Session().client("s3").meta.endpoint_url == server
    dataprep.push(out, f"s3://{bucket.name}/set")
    assert {item.key for item in bucket.objects.all()} >= {"set/manifest.json"}


def test_configured_endpoints_may_be_ignored_and_regions_have_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataprep.remote.store import _profile

    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    config = f"[default]\nregion = eu-west-1\nendpoint_url = {_WRONG}\n{_KEYS}"
    _use(tmp_path, config, {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL", _WRONG)
    found = _profile("s3")
    assert (found["region"], found["endpoint"]) == (
        "eu-west-1",
        "https://s3.eu-west-1.amazonaws.com",
    )
    _use(tmp_path, f"[default]\nregion = cn-north-1\n{_KEYS}", {}, monkeypatch)
    assert _profile("s3")["endpoint"] == "https://s3.cn-north-1.amazonaws.com.cn"
    _use(tmp_path, f"[default]\nregion = eu-west-1\n{_KEYS}", {}, monkeypatch)
    assert "endpoint" not in _profile("s3")


class _Counting(BaseHTTPRequestHandler):
    """Has no range of anything, and keeps what was asked."""

    asked: list[dict[str, str]]

    def do_GET(self) -> None:  # http.server calls it so
        self.asked.append(dict(self.headers))
        self.send_response(self.server.status)  # type: ignore[attr-defined]  # ours
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    _Counting.asked = []
    with HTTPServer(("127.0.0.1", 0), _Counting) as server:
        server.status = 416  # type: ignore[attr-defined]
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("status", [400, 409, 416, 431, 451])
def test_what_cannot_change_is_asked_once(
    status: int, counting: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataprep.remote.store import Store

    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    counting.status = status  # type: ignore[attr-defined]
    more = ".*somebody has changed the object" if status == 416 else ""
    with pytest.raises(RemoteError, match=f"status code: {status}{more}"):
        Store("s3://bucket").read_range("x", 5, 1)
    assert len(_Counting.asked) == 1


def test_anonymous_access_is_named_and_signs_nothing(
    counting: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataprep.remote.store import Store

    here = f"http://127.0.0.1:{counting.server_port}"
    _use(tmp_path, f"[default]\nendpoint_url = {here}\n{_KEYS}", {}, monkeypatch)
    counting.status = 403  # type: ignore[attr-defined]
    with pytest.raises(RemoteError, match="AWS_SKIP_SIGNATURE=true if public"):
        Store("s3://bucket").read("x")
    assert all("authorization" in {name.lower() for name in asked} for asked in _Counting.asked)
    _Counting.asked.clear()
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    with pytest.raises(RemoteError):
        Store("s3://bucket").read("x")
    assert not any("authorization" in {name.lower() for name in asked} for asked in _Counting.asked)


def test_an_endpoint_without_tls_is_not_asked_in_silence(
    counting: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataprep.remote.store import Store

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(RemoteError, match="without TLS needs AWS_ALLOW_HTTP=true"):
        Store("s3://bucket").read("x")
    assert not _Counting.asked
