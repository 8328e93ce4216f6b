"""Redfish service: a tree of JSON resources over HTTP or HTTPS, with logins and faults."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USER = "metering"
ROOT = "/redfish/v1"
SESSIONS = f"{ROOT}/SessionService/Sessions"


def link(path: str) -> dict[str, str]:
    return {"@odata.id": ROOT + path}


def collection(*paths: str) -> dict[str, Any]:
    return {"Members": [link(path) for path in paths], "Members@odata.count": len(paths)}


def tree(**chassis: dict[str, Any]) -> dict[str, Any]:
    """Return a service root with these chassis and no power readings."""
    resources: dict[str, Any] = {
        "": {"RedfishVersion": "1.18.0", "Chassis": link("/Chassis")},
        "/Chassis": collection(*(f"/Chassis/{name}" for name in chassis)),
    }
    for name, body in chassis.items():
        resources[f"/Chassis/{name}"] = {"Id": name, **body}
    return resources


class Service:
    """Server with its own thread; ``resources`` and faults may change at any time."""

    def __init__(
        self, resources: dict[str, Any], password: str, tls: ssl.SSLContext | None
    ) -> None:
        self.resources = resources
        self.password = password
        self.tokens: set[str] = set()
        self.logins = 0
        self.delay_s = 0.0
        self.gone = False
        self.requests: list[tuple[str, str]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                service.get(self)

            def do_POST(self) -> None:
                service.post(self)

            def do_DELETE(self) -> None:
                service.delete(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://localhost:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def stop(self) -> None:
        self.gone = True
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def get(self, handler: BaseHTTPRequestHandler) -> None:
        path = handler.path.split("?")[0].rstrip("/").removeprefix(ROOT)
        self.requests.append(("GET", path))
        time.sleep(self.delay_s)
        if self.gone:  # close open connections without an answer
            handler.close_connection = True
        elif path and not self._known(handler):  # the root needs no login
            self._answer(handler, 401, {"error": {"code": "Base.1.0.NoValidSession"}})
        elif path not in self.resources:
            self._answer(handler, 404, {"error": {"code": "Base.1.0.ResourceMissingAtURI"}})
        else:
            self._answer(handler, 200, {"@odata.id": ROOT + path, **self.resources[path]})

    def post(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        self.requests.append(("POST", handler.path.removeprefix(ROOT)))
        if handler.path != SESSIONS or body != {"UserName": USER, "Password": self.password}:
            self._answer(handler, 401, {"error": {"code": "Base.1.0.NoValidSession"}})
            return
        self.logins += 1
        token = f"token-{self.logins}"
        self.tokens.add(token)
        headers = {"X-Auth-Token": token, "Location": f"{SESSIONS}/{self.logins}"}
        self._answer(handler, 201, {"Id": str(self.logins)}, headers)

    def delete(self, handler: BaseHTTPRequestHandler) -> None:
        self.requests.append(("DELETE", handler.path.removeprefix(ROOT)))
        self.tokens.discard(handler.headers.get("X-Auth-Token", ""))
        self._answer(handler, 200, {})

    def _known(self, handler: BaseHTTPRequestHandler) -> bool:
        basic = base64.b64encode(f"{USER}:{self.password}".encode()).decode()
        if handler.headers.get("Authorization") == f"Basic {basic}":
            return True
        return handler.headers.get("X-Auth-Token", "") in self.tokens

    @staticmethod
    def _answer(
        handler: BaseHTTPRequestHandler,
        code: int,
        body: dict[str, Any],
        headers: dict[str, str] | None = None,
    ) -> None:
        data = json.dumps(body).encode()
        handler.send_response(code)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)
