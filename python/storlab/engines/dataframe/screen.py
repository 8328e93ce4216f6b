"""Validation of click-log lines: vectorised for clean chunks, line by line for others.

Libraries read CSV differently: one accepts ``+5`` as an integer, another pads a short line. So a
chunk is passed to a library only if all libraries read it alike. Other chunks, and chunks that the
library rejects, are halved repeatedly, and ``malformation`` checks each line of the small pieces.
"""

from __future__ import annotations

import errno
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import numpy as np

from storlab.engines.dataframe.layout import COLUMNS, INTEGERS

_PIECE_BYTES = 1 << 20  # fits into a CPU cache
_LINE_BY_LINE_BYTES = 32 << 10
_LONGEST_LINE = 4 << 20  # without its LF; far longer than any line of a click log
_TEXT_BYTES = 200  # shown of a malformed line in a sample
_SEPARATORS = np.frombuffer(b"\t" * (len(COLUMNS) - 1) + b"\n", dtype=np.uint8)
_LETTERS = b"\t\n-0123456789ABCDEFabcdef"
_INTEGER = re.compile(rb"(-?)0*([0-9]{1,10})")
_CATEGORY = re.compile(rb"[0-9A-Fa-f]{8}")
_INT32 = range(-(1 << 31), 1 << 31)

Frame = TypeVar("Frame")


def owned_lines(source: Path, start: int, end: int, chunk_bytes: int) -> Iterator[bytes]:
    """Yield the lines that start in ``[start, end)`` as chunks of complete lines.

    The last line may lack its LF. A chunk has about ``chunk_bytes`` bytes, or more if a line is
    longer.
    """
    with source.open("rb") as file:
        first = _after_line_feed(file, start - 1, end - 1) if start > 0 else 0
        if first is None:
            return
        at = first
        file.seek(at)
        rest = b""
        while at < end - 1:
            data = file.read(min(chunk_bytes, end - 1 - at))
            if not data:
                break
            at += len(data)
            whole = data.rfind(b"\n") + 1
            _check_length(source, len(rest) + (data.find(b"\n") if whole else len(data)))
            if whole:
                yield b"".join((rest, memoryview(data)[:whole]))
                rest = data[whole:]
            else:
                rest += data
        last = rest + file.readline(_LONGEST_LINE + 2)
        _check_length(source, len(last.removesuffix(b"\n")[last.rfind(b"\n", 0, -1) + 1 :]))
        if last:
            yield last


def _check_length(source: Path, length: int) -> None:
    if length > _LONGEST_LINE:
        words = "has a line of more than 4 MiB; name files with click logs"
        raise OSError(errno.EINVAL, words, str(source))


def _after_line_feed(file: BinaryIO, start: int, end: int) -> int | None:
    """Return the position after the first LF in bytes ``[start, end)``, or None if there is none.

    The position is the start of the first line that begins in this range.
    """
    file.seek(start)
    while start < end:
        data = file.read(min(_LINE_BY_LINE_BYTES, end - start))
        place = data.find(b"\n")
        if place >= 0:
            return start + place + 1
        if not data:
            break
        start += len(data)
    return None


def is_clean(data: bytes) -> bool:
    """Return whether all lines have 40 fields, a valid label, and no unexpected characters.

    Every line must end with an LF. A letter in an integer passes this check; the parser finds it,
    since it knows the column types.
    """
    at = 0
    while at < len(data):
        end = data.find(b"\n", at + _PIECE_BYTES) + 1 or len(data)
        if not _is_clean_piece(data[at:end]):
            return False
        at = end
    return True


