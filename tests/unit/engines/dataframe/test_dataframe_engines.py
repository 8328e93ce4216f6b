"""Data frame engines: layout, vocabularies in passes, and refusals."""

from __future__ import annotations

import json
import math
import os
import struct
from collections import Counter
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storlab.base.errors import EngineError
from storlab.contracts.registry import get_engine
from storlab.engines.dataframe.encode import Journal, encode_units
from storlab.engines.dataframe.layout import (
    COLUMNS,
    feature_spec,
    fingerprint,
    id_type,
    parts_of,
    prepare,
    publish,
)
from storlab.engines.dataframe.library import KEYS, Tally, batches, logarithms
from storlab.engines.dataframe.units import Unit
from storlab.engines.dataframe.vocabulary import vocabulary_passes
from storlab.engines.dataframe.worker import Worker, mean_row_bytes
from storlab.model.job import Member, WeightedSize
from storlab.workloads.block.job import BlockJob, Mix, Offsets
from support.preprocess_oracle import logarithm, specification
from support.preprocess_runs import order

ENGINES = ("pandas", "polars")


def test_a_line_has_40_columns() -> None:
    assert len(COLUMNS) == 40
    assert (COLUMNS[0], COLUMNS[1], COLUMNS[13], COLUMNS[14], COLUMNS[39]) == (
        *("label", "I1", "I13", "C1", "C26"),
    )


@pytest.mark.parametrize("numerical", ["float16", "float32"])
def test_the_feature_description_is_the_agreed_text(numerical: str) -> None:
    cardinalities = [1, 126, 127, 32_766, 32_767, 292_775_614, *range(2, 22)]
    types = [id_type(each) for each in cardinalities]
    assert types[:6] == ["int8", "int8", "int16", "int16", "int32", "int32"]
    text = feature_spec(cardinalities, numerical)
    assert text == specification(cardinalities, types, numerical)
    assert text.startswith("channel_spec:\n  categorical:\n  - cat_0.bin\n  - cat_1.bin\n")
    assert "  cat_5.bin:\n    cardinality: 292775614\n    dtype: int32\n" in text
    assert text.endswith(
        "    - cat_25.bin\n    files:\n    - train/cat_25.bin\n    type: split_binary\n"
    )


def test_parts_are_named_after_their_file(tmp_path: Path) -> None:
    sizes = {"a": 10, "b": 0, "c": 8}
    inputs = [str(tmp_path / name) for name in sizes]
    for path, size in zip(inputs, sizes.values(), strict=True):
        Path(path).write_bytes(b"x" * size)
    parts = parts_of(tmp_path / "run", inputs, 4)
    assert [(part.file, part.start, part.end) for part in parts] == [
        *((0, 0, 4), (0, 4, 8), (0, 8, 10), (2, 0, 4), (2, 4, 8))
    ]
    place = tmp_path / "run" / "parquet"
    assert parts[2].parquet == place / "000-a" / "part-00002.parquet"
    assert parts[4].sidecar == place / "002-c" / "part-00001.json"


def test_a_file_appears_whole(tmp_path: Path) -> None:
    publish(tmp_path / "x", b"old")
    publish(tmp_path / "x", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x", b"new")]


def test_a_directory_is_cleared_unless_the_run_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "notes.txt").write_text("of somebody else")
    assert prepare(run, {"a": 1}, resume=True) is None  # nothing to continue
    (run / "vocabulary" / "C1.json").write_text("{}")
    assert prepare(run, {"a": 1}, resume=True) is None
    assert (run / "vocabulary" / "C1.json").exists()
    why = prepare(run, {"a": 2}, resume=True)
    assert why is not None
    assert "run.json" in why
    assert prepare(run, {"a": 2}, resume=False) is None
    assert not (run / "vocabulary" / "C1.json").exists()
    assert (run / "notes.txt").exists()


