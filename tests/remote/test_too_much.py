"""A store that answers with more than it was asked for, or sends others on to another host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dataprep.errors import RemoteError
from dataprep.remote import store as module
from dataprep.remote.store import Store
from tests.remote.conftest import use

_PAGE = (
    "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>next"
    "</NextContinuationToken>{}</ListBucketResult>"
)
_ENTRY = (
    "<Contents><Key>raw/{}.jpg</Key><LastModified>2026-11-26T00:00:00.000Z</LastModified>"
    '<ETag>"1"</ETag><Size>1</Size></Contents>'
)


class _Generous(BaseHTTPRequestHandler):
    """What was asked for and something behind it; lists without an end."""

    protocol_version = "HTTP/1.1"
    surplus = 0
    manifest = 10
    elsewhere = ""
    pages = 0
    asked: tuple[str, ...] = ()

    def do_GET(self) -> None:
        kind = type(self)
        if "list-type" in self.path:
            kind.pages += 1
            body = _PAGE.format("".join(_ENTRY.format(f"{kind.pages}-{n}") for n in range(10)))
            self._answer(200, body.encode())
        elif kind.elsewhere:
            self.send_response(307)
            self.send_header("Location", f"{kind.elsewhere}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif asked := self.headers.get("Range"):
            first, last = map(int, asked.removeprefix("bytes=").split("-"))
            self._answer(
                206,
                bytes(last - first + 1 + kind.surplus),
                ("Content-Range", f"bytes {first}-{last}/1000000000"),
            )
        else:
            kind.asked = (*kind.asked, *(name.lower() for name in self.headers))
            self._answer(200, b"", size=kind.manifest)

    def _answer(
        self, status: int, body: bytes, *headers: tuple[str, str], size: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (*headers, ("ETag", '"1"')):
            self.send_header(name, value)
        self.send_header("Last-Modified", "Thu, 26 Nov 2026 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body) if size is None else size))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[type[_Generous], str]]:
    """What it does, and its address."""
    pytest.importorskip("obstore", reason="needs obstore: make readers")
    kind = type("Generous", (_Generous,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{listening.server_port}"
        use(address, monkeypatch)
        monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.01)
        yield kind, address
        listening.shutdown()


@pytest.mark.parametrize("surplus", [1, 300_000])
def test_no_range_is_longer_than_it_was_asked_for(
    server: tuple[type[_Generous], str], surplus: int
) -> None:
    store = Store("s3://bucket/set")
    assert bytes(store.read_range("shard", 5, 1000)) == bytes(1000)
    server[0].surplus = surplus
    with pytest.raises(RemoteError, match="came of 1,000"):
        store.read_range("shard", 5, 1000)


def test_a_manifest_that_is_too_large_is_refused_unread(
    server: tuple[type[_Generous], str],
) -> None:
    server[0].manifest = 1 << 40
    with pytest.raises(RemoteError, match=r"manifest\.json has "):
        Store("s3://bucket/set").read("manifest.json")


def test_a_list_without_end_is_left_behind_the_most(server: tuple[type[_Generous], str]) -> None:
    assert len([*Store("s3://bucket/raw").list(95)]) == 95
    assert server[0].pages <= 100  # a thousand objects are asked for at once


def test_no_signature_follows_to_another_host(server: tuple[type[_Generous], str]) -> None:
    """obstore follows; what would be of use to somebody there must not come along."""
    with ThreadingHTTPServer(("127.0.0.1", 0), type("There", (_Generous,), {})) as there:
        threading.Thread(target=there.serve_forever, daemon=True).start()
        server[0].elsewhere = f"http://localhost:{there.server_port}"
        with pytest.raises(RemoteError):
            Store("s3://bucket/set").read("manifest.json")
        there.shutdown()
        seen: tuple[str, ...] = there.RequestHandlerClass.asked  # type: ignore[attr-defined]
    assert "user-agent" in seen
    assert "authorization" not in seen
