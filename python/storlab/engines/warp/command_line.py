"""Parser of warp's command lines, with warp's default values.

Checked against warp 0.3 to 1.6.1. Flags have one or two dashes and their value after ``=`` or as
the next word; a boolean flag takes a value only after ``=``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import PurePath

from storlab.base.units import NS_PER_S

BENCHMARKS = (
    "mixed", "get", "put", "delete", "list", "stat", "versioned", "retention", "multipart",
    "multipart-put", "zip", "snowball", "fanout", "append",
)  # fmt: skip
_BOOLEAN = {
    "quiet", "q", "no-color", "json", "debug", "insecure", "autocompletion", "tls", "ktls",
    "encrypt", "sse-s3-encrypt", "resolve-host", "noprefix", "disable-multipart",
    "disable-sha256-payload", "md5", "disable-http-keepalive", "http2", "stress", "stdout",
    "autoterm", "noclear", "keep-data", "analyze.v", "full", "web", "obj.randsize", "range",
    "list-existing", "list-flat", "metadata", "post", "compress", "cpu", "mem", "block", "mutex",
    "threads", "trace",
}  # fmt: skip
SECRETS = frozenset(
    {"access-key", "secret-key", "session-token", "sts-web-token", "sts-web-token-file", "influxdb"}
)
_VARIABLES = {
    "WARP_HOST": "host",
    "WARP_ACCESS_KEY": "access-key",
    "WARP_SECRET_KEY": "secret-key",
    "WARP_SESSION_TOKEN": "session-token",
    "WARP_STS_WEB_TOKEN": "sts-web-token",
    "WARP_TLS": "tls",
    "WARP_KTLS": "ktls",
    "WARP_REGION": "region",
    "WARP_RDMA": "rdma",
    "WARP_RDMA_WINDOW": "rdma.window",
    "WARP_INFLUXDB_CONNECT": "influxdb",
}
# Values of flags that are not given, by benchmark.
_COMMON = {"host": "127.0.0.1:9000", "bucket": "warp-benchmark-bucket", "concurrent": "20"}
_COMMON |= {"duration": "5m", "host-select": "weighed"}
_MIX = {"get-distrib": "45", "stat-distrib": "30", "put-distrib": "15", "delete-distrib": "10"}
_DEFAULTS: dict[str, dict[str, str]] = {
    "mixed": {"objects": "2500", "obj.size": "10MiB", **_MIX},
    "get": {"objects": "2500", "obj.size": "10MiB"},
    "put": {"obj.size": "10MiB"},
    "delete": {"objects": "25000", "obj.size": "1KiB", "batch": "100"},
    "list": {"objects": "10000", "obj.size": "1KB", "max-keys": "100"},
    "stat": {"objects": "10000", "obj.size": "1KB"},
    "versioned": {"objects": "250", "obj.size": "10MiB", **_MIX},
    "multipart": {"part.size": "5MiB", "parts": "200"},
    "multipart-put": {"part.size": "5MiB", "parts": "100", "part.concurrent": "20"},
}
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_FLAG = re.compile(r"--?(?P<name>[A-Za-z_][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_ENDS = re.compile(r"(?:\d*>.*|&>?.*|<.*|\|\|?|;|&&)")  # words that end the command in a shell
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|us|µs|ns)")
_UNITS_NS = {"h": 3600 * NS_PER_S, "m": 60 * NS_PER_S, "s": NS_PER_S, "ms": 10**6, "ns": 1}
_UNITS_NS |= {"us": 1_000, "µs": 1_000}
_NUMBERS = re.compile(r"\{(\d+)\.{2,3}(\d+)\}")


_SECRET = re.compile(
    rf"(?P<name>--?(?:{'|'.join(SECRETS)})(?:=|\s+)"
    rf"|\bWARP_(?:ACCESS_KEY|SECRET_KEY|SESSION_TOKEN|STS_WEB_TOKEN|INFLUXDB_CONNECT)=)"
    r"(?!\*REDACTED\*)(?:'[^']*'|\"[^\"]*\"|[^\s'\"]+)"
)


def without_credentials(text: str) -> str:
    """Replace the credentials in warp's command lines by ``*REDACTED*``."""
    return _SECRET.sub(r"\g<name>*REDACTED*", text)


