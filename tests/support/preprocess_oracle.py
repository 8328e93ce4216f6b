"""Straightforward preprocessing of click logs: no library, no parts, no optimisation.

Written only from the semantics in docs/preprocess.md, so that engines are compared with independent
code.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DIGITS = set("0123456789")
HEXADECIMAL = set("0123456789abcdefABCDEF")
Row = tuple[int, list[int | None], list[int | None]]


@dataclass
class Expected:
    """Expected results and output files of any engine."""

    rows: int = 0
    lines: int = 0
    by_reason: dict[str, int] = field(default_factory=dict)
    samples: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)  # by path relative to the run's directory
    cardinalities: list[int] = field(default_factory=list)
    distinct: list[int] = field(default_factory=list)


def expect(
    inputs: Sequence[Path],
    *,
    threshold: int = 15,
    modulo: int | None = None,
    numerical: str = "float16",
    malformed_samples: int = 20,
) -> Expected:
    """Preprocess files in memory."""
    expected = Expected()
    rows: list[Row] = []
    for path in inputs:
        for number, line in enumerate(lines_of(path.read_bytes()), 1):
            expected.lines += 1
            wrong = malformation(line)
            if wrong is None:
                rows.append(row_of(line))
                continue
            reason, place = wrong
            expected.by_reason[reason] = expected.by_reason.get(reason, 0) + 1
            if len(expected.samples) < malformed_samples:
                fields = {"file": str(path), "line": number, "reason": reason, "field": place}
                expected.samples.append({**fields, "text": printable(line[:200])})
    expected.rows = len(rows)
    _encode(expected, rows, threshold, modulo, numerical)
    return expected


def lines_of(data: bytes) -> list[bytes]:
    """Split into lines without their LF; the last line may have none."""
    lines = data.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def malformation(line: bytes) -> tuple[str, int | None] | None:
    """Return the reason and the first wrong field (from 1)."""
    fields = line.decode("latin-1").split("\t")
    if len(fields) != 40:
        return "fields", None
    for number, text in enumerate(fields, 1):
        if number == 1:
            if text not in ("0", "1"):
                return "label", 1
        elif number <= 14:
            if text != "" and not is_int32(text):
                return "integer", number
        elif text != "" and (len(text) != 8 or not set(text) <= HEXADECIMAL):
            return "category", number
    return None


def is_int32(text: str) -> bool:
    digits = text[1:] if text.startswith("-") else text
    if digits == "" or not set(digits) <= DIGITS:
        return False
    significant = digits.lstrip("0")
    if len(significant) > 10:
        return False
    value = int(significant or "0")
    return value <= 2**31 if text.startswith("-") else value < 2**31


def row_of(line: bytes) -> Row:
    fields = line.decode("ascii").split("\t")
    integers = [None if text == "" else integer(text) for text in fields[1:14]]
    categories = [None if text == "" else int(text, 16) for text in fields[14:]]
    return int(fields[0]), integers, categories


def integer(text: str) -> int:
    value = int(text.lstrip("-").lstrip("0") or "0")
    return -value if text.startswith("-") else value


def printable(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte <= 126 else f"\\x{byte:02x}" for byte in data)


def logarithm(value: int | None, numerical: str) -> bytes:
    result = 0.0 if value is None or value <= -3 else math.log(float(value) + 3.0)
    return struct.pack("<e" if numerical == "float16" else "<f", result)


def _encode(
    expected: Expected, rows: list[Row], threshold: int, modulo: int | None, numerical: str
) -> None:
    expected.files["binary/train/label.bin"] = bytes(label for label, _, _ in rows)
    expected.files["binary/train/numerical.bin"] = b"".join(
        logarithm(value, numerical) for _, integers, _ in rows for value in integers
    )
    types = []
    for column in range(26):
        values = [categories[column] for _, _, categories in rows]
        if modulo is not None:
            values = [None if value is None else value % modulo for value in values]
        counts = Counter(value for value in values if value is not None)
        kept = [(count, value) for value, count in counts.items() if count >= threshold]
        kept.sort(key=lambda pair: (-pair[0], pair[1]))
        ids = {value: number for number, (_, value) in enumerate(kept, 1)}
        cardinality = len(kept) + 1
        letter, name = ("b", "int8") if cardinality < 127 else ("h", "int16")
        if cardinality >= 32767:
            letter, name = "i", "int32"
        chosen = [0 if value is None else ids.get(value, 0) for value in values]
        place = f"binary/train/cat_{column}.bin"
        expected.files[place] = struct.pack(f"<{len(chosen)}{letter}", *chosen)
        place = f"vocabulary/C{column + 1}"
        expected.files[f"{place}.values"] = b"".join(struct.pack("<I", value) for _, value in kept)
        expected.files[f"{place}.counts"] = b"".join(struct.pack("<Q", count) for count, _ in kept)
        expected.cardinalities.append(cardinality)
        expected.distinct.append(len(counts))
        types.append(name)
    expected.files["binary/feature_spec.yaml"] = specification(
        expected.cardinalities, types, numerical
    ).encode()


def specification(cardinalities: list[int], types: list[str], numerical: str) -> str:
    text = "channel_spec:\n  categorical:\n"
    text += "".join(f"  - cat_{n}.bin\n" for n in range(26))
    text += "  label:\n  - label\n  numerical:\n"
    text += "".join(f"  - num_{n}\n" for n in range(13))
    text += "feature_spec:\n"
    for n in range(26):
        text += f"  cat_{n}.bin:\n    cardinality: {cardinalities[n]}\n    dtype: {types[n]}\n"
    text += "  label:\n    dtype: bool\n"
    text += "".join(f"  num_{n}:\n    dtype: {numerical}\n" for n in range(13))
    text += "metadata: {}\nsource_spec:\n  train:\n  - features:\n"
    text += "".join(f"    - num_{n}\n" for n in range(13))
    text += "    files:\n    - train/numerical.bin\n    type: split_binary\n"
    text += "  - features:\n    - label\n    files:\n    - train/label.bin\n"
    text += "    type: split_binary\n"
    for n in range(26):
        text += f"  - features:\n    - cat_{n}.bin\n    files:\n    - train/cat_{n}.bin\n"
        text += "    type: split_binary\n"
    return text
