"""Errors of study files give line, field in plain English, and fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import ExitCode, StudyError
from storlab.lab.study.file import load_study, parse_study

HEAD = """\
[study]
name = "s"

[[target]]
name = "a"
path = "a.dat"
size = "1GiB"

[[workload]]
kind = "block"
"""  # ten lines


def problems(text: str) -> list[dict[str, Any]]:
    with pytest.raises(StudyError) as caught:
        parse_study(text, "s.toml")
    assert caught.value.exit_code == ExitCode.STUDY
    listed: list[dict[str, Any]] = caught.value.problems
    for problem in listed:
        assert problem["where"] in str(caught.value)
        assert "pydantic" not in problem["what"]
    return listed


def only(text: str) -> dict[str, Any]:
    found = problems(text)
    assert len(found) == 1, found
    return found[0]


def test_the_smallest_study_loads() -> None:
    study = parse_study(HEAD)
    assert study.workload[0].label == "block"
    assert study.target_named("a").size == 1 << 30
    assert study.baseline == "a"


@pytest.mark.parametrize(
    ("line", "field", "what", "fix"),
    [
        ('block_szie = "4KiB"', "block_szie", "not a field", 'did you mean "block_size"?'),
        ('access = "randon"', "access", '"randon"', 'did you mean "random"?'),
        ("access = 5", "access", "must be one of", ""),
        ('queue_depth = "8"', "queue_depth", 'whole number, not "8"', "queue_depth = 8"),
        ('jobs = [1, "2"]', "jobs #2", 'whole number, not "2"', "remove the quotes: 2"),
        ("queue_depth = 0", "queue_depth", "at least 1, not 0", "for example"),
        ("queue_depth = true", "queue_depth", "not true", "for example"),
        ("jobs = []", "jobs", "is empty", "for example jobs = 1"),
        ("jobs = [1, 2, 1]", "jobs", "twice", "for example"),
        ("verify = [true]", "verify", "not a list", "one workload for each"),
        ("verify = 1", "verify", "true or false, not 1", "for example"),
        ("name = 5", "name", "text in quotes, not 5", 'name = "5"'),
        ("read_percent = nan", "read_percent", "finite number", "for example"),
        ("read_percent = 101", "read_percent", "at most 100", "for example"),
        ("jobs = 1979-05-27", "jobs", "whole number", "for example"),
        ('block_size = "64K"', "block_size", "KiB", "for example"),
        ('block_size = { "4KiB" = -1 }', "block_size", "above 0", "for example"),
        ('block_size = { "4KiB" = 1, "4096B" = 2 }', "block_size", "twice", "for example"),
        ('block_size = "2GiB"', "block_size", "at most 1GiB", "for example"),
        ("block_size = {}", "block_size", "empty", "for example"),
        ('region_size = "120%"', "region_size", "between 0 % and 100 %", ""),
        ("cpus = [0, 0]", "cpus", "twice", "for example"),
        ('engine = "foi"', "engine", "not an engine", "fio"),
        ('targets = ["b"]', "targets #1", 'no target named "b"', "a"),
        ('drain_timeout = "5 parsecs"', "drain_timeout", "parsecs", "for example"),
    ],
)
def test_a_field_that_is_wrong_by_itself(line: str, field: str, what: str, fix: str) -> None:
    found = only(HEAD + line)
    assert found["line"] == 11
    assert found["where"] == f"s.toml:11: [[workload]] #1 {field}"
    assert what in found["what"]
    assert fix in found["fix"]


@pytest.mark.parametrize(
    ("lines", "field", "what"),
    [
        ("read_percent = 95\ntrim_percent = 10", "trim_percent", "more than 100"),
        ("trim_percent = 10", "trim_percent", "more than 100"),
        ("zipf_theta = 1.2", "zipf_theta", "zipf"),
        ('offsets = "zipf"\nhot_space_percent = 5', "hot_space_percent", "hot_cold"),
        ('access = "sequential"\noffsets = "zipf"', "offsets", "sequential"),
        ('arrival = "poisson"', "arrival", "open loop"),
        ("read_percent = 0\nsync_every = 4", "sync_every", "sync is none"),
        ('read_percent = 0\nsync = "fsync"', "sync", "never happens"),
        ('sync = "fsync"\nsync_every = 1', "sync", "needs writes"),
        ("final_sync = true", "final_sync", "needs writes"),
        ("verify = true", "verify", "needs writes"),
        ("read_percent = 0\ntrim_percent = 50\nverify = true", "verify", "trimmed"),
        ("read_percent = 0\ndedupe_percent = 5\nverify = true", "verify", "unique header"),
        ('read_percent = 0\nbackend = "null"\nverify = true', "verify", "stores nothing"),
        ("read_percent = 0\nblock_size = 768\nverify = true", None, None),
        ("read_percent = 0\nblock_size = 100\nverify = true", "block_size", "512"),
        ('block_size = "1MiB"\ntotal_bytes = "4KiB"', "total_bytes", "less than one block"),
        ('block_size = "1MiB"\nregion_size = "4KiB"', "region_size", "less than one block"),
        ('region_start = "100%"', "region_start", "no bytes"),
    ],
)
def test_fields_that_do_not_go_together(lines: str, field: str | None, what: str | None) -> None:
    if field is None or what is None:
        parse_study(HEAD + lines)
        return
    found = only(HEAD + lines)
    name = field + " ="
    assert found["where"].endswith(f"[[workload]] #1 {field}")
    assert found["line"] == 11 + next(
        i for i, line in enumerate(lines.splitlines()) if line.startswith(name)
    )
    assert what in found["what"]
    assert found["fix"]


def test_all_errors_are_reported_at_once_in_the_order_of_the_file() -> None:
    text = """\
