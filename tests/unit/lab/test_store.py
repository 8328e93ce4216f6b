"""The result store: whole runs only, damage detected, one campaign at a time."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from storlab._native import Histogram
from storlab.base.errors import ResultError
from storlab.contracts.registry import study_class
from storlab.lab.run.campaign import left_behind
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.result import EngineInfo, Failure, RunRecord, Sample
from storlab.model.samples import table_to_samples
from storlab.results.store import ResultStore

STUDY = """
[study]
name = "store test"
[[target]]
name = "nothing"
path = "null:"
[[workload]]
kind = "block"
"""


def make_plan(repeats: int = 3) -> Plan:
    point = Point(
        target="nothing",
        workload="block",
        workload_index=0,
        kind="block",
        engine="native",
        params={},
    )
    runs = [PlannedRun(order=i, repeat=i + 1, point_id=point.point_id) for i in range(repeats)]
    return Plan(
        study_name="store test",
        study_sha256="0" * 64,
        points={point.point_id: point},
        runs=runs,
        estimated_ns=1,
        bytes_written=0,
    )


def make_store(directory: Path, repeats: int = 3) -> ResultStore:
    import tomllib

    study = study_class().model_validate(tomllib.loads(STUDY))
    return ResultStore.create(directory, STUDY, study, make_plan(repeats), {"host": "here"})


def make_record(run: PlannedRun, failed: bool = False) -> RunRecord:
    return RunRecord(
        run_id=run.run_id,
        point_id=run.point_id,
        repeat=run.repeat,
        target="nothing",
        workload="block",
        kind="block",
        params={},
        status="failed" if failed else "finished",
        failure=Failure(message="it broke") if failed else None,
        engine=EngineInfo(name="native", version="0"),
        started_at="2026-01-01T00:00:00+00:00",
        window_start_ns=0,
        window_end_ns=10,
        totals={},
    )


def make_samples(count: int = 3) -> list[Sample]:
    samples = []
    for i in range(count):
        histogram = Histogram()
        for value in range(1000, 101_000, 1000):
            histogram.record(value + i)
        samples.append(
            Sample(
                interval=i,
                start_ns=i * 10,
                end_ns=i * 10 + 10,
                operation="read",
                operations=100,
                bytes=409_600,
                latency=histogram.to_v2(),
                intended=histogram.to_v2() if i else None,
                worker_cpu_ns=7,
            )
        )
    return samples


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    store = make_store(tmp_path / "result")
    run = store.plan.runs[1]
    samples = make_samples()
    written = store.write_run(make_record(run), samples, {"job.json": b"{}"})
    again = ResultStore.open(tmp_path / "result")
    assert again.study == store.study
    assert again.study_text == STUDY
    assert again.plan == store.plan
    assert again.environment["host"] == "here"
    assert again.records() == [written]
    table = again.samples(run.run_id)
    assert table_to_samples(table) == samples
    assert table.column("latency_p99_ns").to_pylist()[0] == pytest.approx(99_000, rel=2e-3)
    assert again.raw(run.run_id, "job.json") == b"{}"
    assert [r.repeat for r in again.missing()] == [1, 3]
    again.check()


def test_records_are_in_plan_order(tmp_path: Path) -> None:
    store = make_store(tmp_path / "result")
    for run in reversed(store.plan.runs):
        store.write_run(make_record(run), [], {})
    assert [r.repeat for r in store.records()] == [1, 2, 3]
    assert store.missing() == []


def test_a_failed_run_is_complete_but_can_be_retried(tmp_path: Path) -> None:
    store = make_store(tmp_path / "result", repeats=1)
    run = store.plan.runs[0]
    store.write_run(make_record(run, failed=True), [], {})
    assert store.missing() == []
    assert store.missing(retry_failed=True) == [run]
    store.write_run(make_record(run), make_samples(), {})
    assert store.record(run.run_id).status == "finished"
    assert store.missing(retry_failed=True) == []
    assert [entry.name for entry in store.runs_dir.iterdir()] == [run.run_id]


def test_a_session_may_have_left_something_of_its_last_run_and_of_the_next(tmp_path: Path) -> None:
    store = make_store(tmp_path / "result", repeats=4)
    first, second, third, fourth = store.plan.runs
    assert left_behind(store, store.missing()) == [first]
    for run, minute in ((third, 1), (first, 3), (second, 2)):  # in the order of a retry
        at = f"2026-01-01T00:0{minute}:00+00:00"
        store.write_run(make_record(run).model_copy(update={"started_at": at}), [], {})
    assert left_behind(store, store.missing()) == [first, fourth]
    assert left_behind(store, [first]) == [first]
    assert left_behind(store, []) == [first]


def test_a_cancelled_run_is_not_stored(tmp_path: Path) -> None:
    store = make_store(tmp_path / "result")
    record = make_record(store.plan.runs[0]).model_copy(update={"status": "cancelled"})
    with pytest.raises(ResultError, match="cancelled"):
        store.write_run(record, [], {})
    assert store.records() == []


def test_create_refuses_a_directory_in_use(tmp_path: Path) -> None:
    (tmp_path / "result").mkdir()
    (tmp_path / "result" / "mine").write_text("precious")
    with pytest.raises(ResultError, match="is not empty"):
        make_store(tmp_path / "result")
    assert (tmp_path / "result" / "mine").read_text() == "precious"
    assert [entry.name for entry in tmp_path.iterdir()] == ["result"]


def test_an_empty_directory_stays_the_one_that_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that an existing empty directory is used in place, with its mode."""
    directory = tmp_path / "result"
    directory.mkdir()
    directory.chmod(0o750)  # regardless of the umask
    monkeypatch.chdir(directory)
    inode = directory.stat().st_ino
    store = make_store(Path())
    assert (directory.stat().st_ino, directory.stat().st_mode & 0o777) == (inode, 0o750)
    store.check()
    assert Path.cwd() == directory
    assert [entry.name for entry in tmp_path.iterdir()] == ["result"]


