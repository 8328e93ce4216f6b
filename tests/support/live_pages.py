"""Plans, runs and raw connections for tests of the live page."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.result import Failure, RunRecord
from support.run_records import run_record

HOSTILE = '</script><img src=x onerror="document.title=1">\n\ndata: evil\r\nevent: news\u2028\\"{}'


def a_point(target: str = "disk") -> Point:
    return Point(
        target=target, workload="w", workload_index=0, kind="block", engine="native", params={}
    )


def a_plan(target: str = "disk", study: str = "study", repeats: int = 3) -> Plan:
    point = a_point(target)
    return Plan(
        study_name=study,
        study_sha256="0" * 64,
        points={point.point_id: point},
        runs=[PlannedRun(order=n, repeat=n + 1, point_id=point.point_id) for n in range(repeats)],
        estimated_ns=1,
        bytes_written=0,
    )


def a_record(plan: Plan, number: int = 0, failure: Failure | None = None) -> RunRecord:
    run = plan.runs[number]
    return run_record(run, plan.points[run.point_id].target, failure)


def named(run: PlannedRun, point: Point) -> str:
    return f"{point.workload}, run {run.repeat}"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


def ask(url: str, *, method: str = "GET", **headers: str) -> Answer:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    try:
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


class Stream:
    """Server-sent events parsed as in the HTML standard: fields by line, a blank line ends one."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=60)
        self._socket.sendall(
            f"GET {parts.path}events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
        )
        self._file = self._socket.makefile("rb")
        while self._file.readline() not in (b"\r\n", b""):
            pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        kind, data = "", ""
        for raw in self._file:
            line = raw.decode().rstrip("\r\n")
            if not line:
                yield kind, json.loads(data)
                kind, data = "", ""
                continue
            field, _, value = line.partition(": ")
            assert field in ("event", "data"), line
            kind, data = (value, data) if field == "event" else (kind, data + value)

    def until(self, kind: str) -> dict[str, Any]:
        return next(value for event, value in self.events() if event == kind)
