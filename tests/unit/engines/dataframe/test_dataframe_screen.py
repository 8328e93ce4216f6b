"""Lines owned by a part, well-formed lines, and reasons for the others."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from storlab.engines.dataframe.screen import (
    LineValidator,
    is_clean,
    malformation,
    owned_lines,
    shown,
)
from support.preprocess_oracle import malformation as oracle
from support.preprocess_runs import line_of, wrong_line

GOOD = b"\t".join([b"1", *[b"5"] * 13, *[b"0123abCD"] * 26])


def line(**fields: bytes) -> bytes:
    """Return a valid line with some fields replaced: ``f1`` is the label."""
    parts = GOOD.split(b"\t")
    for name, value in fields.items():
        parts[int(name[1:]) - 1] = value
    return b"\t".join(parts)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (GOOD, None),
        (line(f1=b"0", f2=b"", f15=b"", f40=b""), None),
        (line(f2=b"-2147483648", f14=b"2147483647"), None),
        (line(f2=b"-0", f3=b"000000000000000000000000007", f4=b"-" + b"0" * 5000), None),
        (b"", ("fields", None)),
        (b"\t" * 38, ("fields", None)),
        (b"\t" * 39, ("label", 1)),
        (b"\t" * 40, ("fields", None)),
        (line(f1=b""), ("label", 1)),
        (line(f1=b"00"), ("label", 1)),
        (line(f1=b"2", f2=b"x", f15=b"x"), ("label", 1)),
        (line(f2=b"x", f15=b"x"), ("integer", 2)),
        (line(f3=b"2147483648"), ("integer", 3)),
        (line(f4=b"-2147483649"), ("integer", 4)),
        (line(f5=b"-"), ("integer", 5)),
        (line(f6=b"+5"), ("integer", 6)),
        (line(f7=b"1e5"), ("integer", 7)),
        (line(f8=b"9" * 5000), ("integer", 8)),
        (line(f9="٣".encode()), ("integer", 9)),
        (line(f14=b"5\n"), ("integer", 14)),
        (line(f15=b"0123abc"), ("category", 15)),
        (line(f16=b"0123abcde"), ("category", 16)),
        (line(f17=b"-123abcd"), ("category", 17)),
        (line(f40=b"0123abcg"), ("category", 40)),
        (GOOD + b"\r", ("category", 40)),
        (line(f40=b"\r"), ("category", 40)),
    ],
)
def test_the_first_wrong_field_from_the_left_decides(
    text: bytes, why: tuple[str, int | None] | None
) -> None:
    assert malformation(text) == why
    assert oracle(text) == why


@pytest.mark.parametrize(
    ("data", "clean"),
    [
        (GOOD + b"\n", True),
        (GOOD + b"\n" + line(f2=b"", f40=b"") + b"\n", True),
        (GOOD + b"\n\n", False),
        (GOOD + b"\t\n" + GOOD[: -len(b"\t01234567")] + b"\n", False),  # 78 tabs in two lines
        (line(f1=b"") + b"\n", False),
        (line(f1=b"01") + b"\n", False),
        (line(f2=b"+5") + b"\n", False),
        (GOOD + b"\r\n", False),
        ((GOOD + b"\n") * 6000 + b"\n", False),
        ((GOOD + b"\n") * 6000, True),
    ],
)
def test_a_chunk_is_clean_where_nothing_can_be_read_in_two_ways(data: bytes, clean: bool) -> None:
    assert is_clean(data) == clean


@pytest.mark.parametrize("part_bytes", [1, 2, 7, 50, 100_000])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"a",
        b"\n\n\na\n",
        b"abc\nde\n\nfghijklmnop\nq",
        b"a" * 70_000 + b"\nb\n" + b"c" * 3,
    ],
)
def test_every_line_has_one_owner(tmp_path: Path, data: bytes, part_bytes: int) -> None:
    path = tmp_path / "text"
    path.write_bytes(data)
    part_bytes = max(part_bytes, len(data) // 1000)
    found = b""
    for start in range(0, len(data), part_bytes):
        end = min(start + part_bytes, len(data))
        for chunk in owned_lines(path, start, end, 3):
            at = len(found)
            assert at == 0 or found.endswith(b"\n")
            assert start <= at < end or chunk.count(b"\n") > 1 or at >= start
            found += chunk
    assert found == data


class RefusedError(Exception):
    """Library error for lines that do not match its types."""


def parse(data: bytes) -> list[bytes]:
    """Library that rejects wrong fields and integers with leading zeros."""
    lines = data.split(b"\n")[:-1]
    for text in lines:
        if malformation(text) or b"\t007\t" in text:
            raise RefusedError
    return lines


def screen(samples: int = 5) -> LineValidator[list[bytes]]:
    return LineValidator(parse, (RefusedError,), samples)


def test_good_lines_go_to_the_library_and_the_others_are_counted() -> None:
    draw = random.Random(5)
    lines = [wrong_line(draw) if draw.random() < 0.1 else line_of(draw) for _ in range(3000)]
    screened = screen(samples=10_000)
    for at in range(0, len(lines), 700):
        screened.add(b"".join(text + b"\n" for text in lines[at : at + 700]))
    every = [oracle(text) for text in lines]
    assert screened.lines == len(lines)
    assert sum(screened.reasons.values()) == sum(why is not None for why in every)
    assert [(s["line"], s["reason"], s["field"]) for s in screened.samples] == [
        (number, *why) for number, why in enumerate(every) if why is not None
    ]
    kept = [text for frame in screened.frames for text in frame]
    assert len(kept) == sum(why is None for why in every)
    assert all(b"\t007\t" not in text for text in kept)


def test_only_so_many_samples_are_kept() -> None:
    few = screen(samples=2)
    few.add(b"x\n" * 5)
    assert (few.lines, few.reasons, len(few.samples)) == (5, {"fields": 5}, 2)
    assert few.frames == []


def test_an_integer_with_zeros_before_it_stays_what_it_is() -> None:
    screened = screen()
    screened.add(line(f2=b"007", f3=b"-00", f15=b"00000012"))
    assert screened.frames == [[line(f2=b"7", f3=b"-0", f15=b"00000012")]]


def test_text_of_a_sample_is_printable_and_short() -> None:
    assert shown(b"a\tb\r\xff\x00~ \\") == "a\\x09b\\x0d\\xff\\x00~ \\"
    assert shown(b"x" * 300) == "x" * 200


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 4 << 20])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nx\n"])
def test_a_line_has_at_most_4_mib(tmp_path: Path, chunk_bytes: int, end: bytes) -> None:
    path = tmp_path / "f"
    text = b"short\n" + b"x" * (4 << 20) + end
    path.write_bytes(text)
    for last in (7, len(text)):
        assert b"".join(owned_lines(path, 0, last, chunk_bytes)).startswith(text[: last - 1])
        path.write_bytes(b"short\nx" + text[6:])
        with pytest.raises(OSError, match="more than 4 MiB"):
            list(owned_lines(path, 0, last, chunk_bytes))
        path.write_bytes(text)