def test_a_directory_that_cannot_be_filled_is_left_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, _content: bytes) -> None:
        if path.name == "plan.json":
            raise OSError(errno.ENOSPC, "No space left on device")
        path.write_bytes(b"")

    monkeypatch.setattr("storlab.results.store.write_durably", full)
    (tmp_path / "there").mkdir()
    for name in ("there", "new"):
        with pytest.raises(ResultError, match="cannot be created: No space left"):
            make_store(tmp_path / name)
    assert [entry.name for entry in tmp_path.rglob("*")] == ["there"]


def test_a_record_of_preparation_for_which_there_is_no_room_ends_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = make_store(tmp_path / "out")
    monkeypatch.setattr("storlab.results.store.replace_file", full)
    with pytest.raises(ResultError, match="prepare/t cannot be stored: No space") as caught:
        store.write_prepare("t", {})
    assert caught.value.fix == f"make room, then continue with `storlab resume {tmp_path / 'out'}`"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("study.toml", "study.toml"),
        ("environment.json", "environment.json"),
        ("plan.json", "plan.json"),
        ("result.json", "result.json"),
    ],
)
@pytest.mark.parametrize("how", ["gone", "truncated", "changed"])
def test_damage_to_the_head_is_named(tmp_path: Path, name: str, message: str, how: str) -> None:
    make_store(tmp_path / "result")
    path = tmp_path / "result" / name
    content = path.read_bytes()
    if how == "gone":
        path.unlink()
    elif how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.write_bytes(content.replace(b"1", b"2"))
    if (name, how) == ("study.toml", "changed"):
        path.write_bytes(content.replace(b"store test", b"other test"))
    with pytest.raises(ResultError, match=message):
        ResultStore.open(tmp_path / "result")


def test_missing_runs_are_damage(tmp_path: Path) -> None:
    (make_store(tmp_path / "result").directory / "runs").rmdir()
    with pytest.raises(ResultError, match="runs: is missing"):
        ResultStore.open(tmp_path / "result")


def test_a_lock_that_cannot_be_had_is_a_result_error(tmp_path: Path) -> None:
    store = make_store(tmp_path / "result")
    (store.directory / "campaign.lock").unlink(missing_ok=True)
    (store.directory / "campaign.lock").mkdir()  # even root cannot open it for writing
    with (
        pytest.raises(ResultError, match=r"campaign\.lock: cannot be written"),
        store.campaign_lock(),
    ):
        pass


@pytest.mark.parametrize("name", ["run.json", "samples.parquet", "raw/job.json", "SHA256SUMS"])
def test_damage_to_a_run_is_named(tmp_path: Path, name: str) -> None:
    store = make_store(tmp_path / "result")
    run_id = store.plan.runs[0].run_id
    store.write_run(make_record(store.plan.runs[0]), make_samples(), {"job.json": b"{}"})
    path = store.run_dir(run_id) / name
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(ResultError, match="is damaged"):
        ResultStore.open(tmp_path / "result").check()


def test_another_format_version_is_refused(tmp_path: Path) -> None:
    store = make_store(tmp_path / "result")
    path = store.directory / "result.json"
    value = json.loads(path.read_text())
    value["schema_version"] = 99
    path.write_text(json.dumps(value))
    with pytest.raises(ResultError, match="format version 99"):
        ResultStore.open(store.directory)


def test_an_unknown_run_is_refused(tmp_path: Path) -> None:
    store = make_store(tmp_path / "result")
    with pytest.raises(ResultError, match="not a run of this campaign"):
        store.record("../../etc")
    with pytest.raises(ValueError, match="plain file name"):
        store.write_run(make_record(store.plan.runs[0]), [], {"../escape": b""})
    with pytest.raises(ValueError, match="plain file name"):
        store.write_run(make_record(store.plan.runs[0]), [], {"c1/../escape": b""})


