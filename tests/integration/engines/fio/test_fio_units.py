"""Sizes and times of fio's options, as storlab reads them, against fio's own parser."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence

import pytest

from storlab.engines.fio import importer_options as fio_options

pytestmark = pytest.mark.fio
PREFIXES = [*"kKmMgGtTpP"]
SUFFIXES = ["", "i", "I", "b", "B", "iB", "ib", "IB"]
SIZES = [
    *("1", "4096", "512b", "512B", "010", "+8k", "4x", "4kx"),
    *("0x1000", "0X1f", "0x10k", "1.5k", "1.5", "4 k", "4k "),
    *(f"3{prefix}{suffix}" for prefix in PREFIXES for suffix in SUFFIXES),
]
NOT_BYTES = ["50%", "100%", "4k-16k", "4k:8k", "4k,8k", "2z", "k", "%", ""]
TIMES = [
    *("10", "10s", "10S", "10m", "10M", "2h", "1d", "250ms", "250msec", "10us", "10usec"),
    # fio takes units that it does not know for microseconds.
    *("10sec", "10min", "10hour", "10ns", "0x10", "1.5", "1.5s", "2000000us"),
]


def parsed(option: str, texts: Sequence[str], *first: str) -> list[int]:
    """Return what fio's parser makes of each text; with ``--debug=parse`` it prints every value."""
    command = ["fio", "--debug=parse", "--parse-only"]
    for number, text in enumerate(texts):
        command += [f"--name=job{number}", *first, f"--{option}={text}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    values: list[int] = []
    current = ""
    for line in (done.stdout + done.stderr).splitlines():
        begun = re.search(r"__handle_option=(\w+),", line)
        printed = re.search(r"ret=0, out=(\d+)", line)
        if begun:
            current = begun[1]
        elif printed and current == option:
            values.append(int(printed[1]))
    assert len(values) == len(texts)
    return values


@pytest.mark.parametrize("kb_base", [1024, 1000])
def test_sizes_are_those_of_fios_parser(kb_base: int) -> None:
    expected = parsed("size", SIZES, f"--kb_base={kb_base}")
    read = [fio_options.size_of(text, kb_base) for text in SIZES]
    assert dict(zip(SIZES, read, strict=True)) == dict(zip(SIZES, expected, strict=True))


def test_ki_without_b_is_1024_and_kib_is_1000_by_default() -> None:
    assert parsed("size", ["4Ki", "4KiB"]) == [4096, 4000]


@pytest.mark.parametrize("text", NOT_BYTES)
def test_what_is_not_one_number_of_bytes_has_no_size(text: str) -> None:
    assert fio_options.size_of(text) is None


def test_times_are_those_of_fios_parser() -> None:
    expected = [us * 1000 for us in parsed("runtime", TIMES)]
    read = [fio_options.time_ns(text) for text in TIMES]
    assert dict(zip(TIMES, read, strict=True)) == dict(zip(TIMES, expected, strict=True))


def test_numbers_have_the_same_units() -> None:
    texts = ["16", "1k", "2Ki", "0x20"]
    read = [fio_options.number({"iodepth": text}, "iodepth", 1) for text in texts]
    assert read == parsed("iodepth", texts)
