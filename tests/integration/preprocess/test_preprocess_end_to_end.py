"""Preprocessing from study file to metrics, through the command.

The output is compared byte for byte with a straightforward implementation's.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.contracts.registry import get_engine
from storlab.model.result import RunOutcome, RunRecord
from storlab.model.study import Target
from storlab.results.store import ResultStore
from storlab.workloads.preprocess.job import STAGES, Clicks, PreprocessJob
from storlab.workloads.preprocess.params import PreprocessParams
from storlab.workloads.preprocess.rules import ROW_BYTES, raw_data, written_bytes
from support.preprocess_oracle import expect

ROWS = 20_000
STUDY = """\
[study]
name = "preprocessing"
repeats = 2
interval = "20ms"

[[target]]
name = "folder"
directory = "data"

[[target]]
name = "other"
directory = "two"

[[workload]]
kind = "preprocess"
name = "made"
rows = 20_000
files = 3
workers = [1, 3]
part_size = "256KiB"
row_group_rows = 1_000
compression = ["none", "zstd"]

[[workload]]
kind = "preprocess"
name = "own"
input = ["raw/day_*"]
malformed = "skip"
threshold = 2
targets = ["folder"]
"""
GOOD = ["1\t5" + "\t" * 38 + "0000000a", "0\t-3" + "\t" * 38 + "0000000A"]
BAD = ["2" + "\t" * 39, "0\t1", "", "0\t2147483648" + "\t" * 38, "1" + "\t" * 39 + "0000000g"]
REASONS = ["label", "fields", "fields", "integer", "category"]


class Ran:
    """A campaign's records, and its working directory."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.records = ResultStore.open(place / "results").records()

    def of(self, workload: str) -> list[RunRecord]:
        found = [record for record in self.records if record.workload == workload]
        assert found
        return found


