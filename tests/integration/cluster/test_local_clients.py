"""Studies on clients of this machine with both MPIs, to the end and through faults."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import need_mpi
from storlab.base.errors import ExitCode
from storlab.model.result import RunRecord
from support.cluster_lab import STORLAB, Lab, Recorded, check_sum, kill, stop
from support.s3_servers import versitygw

STUDY = """
[study]
name = "clients"
repeats = {repeats}
ramp = 0
runtime = "{runtime}"
interval = "200ms"
[cluster]
mpiexec = "{mpiexec}"
hosts = ["localhost"]
clients = {clients}
lost_after = "{lost_after}"
[[target]]
name = "shared"
directory = "{directory}"
size = "1MiB"
direct = false
{target}
[[workload]]
kind = "block"
block_size = "4KiB"
read_percent = {read_percent}
jobs = 2
{more}
"""
DEFAULTS = {
    "repeats": 1,
    "runtime": "3s",
    "clients": "3",
    "lost_after": "20s",
    "read_percent": "50",
    "more": "",
    "target": "",
}

# A load that leaves CPU time for the clients' messages to the lab.
PACED = "rate_iops = 2000"


def write_study(place: Path, vendor: str = "mpich", **values: object) -> Path:
    (place / "data").mkdir(parents=True, exist_ok=True)
    path = place / "study.toml"
    mpiexec = need_mpi(vendor)
    path.write_text(
        STUDY.format_map({**DEFAULTS, "mpiexec": mpiexec, "directory": place / "data", **values})
    )
    return path


def left(place: Path) -> list[str]:
    """Return the files in the shared directory."""
    return sorted(str(p.relative_to(place / "data")) for p in (place / "data").rglob("*"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Provide a campaign that finished; test_rig_campaign.py has MPICH's."""
    place = tmp_path_factory.mktemp("finished")
    study = write_study(place, "openmpi", clients="[1, 2]", runtime="2s", more=PACED)
    with Lab.run(study, place / "out", report=True) as lab:
        assert lab.end() == 0, lab.printed
    return lab


def test_a_campaign_comes_to_its_end(finished: Lab) -> None:
    records = finished.records()
    assert sorted(record.clients or 0 for record in records) == [1, 2]
    assert [record.status for record in records] == ["finished"] * 2
    assert (finished.out / "brief.html").exists()
    assert not (finished.out / "work").exists()
    assert left(finished.out.parent) == []


def test_the_whole_is_the_sum_of_its_clients(finished: Lab) -> None:
    for record in finished.records():
        check_sum(finished.out, record)


def test_each_client_tells_of_its_start_and_its_clock(finished: Lab) -> None:
    for record in finished.records():
        assert record.cluster is not None
        for client in record.cluster.clients:
            assert abs(client.offset_ns) <= max(50_000, client.round_trip_ns / 2)
            assert client.first_io_late_ns is not None
            assert client.first_io_late_ns >= 0
            assert client.armed_ns
        assert record.cluster.start_skew_ns is not None
        sys.stdout.write(f"start skew {record.cluster.start_skew_ns / 1e6:.2f} ms\n")


def test_clients_share_the_rate_of_a_load_level(tmp_path: Path) -> None:
    """Check that the maximum is that of all clients, and that each offers its part of the rate."""
    study = write_study(
        tmp_path, clients="2", runtime="1s", more="queue_depth = 1\nload_percent = [20]"
    )
    with Lab.run(study, tmp_path / "out") as lab:
        assert lab.end() == 0, lab.printed
    closed, level = sorted(lab.records(), key=lambda record: record.offered is not None)
    load = level.offered
    assert load is not None
    assert load.maximum_runs == [closed.run_id]
    assert load.maximum_s == pytest.approx(closed.metric("iops"))
    assert load.rate_s == pytest.approx(0.2 * load.maximum_s)
    job = json.loads((lab.out / "runs" / level.run_id / "raw" / "job.json").read_bytes())
    assert job["arrival"]["rate_iops"] == pytest.approx(load.rate_s / 2)
    assert level.metric("intended_latency_p99_ns", "read") is not None


