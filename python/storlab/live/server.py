"""Serve the live page over HTTP: on loopback only, read-only, at an address with a random token.

Requests without the token get an empty answer. Every connection has a thread, a timeout and a small
send buffer, so a client that does not read is disconnected.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path

from storlab.base.files import read_input
from storlab.live.feed import Feed, Watcher
from storlab.live.metrics import CONTENT_TYPE, open_metrics

LOOPBACK = "127.0.0.1"
MOST_CONNECTIONS = 64
PATIENCE_S = 10.0  # timeout for a request, and for a client reading an answer
SEND_BUFFER = 64 << 10

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_BRIEF_POLICY = "frame-ancestors 'self'"  # the brief itself contains the remaining policy


class LiveServer(ThreadingHTTPServer):
    """HTTP server that sends a feed's events to browsers; ``port`` 0 selects a free port."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, feed: Feed, port: int = 0) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.feed = feed
        self.token = secrets.token_urlsafe(24)
        self.brief: Path | None = None
        self.briefs_served = threading.Semaphore(0)
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._thread = threading.Thread(
            target=self.serve_forever, name="storlab-live-http", daemon=True
        )

    @property
    def port(self) -> int:
        """Port on which the server listens."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """URL of the page, including its token."""
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"

    def start(self) -> None:
        """Start serving requests in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and close the port."""
        if self._thread.ident is not None:  # shutdown() would block without a running loop
            self.shutdown()
        self.server_close()

    def verify_request(self, request: object, client_address: object) -> bool:
        """Accept a connection only if there are fewer than MOST_CONNECTIONS."""
        del request, client_address
        return self._free.acquire(blocking=False)

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Serve one connection in its own thread, then release its place under the limit."""
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors of a connection, because they do not affect the campaign."""
        del request, client_address


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    timeout = PATIENCE_S

    def setup(self) -> None:
        """Make the kernel's send buffer small, so that a client that does not read is noticed."""
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        super().setup()

    def do_GET(self) -> None:
        """Answer a request for the page, its assets, events, metrics, or the brief if it exists."""
        place = self._place()
        answers: dict[str, Callable[[], None]] = {
            "": lambda: self._asset("page.html"),
            "page.css": lambda: self._asset("page.css"),
            "page.js": lambda: self._asset("page.js"),
            "events": self._events,
            "metrics": self._metrics,
            "brief": self._brief,
        }
        answer = answers.get(place) if place is not None else None
        if answer is None:
            self._nothing(HTTPStatus.NOT_FOUND)
        else:
            with suppress(OSError):  # the client has closed the connection or does not read
                answer()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer invalid requests with an empty response that does not identify the program."""
        del code, message, explain
        self._nothing(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write no log, because the requested path contains the token."""
        del format, args

    def _place(self) -> str | None:
        """Return the requested path after the token; None if the token or the Host header is wrong.

        The Host header must be a name of loopback, which prevents DNS rebinding.
        """
        named = [host.rpartition(":")[0] or host for host in self.headers.get_all("Host", [])]
        if named not in ([LOOPBACK], ["localhost"]):  # any port: ssh may forward another one
            return None
        path = self.path.partition("?")[0]
        _, token, *rest = [*path.split("/", 2), ""][:3]
        given, own = token.encode(errors="replace"), self.server.token.encode()
        if not hmac.compare_digest(given, own) or path.count("/") < 2:
            return None
        return rest[0]

    def _nothing(self, status: HTTPStatus) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.send_response_only(status)
            self.send_header("Content-Length", "0")
            self.send_header("Connection", "close")
            self.end_headers()

    def _head(self, kind: str, length: int | None = None, policy: str = _PAGE_POLICY) -> None:
        self.close_connection = True
        self.send_response_only(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", policy)
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Connection", "close")
        self.end_headers()

    def _whole(self, kind: str, content: bytes, policy: str = _PAGE_POLICY) -> None:
        self._head(kind, len(content), policy)
        self.wfile.write(content)

    def _asset(self, name: str) -> None:
        kind = _TYPES[name.rpartition(".")[2]]
        self._whole(f"{kind}; charset=utf-8", _resource(name))

    def _metrics(self) -> None:
        self._whole(CONTENT_TYPE, open_metrics(self.server.feed.view()).encode())

    def _brief(self) -> None:
        brief = self.server.brief
        if brief is None:
            self._nothing(HTTPStatus.NOT_FOUND)
            return
        try:
            self._whole("text/html; charset=utf-8", read_input(brief), _BRIEF_POLICY)
        finally:
            self.server.briefs_served.release()

    def _events(self) -> None:
        feed = self.server.feed
        watcher = feed.watch(loads_brief="?page" in self.path)
        try:
            self._head("text/event-stream")
            self._send_all(watcher)
        finally:
            feed.leave(watcher)

    def _send_all(self, watcher: Watcher) -> None:
        while (event := watcher.take()) is not None:
            self.wfile.write(event)


@cache
def _resource(name: str) -> bytes:
    return files("storlab.live").joinpath("assets", name).read_bytes()
