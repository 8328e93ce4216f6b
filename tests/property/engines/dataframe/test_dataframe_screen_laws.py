"""Lines, reasons and rows do not depend on how the bytes are split."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from storlab.engines.dataframe.screen import LineValidator, is_clean, malformation, owned_lines
from support.preprocess_oracle import lines_of
from support.preprocess_oracle import malformation as oracle

INTEGERS = st.one_of(
    st.just(""),
    st.integers(-(2**33), 2**33).map(str),
    st.text("-+0123456789e ", max_size=12),
)
CATEGORIES = st.one_of(
    st.just(""),
    st.integers(0, 2**32 - 1).map(lambda value: f"{value:08x}"),
    st.text("0123456789abcdefABCDEF-g", max_size=9),
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Draw valid, nearly valid and arbitrary lines."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=60)).replace(b"\n", b"\t")
    fields = [draw(st.sampled_from(("0", "1", "1", "0", "2", "")))]
    integer, category = draw(INTEGERS), draw(CATEGORIES)
    fields += [integer if draw(st.booleans()) else "7" for _ in range(13)]
    fields += [category if draw(st.booleans()) else "0123abcd" for _ in range(26)]
    missing = draw(st.sampled_from((0, 0, 0, 0, 1)))
    return "\t".join(fields[: len(fields) - missing]).encode()


@given(st.lists(lines(), max_size=6), st.booleans())
def test_a_line_is_judged_as_the_straightforward_way_judges_it(
    texts: list[bytes], ended: bool
) -> None:
    for text in texts:
        assert malformation(text) == oracle(text)
    good = [text for text in texts if oracle(text) is None]
    data = b"".join(text + b"\n" for text in texts)
    if data and is_clean(data):
        assert all(oracle(text) in (None, *_typed(text)) for text in texts)
    screen: LineValidator[bytes] = LineValidator(_parse, (ValueError,), 100)
    if data:
        screen.add(data if ended else data[:-1] if texts[-1] else data)
    assert screen.lines == len(texts)
    assert sum(screen.reasons.values()) == len(texts) - len(good)
    assert b"".join(screen.frames).count(b"\n") == len(good)


def _typed(text: bytes) -> list[tuple[str, int | None]]:
    """Return fields that a clean chunk may contain although their column's type rejects them."""
    why = oracle(text)
    return [why] if why is not None and why[0] in ("integer", "category") else []


def _parse(data: bytes) -> bytes:
    if any(oracle(text) is not None for text in lines_of(data)):
        raise ValueError
    return data


@given(st.text("ab\n", max_size=60), st.integers(1, 70), st.integers(1, 9))
def test_parts_own_every_line_once_and_in_order(text: str, part: int, chunk: int) -> None:
    data = text.encode()
    found = []
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "text"
        path.write_bytes(data)
        for start in range(0, len(data), part):
            end = min(start + part, len(data))
            owned = b"".join(owned_lines(path, start, end, chunk))
            expected = _owned(data, start, end)
            assert owned == expected
            found.append(owned)
    assert b"".join(found) == data


def _owned(data: bytes, start: int, end: int) -> bytes:
    at, owned = 0, b""
    for line in data.splitlines(keepends=True):
        if start <= at < end:
            owned += line
        at += len(line)
    return owned
