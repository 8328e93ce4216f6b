"""Groups of jobs at the same time on one file, through the command, on both engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.model.result import RunRecord
from storlab.model.samples import summarise_latency
from storlab.results.store import ResultStore

MIB = 1 << 20
STUDY = """\
[study]
name = "readers beside a writer"
repeats = 2
ramp = "200ms"
runtime = "1s"
interval = "250ms"
engine = "ENGINE"

[[target]]
name = "file"
path = "one.dat"
size = "16MiB"
direct = false
keep_data = true

[[workload]]
kind = "block"
name = "mixed"
queue_depth = 1
[[workload.group]]
name = "readers"
rate_iops = 400
jobs = 2
region_size = "50%"
[[workload.group]]
name = "writer"
access = "sequential"
read_percent = 0
block_size = "64KiB"
rate_iops = 40
region_start = "50%"
"""


def campaign(folder: Path, engine: str) -> ResultStore:
    folder.mkdir(exist_ok=True)
    study = folder / "study.toml"
    study.write_text(STUDY.replace("ENGINE", engine))
    code = main(["run", str(study), "--out", str(folder / "results"), "--quiet"])
    assert code == ExitCode.OK
    return ResultStore.open(folder / "results")


def of_group(comparison: Comparison, name: str, key: str) -> float:
    (row,) = (r for r in comparison.rows.values() if r.point.workload == name)
    return row.cells["file"].values[key].estimate


def check_groups(store: ResultStore) -> None:
    for record in store.records():
        assert record.status == "finished", record.failure
        readers, writer = record.groups["readers"], record.groups["writer"]
        assert (set(readers.totals), set(writer.totals)) == ({"read"}, {"write"})
        for totals, rate, size in (
            (readers.totals["read"], 400, 4096),
            (writer.totals["write"], 40, 65536),
        ):
            done = totals.operations + totals.late_operations
            assert 0 < done <= 1.1 * rate  # fewer on a busy machine
            assert totals.bytes == pytest.approx(totals.operations * size, abs=4 * size)
        assert readers.totals["read"].operations > writer.totals["write"].operations
        for operation, whole in record.totals.items():
            own = [g.totals[operation] for g in record.groups.values() if operation in g.totals]
            assert whole.operations == sum(totals.operations for totals in own)
            assert whole.bytes == sum(totals.bytes for totals in own)
        rates = [record.metric("iops"), *(rate_of(record, name) for name in record.groups)]
        assert rates[0] == pytest.approx(sum(rate for rate in rates[1:] if rate))


def rate_of(record: RunRecord, group: str) -> float:
    (rate,) = (
        m.value for m in record.groups[group].metrics if (m.name, m.operation) == ("iops", "all")
    )
    return rate


def check_samples(store: ResultStore) -> None:
    for record in store.records():
        rows = store.samples(record.run_id).to_pylist()
        done: dict[str, int] = {}
        for row in rows:
            done[row["operation"]] = done.get(row["operation"], 0) + row["operations"]
            counted = summarise_latency(row["latency_hist"]).count
            assert counted or not row["operations"]
        assert done["read"] == done["readers.read"] == record.totals["read"].operations
        assert done["write"] == done["writer.write"] == record.totals["write"].operations


def test_groups_run_at_the_same_time_and_are_reported_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    store = campaign(tmp_path, "native")
    check_groups(store)
    check_samples(store)
    data = load_dataset([store])
    comparison = compare(data)
    names = [row.point.workload for row in comparison.rows.values()]
    assert names == ["mixed", "mixed: readers", "mixed: writer"]
    assert len(data.records) == 2, "a group is not a run"
    assert 40 < of_group(comparison, "mixed: readers", "iops.all") <= 440
    written_mb_s = of_group(comparison, "mixed: writer", "throughput_mb_s.all")
    assert 0 < written_mb_s <= 1.1 * 40 * 65536 / 1e6
    series = [len(run.series) for run in data.all_runs()]
    assert series == [4] * 6
    gate = tmp_path / "gate.toml"
    gate.write_text(
        '[[gate]]\nworkload = "mixed: readers"\nmetric = "iops"\nat_least = "300"\n'
        '[[gate]]\nworkload = "mixed: writer"\nmetric = "latency_p99_ns.write"\nat_most = "10s"\n'
    )
    capsys.readouterr()
    # How wide the intervals of two repeats are depends on the machine's load.
    verdict = main(["gate", str(tmp_path / "results"), "--rules", str(gate), "--json"])
    assert verdict in (ExitCode.OK, ExitCode.INCONCLUSIVE)
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert [(check["number"], check["repeats"]) for check in checks] == [(1, 2), (2, 2)]
    assert main(["compare", str(tmp_path / "results"), "--json"]) == ExitCode.OK
    assert "mixed: writer" in json.dumps(json.loads(capsys.readouterr().out))


def test_writes_of_a_group_stay_in_its_region(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    campaign(tmp_path, "native")
    before = (tmp_path / "one.dat").read_bytes()
    assert len(before) == 16 * MIB
    study = tmp_path / "study.toml"
    # Other parameters give other content, so that every block that is written changes.
    study.write_text(study.read_text().replace("queue_depth = 1", "queue_depth = 2"))
    assert main(["run", str(study), "--out", str(tmp_path / "r2"), "--quiet"]) == 0
    after = (tmp_path / "one.dat").read_bytes()
    half = 8 * MIB
    assert before[:half] == after[:half], "only the readers use this part"
    blocks = range(half, 16 * MIB, 65536)
    changed = [at for at in blocks if before[at : at + 65536] != after[at : at + 65536]]
    assert changed[0] == half
    assert len(changed) > 10


@pytest.mark.fio
def test_both_engines_agree_about_each_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = campaign(tmp_path / "fio", "fio")
    check_groups(store)
    raw = store.raw(store.records()[0].run_id, "job.fio").decode()
    assert raw.count("new_group=1") == 2 and "stonewall" not in raw
