"""Results of other tools and with other names beside new ones, in one brief."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from integration.brief.brief_fixture import build_store
from storlab.analysis.compare import compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.merge_directories import differences
from storlab.audit.from_claims import BriefClaims, audit_brief
from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.exchange.importer import import_files
from storlab.results.store import ResultStore
from support.made_comparisons import findings_of

GOLDEN = Path(__file__).parents[2] / "golden" / "fio"
STUDY = """
[study]
name = "the new disk"
repeats = 2
ramp = "0s"
runtime = "300ms"
interval = "100ms"
settle = "0s"

[[target]]
name = "new disk"
path = "{path}"
size = "16MiB"
direct = false

[[workload]]
kind = "block"
name = "file server"
read_percent = 70
block_size = "256KiB"
queue_depth = 8
jobs = 2
"""


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> list[ResultStore]:
    """Provide one study twice, with two names of its workload and targets."""
    place = tmp_path_factory.mktemp("renamed")
    return [
        build_store(place / "old", mixes=(70,), repeats=2, seed=1),
        build_store(
            place / "new", mixes=(70,), repeats=2, seed=2, workload="file server",
            names=("SSD", "RAM"),
        ),
    ]  # fmt: skip


def test_workloads_of_other_names_make_one_brief(
    renamed: list[ResultStore], tmp_path: Path
) -> None:
    places = [str(store.directory) for store in renamed]
    out = tmp_path / "together"
    assert main(["report", *places, "--no-pdf", "--out", str(out)]) == ExitCode.OK
    together = compare(load_dataset(renamed))
    assert {section.workload for section in together.sections} == {"block"}
    assert all(c.measured for row in together.rows.values() for c in row.cells.values())


def test_within_one_directory_the_audit_wants_one_way_to_do_the_work(
    renamed: list[ResultStore],
) -> None:
    together = compare(load_dataset(renamed))
    records = {run.record.run_id: run.record for run in together.dataset.all_runs()}
    new = {"SSD", "RAM"}
    data = next(f for f in findings_of(together).values() if len(new & set(f.decision.sides)) == 1)
    assert len({records[run].workload for side in data.decision.runs for run in side}) == 2
    side = data.decision.runs[0]
    places = {run: "one" if run in side else "other" for run in records}

    def found(change: dict[str, Any], *runs: str) -> list[str]:
        changed = {
            run: records[run].model_copy(update={"params": {**records[run].params, **change}})
            for run in runs
        }
        audited = audit_brief(BriefClaims([data], records | changed, places))
        return [finding.recomputed for finding in audited if "different work" in finding.recomputed]

    assert not found({})
    assert not found({"backend": "posix"}, *side)
    assert found({"backend": "posix"}, side[0])
    assert found({"block_size": 4096}, *side)


def test_an_imported_file_of_fio_is_compared_with_a_native_run(tmp_path: Path) -> None:
    study, new, old = tmp_path / "study.toml", tmp_path / "new", tmp_path / "old"
    study.write_text(STUDY.format(path=tmp_path / "data.bin"))
    assert main(["run", str(study), "--out", str(new), "--no-report", "--quiet"]) == ExitCode.OK
    files = [GOLDEN / "group-3.33.json", GOLDEN / "group-3.42.json"]
    stores = [ResultStore.open(new), import_files(files, old, "old disk")]
    together = compare(load_dataset(stores))
    (row,) = together.rows.values()
    assert [cell.measured for cell in row.cells.values()] == [True, True]
    assert row.ratios["old disk"]["throughput_mb_s.all"].interval.n == 2
    assert json.loads(row.point.key)[:3] == ["file server", "block", "native and fio"]
    assert "Backend: auto in new, uring in old." in differences(stores, ["new", "old"])
    out = tmp_path / "together"
    assert main(["report", str(new), str(old), "--no-pdf", "--out", str(out)]) == ExitCode.OK
    page = (out / "brief.html").read_text(encoding="utf-8")
    assert "<dt>backend</dt><dd>auto, uring</dd>" in page