def test_the_fingerprint_knows_what_the_output_depends_on(tmp_path: Path) -> None:
    path = tmp_path / "day_0"
    path.write_bytes(b"x")
    job = order([path], tmp_path / "run")

    def of(**changes: Any) -> dict[str, Any]:
        changed = job.model_copy(update=changes).model_dump(mode="json")
        return fingerprint(changed, "pandas")

    same = of()
    assert json.loads(json.dumps(same)) == same
    for change in ({"workers": 7}, {"memory_bytes": 1}, {"cold": False}, {"malformed": "refuse"}):
        assert of(**change) == same
    for change in ({"threshold": 1}, {"modulo": 9}, {"part_bytes": 8192}, {"compression": "zstd"}):
        assert of(**change) != same
    assert fingerprint(job.model_dump(mode="json"), "polars") != same
    path.write_bytes(b"xy")
    assert of() != same
    path.write_bytes(b"y")  # same length as before
    os.utime(path, ns=(0, 1))
    assert of() != same


class Counting:
    """Library in plain Python whose files hold their column as numbers."""

    threads = True
    errors: tuple[type[Exception], ...] = ()
    chunk_bytes = 1 << 20
    base_bytes = worker_bytes = 0
    bytes_per_value = 96
    bytes_per_id = 48

    def __init__(self) -> None:
        self.most = 0

    def release(self) -> None:
        """Do nothing: it holds no memory."""

    def count(
        self, paths: Sequence[Path], column: str, modulo: int, keys: tuple[int, int]
    ) -> Tally:
        values = [int(word) % modulo for path in paths for word in path.read_text().split()]
        return self._tally(Counter(value for value in values if keys[0] <= value < keys[1]))

    def merge(self, tallies: Sequence[Tally]) -> Tally:
        self.most = max(self.most, sum(len(tally.values) for tally in tallies))
        sums: Counter[int] = Counter()
        for tally in tallies:
            sums.update(dict(zip(tally.values.tolist(), tally.counts.tolist(), strict=True)))
        return self._tally(sums)

    def _tally(self, counts: Counter[int]) -> Tally:
        values = np.array(list(counts), dtype=np.uint32)
        return Tally(values, np.array(list(counts.values()), dtype=np.int64))


@pytest.mark.parametrize(("most", "passes"), [(8, 30), (100, 4), (1 << 20, 1)])
def test_passes_see_every_value_once_within_what_may_be_held(
    tmp_path: Path, most: int, passes: int
) -> None:
    values = [(number * number * 2_654_435_761) % KEYS for number in range(400)]
    values += values[:100]
    files = []
    for at in range(0, len(values), 10):
        path = tmp_path / str(at)
        path.write_text(" ".join(map(str, values[at : at + 10])))
        files.append((path, 10))
    library: Any = Counting()
    found = list(vocabulary_passes(library, files, "C1", KEYS, most))
    assert len(found) >= passes
    assert library.most <= max(2 * most, 40)
    assert sum(len(each.values) for each in found) == len(set(values))
    seen: Counter[int] = Counter()
    for tally in found:
        seen.update(dict(zip(tally.values.tolist(), tally.counts.tolist(), strict=True)))
    assert seen == Counter(values)


def test_files_come_in_batches() -> None:
    files = [(Path(str(number)), rows) for number, rows in enumerate((5, 5, 0, 20, 1, 1))]
    found = [[int(path.name) for path, _ in batch] for batch in batches(files, 10)]
    assert found == [[0, 1, 2], [3], [4, 5]]
    assert list(batches([], 10)) == []


@pytest.mark.parametrize("numerical", ["float16", "float32"])
def test_logarithms_are_rounded_once(numerical: str) -> None:
    values = [None, -(2**31), -4, -3, -2, -1, 0, 1, 2, 2**31 - 1]
    values += [number**3 for number in range(1290)]
    integers = np.array([math.nan if value is None else value for value in values])
    made = logarithms(integers).astype(numerical).tobytes()
    assert made == b"".join(logarithm(value, numerical) for value in values)
    assert struct.unpack("<e", logarithm(-2, "float16")) == (0.0,)


@pytest.mark.parametrize(
    ("memory", "workers", "at_once", "chunk"),
    [(4 << 30, 1, 1, 1 << 20), (4 << 30, 16, 16, 1 << 20), (1, 8, 1, 1 << 20)],
)
def test_work_is_cut_to_fit_into_memory(
    tmp_path: Path, memory: int, workers: int, at_once: int, chunk: int
) -> None:
    job = order([], tmp_path, memory_bytes=memory, workers=workers, part_bytes=64 << 20)
    library: Any = Counting()
    worker = Worker(library, job.model_dump(mode="json"), 245)
    assert worker.parts_at_once == at_once
    assert worker.chunk_bytes == chunk
    short = Worker(library, job.model_dump(mode="json"), 40)  # more rows in a part
    assert short.parts_at_once <= at_once


