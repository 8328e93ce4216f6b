"""Stand-in for QIS, Quarch's instrument server, at the level of its text protocol.

It answers as described in the help text of QIS 1.54; no real QIS was recorded.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

HEADER = """<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<header>
<version>V3</version>
<devicePeriod>4us</devicePeriod>
<mainPeriod>100000us</mainPeriod>
<channels>
{channels}
</channels>
</header>"""
CHANNEL = """<channel><name>{}</name><group>{}</group><units>{}</units>
<maxTValue>0</maxTValue><dataPosition>{}</dataPosition></channel>"""
STATUS = ("Status", "status", "NA")
RAILS = [
    STATUS,
    ("3V3", "voltage", "mV"),
    ("3V3", "current", "uA"),
    ("12V", "voltage", "mV"),
    ("12V", "current", "uA"),
]
POWERS = [("3V3", "power", "uW"), ("12V", "power", "uW"), ("Tot", "power", "uW")]


def header(channels: list[tuple[str, str, str]]) -> str:
    """Return a V3 header with QIS line endings."""
    rows = "\n".join(CHANNEL.format(*channel, i) for i, channel in enumerate(channels))
    return HEADER.format(channels=rows).replace("\n", "\r\n")


class FakeQis:
    """One module on one port. Change its attributes to inject faults."""

    def __init__(self) -> None:
        self.greeting = b"Quarch Instrument Server v1.54\r\n>"
        self.version = "v1.54"
        self.listed = [
            "1) usb::QTL1847-01-016 Port:9 Stream:Yes Name:XLC Programmable Power Module"
        ]
        self.refuses: dict[str, str] = {}  # answer by command
        self.header = header([*RAILS, *POWERS])
        self.header_delays = 0  # how often the header is unavailable first
        self.lines: list[str] = []  # returned by the next "stream text all"
        self.status = "Stopped: User"
        self.resample = "off"
        self.commands: list[str] = []
        self.hang = threading.Event()  # if set, no request is answered
        self.hang_up = threading.Event()  # if set, the connection is closed
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for connection in self._connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.sendall(self.greeting)
                for raw in connection.makefile("rb"):
                    if self.hang_up.is_set():
                        return
                    if self.hang.is_set():
                        continue
                    answer = self._answer(raw.decode().strip())
                    connection.sendall(f"{answer}\r\n>".encode())
            except OSError:
                return

    def _answer(self, line: str) -> str:
        device, _, rest = line.partition(" ")
        command = rest if "::" in device else line
        self.commands.append(command)
        if command in self.refuses:
            return self.refuses[command]
        answers: dict[str, Callable[[], str]] = {
            "$version": lambda: self.version,
            "$list details": lambda: "\r\n".join(self.listed) or "No Devices Found",
            "stream?": lambda: f"{self.status}\r\nStripes Buffered: 0 of 8388608",
            "stream mode resample?": lambda: self.resample,
            "rec stream": self._start,
            "rec stop": self._stop,
            "stream text header": self._header,
            "stream text all": self._text,
        }
        if command.startswith("stream mode resample "):
            self.resample = command.rpartition(" ")[2]
        return answers.get(command, lambda: "OK")()

    def _start(self) -> str:
        self.status = "Running"
        return "OK"

    def _stop(self) -> str:
        self.status = "Stopped: User"
        return "OK"

    def _header(self) -> str:
        if self.header_delays:
            self.header_delays -= 1
            return "Header Not Available"
        return self.header

    def _text(self) -> str:
        lines, self.lines = self.lines, []
        return "\r\n".join([*lines, "eof"])
