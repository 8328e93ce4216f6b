"""The block workload from study file to metrics, through the command, on real files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.brief.kinds import draw
from storlab.analysis.compare import compare
from storlab.analysis.dataset import load_dataset
from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore

STUDY = """\
[study]
name = "every kind of block target"
repeats = 1
ramp = "50ms"
runtime = "500ms"
interval = "50ms"

[[target]]
name = "file"
path = "one.dat"
size = "16MiB"
direct = false

[[target]]
name = "stripe"
paths = ["s1.dat", "s2.dat"]
size = "16MiB"
layout = "stripe"
stripe_chunk = "64KiB"
direct = false

[[target]]
name = "folder"
directory = "."
size = "8MiB"
direct = false

[[target]]
name = "nothing"
path = "null:"

[[workload]]
kind = "block"
name = "mixed"
block_size = { "4KiB" = 3, "128KiB" = 1 }
read_percent = 50
queue_depth = 4
jobs = 2
offsets = ["uniform", "zipf", "hot_cold", "permutation"]
targets = ["file", "stripe", "folder", "nothing"]

[[workload]]
kind = "block"
name = "sequential"
access = "sequential"
block_size = "64KiB"
read_percent = [0, 100]
region_start = "25%"
targets = ["file"]

[[workload]]
kind = "block"
name = "open loop"
rate_iops = 2000
arrival = "poisson"
targets = ["file"]

