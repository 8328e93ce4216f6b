"""fio on cluster clients: same launcher, same start, merged like native."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from conftest import need_fio, need_mpi
from storlab._native import Histogram
from storlab.results.store import ResultStore
from support.local_clients import run_study, run_verb, write_study

pytestmark = pytest.mark.fio
DEPTH = 1  # maximum of fio if io_uring is disabled
JOBS = 2  # per client, in the study of support.local_clients


@pytest.fixture(autouse=True)
def programs() -> None:
    need_mpi("mpich")
    need_fio()


def latencies(rows: list[dict[str, object]]) -> dict[str, Histogram]:
    found: dict[str, Histogram] = {}
    for row in rows:
        histogram = Histogram.from_v2(row["latency_hist"])
        found.setdefault(str(row["operation"]), Histogram()).add(histogram)
    return found


def test_fio_runs_on_every_client_and_histograms_are_merged(tmp_path: Path) -> None:
    store = run_study(tmp_path, engine='engine = "fio"', clients=3, depth=DEPTH)
    (record,) = store.records()
    assert (record.status, record.engine.name, record.clients) == ("finished", "fio", 3)
    assert record.cluster is not None
    clients = record.cluster.clients
    assert [client.name for client in clients] == ["client-1", "client-2", "client-3"]
    for client in clients:
        assert client.operations > 0
        # At the end of a window fio counts a job's last I/O and its bytes one after the other.
        assert abs(client.bytes - 4096 * client.operations) <= 4096 * JOBS
        assert client.armed_ns is not None
        assert client.first_io_late_ns is not None and client.last_worker_late_ns is not None
        assert client.first_io_late_ns <= client.last_worker_late_ns
    assert record.cluster.start_skew_ns is not None
    raw = store.run_dir(record.run_id) / "raw"
    for client in clients:
        assert json.loads((raw / client.name / "fio.json").read_text())["jobs"]
        assert f"{client.name}/fio.json" in record.raw
    apart = pq.read_table(raw / "clients.parquet").to_pylist()
    assert {row["client"] for row in apart} == {client.name for client in clients}
    whole = latencies(store.samples(record.run_id).to_pylist())
    for operation, histogram in latencies(apart).items():
        # the common window may end slightly before a client's own
        assert 0 < whole[operation].count <= histogram.count
        assert record.totals[operation].operations == whole[operation].count


def test_crosscheck_has_clients_as_an_axis(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path, clients="[1, 2]", depth=DEPTH)
    directory = tmp_path / "cross"
    words = ["crosscheck", study, "--repeats", "2", "--point", "clients=2", "--json", "--quiet"]
    code = run_verb(*words, "--out", directory)
    answer = json.loads(capsys.readouterr().out)
    assert code in (0, 10, 12), answer
    (point,) = answer["points"]
    assert point["params"]["clients"] == 2
    assert {metric["quantity"].partition(".")[0] for metric in point["metrics"]} >= {
        "iops",
        "latency_p99_ns",
    }
    engines = {r.engine.name: r for r in ResultStore.open(directory).records()}
    assert set(engines) == {"fio", "native"}
    for record in engines.values():
        assert record.cluster is not None and len(record.cluster.clients) == 2
