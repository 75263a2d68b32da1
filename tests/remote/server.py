"""A small S3 on this machine that misbehaves as it is told: ``python -m tests.remote.server``.

It prints its address, and ends when its standard input does. Objects are files that are never
written to again. Which request meets which fault follows from a seed and from the request itself,
how often it has come before included, and not from what else is under way: so a schedule of faults
is known by its number. ``PUT /-/faults`` takes a `Faults` in JSON and starts a new log, ``GET
/-/log`` gives the log, and ``DELETE /-/objects`` forgets all.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

_ALL: Final = ("busy", "many", "error", "expired", "slow")
_HEAD: Final = (*_ALL, "stale")
_READ: Final = (*_HEAD, "cut", "stall", "short", "flip")
_WRITE: Final = (*_ALL, "lost", "cut", "stall", "flip")
_LIST: Final = (*_ALL, "omit", "repeat")
KINDS: Final = tuple(sorted({*_READ, *_WRITE, *_LIST}))
_REFUSALS: Final = {
    "busy": (503, "SlowDown"),
    "many": (429, "TooManyRequests"),
    "error": (500, "InternalError"),
    "expired": (400, "ExpiredToken"),
}
_CUTS: Final = ("cut", "stall")
_LONGEST_BURST: Final = 4  # of the same answer to the same request
_DAY: Final = "Thu, 26 Nov 2026 00:00:00 GMT"
_DAY_LISTED: Final = "2026-11-26T00:00:00.000Z"


@dataclass(frozen=True)
class Faults:
    """What goes wrong, and how often.

    Attributes:
        seed: of everything that is drawn.
        rate: of requests that meet a fault.
        kinds: ``busy`` and ``many``: 503 and 429 in bursts; ``error``: 500, of a write perhaps
            after it; ``lost``: no answer after a write; ``cut``: a connection that is reset, in
            mid-body or before a write; ``stall``: the same, and nobody says so; ``short``: fewer
            bytes than the object has, with the Content-Length of those; ``flip``: a bit;
            ``stale``: the version before, or none; ``slow``: a late first byte; ``expired``:
            ExpiredToken; ``omit`` and ``repeat``: keys in a LIST.
        expired: access keys that are.
        seconds: how late a first byte may be.
        stalled: seconds until a stalled connection is reset.
        last: the number of the last request that is answered; 0: there is none.
    """

    seed: int = 0
    rate: float = 0.0
    kinds: tuple[str, ...] = KINDS
    expired: tuple[str, ...] = ()
    seconds: float = 0.05
    stalled: float = 30.0
    last: int = 0


@dataclass(frozen=True)
class Version:
    """An object, and the one that it replaced."""

    path: Path
    size: int
    etag: str
    metadata: Mapping[str, str]
    before: Version | None = None


@dataclass
class State:
    """All that the server has; changed by who holds `turn`."""

    place: Path
    faults: Faults = Faults()
    turn: threading.Lock = field(default_factory=threading.Lock)
    objects: dict[str, Version] = field(default_factory=dict)
    parts: dict[str, dict[int, Version]] = field(default_factory=dict)
    begun: dict[str, Mapping[str, str]] = field(default_factory=dict)
    log: list[list[object]] = field(default_factory=list)
    times: Counter[str] = field(default_factory=Counter)
    bursts: dict[str, tuple[str, int]] = field(default_factory=dict)
    numbers: int = 0

    def drawn(self, request: str, kinds: tuple[str, ...]) -> tuple[str, random.Random]:
        """The fault that a request meets, empty if none, and what else is to be drawn for it."""
        with self.turn:
            self.times[request] += 1
            draw = random.Random(f"{self.faults.seed}/{request}/{self.times[request]}")
            if 0 < self.faults.last < self.times.total():
                return "gone", draw
            kind, left = self.bursts.pop(request, ("", 0))
            possible = [kind for kind in self.faults.kinds if kind in kinds]
            if not left and possible and draw.random() < self.faults.rate:
                kind = draw.choice(possible)
                left = draw.randint(1, _LONGEST_BURST) if kind in ("busy", "many") else 1
            if left > 1:
                self.bursts[request] = kind, left - 1
            return (kind if left else ""), draw

    def new(self, data: bytes, metadata: Mapping[str, str], etag: str = "") -> Version:
        """Keep data in a file; nothing names it yet."""
        with self.turn:
            self.numbers += 1
            path = self.place / str(self.numbers)
        path.write_bytes(data)
        etag = etag or hashlib.md5(data, usedforsecurity=False).hexdigest()
        return Version(path, len(data), f'"{etag}"', metadata)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    state: State

    def log_message(self, format: str, *rest: object) -> None:  # noqa: A002  # its name there
        pass

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:  # the client has gone
            self.close_connection = True

    def do(self) -> None:
        """Answer a request: perhaps wrongly, and always with a line in the log."""
        url = urlsplit(self.path)
        self.key = unquote(url.path).lstrip("/")
        self.query = dict(parse_qsl(url.query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.key.startswith("-/"):
            return self._control(body)
        listing = self.command == "GET" and "list-type" in self.query
        words = (self.command, self.key, self.query.get("partNumber", ""))
        # An upload's name is another one each time.
        asked = sorted(name for name in self.query if name in ("uploads", "uploadId", "list-type"))
        request = " ".join((*words, *asked, self.headers.get("Range", "")))
        usual = {"GET": _LIST if listing else _READ, "HEAD": _HEAD}
        self.fault, self.draw = self.state.drawn(request, usual.get(self.command, _WRITE))
        self.line: list[object] = [request, 0, 0, self.fault]
        with self.state.turn:
            self.state.log.append(self.line)
        if self.fault == "gone":
            return self._cut()
        key = re.search(r"Credential=([^/]+)/", self.headers.get("Authorization", ""))
        if key and key[1] in self.state.faults.expired:
            return self._refuse(400, "ExpiredToken")
        if self.fault == "slow":
            time.sleep(self.draw.uniform(0, self.state.faults.seconds))
        late = self.fault == "error" and self.command in ("PUT", "POST", "DELETE")
        if self.fault in _REFUSALS and not (late and self.draw.random() < 0.5):
            return self._refuse(*_REFUSALS[self.fault])
        if self.command in ("GET", "HEAD"):
            return self._list() if listing else self._read()
        return self._cut() if self.fault in _CUTS else self._write(body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do  # noqa: N815  # as http.server has them

    def _control(self, body: bytes) -> None:
        state = self.state
        with state.turn:
            if self.key == "-/faults":
                state.faults, state.log = Faults(**json.loads(body)), []
                state.times.clear()
                state.bursts.clear()
            elif self.key == "-/objects":
                state.objects, state.parts = {}, {}
                for path in state.place.iterdir():
                    path.unlink()
            answer = json.dumps(state.log if self.key == "-/log" else None).encode()
        self._send(200, {}, answer)

    def _read(self) -> None:
        found = self.state.objects.get(self.key)
        if found is not None and self.fault == "stale":
            found = found.before
        if found is None:
            return self._refuse(404, "NoSuchKey")
        if self.headers.get("If-Match", found.etag) not in (found.etag, "*"):
            return self._refuse(412, "PreconditionFailed")
        start, end, status = 0, found.size, 200
        headers = {"ETag": found.etag, "Last-Modified": _DAY, "Accept-Ranges": "bytes"}
        headers |= {f"x-amz-meta-{name}": value for name, value in found.metadata.items()}
        if self.headers.get("If-None-Match") == found.etag:
            return self._send(304, headers)
        if asked := re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "")):
            start = int(asked[1]) if asked[1] else max(0, found.size - int(asked[2]))
            end = min(int(asked[2]) + 1, found.size) if asked[1] and asked[2] else found.size
            if start >= end:
                return self._refuse(416, "InvalidRange")
            headers["Content-Range"], status = f"bytes {start}-{end - 1}/{found.size}", 206
        if self.command == "HEAD":
            return self._send(status, {**headers, "Content-Length": str(end - start)})
        sent = end
        if self.fault in ("short", *_CUTS) and end > start:
            sent = self.draw.randrange(start, end)
        stated = sent if self.fault == "short" else end
        self._begin(status, {**headers, "Content-Length": str(stated - start)}, sent - start)
        with found.path.open("rb", buffering=0) as file:
            if self.fault == "flip" and end > start:
                data = bytearray(os.pread(file.fileno(), end - start, start))
                data[self.draw.randrange(len(data))] ^= 1 << self.draw.randrange(8)
                self.wfile.write(data)
            while start < sent and self.fault != "flip":
                start += os.sendfile(self.connection.fileno(), file.fileno(), start, sent - start)
        return self._cut() if self.fault in _CUTS else None

    def _list(self) -> None:
        """ListObjectsV2."""
        bucket, delimiter = self.key.rstrip("/"), self.query.get("delimiter", "")
        prefix, after = self.query.get("prefix", ""), self.query.get("continuation-token", "")
        after = max(after, self.query.get("start-after", ""))
        most, above = int(self.query.get("max-keys") or 1000), len(bucket) + 1
        entries: dict[str, Version | None] = {}
        for key, version in sorted(self.state.objects.items()):
            name = key[above:]
            if key.startswith(f"{bucket}/{prefix}"):
                folder, found, _ = name[len(prefix) :].partition(delimiter or "\n")
                name = f"{prefix}{folder}{delimiter}" if found else name
                if name > after:
                    entries[name] = None if found else version
        page = list(entries.items())[:most]
        lines = [
            "<ListBucketResult>",
            f"<Name>{bucket}</Name>",
            f"<KeyCount>{len(page)}</KeyCount>",
        ]
        for name, each in page:
            some = self.draw.random() < 0.5
            times = 1 + (some and self.fault == "repeat") - (some and self.fault == "omit")
            if each is None:
                line = f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            else:
                line = (
                    f"<Contents><Key>{escape(name)}</Key><LastModified>{_DAY_LISTED}</LastModified>"
                    f"<ETag>{escape(each.etag)}</ETag><Size>{each.size}</Size></Contents>"
                )
            lines += [line] * times
        if more := len(entries) > len(page):
            token = escape(page[-1][0])
            lines.append(f"<NextContinuationToken>{token}</NextContinuationToken>")
        lines.append(f"<IsTruncated>{str(more).lower()}</IsTruncated></ListBucketResult>")
        self._send(200, {}, "".join(lines).encode())

    def _write(self, body: bytes) -> None:
        if self.fault == "flip" and body:
            at = self.draw.randrange(len(body))
            body = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
        signed = self.headers.get("x-amz-content-sha256", "")
        if len(signed) == 64 and signed != hashlib.sha256(body).hexdigest():
            return self._refuse(400, "XAmzContentSHA256Mismatch")
        metadata = {
            name.lower().removeprefix("x-amz-meta-"): value
            for name, value in self.headers.items()
            if name.lower().startswith("x-amz-meta-")
        }
        upload, state = self.query.get("uploadId", ""), self.state
        if upload and upload not in state.parts:
            return self._refuse(404, "NoSuchUpload")
        if "uploads" in self.query:
            with state.turn:
                upload = f"upload-{len(state.begun)}"
                state.begun[upload], state.parts[upload] = metadata, {}
            named = f"<UploadId>{upload}</UploadId>"
            answer = f"<InitiateMultipartUploadResult>{named}</InitiateMultipartUploadResult>"
            return self._done({}, answer)
        if "partNumber" in self.query:
            part = state.new(body, {})
            state.parts.get(upload, {})[int(self.query["partNumber"])] = part
            return self._done({"ETag": part.etag})
        if self.command == "DELETE":
            with state.turn:
                (state.parts if upload else state.objects).pop(upload or self.key, None)
            return self._done({}, status=204)
        if "delete" in self.query:
            keys = re.findall(r"<Key>(.*?)</Key>", body.decode())
            with state.turn:
                for key in keys:
                    state.objects.pop(f"{self.key.rstrip('/')}/{key}", None)
            lines = (f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            return self._done({}, f"<DeleteResult>{''.join(lines)}</DeleteResult>")
        etag = ""
        if upload:
            numbers = re.findall(r"<PartNumber>(\d+)</PartNumber>", body.decode())
            parts = [state.parts.get(upload, {}).get(int(number)) for number in numbers]
            if not all(part and part.etag.strip('"') in body.decode() for part in parts):
                return self._refuse(400, "InvalidPart")
            pieces = [part.path.read_bytes() for part in parts if part]
            sums = b"".join(hashlib.md5(each, usedforsecurity=False).digest() for each in pieces)
            etag = f"{hashlib.md5(sums, usedforsecurity=False).hexdigest()}-{len(parts)}"
            body, metadata = b"".join(pieces), dict(state.begun[upload])
        new = state.new(body, metadata, etag)
        with state.turn:
            before = state.objects.get(self.key)
            refused = self.headers.get("If-None-Match") == "*" and before is not None
            if match := self.headers.get("If-Match"):
                refused = before is None or before.etag != match
            if not refused:
                state.parts.pop(upload, None)
                state.objects[self.key] = Version(
                    new.path, new.size, new.etag, new.metadata, before
                )
        if refused:
            return self._refuse(412, "PreconditionFailed")
        tag = f"<ETag>{escape(new.etag)}</ETag>"
        answer = f"<CompleteMultipartUploadResult>{tag}</CompleteMultipartUploadResult>"
        return self._done({"ETag": new.etag}, answer if upload else "")

    def _done(self, headers: Mapping[str, str], answer: str = "", *, status: int = 200) -> None:
        """What was asked is done; perhaps nobody hears of it."""
        if self.fault == "lost":
            return self._cut()
        if self.fault == "error":
            return self._refuse(*_REFUSALS["error"])
        return self._send(status, headers, answer.encode())

    def _refuse(self, status: int, code: str) -> None:
        named = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>"
        self._send(status, {}, b"" if self.command == "HEAD" else named.encode())

    def _send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        empty = status in (204, 304)
        length = {} if empty else {"Content-Length": str(len(body))}
        self._begin(status, {**length, **headers}, len(body))
        self.wfile.write(body)

    def _begin(self, status: int, headers: Mapping[str, str], size: int) -> None:
        if not self.key.startswith("-/"):
            self.line[1:3] = status, size
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _cut(self) -> None:
        if self.fault == "stall":
            time.sleep(self.state.faults.stalled)
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


class Server(ThreadingHTTPServer):
    """A thread for each connection."""

    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        error = sys.exception()
        if not isinstance(error, (OSError, ValueError)):  # of a connection that was cut
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def main() -> None:
    """Serve until the standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--directory", help="where objects are kept [default: memory]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory or "/dev/shm") as place:
        Handler.state = State(Path(place), Faults(options.seed, options.rate))
        with Server(("127.0.0.1", options.port), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}\n")
            sys.stdout.flush()
            sys.stdin.read()
            server.shutdown()


if __name__ == "__main__":
    main()
