"""The server behind ``dataprep browse``: this machine's, one person's, for as long as it runs.

It listens on the loopback address only. What is printed when it starts has a token, which is good
once: it is exchanged for a cookie, without which nothing is told. A page of another origin learns
nothing and marks nothing: its name in ``Host`` is refused, the cookie is not sent along, and marks
want this origin and a type that no form has. It is Python's own ``http.server``: it serves files
and a few pages to one person, and needs no package that has to be kept up to date.
"""

from __future__ import annotations

import hmac
import secrets
import socketserver
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar, Final, Protocol
from urllib.parse import parse_qsl, urlsplit

from dataprep.errors import UsageError
from dataprep.system.messages import refusal

HOST: Final = "127.0.0.1"
_NAMES: Final = (HOST, "localhost")  # what may stand in `Host`
_LONGEST: Final = 1 << 16  # bytes of what is posted
_SECONDS: Final = 60  # that a connection may be idle
_MOST: Final = 100  # threads; another user of the machine may connect, and learns nothing

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self'; style-src 'self'; "
    "script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_ON: Final = b"""<!doctype html><html lang="en"><meta charset="utf-8"><title>dataprep browse</title>
<meta http-equiv="refresh" content="0; url=/"><p><a href="/">Go on</a></p></html>"""
_KEPT: Final = "private, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent.

    Attributes:
        kept: whether the browser may keep it: its address is of these bytes alone.
    """

    data: bytes
    type: str = "text/html; charset=utf-8"
    status: int = HTTPStatus.OK
    kept: bool = False


class Site(Protocol):
    """What is served; its methods are called from many threads."""

    def get(self, path: str, words: Mapping[str, str]) -> Answer | None:
        """The page at a path, or None; and what its address says behind ``?``."""

    def post(self, path: str, data: bytes) -> Answer | None:
        """The same of what is posted there."""


class Server(socketserver.ThreadingTCPServer):
    """Serves a site to whoever brings the token first.

    Args:
        site: what is served.
        port: to listen on; 0: any that is free.

    Raises:
        UsageError: it is taken.
    """

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, site: Site, port: int = 0) -> None:
        self.site = site
        self._token, self._session = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._unused = threading.Lock()  # taken for good with the token
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise UsageError(f"--port {port}: {refusal(error)}; choose another") from error

    @property
    def port(self) -> int:
        """That it listens on."""
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """For the browser, good once."""
        return f"http://{HOST}:{self.port}/?token={self._token}"

    @property
    def cookie(self) -> str:
        """Its name: cookies are of a host, whatever the port."""
        return f"dataprep-{self.port}"

    def session(self, token: str) -> str | None:
        """The secret of the cookie for the token; None if it is wrong, or was used before."""
        good = hmac.compare_digest(token.encode(), self._token.encode())
        return self._session if good and self._unused.acquire(blocking=False) else None

    def knows(self, session: str) -> bool:
        """Whether this is the secret of the cookie."""
        return hmac.compare_digest(session.encode(), self._session.encode())

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002
        """Refuse more connections than one person needs."""
        return threading.active_count() < _MOST

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error; what else fails was answered."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "dataprep", ""
    timeout: ClassVar[int] = _SECONDS
    disable_nagle_algorithm = True
    wbufsize = -1  # so that an answer is one packet, or few

    def do_GET(self) -> None:  # http.server's name
        if not self._is_ours():
            return
        parts = urlsplit(self.path)
        words = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=20))
        if "token" in words:
            self._exchange(words["token"])
        elif self._is_known():
            self._send(self._answer(lambda: self.server.site.get(parts.path, words)))

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not (size.isascii() and size.isdecimal() and int(size) <= _LONGEST):
            self.close_connection = True  # what it sends is no request
            self._refuse("too long", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        data = self.rfile.read(int(size))
        if not self._is_ours() or not self._is_known():
            return
        json = self.headers.get_content_type() == "application/json"
        if self.headers.get("Origin") == f"http://{self.headers['Host']}" and json:
            self._send(self._answer(lambda: self.server.site.post(self.path, data)))
        else:
            self._refuse("of another page")

    def _is_ours(self) -> bool:
        """Whether the browser meant this server: a name of others may be made to lead here."""
        ours = self.headers.get("Host") in [f"{name}:{self.server.port}" for name in _NAMES]
        if not ours:
            self._refuse("another host")
        return ours

    def _is_known(self) -> bool:
        cookies = (it.strip().partition("=") for it in self.headers.get("Cookie", "").split(";"))
        found = next((value for name, _, value in cookies if name == self.server.cookie), "")
        known = self.server.knows(found)
        if not known:
            self._refuse("the address that `dataprep browse` printed is good once; start it again")
        return known

    def _exchange(self, token: str) -> None:
        # No redirect: of an address that another site's page had, it would go without the cookie.
        if (session := self.server.session(token)) is not None:
            cookie = f"{self.server.cookie}={session}; HttpOnly; SameSite=Strict; Path=/"
            self._send(Answer(_ON), {"Set-Cookie": cookie})
        elif self._is_known():  # who opened it opens it again
            self._send(Answer(_ON))

    def _answer(self, answered: Any) -> Answer:
        try:
            return answered() or Answer(b"not found\n", "text/plain", HTTPStatus.NOT_FOUND)
        except Exception as error:  # noqa: BLE001  # one page fails, the others go on
            text = f"unexpected {type(error).__name__}: {error}\n".encode(errors="replace")
            return Answer(text, "text/plain; charset=utf-8", HTTPStatus.INTERNAL_SERVER_ERROR)

    def _refuse(self, why: str, status: int = HTTPStatus.FORBIDDEN) -> None:
        self._send(Answer(f"{why}\n".encode(), "text/plain; charset=utf-8", status))

    def _send(self, answer: Answer, more: Mapping[str, str] = {}) -> None:
        self.send_response(answer.status)
        own = {
            "Content-Type": answer.type,
            "Content-Length": str(len(answer.data)),
            "Cache-Control": _KEPT if answer.kept else "no-store",
            **({"Connection": "close"} if self.close_connection else {}),
        }
        for name, value in {**_HEADERS, **own, **more}.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(answer.data)

    def log_message(self, format: str, *words: Any) -> None:  # noqa: A002
        """Nobody reads a log of every thumbnail, and a token would be in it."""