FAULTS = ("rank killed", "rank stopped", "launcher killed", "none")


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, dict[str, Recorded]]]:
    """Provide one campaign with a fault in each of its runs; test_rig_campaign.py has MPICH's."""
    place = tmp_path_factory.mktemp("faulty")
    values = {"repeats": len(FAULTS), "runtime": "10s", "lost_after": "12s", "more": PACED}
    study = write_study(place, "openmpi", **values)
    with Lab.run(study, place / "out") as lab:
        what = {
            FAULTS[0]: lab.fault(0, lambda: kill(lab.ranks()[2])),
            FAULTS[1]: lab.fault(1, lambda: stop(lab.ranks()[3])),
            FAULTS[2]: lab.fault(2, lambda: kill(lab.mpiexec())),
            FAULTS[3]: lab.fault(3, lambda: None),
        }
        assert lab.end() == ExitCode.RUN_FAILED, lab.printed
        for name, found in what.items():
            failure = found.record.failure
            text = found.record.status if failure is None else failure.message
            sys.stdout.write(f"{name}: {found.after_s:.1f} s: {text}\n")
        yield lab, what


def test_the_campaign_goes_on_behind_each_fault(
    faulty: tuple[Lab, dict[str, Recorded]],
) -> None:
    lab, what = faulty
    assert [what[name].record.status for name in FAULTS] == ["failed"] * 3 + ["finished"]
    assert len(lab.records()) == len(FAULTS)


def test_a_stopped_client_is_named(faulty: tuple[Lab, dict[str, Recorded]]) -> None:
    assert faulty[1]["rank stopped"].message == "client-3: did not respond for 12 s (load)"


def test_a_killed_client_is_named(faulty: tuple[Lab, dict[str, Recorded]]) -> None:
    message = faulty[1]["rank killed"].message
    assert "client-2" in message.partition(":")[0]
    assert "ended without an outcome" in message


def test_a_killed_launcher_is_told(faulty: tuple[Lab, dict[str, Recorded]]) -> None:
    assert "ended without an outcome (mpiexec: -9)" in faulty[1]["launcher killed"].message


def test_nothing_is_left_of_clients_that_died(
    faulty: tuple[Lab, dict[str, Recorded]],
) -> None:
    lab, _ = faulty
    assert left(lab.out.parent) == []
    assert lab.ranks() == {}


def test_an_interrupt_ends_the_run_and_keeps_what_is_finished(tmp_path: Path) -> None:
    study = write_study(tmp_path, clients="2", repeats=3, runtime="3s", more=PACED)
    with Lab.run(study, tmp_path / "out", "--clean") as lab:
        lab.loading(1)
        lab.process.send_signal(signal.SIGINT)
        assert lab.end() == ExitCode.INTERRUPTED, lab.printed
        assert [record.status for record in lab.records()] == ["finished"]
        assert left(tmp_path) == []
        assert lab.ranks() == {}


def test_kept_data_are_cleaned_up_on_all_clients_or_it_is_an_error(tmp_path: Path) -> None:
    """Check that kept data hold no lease, and that own tasks do not exclude each other."""
    values = {"clients": "2", "target": "keep_data = true", "runtime": "500ms", "more": PACED}
    study = write_study(tmp_path, **values)
    with Lab.run(study, tmp_path / "out") as lab:
        assert lab.end() == 0, lab.printed
    assert "client-2/job-0/storlab.dat" in left(tmp_path)
    assert "storlab-cluster.lock" not in left(tmp_path)
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    with Lab(lab.out, ["clean", lab.out]) as rest:
        assert rest.end() == ExitCode.PREFLIGHT, rest.printed
    assert "nothing to remove" not in rest.printed
    assert "client-1: " in rest.printed
    (tmp_path / "elsewhere").rename(tmp_path / "data")
    with Lab(lab.out, ["clean", lab.out]) as rest:
        assert rest.end() == 0, rest.printed
    assert "client-2" in rest.printed
    assert left(tmp_path) == []


OBJECT = """
[study]
name = "objects"
repeats = 1
ramp = 0
runtime = "{runtime}"
interval = "200ms"
[cluster]
mpiexec = "{mpiexec}"
hosts = ["localhost"]
clients = [2]
[[target]]
name = "store"
s3 = "{store}"
{more}
[[workload]]
kind = "object"
get_percent = 50
object_size = "16KiB"
concurrency = 2
objects = 8
"""


