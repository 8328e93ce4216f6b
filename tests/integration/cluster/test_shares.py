"""Work divided over all clients of this machine: whole campaigns, and briefs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import need_mpi

HEAD = '[study]\nname = "Shares"\nrepeats = 1\nramp = "0s"\nruntime = "1s"\nsettle = "0s"\n'


def run(
    tmp_path: Path, clients: str, target: str, workload: str, *, report: bool = False
) -> list[dict[str, Any]]:
    """Return the records of a study's runs by number of clients; all have finished."""
    (tmp_path / "data").mkdir()
    study, results = tmp_path / "study.toml", tmp_path / "results"
    study.write_text(
        f'{HEAD}[cluster]\nhosts = ["localhost"]\nmpiexec = "{need_mpi("mpich")}"\n'
        f'lost_after = "60s"\nclients = {clients}\n'
        f'[[target]]\nname = "t"\n{target.format(data=tmp_path / "data")}\n'
        f"[[workload]]\n{workload}"
    )
    command = [sys.executable, "-m", "storlab", "run", str(study), "--out", str(results)]
    command += ["--no-report"][report:]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    records = [json.loads(path.read_text()) for path in results.glob("runs/*/run.json")]
    assert {record["status"] for record in records} == {"finished"}
    assert list((tmp_path / "data").iterdir()) == [], "all that was made has gone"
    return sorted(records, key=lambda record: int(record["clients"]))


def check_done(record: dict[str, Any], clients: int) -> None:
    """Check when each client finished its share; the last one ends the whole."""
    done = [client["done_ns"] for client in record["cluster"]["clients"]]
    assert len(done) == clients
    assert 0 < min(done) <= max(done) == record["window_end_ns"] - record["window_start_ns"]
    assert record["cluster"]["bytes_s_till_first_done"] > 0


def brief_of(tmp_path: Path) -> str:
    return (tmp_path / "results" / "brief.html").read_text()


def test_ranks_of_a_checkpoint_over_two_clients(tmp_path: Path) -> None:
    workload = (
        'kind = "checkpoint"\nprofile = "llama3-405b-8gpu-415gb"\nscale = 0.0001\n'
        'writes = 2\nrestores = 1\nio_size = "64KiB"\nio_depth = 2\n'
    )
    target = 'directory = "{data}"\ndirect = false'
    (record,) = run(tmp_path, "2", target, workload, report=True)
    told = record["details"]
    assert (len(told["writes"]), len(told["restores"])) == (2, 1)
    for entry in (*told["writes"], *told["restores"]):
        ranks = entry["ranks"]
        assert [r["rank"] for r in ranks] == list(range(8))
        assert [r["client"] for r in ranks] == ["client-1"] * 4 + ["client-2"] * 4
        assert entry["bytes"] == sum(r["bytes"] for r in ranks) == 41_520_000
        ended = entry.get("written_ns", entry.get("end_ns"))
        assert entry["start_ns"] <= min(r["start_ns"] for r in ranks)
        assert max(r["moved_ns"] for r in ranks) <= ended
    # No rank of any client starts a checkpoint before all have finished the previous one.
    first, second = told["writes"]
    assert second["start_ns"] >= first["durable_ns"]
    assert told["meetings"]["count"] == 3
    assert record["totals"]["write"]["bytes"] == 2 * 41_520_000
    assert record["totals"]["read"]["bytes"] == 41_520_000
    assert [span["kind"] for span in record["spans"]] == ["write", "write", "restore"]
    assert record["concurrency"]["configured"] == 16.0
    check_done(record, clients=2)
    brief = brief_of(tmp_path)
    assert "When clients had done their shares" in brief
    assert ", client-1" in brief or ", client-2" in brief, "the slowest rank's client"


def test_accelerators_over_two_clients_meet_after_every_step(tmp_path: Path) -> None:
    workload = (
        'kind = "training"\nprofile = "unet3d-small"\nfiles = 12\naccelerators = 3\n'
        'batch_size = 1\ncomputation_time = "50ms"\nepochs = 2\n'
    )
    single, two = run(tmp_path, "[1, 2]", 'directory = "{data}"\ndirect = false', workload)
    for record, clients in ((single, [1, 1, 1]), (two, [1, 2, 2])):
        told = record["details"]
        assert len(told["epochs"]) == 2
        for epoch in told["epochs"]:
            assert epoch["samples"] == 12
            each = epoch["accelerators"]
            assert [(a["accelerator"], a["steps"]) for a in each] == [(0, 4), (1, 4), (2, 4)]
            assert [a["client"] for a in each] == [f"client-{number}" for number in clients]
        assert told["meetings"]["count"] == 8, "a meeting for each step of each epoch"
        assert told["meetings"]["max_ns"] >= told["meetings"]["mean_ns"] > 0
    assert single["cluster"]["bytes_s_till_first_done"] is None
    check_done(two, clients=2)
    # The set of files read does not depend on the clients.
    assert single["totals"]["read"]["bytes"] == two["totals"]["read"]["bytes"] > 0
    assert single["totals"]["step"]["operations"] == two["totals"]["step"]["operations"] == 24


def test_a_checkpoint_to_a_bucket(tmp_path: Path) -> None:
    workload = (
        'kind = "checkpoint"\nprofile = "llama3-405b-8gpu-415gb"\nscale = 0.00001\n'
        "writes = 1\nrestores = 1\nio_depth = 2\n"
    )
    (record,) = run(tmp_path, "2", 's3 = "embedded:{data}"', workload)
    (write,) = record["details"]["writes"]
    assert [r["rank"] for r in write["ranks"]] == list(range(8))
    assert record["details"]["restores"][0]["verified"] is True


def test_a_search_for_the_accelerators_that_clients_keep_busy(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    study, results = tmp_path / "study.toml", tmp_path / "results"
    study.write_text(
        f'{HEAD}[cluster]\nhosts = ["localhost"]\nmpiexec = "{need_mpi("mpich")}"\n'
        'lost_after = "60s"\nclients = [1, 2]\n'
        f'[[target]]\nname = "t"\ndirectory = "{tmp_path / "data"}"\ndirect = false\n'
        '[[workload]]\nkind = "training"\nprofile = "unet3d-small"\nfiles = 6\n'
        'batch_size = 1\ncomputation_time = "50ms"\nepochs = 2\n'
    )
    command = [sys.executable, "-m", "storlab", "capacity", str(study), "--out", str(results)]
    command += ["--threshold", "1", "--max", "2", "--repeats", "2", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert [case["clients"] for case in found["cases"]] == [1, 2]
    assert [[t["accelerators"] for t in case["tried"]] for case in found["cases"]] == [
        [1, 2],
        [2],
    ]
    assert [case["accelerators_at_threshold"] for case in found["cases"]] == [2, 2]
    records = [json.loads(path.read_text()) for path in results.glob("runs/*/run.json")]
    assert len(records) == 6
    assert {record["clients"] for record in records} == {1, 2}
    assert list((tmp_path / "data").iterdir()) == [], "all that was made has gone"
    # The same command continues, and finds all work done.
    again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert json.loads(again.stdout)["cases"] == found["cases"]
    build = [sys.executable, "-m", "storlab", "report", str(results)]
    subprocess.run(build, capture_output=True, check=True, timeout=300)
    brief = (results / "brief.html").read_text()
    assert "unet3d-small" in brief
    assert "2\u00a0clients" in brief