def test_rows_are_as_long_as_in_the_file_with_the_shortest(tmp_path: Path) -> None:
    contents = {"long": b"x" * 199 + b"\n", "empty": b"", "short": (b"y" * 99 + b"\n") * 3}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    assert mean_row_bytes(str(tmp_path / name) for name in contents) == 100
    assert mean_row_bytes([str(tmp_path / "long")]) == 200
    assert mean_row_bytes([str(tmp_path / "empty")]) == 40


def _units(tmp_path: Path, workers: int, rows: Sequence[int], cardinality: int) -> list[Unit]:
    library: Any = Counting()
    job = order([], tmp_path, workers=workers).model_dump(mode="json")
    files = [(tmp_path / str(number), held) for number, held in enumerate(rows)]
    return encode_units(Worker(library, job, 245), files, [cardinality] * 26, tmp_path)


def test_units_of_encoding_cover_every_row_of_every_column(tmp_path: Path) -> None:
    rows = [300_000] * 100
    units = _units(tmp_path, 8, rows, cardinality=1_000_000)
    assert len({unit.name for unit in units}) == len(units)
    shares: Counter[str] = Counter()
    for unit in units:
        shares[unit.columns[0]] += round(unit.share * sum(rows))
        *_, files, row, _ = unit.arguments
        assert row == sum(rows[: int(files[0][0].name)])
    assert shares == dict.fromkeys(["label", *COLUMNS[14:]], sum(rows))
    largest = max(sum(held for _, held in unit.arguments[0]) for unit in units if "f" in unit.name)
    assert largest <= 1 << 22  # without lookups
    assert [unit.arguments[-2] for unit in units] == sorted(unit.arguments[-2] for unit in units)
    assert len(_units(tmp_path, 1, [5], 3)) == 27


def test_a_journal_knows_what_was_finished(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    units = _units(tmp_path, 1, [5, 6], cardinality=3)
    first = Journal(path, units)
    assert first.done == frozenset()
    first.add(units[3].name)
    first.add(units[0].name)
    path.write_bytes(path.read_bytes() + b"\nC9 0+1")  # a torn write of C9 0+11
    second = Journal(path, units)
    assert second.done == {units[0].name, units[3].name}
    second.add(units[5].name)
    assert Journal(path, units).done == {units[n].name for n in (0, 3, 5)}
    assert Journal(path, units[1:]).done == frozenset()  # another plan
    assert Journal(path, units).done == frozenset()


def test_a_journal_of_another_boot_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    units = _units(tmp_path, 1, [5, 6], cardinality=3)
    Journal(path, units).add(units[0].name)
    boot, space, rest = path.read_bytes().partition(b" ")
    assert len(boot) == 36
    path.write_bytes(boot[::-1] + space + rest)
    assert Journal(path, units).done == frozenset()
    assert path.read_bytes().startswith(boot)
    Journal(path, units).remove()
    assert not path.exists()


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_tells_its_versions(engine: str) -> None:
    facts = get_engine(engine).describe()
    assert facts.version == metadata.version(engine)
    assert any(feature.startswith("numpy ") for feature in facts.features)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_missing_library_is_named_with_its_cure(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", gone)
    with pytest.raises(EngineError, match=r"storlab\[preprocess\]"):
        get_engine(engine).describe()


@pytest.mark.parametrize("engine", ENGINES)
def test_only_runs_are_carried_out(engine: str, tmp_path: Path) -> None:
    job = order([], tmp_path)
    found = get_engine(engine)
    assert found.refuse(job) is None
    other = job.model_copy(update={"task": "generate"})
    assert "native" in (found.refuse(other) or "")
    block = BlockJob(
        members=[Member(path="x", name="x", kind="file", size=1)],
        jobs=1,
        queue_depth=1,
        mix=Mix(read=100, write=0),
        block_sizes=[WeightedSize(bytes=512)],
        offsets=Offsets(kind="uniform"),
    )
    assert "preprocess" in (found.refuse(block) or "")
    with pytest.raises(EngineError, match="cannot run"):
        found.start(other, tmp_path)
