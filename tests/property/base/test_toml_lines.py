"""The key locator agrees with the standard parser on every key of any TOML text."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from storlab.lab.study.toml_lines import Path, key_lines, nearest_line

BARE = st.text("abcXYZ019_-", min_size=1, max_size=4)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), max_size=8)
BLANK = st.sampled_from(["", "\n", "# = [[x]] \"'''\n", "  # {\n\n"])


def basic(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@st.composite
def strings(draw: st.DrawFn) -> str:
    plain = draw(st.text("ab #=[]{},.\t", max_size=8))
    form = draw(st.integers(0, 4))
    if form == 0:
        return basic(draw(TEXT))
    if form == 1:
        return f"'{plain}\"'"
    if form == 2:
        return f'"""\n{plain}\n"" \\""" \\\\{plain}"""' + draw(st.sampled_from(["", '"', '""']))
    if form == 3:
        return f"'''{plain}\n''\\{plain}'''" + draw(st.sampled_from(["", "'", "''"]))
    return '""'


SCALARS = st.one_of(
    strings(),
    st.integers(-(2**40), 2**40).map(str),
    st.sampled_from(["true", "inf", "-1e3", "0x1F", "1979-05-27 07:32:00", "07:32:00.5"]),
)


@st.composite
def keys(draw: st.DrawFn) -> str:
    name = draw(BARE)
    return draw(st.sampled_from([name, basic(name + " .]"), f"'{name}#'"]))


def arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    @st.composite
    def array(draw: st.DrawFn) -> str:
        text = "["
        for item in draw(st.lists(values, max_size=3)):
            text += draw(BLANK) + " " + item + draw(st.sampled_from([",", "\n,", " , # x]\n"]))
        return text + draw(BLANK) + "]"

    return array()


def inline_tables(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.dictionaries(keys(), values, max_size=3)
    return pairs.map(lambda p: "{ " + ", ".join(f"{k} = {v}" for k, v in p.items()) + " }")


VALUES = st.recursive(SCALARS, lambda v: arrays(v) | inline_tables(v), max_leaves=8)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Draw mostly valid texts: tables, arrays of tables, dotted keys, comments, any value."""
    text = ""
    tables = draw(st.lists(st.tuples(st.sampled_from(["", "[", "[["]), keys(), keys()), max_size=5))
    for bracket, first, second in [("", "", ""), *tables]:
        if bracket:
            name = f"{first} . {second}" if draw(st.booleans()) else first
            text += f"{draw(BLANK)}  {bracket}{name}{']' * len(bracket)} # [a]\n"
        for key, value in draw(st.dictionaries(keys(), VALUES, max_size=3)).items():
            dotted = f"{key}.{draw(keys())}" if draw(st.booleans()) else key
            text += f"{draw(BLANK)}{dotted} = {value}\n"
    return text


def paths(node: Any, at: Path = ()) -> Iterator[Path]:
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for part, value in items:
        yield (*at, part)
        if isinstance(value, (dict, list)):
            yield from paths(value, (*at, part))


@given(documents())
def test_every_key_of_a_document_has_a_line(text: str) -> None:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # a key was drawn twice
    lines = key_lines(text)
    assert set(lines) == set(paths(data))
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())


@given(st.lists(st.tuples(keys(), VALUES, BLANK), max_size=6, unique_by=lambda each: each[0]))
def test_a_key_stands_on_the_line_where_it_was_written(
    written: list[tuple[str, str, str]],
) -> None:
    text, wanted = "[[t]]\n", {}
    for key, value, blank in written:
        text += blank
        name = tomllib.loads(f"{key} = 1").popitem()[0]
        wanted["t", 0, name] = text.count("\n") + 1
        text += f"{key} = {value}\n"
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # two spellings of one key
    lines = key_lines(text)
    assert {path: line for path, line in lines.items() if len(path) == 3} == wanted


def test_headers_dotted_keys_and_elements() -> None:
    text = """\
a.b = 1
[[t]]
x = [1,
  2, { y = 3,
 z = 4 }]
[[t.u]]
[[t]]
[t.v]
w = '''
[[no]]
'''
""".replace(",\n z", ", z")  # TOML 1.0 requires an inline table on one line
    assert key_lines(text) == {
        ("a",): 1,
        ("a", "b"): 1,
        ("t",): 2,
        ("t", 0): 2,
        ("t", 0, "x"): 3,
        ("t", 0, "x", 0): 3,
        ("t", 0, "x", 1): 4,
        ("t", 0, "x", 2): 4,
        ("t", 0, "x", 2, "y"): 4,
        ("t", 0, "x", 2, "z"): 4,
        ("t", 0, "u"): 5,
        ("t", 0, "u", 0): 5,
        ("t", 1): 6,
        ("t", 1, "v"): 7,
        ("t", 1, "v", "w"): 8,
    }


def test_a_key_that_is_not_there_has_the_line_of_its_table() -> None:
    lines = key_lines("[[t]]\n[[t]]\nx = 1\n")
    assert nearest_line(lines, ("t", 1, "y", 3)) == 2
    assert nearest_line(lines, ("u",)) is None