class CommandLineError(ValueError):
    """Error: a text is not a command line of a warp benchmark."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Parsed command line of warp: the benchmark and its flags."""

    benchmark: str
    flags: dict[str, str]  # boolean flags are "true" or "false"; repeated flags joined by commas
    # Variables before the command and words that are not flags, all of which warp ignores.
    unread: list[str] = field(default_factory=list)

    def value(self, name: str) -> str:
        """Return the value of a flag, else warp's default, else an empty text."""
        return self.flags.get(name) or self.default(name)

    def default(self, name: str) -> str:
        """Return warp's default for a flag of the benchmark; an empty text if there is none."""
        return (_COMMON | _DEFAULTS.get(self.benchmark, {})).get(name, "")

    def is_on(self, name: str) -> bool:
        """Return whether a boolean flag is set."""
        return self.flags.get(name) == "true"

    def recorded(self) -> dict[str, str]:
        """Return benchmark and flags as warp records them in its results, without credentials."""
        given = self.flags.items()
        shown = {k: v for k, v in given if k not in SECRETS and v != "false"}
        return {"": self.benchmark, **shown}


def parse_command_line(text: str) -> CommandLine:
    """Parse a command line such as ``warp mixed --host s3:9000 --duration=5m``.

    A prompt, variables and other words before the benchmark's name, such as those of ``docker run
    minio/warp``, are accepted.

    Raises:
        CommandLineError: No benchmark of warp is named, a flag has no value, or a quote is open.
    """
    try:
        words = shlex.split(re.sub(r"\\\r?\n", " ", text), posix=True)
    except ValueError as error:
        raise CommandLineError(f"cannot be split into words: {error}") from error
    at = _benchmark_at(words)
    flags: dict[str, str] = {}
    unread = []
    for word in words[:at]:
        variable = _ASSIGNMENT.fullmatch(word)
        if variable is not None and variable["name"] in _VARIABLES:
            name, value = _VARIABLES[variable["name"]], variable["value"]
            flags[name] = _boolean(name, value) if name in _BOOLEAN else value
        elif variable is not None:
            unread.append(variable["name"])
    given: dict[str, str] = {}
    rest = iter(words[at + 1 :])
    for word in rest:
        if _ENDS.fullmatch(word):
            break
        flag = _FLAG.fullmatch(word)
        if flag is None:
            unread.append(word)
            continue
        name, value = flag["name"], flag["value"]
        if name in _BOOLEAN:
            value = _boolean(name, value)
        elif value is None:
            value = next(rest, None)
            if value is None:
                raise CommandLineError(f"--{name} has no value")
        given[name] = f"{given[name]},{value}" if name in given else value
    return CommandLine(words[at], flags | given, unread)


def _benchmark_at(words: list[str]) -> int:
    """Return the index of the benchmark's name, preferably one that follows the word warp."""
    named = [index for index, word in enumerate(words) if word in BENCHMARKS]
    after = [index for index in named if index and "warp" in PurePath(words[index - 1]).name]
    if not named:
        raise CommandLineError(f"names none of warp's benchmarks {', '.join(BENCHMARKS)}")
    return (after or named)[0]


def _boolean(name: str, value: str | None) -> str:
    if value is None or value.lower() in ("1", "t", "true"):
        return "true"
    if value.lower() in ("0", "f", "false"):
        return "false"
    raise CommandLineError(f"--{name} is {value}, neither true nor false")


def duration_ns(text: str) -> int:
    """Convert a duration in Go's notation, such as ``1m30s``, to ns; 0 if it is malformed."""
    if not re.fullmatch(f"(?:{_DURATION.pattern})+", text):
        return 0
    return round(sum(float(n) * _UNITS_NS[unit] for n, unit in _DURATION.findall(text)))


def expanded_hosts(text: str) -> Iterator[str]:
    """Yield the hosts of ``--host``, with ranges such as ``node{1...4}:9000`` expanded."""
    for host in filter(None, (host.strip() for host in text.split(","))):
        literals = _NUMBERS.split(host)[::3]
        ranges = [
            [str(n).zfill(len(first) if first[0] == "0" else 0) for n in _range(first, last)]
            for first, last in _NUMBERS.findall(host)
        ]
        for numbers in product(*ranges):
            pieces = [literals[0]]
            for number, literal in zip(numbers, literals[1:], strict=True):
                pieces += [number, literal]
            yield "".join(pieces)


def _range(first: str, last: str) -> range:
    return range(int(first), int(last) + 1)