def test_the_standard_tool_agrees_with_our_checksums(tmp_path: Path) -> None:
    store = make_store(tmp_path / "result")
    store.write_run(
        make_record(store.plan.runs[0]), make_samples(), {"job.json": b"{}", "c1/of": b""}
    )
    directory = store.run_dir(store.plan.runs[0].run_id)
    assert (store.raw(directory.name, "c1/of"), (directory / "raw" / "c1" / "of").exists()) == (
        b"",
        1,
    )
    subprocess.run(
        ["sha256sum", "--strict", "--quiet", "-c", "SHA256SUMS"], cwd=directory, check=True
    )


def test_two_campaigns_cannot_share_a_directory(tmp_path: Path) -> None:
    store = make_store(tmp_path / "result")
    assert not store.is_running()
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, pathlib; from storlab.results.store import ResultStore\n"
            "with ResultStore.open(pathlib.Path(sys.argv[1])).campaign_lock():\n"
            "    print('held', flush=True); sys.stdin.read()",
            str(store.directory),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == b"held\n"
    assert store.is_running()
    with pytest.raises(ResultError, match=f"process {holder.pid}"), store.campaign_lock():
        pytest.fail("took a lock that is held")
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert not store.is_running()
    with store.campaign_lock():
        pass


READER = """
import sys, pathlib
from storlab.results.store import ResultStore
store = ResultStore.open(pathlib.Path(sys.argv[1]))
print("go", flush=True)
while True:
    for _ in range(1000):
        store.is_running()
    ResultStore.open(pathlib.Path(sys.argv[1]))
"""


def test_readers_keep_no_campaign_out(tmp_path: Path) -> None:
    store = make_store(tmp_path / "result")
    command = [sys.executable, "-c", READER, str(store.directory)]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"go\n"
        for _ in range(50):
            with store.campaign_lock():
                pass
    finally:
        for reader in readers:
            reader.kill()
            reader.communicate()


def test_a_run_that_is_being_replaced_is_still_there(tmp_path: Path) -> None:
    store = make_store(tmp_path / "result")
    record = store.write_run(make_record(store.plan.runs[0]), make_samples(), {})
    place = store.run_dir(record.run_id)
    place.rename(place.with_name(f".replaced-{place.name}"))  # its writer was killed here
    assert store.records() == [record]
    assert len(store.samples(record.run_id)) == len(make_samples())
    store.write_run(make_record(store.plan.runs[0]), make_samples(), {})
    with store.campaign_lock():
        pass
    assert [entry.name for entry in store.runs_dir.iterdir()] == [record.run_id]


WRITER = """
import sys, pathlib, importlib.util
spec = importlib.util.spec_from_file_location("test_store", sys.argv[2])
module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)
store = module.ResultStore.open(pathlib.Path(sys.argv[1]))
samples = module.make_samples(20)
from storlab.model.samples import samples_to_table
samples_to_table(samples)  # pyarrow imports pandas at its first use, which takes long
print("go", flush=True)
while True:
    for run in store.plan.runs:
        store.write_run(module.make_record(run, failed=True), samples, {"a": b"x" * 9000})
        print(run.run_id, flush=True)
"""


def test_kill_at_any_moment_leaves_whole_runs_only(tmp_path: Path) -> None:
    """Check that SIGKILL at random moments leaves only complete runs."""
    directory = tmp_path / "result"
    make_store(directory, repeats=4)
    chance = random.Random(5)
    announced: set[str] = set()
    for _ in range(60 if os.environ.get("STORLAB_TEST_THOROUGH") else 5):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(directory), __file__],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "go\n"
        for _ in range(chance.randrange(3)):  # a busy machine is slow
            announced.add(writer.stdout.readline().strip())
        time.sleep(chance.uniform(0.0, 0.12))
        writer.kill()
        announced.update(line for line in writer.communicate()[0].split("\n")[:-1])
        store = ResultStore.open(directory)
        store.check()
        found = {record.run_id for record in store.records()}
        assert announced <= found
        with store.campaign_lock():
            pass  # the next session cleans up
        assert {record.run_id for record in store.records()} == found
        assert {entry.name for entry in store.runs_dir.iterdir()} == found
    assert announced, "no writer got far enough to test anything"


def test_leftovers_of_a_dead_writer_go_and_a_live_one_keeps_its_own(tmp_path: Path) -> None:
    store = make_store(tmp_path / "result")
    dead = store.runs_dir / ".new-x-1-aa"
    (dead / "raw").mkdir(parents=True)
    (dead / "run.json").write_text("{")
    with store._new_directory("y") as alive:
        again = ResultStore.open(store.directory)
        assert dead.exists()  # a reader changes nothing
        with again.campaign_lock():
            pass
        assert alive.exists()
        assert not dead.exists()
        assert again.records() == []
        shutil.rmtree(alive)


def test_a_read_only_result_directory_can_be_read(tmp_path: Path) -> None:
    store = make_store(tmp_path / "result")
    store.write_run(make_record(store.plan.runs[0]), make_samples(), {})
    for path in (store.directory, store.runs_dir):
        path.chmod(0o500)
    try:
        assert len(ResultStore.open(store.directory).records()) == 1
    finally:
        for path in (store.directory, store.runs_dir):
            path.chmod(0o700)
    assert os.access(store.directory, os.W_OK)
