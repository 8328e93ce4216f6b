"""Decode the content of a result file to text: compression, encoding, prefixes of log lines."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from storlab.base import zstd

_SUFFIXES = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", zstd.MAGIC: ".zst"}
OPENERS: dict[str, Callable[[Any], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": partial(pa.input_stream, compression="zstd"),
}
"""Functions that open a compressed file or stream, by the usual suffix of the compression."""
DAMAGE = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""Errors of reading damaged compressed files."""

TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Escape sequences that terminals interpret as colours or cursor movements."""
_PREFIXES = [
    ("the container names", re.compile(r"(\S+)\s+\| ?")),  # docker compose logs
    ("the pod names", re.compile(r"(\[pod/[^\]\s]+\]) ")),  # kubectl logs --prefix
    ("the rank numbers", re.compile(r"(\[\d+,\d+\]<std\w+>): ?")),  # mpirun --tag-output
    (
        "the times",  # kubectl logs --timestamps, CI systems
        re.compile(r"()\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?\]? ?"),
    ),
    (
        "the times and process names",  # journalctl, syslog
        re.compile(r"()[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ [^\s:\[]+(?:\[\d+\])?: ?"),
    ),
]
_MOST_PREFIXES = 3  # prefixes of one line, such as a container name, then a time
_PREFIXED_SHARE = 0.9  # smallest share of lines with a prefix if it is to be removed


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text of a file; ``notes`` name what was changed to make it readable."""

    text: str
    notes: list[str] = field(default_factory=list)


def compression_of(content: bytes) -> str:
    """Return the usual suffix of a content's compression, such as ``.gz``; "" if uncompressed."""
    return next((name for magic, name in _SUFFIXES.items() if content.startswith(magic)), "")


def unpacked(content: bytes, most_bytes: int = zstd.MOST_BYTES) -> bytes:
    """Decompress gzip, bzip2, xz or zstd; return other content unchanged.

    Raises:
        ValueError: The compression is damaged, or the content has more than ``most_bytes``.
    """
    suffix = compression_of(content)
    if not suffix:
        return content
    try:
        with OPENERS[suffix](io.BytesIO(content)) as stream:
            plain: bytes = stream.read(most_bytes + 1)
    except DAMAGE as error:
        raise ValueError(f"the {suffix[1:]} compression is damaged: {error}") from error
    if len(plain) > most_bytes:
        raise ValueError(f"the content has more than {most_bytes:,} bytes unpacked")
    return plain


def decoded(content: bytes) -> Decoded | None:
    """Decode UTF-8, UTF-16 or Latin-1, with or without byte order mark; None if it is not text.

    Line ends become those of Unix, and escape sequences of terminals are removed.
    """
    notes: list[str] = []
    encoding = _encoding(content)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        if b"\0" in content:
            return None
        text = content.decode("latin-1")
        notes.append("the file is not valid UTF-8 and was decoded as Latin-1")
    if "\0" in text:
        return None
    if encoding.startswith("utf-16"):
        notes.append("the file was decoded from UTF-16")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = TERMINAL_CODES.sub("", text)
        notes.append("escape sequences of a terminal were removed")
    return Decoded(text, notes)


def _encoding(content: bytes) -> str:
    if content.startswith(b"\xef\xbb\xbf"):
        return "utf-8-sig"
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    head = content[:1000]
    half = len(head) // 2
    if half and head[1::2].count(0) > 0.8 * half:
        return "utf-16-le"
    if half and head[0::2].count(0) > 0.8 * half:
        return "utf-16-be"
    return "utf-8"


def without_prefixes(text: str) -> list[Decoded]:
    """Remove the prefixes that log collectors add to lines; return a text per container or rank."""
    streams = [Decoded(text)]
    for _ in range(_MOST_PREFIXES):
        for what, pattern in _PREFIXES:
            divided = [part for stream in streams for part in _divided(stream, what, pattern)]
            if divided != streams:
                streams = divided
                break
        else:
            break
    return streams


def _divided(stream: Decoded, what: str, pattern: re.Pattern[str]) -> list[Decoded]:
    """Remove the prefix of each line and split the text by the name in it, if there is one."""
    head = [line for line in stream.text[:20_000].split("\n")[:-1] if line.strip()]
    if len(head) < 2 or sum(1 for x in head if pattern.match(x)) < _PREFIXED_SHARE * len(head):
        return [stream]
    by_name: dict[str, list[str]] = {}
    name = ""
    for line in stream.text.split("\n"):
        found = pattern.match(line)
        name = name if found is None else found[1]
        plain = line if found is None else line[found.end() :]
        by_name.setdefault(name, []).append(plain)
    note = f"{what} at the start of lines were removed"
    return [Decoded("\n".join(lines), [*stream.notes, note]) for lines in by_name.values()]
