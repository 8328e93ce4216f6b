"""Stand-in for warp with its options, output and files, but no requests.

Started like warp. ``STANDIN_WARP`` selects its behaviour: ``ok``, ``fails``, ``hangs``,
``stubborn`` (ignores SIGINT), ``no-record``, ``short`` (its load ends early), ``errors`` (every
request failed), ``damaged``, ``old`` (a warp without --full) or ``other`` (another program of that
name). Its record has the format of warp 1.6.1, including the session token that warp writes.
Timestamps pretend that the whole load ran, to save time.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

HELP = (
    "  --full  --noclear  --list-existing  --disable-multipart  --benchdata value  --session-token"
)
HEADER = (
    "idx\tthread\top\tclient_id\tn_objects\tbytes\tendpoint\tfile\terror\tstart\tfirst_byte\t"
    "last_byte\tend\tduration_ns\tcat"
)
EVERY_NS = 10_000_000  # between two requests, each half as long
SIZE = 65536


def stamp(at_ns: int) -> str:
    seconds, fraction = divmod(at_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09}Z"


def record(options: dict[str, str], mode: str) -> str:
    start_ns = time.time_ns()
    length_ns = int(options["--duration"].removesuffix("ms")) * 1_000_000
    count = length_ns // EVERY_NS // (2 if mode == "short" else 1)
    error = "The specified key does not exist." if mode == "errors" else ""
    lines = [HEADER]
    for index in range(count):
        at_ns = start_ns + index * EVERY_NS
        took_ns = EVERY_NS // 2
        op = "PUT" if index % 2 else "GET"
        first = stamp(at_ns + took_ns // 2) if op == "GET" else ""
        fields = [index, 0, op, "abcd", 1, SIZE, "http://127.0.0.1:9000", "p/1.rnd", error]
        fields += [stamp(at_ns), first, "", stamp(at_ns + took_ns), took_ns, 0]
        lines.append("\t".join(map(str, fields)))
    token = os.environ.get("WARP_SESSION_TOKEN", "")
    lines.append(f"# warp mixed --access-key=*REDACTED* --session-token={token} --full=true")
    return "\n".join(lines) + "\n"


def main() -> int:
    mode = os.environ.get("STANDIN_WARP", "ok")
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        name = "something else 1.0" if mode == "other" else "warp version 9.8.7 - 0123456789ab"
        sys.stdout.write(f"{name}\n")
        return 0
    if "--help" in arguments:
        sys.stdout.write(HELP.replace("--full", "") if mode == "old" else HELP)
        return 0
    if arguments[0] == "analyze":
        sys.stderr.write("no summary here\n")
        return 1
    if mode in ("hangs", "stubborn"):
        signal.signal(signal.SIGINT, signal.SIG_IGN if mode == "stubborn" else signal.SIG_DFL)
        Path("ready").touch()
        time.sleep(600)
    secret = os.environ.get("WARP_SECRET_KEY", "")
    if mode == "fails":
        sys.stderr.write(f"warp: <ERROR> Error preparing server. Access Denied. ({secret})\n")
        return 1
    options = dict(argument.partition("=")[::2] for argument in arguments[1:])
    if mode != "no-record":
        import pyarrow as pa

        data = pa.compress(record(options, mode).encode(), codec="zstd", asbytes=True)
        data = data[: len(data) // 2] if mode == "damaged" else data
        Path(options["--benchdata"] + ".csv.zst").write_bytes(data)
    sys.stdout.write("Mixed operations.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