def _is_clean_piece(data: bytes) -> bool:
    if data.translate(None, _LETTERS):
        return False
    letters = np.frombuffer(data, dtype=np.uint8)
    # This finds the separators: of the allowed characters, only tab and LF have codes up to LF's.
    every = np.flatnonzero(letters <= ord("\n"))
    if len(every) % len(COLUMNS):
        return False
    separators = every.reshape(-1, len(COLUMNS))
    if (letters[separators] != _SEPARATORS).any():
        return False
    starts = np.concatenate([[0], separators[:-1, -1] + 1])
    labels = letters[starts]
    return bool(
        (separators[:, 0] == starts + 1).all()
        and ((labels == ord("0")) | (labels == ord("1"))).all()
    )


def malformation(line: bytes) -> tuple[str, int | None] | None:
    """Return why a line is malformed and the number (from 1) of its first bad field, or None.

    The number is None if the line has a wrong number of fields.
    """
    fields = line.split(b"\t")
    if len(fields) != len(COLUMNS):
        return "fields", None
    if fields[0] not in (b"0", b"1"):
        return "label", 1
    categories = 1 + len(INTEGERS)
    for number, field in enumerate(fields[1:categories], 2):
        if field and not _is_int32(field):
            return "integer", number
    for number, field in enumerate(fields[categories:], categories + 1):
        if field and not _CATEGORY.fullmatch(field):
            return "category", number
    return None


def _is_int32(field: bytes) -> bool:
    return _INTEGER.fullmatch(field) is not None and int(_plain(field)) in _INT32


def _plain(field: bytes) -> bytes:
    """Return an integer without leading zeros: some libraries reject a long run of them."""
    return _INTEGER.sub(rb"\1\2", field)


def _plain_line(line: bytes) -> bytes:
    fields = line.split(b"\t")
    integers = slice(1, 1 + len(INTEGERS))
    fields[integers] = [_plain(field) for field in fields[integers]]
    return b"\t".join(fields)


class LineValidator(Generic[Frame]):
    """Parser of click logs that keeps valid lines as data frames and counts malformed ones."""

    def __init__(
        self,
        parse: Callable[[bytes], Frame],
        errors: tuple[type[Exception], ...],
        samples: int,
    ) -> None:
        """Create a validator for one part of the input.

        Args:
            parse: Parses lines into a frame of the library.
            errors: The exceptions that ``parse`` raises for a field of a wrong type.
            samples: The largest number of malformed lines to keep.
        """
        self._parse = parse
        self._errors = errors
        self._most = samples
        self.frames: list[Frame] = []
        self.lines = 0
        self.reasons: Counter[str] = Counter()
        self.samples: list[dict[str, Any]] = []

    def add(self, data: bytes) -> None:
        """Parse complete lines; the last one may lack its LF."""
        if not data.endswith(b"\n"):
            data += b"\n"
        frame = self._parsed(data) if is_clean(data) else None
        if frame is not None:
            self.frames.append(frame)
            self.lines += data.count(b"\n")
            return
        middle = data.find(b"\n", len(data) // 2) + 1
        if len(data) <= _LINE_BY_LINE_BYTES or middle == len(data):
            self._sort_out(data)
        else:
            self.add(data[:middle])
            self.add(data[middle:])

    def _parsed(self, data: bytes) -> Frame | None:
        try:
            return self._parse(data)
        except self._errors:
            return None

    def _sort_out(self, data: bytes) -> None:
        good = []
        for line in data.split(b"\n")[:-1]:
            wrong = malformation(line)
            if wrong is None:
                good.append(_plain_line(line))
            else:
                self._count(line, *wrong)
            self.lines += 1
        if good:
            self.frames.append(self._parse(b"\n".join([*good, b""])))

    def _count(self, line: bytes, reason: str, field: int | None) -> None:
        self.reasons[reason] += 1
        if len(self.samples) < self._most:
            fields = {"line": self.lines, "reason": reason, "field": field, "text": shown(line)}
            self.samples.append(fields)


def shown(line: bytes) -> str:
    r"""Return the beginning of a line for display, with unprintable bytes as ``\xNN``."""
    letters = line[:_TEXT_BYTES]
    return "".join(chr(c) if 0x20 <= c < 0x7F else f"\\x{c:02x}" for c in letters)
