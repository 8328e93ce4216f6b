"""HTTP client of a Redfish service, with verified TLS and sessions.

Source: DMTF DSP0266 (Redfish specification), sections on sessions and on HTTP Basic authentication.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import httpx

from storlab.base.errors import MeterError

ROOT = "/redfish/v1/"
SESSIONS = "/redfish/v1/SessionService/Sessions"


@dataclass(frozen=True, slots=True)
class Access:
    """Address of a Redfish service, with credentials and TLS settings."""

    base: str  # scheme, host and port
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    session: bool = True  # False: HTTP Basic with every request
    ca: str | None = None
    verify: bool = True
    timeout_s: float = 10.0


class Client:
    """HTTP client of one Redfish service; errors are MeterErrors and never contain the password."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._session_path: str | None = None
        basic = access.user is not None and not access.session
        self._http = httpx.Client(
            base_url=access.base,
            auth=(access.user or "", access.password or "") if basic else None,
            verify=_tls(access),
            timeout=access.timeout_s,
            trust_env=False,  # no proxies and no ~/.netrc: a BMC is local and has its own password
            headers={"Accept": "application/json", "OData-Version": "4.0"},
        )

    def get(self, path: str) -> dict[str, Any]:
        """Return a resource as JSON; fractions are Decimal, which keeps the number of digits."""
        if not path.startswith("/"):  # a link to another host would leak the token
            what = "is a link to another host, to which no password may be sent"
            raise MeterError(f"{self._access.base} {path[:200]}", what, "set url to a resource")
        if self._access.session and self._access.user is not None and not self._session_path:
            self._log_in()
        answer = self._send(lambda: self._http.get(path), path)
        if answer.status_code == httpx.codes.UNAUTHORIZED and self._session_path:
            self._log_in()  # sessions expire when idle
            answer = self._send(lambda: self._http.get(path), path)
        self._expect_ok(answer, path)
        try:
            body = answer.json(parse_float=Decimal)
        except ValueError as error:
            what = "does not return JSON"
            raise MeterError(f"{self._access.base}{path}", what, "check url") from error
        if not isinstance(body, dict):
            raise MeterError(f"{self._access.base}{path}", "is not a Redfish resource", "check url")
        return body

    def close(self) -> None:
        """Log out, because a service has few sessions, and close the connection."""
        with suppress(httpx.HTTPError):
            if self._session_path:
                self._http.delete(self._session_path)
        self._session_path = None
        self._http.close()

    def _log_in(self) -> None:
        """Create a session (DSP0266); the response's headers contain its token and location."""
        self._session_path = None
        self._http.headers.pop("X-Auth-Token", None)
        body = {"UserName": self._access.user, "Password": self._access.password}
        answer = self._send(lambda: self._http.post(SESSIONS, json=body), SESSIONS)
        self._expect_ok(answer, SESSIONS)
        token, place = answer.headers.get("X-Auth-Token"), answer.headers.get("Location")
        if not token or not place:
            raise MeterError(
                f"{self._access.base}{SESSIONS}",
                "returns no session token",
                'set auth = "basic"',
            )
        self._http.headers["X-Auth-Token"] = token
        self._session_path = httpx.URL(place).path

    def _send(self, request: Callable[[], httpx.Response], path: str) -> httpx.Response:
        """Send a request, and repeat it once if the service had closed an idle connection."""
        where = f"{self._access.base}{path}"
        try:
            try:
                return request()
            except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
                if _untrusted(error) is not None:
                    raise
                return request()
        except httpx.TimeoutException as error:
            raise MeterError(
                where,
                f"no answer within {self._access.timeout_s:g} s",
                "raise timeout if it is slow",
            ) from error
        except httpx.RequestError as error:
            if (untrusted := _untrusted(error)) is not None:
                raise MeterError(
                    where,
                    f"its certificate is not trusted: {untrusted.verify_message}",
                    'set the certificate of its authority: ca = "/path/of/ca.pem"',
                ) from error
            raise MeterError(
                where, f"cannot be reached: {error}", "check url and the network"
            ) from error

    def _expect_ok(self, answer: httpx.Response, path: str) -> None:
        if answer.is_success:
            return
        where = f"{self._access.base}{path}"
        code = answer.status_code
        if code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN) or (
            code == httpx.codes.BAD_REQUEST and path == SESSIONS
        ):
            what = f"the service rejects this user (HTTP {code})"
            if not self._access.user:
                what = f"the service requires a user (HTTP {code})"
            raise MeterError(where, what, "check user and the secret that password_env names")
        if code == httpx.codes.NOT_FOUND:
            raise MeterError(where, "does not exist (HTTP 404)", "check url and chassis")
        raise MeterError(where, f"HTTP {code} {answer.reason_phrase}", "look at the BMC's log")


def _untrusted(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """Return the certificate error that caused an HTTP error, or None if it had another cause."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause


def _tls(access: Access) -> ssl.SSLContext | bool:
    if not access.verify:
        return False
    try:
        return ssl.create_default_context(cafile=access.ca)
    except OSError as error:  # includes SSLError
        raise MeterError(
            f"ca = {access.ca}", f"cannot be read as certificates: {error}", "use a PEM file"
        ) from error