def objects(place: Path, store: str, more: str = "") -> RunRecord:
    # On a busy machine a client may get no CPU for a second.
    for runtime in ("1s", "5s", "25s"):
        study = place / "objects.toml"
        values = {"mpiexec": need_mpi("mpich"), "store": store, "more": more, "runtime": runtime}
        study.write_text(OBJECT.format(**values))
        with Lab.run(study, place / runtime) as lab:
            assert lab.end() == 0, lab.printed
        (record,) = lab.records()
        assert record.status == "finished"
        assert record.cluster is not None
        if all(client.operations > 0 for client in record.cluster.clients):
            return record
    pytest.fail(f"a client did nothing: {record.cluster.clients}")


def test_clients_of_the_embedded_server(tmp_path: Path) -> None:
    record = objects(tmp_path, f"embedded:{tmp_path / 'store'}")
    assert {"get", "put"} <= set(record.totals)
    assert not (tmp_path / "store").exists()


@pytest.mark.versitygw
def test_clients_of_another_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gateway").mkdir()
    with versitygw(tmp_path / "gateway") as server:
        server.make_bucket()
        kept = server.put("of/somebody")
        server.set_environment(monkeypatch)
        objects(tmp_path, f"{server.endpoint}/bench")
        assert server.keys() == ["of/somebody"]
        assert kept.read_bytes() == b"somebody's"


def doctor(study: Path) -> tuple[int, dict[str, str]]:
    done = subprocess.run(
        [*STORLAB, "doctor", study, "--json"], capture_output=True, check=False, text=True
    )
    checks = json.loads(done.stdout)["checks"]
    return done.returncode, {check["name"]: check["what"] for check in checks}


def test_doctor_asks_all_clients_and_removes_what_an_ended_one_has_left(tmp_path: Path) -> None:
    study = write_study(tmp_path, clients="[1, 3]")
    (tmp_path / "data" / ".storlab-0123456789ab-client-1").touch()
    (tmp_path / "data" / ".storlab-notes-client-1").touch()
    code, checks = doctor(study)
    assert code == 0, checks
    assert checks["cluster"] == "3 clients answer"
    assert checks["shared"] == "every client sees the files of all others"
    assert left(tmp_path) == [".storlab-notes-client-1"]


def test_a_directory_that_is_missing_is_refused(tmp_path: Path) -> None:
    study = write_study(tmp_path, clients="2", directory=tmp_path / "nowhere")
    code, checks = doctor(study)
    assert code == ExitCode.PREFLIGHT
    assert "client-1: " in checks["directory"]
    assert "No such file" in checks["directory"]
    with Lab.run(study, tmp_path / "out") as lab:
        assert lab.end() == ExitCode.PREFLIGHT
    assert "No such file" in lab.printed
    assert not (tmp_path / "nowhere").exists()


def test_doctor_says_what_to_do_with_a_file_in_the_place_of_the_lock(tmp_path: Path) -> None:
    study = write_study(tmp_path, clients="2")
    (tmp_path / "data" / "storlab-cluster.lock").write_text("of somebody else")
    done = subprocess.run(
        [*STORLAB, "doctor", study, "--json"], capture_output=True, check=False, text=True
    )
    (check,) = (c for c in json.loads(done.stdout)["checks"] if c["name"] == "directory")
    assert "is not a lock of this version of storlab" in check["what"]
    assert check["fix"] == "move it away"
    assert left(tmp_path) == ["storlab-cluster.lock"]


def test_files_of_all_clients_are_brought_to_a_steady_state_together(tmp_path: Path) -> None:
    rounds = 'precondition = { round = "300ms", max_rounds = 5, block_size = "64KiB" }'
    study = write_study(tmp_path, clients="2", target=rounds, runtime="500ms", more=PACED)
    out = tmp_path / "out"
    with Lab.run(study, out) as lab:
        assert lab.end() == ExitCode.OK, lab.printed
        (record,) = lab.records()
    (told,) = (json.loads(path.read_text()) for path in (out / "prepare").glob("*.json"))
    assert told["complete"]
    assert len(told["rounds"]) == 5
    assert min(each["throughput_mb_s"] for each in told["rounds"]) > 0
    assert told["fill"]["bytes"] == 4 << 20, "two files of each client"
    owners = [member["client"] for member in told["members"]]
    assert owners == ["client-1", "client-1", "client-2", "client-2"]
    assert record.status == "finished"
    unsteady = told["verdict"]["verdict"] != "steady"
    assert ("not-preconditioned" in {flag.kind for flag in record.flags}) == unsteady
    assert left(tmp_path) == []