[study]
name = ""
repeats = "5"
[[target]]
name = "a"
path = "x"
size = "1G"
[[target]]
meters = [
  { kind = "nvme", boundary = "devic" },
]
[[workload]]
kind = "blok"
[targets]
"""
    found = problems(text)
    assert [p["line"] for p in found] == [2, 3, 7, 8, 10, 13, 14]
    assert found[3]["what"] == "name is missing"
    assert found[4]["where"] == "s.toml:10: [[target]] #2 meters #1 boundary"
    assert "block" in found[5]["fix"]
    assert "[[target]]" in found[6]["fix"]


@pytest.mark.parametrize(
    ("lines", "field", "what"),
    [
        ('path = "x"\ndirectory = "d"\nsize = "1MiB"', " directory", "path is given"),
        ('size = "1GiB"', "", "requires path"),
        ('path = "x"\nlayout = "stripe"', " layout", "chunk"),
        ('path = "x"\nstripe_chunk = "4KiB"', " stripe_chunk", "only applies to layout"),
        ('path = "x"\nlayout = "per_job"', " layout", "does not fit"),
        ('paths = ["x", "y", "x"]', " paths #3", "twice"),
    ],
)
def test_a_target_that_contradicts_itself(lines: str, field: str, what: str) -> None:
    found = only(HEAD.replace('path = "a.dat"\nsize = "1GiB"', lines))
    assert found["where"].endswith(f"[[target]] #1{field}")
    assert what in found["what"]
    assert found["fix"]


def test_a_table_with_one_bracket_too_few() -> None:
    found = only(HEAD.replace("[[target]]", "[target]"))
    assert found["line"] == 4
    assert found["fix"] == "write [[target]]"


def test_two_targets_of_one_name_and_an_unknown_baseline() -> None:
    text = HEAD.replace('name = "s"', 'name = "s"\nbaseline = "c"')
    found = problems(text + '[[target]]\nname = "a"\npath = "b"\n')
    assert [p["where"].split(": ")[1] for p in found] == ["[study] baseline", "[[target]] #2 name"]
    assert "remove baseline" in found[0]["fix"]


@pytest.mark.parametrize(
    ("match", "what"),
    [
        ("{ read_percnt = 30 }", "not a parameter"),
        ("{ engine = 'fio' }", "not a parameter"),
        ('{ block_size = "4X" }', "not a value of block_size"),
        ("{ read_percent = 30 }", "no point"),
        ("{}", "is empty"),
    ],
)
def test_a_use_case_that_names_nothing(match: str, what: str) -> None:
    found = only(HEAD + f'[[workload.use_case]]\nname = "u"\nmatch = {match}\n')
    assert found["line"] == 13
    assert "use_case #1 match" in found["where"]
    assert what in found["what"]


def test_values_of_a_use_case_are_read_as_the_field_reads_them() -> None:
    study = parse_study(
        HEAD + 'block_size = ["4KiB", "1MiB"]\n'
        '[[workload.use_case]]\nname = "u"\nmatch = { block_size = "1MiB", read_percent = 100 }\n'
    )
    assert study.workload[0].use_case[0].match == {"block_size": 1 << 20, "read_percent": 100.0}


def test_too_many_points_are_refused() -> None:
    numbers = ", ".join(str(n) for n in range(1, 401))
    found = only(HEAD + f"jobs = [{numbers}]\nqueue_depth = [{numbers}]\n")
    assert "160,000 points" in found["what"]


@pytest.mark.parametrize(
    ("text", "line", "fix"),
    [
        ('[study]\nname = "s"\nruntime = 10s\n', 3, '"10s"'),
        ("[study]\nname = my study\n", 2, '"my"'),
        ('[study]\nname = "s"\n[study]\nrepeats = 1\n', 3, "two brackets"),
        ("[study]\nname\n", 2, "key = value"),
        ('[study]\nname = "s', 2, "block_size"),
        ("[study\n", 1, ""),
        ("x = " + "[" * 5000, None, "fewer nested brackets"),
        ("x = " + "9" * 5000, None, ""),
    ],
)
def test_what_is_not_toml_is_named_with_its_line(text: str, line: int | None, fix: str) -> None:
    found = only(text)
    if line is not None:
        assert found["line"] == line
    assert fix in found["fix"]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="does not exist"):
        load_study(tmp_path / "none.toml")
    with pytest.raises(StudyError, match="is a directory"):
        load_study(tmp_path)
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'[study]\nname = "\xe9"\n')
    with pytest.raises(StudyError, match=r"latin\.toml:2: is not UTF-8"):
        load_study(latin)
    large = tmp_path / "large.toml"
    with large.open("wb") as file:
        file.truncate(5 << 20)
    with pytest.raises(StudyError, match="larger than"):
        load_study(large)


def test_a_loaded_study_keeps_its_text_and_names_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(HEAD.replace("\n", "\r\n").encode())
    loaded = load_study(path)
    assert loaded.text.encode() == path.read_bytes()
    assert len(loaded.sha256) == 64
    error = loaded.error(("target", 0, "size"), "is odd", "make it even")
    assert error.where == f"{path}:7: [[target]] #1 size"


def test_a_published_table_that_does_not_exist_is_found_before_anything_runs() -> None:
    found = only(HEAD.replace("[study]", '[study]\npublished = ["micron-6600-ion-vs-16-hdd-foi"]'))
    assert "is not a published table" in found["what"]
    assert "micron-6600-ion-vs-16-hdd-fio" in found["fix"]


def test_a_meter_that_does_not_exist_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        '[study]\nname = "n"\n[[target]]\nname = "t"\npath = "null:"\n'
        'meters = [{ kind = "rappl" }]\n[[workload]]\nkind = "block"\n'
    )
    with pytest.raises(StudyError, match='"rappl" is not a meter') as caught:
        load_study(path)
    assert "study.toml:6" in str(caught.value)
    assert "rapl" in str(caught.value.fix)


def test_a_question_is_one_that_a_family_knows() -> None:
    asked = HEAD.replace("[study]", '[study]\nquestion = ["efficiency", "throughput"]', 1)
    assert parse_study(asked).study.question == ["efficiency", "throughput"]
    assert parse_study(HEAD).study.question == []
    found = only(HEAD.replace("[study]", '[study]\nquestion = ["througput"]', 1))
    assert "question #1" in str(found)
    assert 'did you mean "throughput"?' in str(found)