[[workload]]
kind = "block"
name = "verified"
read_percent = 20
verify = true
total_bytes = "8MiB"
sync = "fdatasync"
sync_every = 64
final_sync = true
targets = ["file", "stripe", "folder"]
"""


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[RunRecord]:
    """Return the runs of the study, executed once."""
    place = tmp_path_factory.mktemp("block")
    (place / "study.toml").write_text(STUDY)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        code = main(["run", "study.toml", "--out", "results", "--no-report", "--quiet"])
    assert code == ExitCode.OK
    left = sorted(p.name for p in place.iterdir())
    assert left == ["results", "study.toml"]  # the data files are removed
    return ResultStore.open(place / "results").records()


def test_every_run_finished_and_moved_bytes(records: list[RunRecord]) -> None:
    assert len(records) == 4 * 4 + 2 + 1 + 3
    for record in records:
        assert record.status == "finished", record.failure
        assert (record.metric("throughput_mb_s") or 0) > 0, record


def test_metrics_agree_with_the_totals_they_come_from(records: list[RunRecord]) -> None:
    for record in records:
        window_s = (record.window_end_ns - record.window_start_ns) / 1e9
        data = [t for op, t in record.totals.items() if op != "sync"]
        moved = sum(t.bytes for op, t in record.totals.items() if op in ("read", "write"))
        assert record.metric("iops") == pytest.approx(sum(t.operations for t in data) / window_s)
        assert record.metric("throughput_mb_s") == pytest.approx(moved / window_s / 1e6)
        for operation, totals in record.totals.items():
            if totals.latency is not None and totals.latency.count:
                # Histograms keep three digits, once in the engine and once in its samples.
                for name in ("mean", "p99", "max"):
                    assert record.metric(f"latency_{name}_ns", operation) == pytest.approx(
                        getattr(totals.latency, f"{name}_ns"), rel=2e-3
                    )


def test_mixes_and_sizes_are_what_was_asked_for(records: list[RunRecord]) -> None:
    for record in (r for r in records if r.workload == "mixed"):
        reads, writes = record.totals["read"], record.totals["write"]
        operations = reads.operations + writes.operations
        if operations < 2000:
            continue  # too few operations to judge
        assert reads.operations / operations == pytest.approx(0.5, abs=0.06)
        mean = (reads.bytes + writes.bytes) / operations
        assert mean == pytest.approx((3 * 4096 + 131072) / 4, rel=0.15)


def test_an_open_loop_keeps_its_rate_and_tells_intended_latency(records: list[RunRecord]) -> None:
    (record,) = (r for r in records if r.workload == "open loop")
    assert record.concurrency is not None
    assert "concurrency-mismatch" not in {flag.kind for flag in record.flags}
    intended = record.metric("intended_latency_mean_ns", "read")
    taken = record.metric("latency_mean_ns", "read")
    assert intended is not None
    assert taken is not None
    assert intended >= taken


def test_verified_runs_check_out_and_their_flushes_stand_apart(records: list[RunRecord]) -> None:
    verified = [r for r in records if r.workload == "verified"]
    assert {r.target for r in verified} == {"file", "stripe", "folder"}
    for record in verified:
        assert record.totals["sync"].operations > 0
        assert record.final_sync_ns is not None
        assert record.metric("latency_mean_ns", "sync") is not None
        assert "verify-failed" not in {flag.kind for flag in record.flags}


def test_flags_follow_from_the_target(records: list[RunRecord]) -> None:
    for record in records:
        kinds = {flag.kind for flag in record.flags}
        assert ("page-cache" in kinds) == (record.target != "nothing")


def test_the_stored_points_are_the_planned_ones(
    records: list[RunRecord], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    assert main(["plan", str(study), "--json"]) == ExitCode.OK
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert {r.point_id for r in records} == set(plan["points"])


FLUSHED = """\
[study]
name = "flushed writes"
repeats = 2
ramp = 0
[[target]]
name = "one"
path = "one.dat"
size = "4MiB"
direct = false
[[target]]
name = "two"
path = "two.dat"
size = "4MiB"
direct = false
[[workload]]
kind = "block"
read_percent = 0
sync = "fdatasync"
sync_every = 1
total_bytes = "256KiB"
[[gate]]
metric = "latency_p99_ns.sync"
at_most = "60 min"
[[gate]]
metric = "iops.sync"
at_least = "1/s"
"""


def test_flushes_stand_beside_the_writes_that_wait_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that flushes appear in a run's line, in compare, in the brief and in a gate."""
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(FLUSHED)
    assert main(["run", "study.toml", "--out", "out"]) == 0
    assert capsys.readouterr().err.count("flush p99") >= 4
    records = ResultStore.open(Path("out")).records()
    for record in records:
        sync = record.totals["sync"]
        assert sync.latency is not None
        assert record.metric("latency_p99_ns", "sync") == sync.latency.p99_ns
        seconds = (record.window_end_ns - record.window_start_ns) / 1e9
        assert record.metric("iops", "sync") == pytest.approx(sync.operations / seconds)
        # Flushes are not part of any sum.
        assert record.metric("iops") == record.metric("iops", "write")
        assert "flush-apart" in {flag.kind for flag in record.flags}
    assert main(["compare", "out", "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    keys = {"latency_mean_ns.sync", "latency_p99_ns.sync", "iops.sync"}
    (point,) = compared["points"]
    assert all(keys <= set(cell["values"]) for cell in point["targets"].values())
    brief = Path("out/brief.html").read_text("utf-8")
    assert "flush p99" in brief
    assert "flushes/s" in brief
    assert main(["gate", "out"]) in (ExitCode.OK, ExitCode.INCONCLUSIVE)
    judged = capsys.readouterr().out
    assert "iops.sync" in judged or "flush" in judged


DRAWN = """\
[study]
name = "drawn"
repeats = 2
ramp = 0
runtime = "500ms"
interval = "50ms"
[[target]]
name = "one"
path = "one.dat"
size = "4MiB"
direct = false
[[workload]]
kind = "block"
name = "flushed"
read_percent = 0
sync = "fdatasync"
sync_every = 1
[[workload]]
kind = "block"
name = "paced"
read_percent = 0
sync = "fdatasync"
sync_every = 1
arrival = "constant"
rate_iops = 100
[[workload]]
kind = "block"
name = "plain"
read_percent = 0
"""


def test_flushes_are_in_the_drawings_of_latency_where_there_are_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(DRAWN)
    assert main(["run", "study.toml", "--out", "out", "--no-report", "--quiet"]) == 0
    comparison = compare(load_dataset([ResultStore.open(Path("out"))]))
    for section in comparison.sections:
        (cell,) = comparison.row(section.points[0]).cells.values()
        flushed = section.workload != "plain"
        (points,) = draw("latency_points", comparison, [section])
        assert ("sync" in points.spec["datasets"]) == flushed
        (curves,) = draw("latency_cdf", comparison, [section])
        names = [row[1] for row in curves.rows]
        assert names == (["writes", "flushes"] if flushed else ["writes"])
        (course,) = draw("time_series", comparison, [section])
        drawn = [datum for datum in course.spec["datasets"]["intervals"] if "flush" in datum]
        assert bool(drawn) == flushed
        assert len(course.rows[0]) == len(course.columns) == 5 + flushed
        if flushed:
            mean = points.spec["datasets"]["sync"][0]["mean"]
            assert mean == round(cell.values["latency_mean_ns.sync"].estimate)
            longest = max(run.record.metric("latency_max_ns", "sync") or 0 for run in cell.runs)
            assert 0 < max(datum["flush"] for datum in drawn) <= longest