def run_study(place: Path, text: str, out: str = "results") -> int:
    (place / f"{out}.toml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        return main(["run", f"{out}.toml", "--out", out, "--no-report", "--quiet"])


def lay_days(place: Path) -> list[Path]:
    """Write two raw files; the second lacks its last line feed."""
    (place / "raw").mkdir(parents=True)
    days = [place / "raw" / "day_2", place / "raw" / "day_10"]
    days[0].write_text("\n".join([GOOD[0], BAD[0], BAD[1], GOOD[1], GOOD[0]]) + "\n")
    days[1].write_text("\n".join([GOOD[1], *BAD[2:], GOOD[0]]))
    return days


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Return the runs of the study, executed once."""
    place = tmp_path_factory.mktemp("preprocess")
    (place / "two").mkdir()
    days = lay_days(place / "data")
    before = [(day.read_bytes(), day.stat().st_mtime_ns) for day in days]
    assert run_study(place, STUDY) == ExitCode.OK
    assert [(day.read_bytes(), day.stat().st_mtime_ns) for day in days] == before
    assert [path.name for path in (place / "data").iterdir()] == ["raw"]
    assert list((place / "two").iterdir()) == []
    return Ran(place)


def value(record: RunRecord, name: str, operation: str = "all") -> float:
    found = record.metric(name, operation)
    assert found is not None, name
    return found


def test_every_run_did_all_the_work(ran: Ran) -> None:
    assert len(ran.of("made")) == 2 * 2 * 2 * 2
    for record in ran.of("made"):
        assert record.status == "finished", record.failure
        details = record.details
        assert (details["rows"], details["lines"]) == (ROWS, ROWS)
        assert [stage["name"] for stage in details["stages"]] == list(STAGES)
        assert [(span.kind, span.name) for span in record.spans] == [(s, s) for s in STAGES]
        assert all(stage["rows"] == ROWS for stage in details["stages"])
        assert details["stages"][0]["input_bytes"] == details["input_bytes"]
        assert details["output"]["rows"] == ROWS
        assert details["output"]["bytes"] == details["output_bytes"]
        assert record.window_start_ns <= record.spans[0].start_ns
        assert record.window_end_ns == record.spans[-1].end_ns
        for span in record.spans:
            assert record.totals[span.kind].bytes == span.bytes
        assert {"malformed-lines", "resumed", "workers-idle"}.isdisjoint(
            flag.kind for flag in record.flags
        )


def test_all_runs_of_equal_rows_give_equal_output(ran: Ran) -> None:
    outputs = [record.details["output"] for record in ran.of("made")]
    assert all(output == outputs[0] for output in outputs)
    assert len(outputs[0]["columns"]) == 1 + 13 + 26


def test_metrics_agree_with_the_stages_they_come_from(ran: Ran) -> None:
    for record in ran.of("made"):
        took_s = (record.spans[-1].end_ns - record.spans[0].start_ns) / 1e9
        assert value(record, "completion_time_s") == pytest.approx(took_s)
        assert value(record, "rows_s") == pytest.approx(ROWS / took_s)
        raw = record.details["input_bytes"]
        assert value(record, "input_mb_s") == pytest.approx(raw / took_s / 1e6)
        for stage in record.details["stages"]:
            seconds = (stage["end_ns"] - stage["start_ns"]) / 1e9
            name = stage["name"]
            assert value(record, "completion_time_s", name) == pytest.approx(seconds)
            assert value(record, "span_time_s", name) == pytest.approx(seconds)
            assert value(record, "cpu_s", name) == pytest.approx(stage["cpu_ns"] / 1e9)
        stages = record.details["stages"]
        assert value(record, "cpu_s") == pytest.approx(sum(s["cpu_ns"] for s in stages) / 1e9)
        assert sum(value(record, "completion_time_s", s) for s in STAGES) <= took_s * (1 + 1e-9)
        assert value(record, "worker_busy_percent") > 0


def test_samples_add_up_to_what_the_stages_read(ran: Ran) -> None:
    for record in ran.of("made"):
        table = ResultStore.open(ran.place / "results").samples(record.run_id)
        moved: Counter[str] = Counter()
        for row in table.select(["operation", "bytes"]).to_pylist():
            moved[row["operation"]] += row["bytes"]
        assert dict(moved) == {stage: record.totals[stage].bytes for stage in STAGES}


def test_malformed_lines_of_own_files_are_told_with_their_place(ran: Ran) -> None:
    for record in ran.of("own"):
        assert record.status == "finished", record.failure
        assert (record.details["rows"], record.details["lines"]) == (5, 10)
        malformed = record.details["malformed"]
        assert malformed["count"] == 5
        assert {k: n for k, n in malformed["by_reason"].items() if n} == Counter(REASONS)
        samples = malformed["samples"]
        assert [sample["reason"] for sample in samples] == REASONS
        places = [(Path(sample["file"]).name, sample["line"]) for sample in samples]
        assert places == [("day_2", 2), ("day_2", 3), ("day_10", 2), ("day_10", 3), ("day_10", 4)]
        assert [sample["field"] for sample in samples] == [1, None, None, 2, 40]
        (flag,) = [flag for flag in record.flags if flag.kind == "malformed-lines"]
        assert flag.message.startswith("5 of 10 lines (50 %) are malformed and left out")
        # All rows have only category a in C26.
        assert record.details["output"]["cardinalities"] == [1] * 25 + [2]


def test_refused_lines_fail_the_run_and_name_the_first(tmp_path: Path) -> None:
    lay_days(tmp_path / "data")
    head, own = STUDY.partition("[[target]]")[0], STUDY.rpartition("[[workload]]")[2]
    text = f'{head}[[target]]\nname = "folder"\ndirectory = "data"\n[[workload]]{own}'
    refusing = text.replace('malformed = "skip"\n', "").replace("repeats = 2", "repeats = 1")
    assert run_study(tmp_path, refusing) == ExitCode.RUN_FAILED
    (record,) = ResultStore.open(tmp_path / "results").records()
    assert record.failure is not None
    reason = f"{record.failure.message}; {record.failure.fix}"
    assert "5 of 10 lines" in reason
    assert f"{tmp_path / 'data' / 'raw' / 'day_2'}, line 2: label" in reason
    assert 'correct the file, or set malformed = "skip"' in reason
    assert "malformed-lines" not in {flag.kind for flag in record.flags}
    assert record.metrics == []
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["raw"]


def test_files_without_any_row_fail_the_run(tmp_path: Path) -> None:
    raw = tmp_path / "day_0"
    raw.write_bytes(b"")
    outcome = carry_out(PreprocessJob(inputs=[str(raw)], directory=str(tmp_path / "run")), tmp_path)
    assert outcome.failure is not None
    assert "no rows" in outcome.failure.message
    assert not (tmp_path / "run" / "binary").exists()


def carry_out(job: PreprocessJob, place: Path) -> RunOutcome:
    """Run the native engine to the end."""
    work = place / "work"
    work.mkdir(exist_ok=True)
    outcome = get_engine("native").start(job, work).wait()
    assert outcome is not None
    shutil.rmtree(work)
    return outcome


def made(place: Path, rows: int, files: int = 1) -> list[str]:
    """Return click logs from the generator."""
    clicks = Clicks(rows=rows, files=files, seed=3)
    job = PreprocessJob(task="generate", directory=str(place / "raw"), clicks=clicks, workers=2)
    assert carry_out(job, place).failure is None
    return [str(place / "raw" / f"day_{number}") for number in range(files)]


def test_the_output_of_small_parts_takes_no_more_than_was_estimated(tmp_path: Path) -> None:
    """Check the size estimate for small parts, where headers double the output."""
    params = PreprocessParams(rows=4_000, files=1, part_size=4096, threshold=2)
    outcome = carry_out(
        PreprocessJob(
            task="run",
            inputs=made(tmp_path, 4_000),
            directory=str(tmp_path / "out"),
            part_bytes=4096,
            threshold=2,
        ),
        tmp_path,
    )
    assert outcome.failure is None
    sizes = [path.stat().st_size for path in (tmp_path / "out").rglob("*") if path.is_file()]
    data = raw_data(params, Target(name="t", directory="."))
    assert sum(-(-size // 4096) * 4096 for size in sizes) <= written_bytes(params, data)


def finished(place: Path, name: str, inputs: Sequence[str], **changes: Any) -> Path:
    """Return the output directory of a finished run."""
    job = PreprocessJob(inputs=list(inputs), directory=str(place / name), **changes)
    outcome = carry_out(job, place)
    assert outcome.status == "finished", outcome.failure
    return place / name


@pytest.mark.parametrize(
    ("threshold", "modulo", "numerical"),
    [(15, None, "float16"), (0, None, "float32"), (2, 1000, "float16")],
)
def test_what_becomes_of_made_click_logs_is_what_the_document_says(
    tmp_path: Path, threshold: int, modulo: int | None, numerical: str
) -> None:
    inputs = made(tmp_path, rows=5_000, files=2)
    out = finished(
        tmp_path, "run", inputs, threshold=threshold, modulo=modulo, numerical=numerical,
        workers=3, part_bytes=65_536, row_group_rows=500,
    )  # fmt: skip
    reason = expect(
        [Path(name) for name in inputs], threshold=threshold, modulo=modulo, numerical=numerical
    )
    assert (reason.rows, reason.by_reason) == (5_000, {})
    for name, content in reason.files.items():
        assert (out / name).read_bytes() == content, name
    left = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    apart = [name for name in left - reason.files.keys() if not name.startswith("parquet/")]
    assert sorted(apart) == sorted(["run.json", *(f"vocabulary/C{n}.json" for n in range(1, 27))])


def test_parquet_holds_the_raw_rows_in_row_groups(tmp_path: Path) -> None:
    (name,) = made(tmp_path, rows=3_000)
    out = finished(tmp_path, "run", [name], part_bytes=131_072, row_group_rows=250)
    parts = sorted((out / "parquet" / "000-day_0").glob("*.parquet"))
    assert len(parts) == -(-Path(name).stat().st_size // 131_072)
    rows = []
    for part in parts:
        file = pq.ParquetFile(part)
        groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        assert all(count == 250 for count in groups[:-1])
        rows += [list(row.values()) for row in file.read().to_pylist()]
    for line, row in zip(Path(name).read_text().splitlines(), rows, strict=True):
        raw = line.split("\t")
        numbers = [int(x) if x else None for x in raw[:14]]
        assert row == numbers + [int(x, 16) if x else None for x in raw[14:]]


def test_the_size_of_a_row_is_about_what_plans_assume(tmp_path: Path) -> None:
    inputs = made(tmp_path, rows=20_000, files=2)
    size = sum(Path(name).stat().st_size for name in inputs)
    assert size / 20_000 == pytest.approx(ROW_BYTES, rel=0.05)


def test_a_run_goes_on_after_its_last_finished_part(tmp_path: Path) -> None:
    inputs = made(tmp_path, rows=5_000)
    whole = finished(tmp_path, "whole", inputs, part_bytes=131_072)
    begun = finished(tmp_path, "begun", inputs, part_bytes=131_072)
    shutil.rmtree(begun / "binary")
    shutil.rmtree(begun / "vocabulary")
    lost = sorted((begun / "parquet" / "000-day_0").iterdir())[2:]
    for path in lost:
        path.unlink()
    kept = begun / "parquet" / "000-day_0" / "part-00000.parquet"
    before = kept.stat().st_mtime_ns
    job = PreprocessJob(inputs=inputs, directory=str(begun), part_bytes=131_072, resume=True)
    outcome = carry_out(job, tmp_path)
    assert outcome.status == "finished", outcome.failure
    assert outcome.details["resumed_parts"] == 1
    assert kept.stat().st_mtime_ns == before
    for path in (whole / "binary" / "train").iterdir():
        assert (begun / "binary" / "train" / path.name).read_bytes() == path.read_bytes()
    other = job.model_copy(update={"threshold": 3})
    refused = carry_out(other, tmp_path)
    assert refused.failure is not None


def test_little_memory_changes_nothing_but_the_way(tmp_path: Path) -> None:
    inputs = made(tmp_path, rows=20_000)
    sizes = {"part_bytes": 262_144, "row_group_rows": 1_000, "threshold": 0}
    plenty = finished(tmp_path, "plenty", inputs, **sizes)
    little = finished(tmp_path, "little", inputs, memory_bytes=20 << 20, **sizes)
    for path in (plenty / "binary" / "train").iterdir():
        assert (little / "binary" / "train" / path.name).read_bytes() == path.read_bytes()
