"""Groups of requests at the same time on a real S3 server, through the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from storlab.analysis.compare import compare
from storlab.analysis.dataset import load_dataset
from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.exchange.exporters.tidy import metrics_table
from storlab.figures.common import latency_kind
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore
from support.s3_servers import S3Server, versitygw

KIB = 1 << 10
RATE = 20
STUDY = f"""\
[study]
name = "readers beside writers"
repeats = 2
ramp = "200ms"
runtime = "1500ms"
interval = "250ms"

[[target]]
name = "store"
s3 = "ENDPOINT/bench"
s3_options = {{ credentials_env = "KEYS" }}

[[workload]]
kind = "object"
name = "mixed"
object_size = "16KiB"
objects = 20
verify = true
[[workload.group]]
name = "readers"
concurrency = 2
threads = 1
[[workload.group]]
name = "writers"
get_percent = 0
object_size = "256KiB"
concurrency = 4
threads = 1
rate_requests = {RATE}
[[workload.group]]
name = "churn"
get_percent = 0
delete_percent = 50
concurrency = 1
"""


@dataclass(frozen=True)
class Ran:
    store: ResultStore
    server: S3Server

    @property
    def out(self) -> str:
        return str(self.store.directory)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """Provide one campaign with three groups."""
    place = tmp_path_factory.mktemp("groups")
    with versitygw(place / "server") as server, pytest.MonkeyPatch.context() as patch:
        server.make_bucket()
        server.set_environment(patch, "KEYS")
        study = place / "study.toml"
        study.write_text(STUDY.replace("ENDPOINT", server.endpoint))
        patch.chdir(place)
        assert main(["run", str(study), "--out", "results", "--quiet"]) == ExitCode.OK
        yield Ran(ResultStore.open(place / "results"), server)


def rate_of(record: RunRecord, group: str) -> float:
    (rate,) = (
        metric.value
        for metric in record.groups[group].metrics
        if (metric.name, metric.operation) == ("requests_s", "all")
    )
    return rate


def test_sums_of_groups_are_the_whole(ran: Ran) -> None:
    records = ran.store.records()
    assert len(records) == 2, "a group is not a run"
    for record in records:
        assert record.status == "finished", record.failure
        kinds = {name: set(group.totals) for name, group in record.groups.items()}
        assert kinds == {"readers": {"get"}, "writers": {"put"}, "churn": {"put", "delete"}}
        for operation, whole in record.totals.items():
            own = [g.totals[operation] for g in record.groups.values() if operation in g.totals]
            assert whole.operations == sum(totals.operations for totals in own) > 0
            assert whole.bytes == sum(totals.bytes for totals in own)
        rates = [rate_of(record, name) for name in record.groups]
        assert record.metric("requests_s") == pytest.approx(sum(rates))


def test_a_rate_holds_beside_a_closed_loop(ran: Ran) -> None:
    for record in ran.store.records():
        readers, writers = (record.groups[name].totals for name in ("readers", "writers"))
        due = RATE * 1.5
        done = writers["put"].operations + writers["put"].late_operations
        assert 0 < done <= due + 4  # those in flight at the start; fewer on a busy machine
        assert writers["put"].bytes == writers["put"].operations * 256 * KIB
        assert readers["get"].operations > due, "the closed loop has no rate"
        assert readers["get"].intended is None and writers["put"].intended is not None


def test_groups_leave_each_others_objects_alone(ran: Ran) -> None:
    for record in ran.store.records():
        assert all(not totals.errors for totals in record.totals.values())
        assert {flag.kind for flag in record.flags}.isdisjoint({"errors", "verify-failed"})
    assert ran.server.keys() == []


def test_samples_of_groups_are_stored_beside_those_of_the_run(ran: Ran) -> None:
    for record in ran.store.records():
        done: dict[str, int] = {}
        for row in ran.store.samples(record.run_id).to_pylist():
            done[row["operation"]] = done.get(row["operation"], 0) + row["operations"]
        assert done["get"] == done["readers.get"] == record.totals["get"].operations
        assert done["put"] == done["writers.put"] + done["churn.put"]


def test_groups_have_rows_in_exported_tables(ran: Ran) -> None:
    rows = [row for row in metrics_table(ran.store).to_pylist() if row["metric"] == "requests_s"]
    for record in ran.store.records():
        of_repeat = {
            row["workload"]: row["value"]
            for row in rows
            if (row["repeat"], row["operation"]) == (record.repeat, "all")
        }
        parts = {f"mixed: {name}": rate_of(record, name) for name in record.groups}
        assert of_repeat == {"mixed": record.metric("requests_s"), **parts}
    assert len({row["run_id"] for row in rows}) == 2 * 4


def test_groups_are_compared_and_judged_by_name(
    ran: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = compare(load_dataset([ran.store]))
    names = [row.point.workload for row in comparison.rows.values()]
    assert names == ["mixed", "mixed: readers", "mixed: writers", "mixed: churn"]
    (row,) = (r for r in comparison.rows.values() if r.point.workload == "mixed: writers")
    assert 0 < row.cells["store"].values["requests_s.all"].estimate <= 1.1 * RATE
    kinds = {s.points[0].workload: latency_kind(comparison, s)[0] for s in comparison.sections}
    assert kinds["mixed: writers"] == "intended_latency"
    assert kinds["mixed"] == "latency", "GETs of the closed loop have no intended start"
    gate = tmp_path / "gate.toml"
    gate.write_text(
        '[[gate]]\nworkload = "mixed: readers"\nmetric = "ttfb_p99_ns.get"\nat_most = "10s"\n'
        '[[gate]]\nworkload = "mixed: writers"\nmetric = "error_percent"\nat_most = "0%"\n'
    )
    verdict = main(["gate", ran.out, "--rules", str(gate), "--json"])
    assert verdict in (ExitCode.OK, ExitCode.INCONCLUSIVE)
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert [(check["number"], check["repeats"]) for check in checks] == [(1, 2), (2, 2)]
    assert main(["compare", ran.out, "--json"]) == ExitCode.OK
    assert "mixed: churn" in json.dumps(json.loads(capsys.readouterr().out))
    page = (ran.store.directory / "brief.html").read_text("utf-8")
    assert "mixed: readers" in page
