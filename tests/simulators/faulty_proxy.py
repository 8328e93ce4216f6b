"""HTTP proxy in front of a real S3 server that counts requests and injects faults.

Requests are forwarded unchanged so that their signatures stay valid: the server takes the proxy's
address as its own name.
"""

from __future__ import annotations

import asyncio
import random
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Literal
from urllib.parse import urlsplit

HEAD_BYTES = 64 << 10
PART = 64 << 10
RESET = struct.pack("ii", 1, 0)  # linger of zero: close by RST

HarmKind = Literal[
    "corrupt", "truncate", "reset", "trickle", "refuse", "date", "redate", "delay", "silence"
]


@dataclass(frozen=True)
class Harm:
    """Fault applied to a share of the answers to matching requests.

    ``corrupt`` flips one bit of the body; ``truncate`` and ``reset`` close the connection in its
    middle; ``trickle`` sends the answer byte by byte, ``seconds`` apart; ``refuse`` answers itself
    with ``status`` and ``code``; ``date`` shifts the answer's Date by ``seconds``, and ``redate``
    the request's; ``delay`` waits for ``seconds``; ``silence`` never answers.
    """

    kind: HarmKind
    share: float = 1.0
    methods: tuple[str, ...] = ("GET",)
    path: str = "/pool-"  # substring of the request's path without query
    seconds: float = 0.0
    status: int = 503
    code: str = "SlowDown"


@dataclass(frozen=True)
class Seen:
    """A forwarded request, with lower-case header names."""

    method: str
    path: str
    query: str
    headers: dict[str, str]


class FaultyProxy:
    """Proxy with its own thread, listening inside the ``with`` block.

    ``harms`` may change at any time; the first match is applied. ``seen`` has every request,
    ``done`` the number of applications of each fault.
    """

    def __init__(self, upstream: str, *harms: Harm, seed: int = 1) -> None:
        address = urlsplit(upstream)
        assert address.scheme == "http"
        assert address.hostname is not None
        assert address.port is not None
        self._upstream = (address.hostname, address.port)
        self.harms = harms
        self.seen: list[Seen] = []
        self.done: Counter[str] = Counter()
        self._draw = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self._listening = threading.Event()

    def __enter__(self) -> FaultyProxy:
        self._thread.start()
        self._listening.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def count(self, method: str, path: str = "/pool-") -> int:
        """Return the number of matching requests."""
        return sum(seen.method == method and path in seen.path for seen in self.seen)

    def _run(self) -> None:
        self._loop.run_until_complete(self._listen())
        self._loop.run_forever()
        self._loop.run_until_complete(self._close())
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES)
        port = self._server.sockets[0].getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{port}"
        self._listening.set()

    async def _close(self) -> None:
        self._server.close()
        await asyncio.sleep(0)  # lets a just accepted connection become a task
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream = await asyncio.open_connection(*self._upstream, limit=HEAD_BYTES)
        except OSError:
            writer.transport.abort()
            return
        try:
            while await self._exchange(reader, writer, *upstream):
                pass
        except (OSError, EOFError):  # one side closed, so close the other
            pass
        finally:
            upstream[1].transport.abort()
            writer.close()

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        from_server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> bool:
        """Forward one request and its answer; return whether the connection stays open."""
        head = await reader.readuntil(b"\r\n\r\n")
        line, headers = _read_head(head)
        method, target, _ = line.split(" ", 2)
        path, _, query = target.partition("?")
        self.seen.append(Seen(method, path, query, headers))
        harm = self._choose(method, path)
        if harm is not None and harm.kind in ("refuse", "silence"):
            async for _part in _body(reader, headers, "request"):
                pass
            if harm.kind == "silence":
                await asyncio.sleep(3600)
            writer.write(_refusal(harm))
            await writer.drain()
            return True
        if harm is not None and harm.kind == "redate":
            shifted = datetime.now(UTC) + timedelta(seconds=harm.seconds)
            date = shifted.strftime("%Y%m%dT%H%M%SZ").encode()
            head = re.sub(rb"(?im)^x-amz-date:[^\r]*", b"x-amz-date: " + date, head)
        to_server.write(head)
        async for part in _body(reader, headers, "request"):
            to_server.write(part)
            await to_server.drain()
        answer = await from_server.readuntil(b"\r\n\r\n")
        line, headers = _read_head(answer)
        status = int(line.split(" ")[1])
        parts = _body(from_server, headers, "none" if _bodiless(method, status) else "answer")
        if harm is not None:
            answer = await _before(harm, answer)
        if harm is None or harm.kind in ("date", "redate", "delay"):
            writer.write(answer)
            async for part in parts:
                writer.write(part)
                await writer.drain()
            return headers.get("connection", "").lower() != "close"
        return await _harmed(harm, writer, answer, [part async for part in parts])

    def _choose(self, method: str, path: str) -> Harm | None:
        for harm in self.harms:
            if method in harm.methods and harm.path in path and self._draw.random() < harm.share:
                self.done[harm.kind] += 1
                return harm
        return None


async def _before(harm: Harm, answer: bytes) -> bytes:
    """Return the answer's head, possibly changed or delayed."""
    if harm.kind == "delay":
        await asyncio.sleep(harm.seconds)
    if harm.kind == "date":
        date = format_datetime(datetime.now(UTC) + timedelta(seconds=harm.seconds), usegmt=True)
        return re.sub(rb"(?im)^date:[^\r]*", b"Date: " + date.encode(), answer)
    return answer


async def _harmed(
    harm: Harm, writer: asyncio.StreamWriter, answer: bytes, parts: list[bytes]
) -> bool:
    body = b"".join(parts)
    if harm.kind == "trickle":
        for at in range(len(answer + body)):
            writer.write((answer + body)[at : at + 1])
            await writer.drain()
            await asyncio.sleep(harm.seconds)
        return True
    half = len(body) // 2
    if harm.kind == "corrupt":
        writer.write(answer + body[:half] + bytes([body[half] ^ 1]) + body[half + 1 :])
        await writer.drain()
        return True
    writer.write(answer + body[:half])
    await writer.drain()
    if harm.kind == "reset":
        raw: socket.socket = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()
    return False


def _refusal(harm: Harm) -> bytes:
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{harm.code}</Code><Message>as told</Message></Error>"
    ).encode()
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=harm.seconds), usegmt=True)
    lines = [
        f"HTTP/1.1 {harm.status} As Told",
        "Content-Type: application/xml",
        f"Content-Length: {len(body)}",
        f"Date: {date}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _read_head(head: bytes) -> tuple[str, dict[str, str]]:
    line, *rest = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = (field.partition(":") for field in rest)
    return line, {name.strip().lower(): value.strip() for name, _, value in pairs}


def _bodiless(method: str, status: int) -> bool:
    return method == "HEAD" or status in (204, 304) or status < 200


async def _body(
    reader: asyncio.StreamReader, headers: dict[str, str], of: Literal["request", "answer", "none"]
) -> AsyncIterator[bytes]:
    """Yield the body as it arrives, including chunk framing."""
    if of == "none":
        return
    if "chunked" in headers.get("transfer-encoding", "").lower():
        while True:
            line = await reader.readuntil(b"\r\n")
            yield line
            size = int(line.split(b";")[0], 16)
            if not size:
                break
            yield await reader.readexactly(size + 2)
        while line != b"\r\n":  # trailers
            line = await reader.readuntil(b"\r\n")
            yield line
        return
    left = int(headers.get("content-length", "0"))
    while left:
        part = await reader.read(min(left, PART))
        if not part:
            raise EOFError
        left -= len(part)
        yield part
