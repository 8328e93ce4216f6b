"""Campaigns on real files with the native engine: finished, interrupted, killed, resumed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.contracts.details import Details
from storlab.contracts.registry import get_engine
from storlab.health import drives
from storlab.health.reading import HealthReading
from storlab.lab.run import session
from storlab.lab.site import local
from storlab.lab.watch import machine_watch
from storlab.results.environment import cpu_facts
from storlab.results.store import ResultStore
from storlab.stores.drives import Drive
from storlab.workloads.common.flags import flag_meanings
from support.mounts import loop_device, make_image, mounted

COMMAND = [sys.executable, "-c", "import sys; from storlab.cli.main import main; sys.exit(main())"]

STUDY = """
[study]
name = "campaign test"
repeats = {repeats}
ramp = 0
runtime = "{runtime}"
interval = "50ms"
{more}

[[target]]
name = "one"
path = "{place}/one.dat"
size = "8MiB"
direct = false
keep_data = {keep}

[[target]]
name = "two"
path = "{place}/two.dat"
size = "9000KiB"
direct = false
keep_data = {keep}

[[workload]]
kind = "block"
block_size = "16KiB"
read_percent = [0, 100]
queue_depth = 4
{workload}
"""


BRIEF = 'total_bytes = "1MiB"'  # ends when its bytes are done, however busy the machine is


def write_study(
    place: Path,
    *,
    repeats: int = 2,
    runtime: str = "150ms",
    keep: bool = False,
    workload: str = "",
    more: str = "",
) -> Path:
    path = place / "study.toml"
    path.write_text(
        STUDY.format(
            place=place,
            repeats=repeats,
            runtime=runtime,
            keep=str(keep).lower(),
            workload=workload,
            more=more,
        )
    )
    return path


def storlab(
    *arguments: str | Path, code: int = 0, **environ: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environ},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@contextmanager
def running(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for_runs(directory: Path, count: int, process: subprocess.Popen[str]) -> None:
    while process.poll() is None:
        runs = directory / "runs"
        if runs.is_dir() and sum(not e.name.startswith(".") for e in runs.iterdir()) >= count:
            return
        time.sleep(0.01)
    pytest.fail(f"ended early: {process.communicate()}")


def test_a_campaign_to_its_end(tmp_path: Path) -> None:
    study, out = write_study(tmp_path), tmp_path / "out"
    report = json.loads(storlab("run", study, "--out", out, "--no-report", "--json").stdout)
    assert report["runs"] == {
        "planned": 8,
        "finished": 8,
        "failed": 0,
        "missing": 0,
        "this_session": 8,
    }
    assert sorted(report["removed_data_files"]) == [
        str(tmp_path / f"{n}.dat") for n in ("one", "two")
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "study.toml"]
    store = ResultStore.open(out)
    store.check()
    assert [r.run_id for r in store.records()] == [r.run_id for r in store.plan.runs]
    for record in store.records():
        assert record.metric("throughput_mb_s")
        assert record.steady is not None
        moved = sum(store.samples(record.run_id).column("bytes").to_pylist())
        assert moved == sum(totals.bytes for totals in record.totals.values()) > 0
        assert json.loads(store.raw(record.run_id, "job.json"))["queue_depth"] == 4
    assert store.environment["guard"]["working_directory"] == str(Path.cwd())
    assert not (out / "work").exists()


def test_all_targets_see_the_same_sequence_and_repeats_differ(tmp_path: Path) -> None:
    study, out = write_study(tmp_path, workload=BRIEF), tmp_path / "out"
    storlab("run", study, "--out", out, "--no-report", "--quiet")
    store = ResultStore.open(out)
    seeds: dict[tuple[str, int], set[int]] = {}
    for record in store.records():
        key = (json.dumps(record.params), record.repeat)
        job = json.loads(store.raw(record.run_id, "job.json"))
        seeds.setdefault(key, set()).add(job["seed"])
    assert all(len(found) == 1 for found in seeds.values())
    assert len(set.union(*seeds.values())) == len(seeds) == 4


def test_kept_data_is_reused_and_never_laid_out_twice(tmp_path: Path) -> None:
    study = write_study(tmp_path, keep=True, workload=BRIEF, repeats=1)
    storlab("run", study, "--out", tmp_path / "first", "--no-report")
    before = (tmp_path / "one.dat").stat()
    assert before.st_size == 8 << 20
    assert (tmp_path / "two.dat").stat().st_size == 9000 << 10
    done = storlab("run", study, "--out", tmp_path / "second", "--no-report")
    assert "laying out" not in done.stderr
    assert (tmp_path / "one.dat").stat().st_ino == before.st_ino


@pytest.mark.parametrize("keep", [True, False])
def test_a_file_laid_out_anew_is_preconditioned_anew(tmp_path: Path, keep: bool) -> None:
    """Check that a file laid out again is preconditioned again, despite an old record."""
    rounds = '[target.precondition]\nround = "50ms"\nmax_rounds = 5'
    path = write_study(tmp_path, repeats=1, keep=keep, workload=BRIEF)
    path.write_text(path.read_text().replace("[[workload]]", f"{rounds}\n[[workload]]"))
    out = tmp_path / "out"
    assert main(["run", str(path), "--out", str(out), "--no-report"]) == 0
    (record,) = (out / "prepare").iterdir()
    before = record.stat().st_mtime_ns
    store = ResultStore.open(out)
    points = store.plan.points
    (victim, *_) = (r.run_id for r in store.plan.runs if points[r.point_id].target == "two")
    shutil.rmtree(out / "runs" / victim)
    assert main(["resume", str(out), "--no-report"]) == 0
    assert (record.stat().st_mtime_ns == before) is keep


def test_a_target_can_be_filled_twice_without_rounds(tmp_path: Path) -> None:
    twice = 'precondition = { fills = 2, fill_block_size = "128KiB", max_rounds = 0 }'
    study, out = write_study(tmp_path, repeats=1, workload=BRIEF), tmp_path / "out"
    study.write_text(study.read_text().replace('"8MiB"', f'"8MiB"\n{twice}'))
    assert main(["run", str(study), "--out", str(out), "--no-report", "--quiet"]) == 0
    (path,) = (out / "prepare").iterdir()
    record = json.loads(path.read_text())
    assert (record["complete"], record["rounds"], "verdict" in record) == (True, [], False)
    assert record["fill"]["bytes"] == 2 * (8 << 20)
    flags = {flag.kind for record in ResultStore.open(out).records() for flag in record.flags}
    assert "not-preconditioned" not in flags


def test_a_target_that_never_became_steady_binds_the_claims_about_it(tmp_path: Path) -> None:
    never = 'precondition = { round = "20ms", max_rounds = 5, excursion_percent = 1e-9 }'
    study, out = write_study(tmp_path, repeats=1, workload=BRIEF), tmp_path / "out"
    study.write_text(study.read_text().replace('"8MiB"', f'"8MiB"\n{never}'))
    assert main(["run", str(study), "--out", str(out), "--no-report", "--quiet"]) == 0
    flagged = {
        record.target: "not-preconditioned" in {flag.kind for flag in record.flags}
        for record in ResultStore.open(out).records()
    }
    assert flagged == {"one": True, "two": False}
    assert flag_meanings()["not-preconditioned"].claims


def test_a_change_of_the_machine_is_on_the_runs_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, asked = cpu_facts(), []

    def changing() -> dict[str, Any]:
        asked.append(1)
        return {**known, "governor": "powersave" if len(asked) > 3 else known["governor"]}

    monkeypatch.setattr(machine_watch, "cpu_facts", changing)
    study, out = write_study(tmp_path, workload=BRIEF, more="numa_local = true"), tmp_path / "out"
    assert main(["run", str(study), "--out", str(out), "--no-report", "--quiet"]) == 0
    records = {record.run_id: record for record in ResultStore.open(out).records()}
    order = [records[run.run_id] for run in ResultStore.open(out).plan.runs]
    changed = ["machine-changed" in {flag.kind for flag in record.flags} for record in order]
    assert changed == [False] * 3 + [True] * (len(order) - 3)
    (text,) = order[-1].details["machine"]["changed"]
    assert text == f"governor of CPU: {known['governor'] or 'not reported'} to powersave"


def test_what_the_drive_did_in_a_run_is_stored_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replace the drive by one that is given 10 GB and throttled once between two readings."""
    rows = iter(range(1, 100))

    def read_drive(_: Drive) -> HealthReading:
        row = next(rows)
        names = {"host_written_bytes": 10, "media_written_bytes": 17}
        written = {name: row * gigabytes * 10**9 + 1 for name, gigabytes in names.items()}
        return HealthReading({**written, "throttles": row}, sources=["log 02h"])

    monkeypatch.setattr(local, "drives_of", lambda _: [Drive("nvme0n1", "pcie", None)])
    monkeypatch.setattr(drives, "read_drive", read_drive)
    study, out = write_study(tmp_path, repeats=1, workload=BRIEF), tmp_path / "out"
    assert main(["run", str(study), "--out", str(out), "--quiet", "--no-report"]) == 0
    for record in ResultStore.open(out).records():
        (health,) = Details.of(record).health
        assert health.grown("throttles") == 1
        assert health.source == "log 02h"
        assert "throttled" in {flag.kind for flag in record.flags}
        (metric,) = (m for m in record.metrics if m.name == "write_amplification")
        assert metric.value == pytest.approx(1.7)


@pytest.mark.parametrize("engine", ["native", pytest.param("fio", marks=pytest.mark.fio)])
@pytest.mark.parametrize("pinned", [True, False])
def test_numa_local_pins_the_workers_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, pinned: bool
) -> None:
    usable = os.sched_getaffinity(0)
    near = {max(usable)}
    monkeypatch.setattr(machine_watch, "near_cpus", lambda *_: near)
    seen: list[set[int]] = []
    start = get_engine(engine).start

    def started(self: Any, *given: Any) -> Any:
        seen.append(os.sched_getaffinity(0))
        return start(*given)

    monkeypatch.setattr(type(get_engine(engine)), "start", started)
    more = f'engine = "{engine}"\nnuma_local = {str(pinned).lower()}'
    load = f"{BRIEF}\njobs = 2"
    study, out = write_study(tmp_path, repeats=1, workload=load, more=more), tmp_path / "out"
    assert main(["run", str(study), "--out", str(out), "--no-report", "--quiet"]) == 0
    records = list(ResultStore.open(out).records())
    runs = seen[-len(records) :]  # after the layout, for which nothing is pinned
    assert runs == [near if pinned else usable] * len(records)
    assert os.sched_getaffinity(0) == usable
    for record in records:
        assert record.cpu is not None
        assert record.cpu.cores == (1 if pinned else min(2, len(usable)))


def test_the_data_set_is_incompressible_to_its_last_byte(tmp_path: Path) -> None:
    import zlib

    study = write_study(tmp_path, keep=True, workload=BRIEF, repeats=1)
    study.write_text(study.read_text().replace("[0, 100]", "100"))
    storlab("run", study, "--out", tmp_path / "out", "--no-report")
    for name in ("one.dat", "two.dat"):
        content = (tmp_path / name).read_bytes()
        assert len(zlib.compress(content, 1)) > 0.99 * len(content)
        chunks = [content[i : i + 4096] for i in range(0, len(content), 4096)]
        assert len(set(chunks)) == len(chunks)


def test_a_foreign_file_is_neither_written_nor_replaced(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    (tmp_path / "two.dat").write_bytes(b"precious" * 4096)
    done = storlab("run", study, "--out", tmp_path / "out", "--no-report", code=5)
    assert "storlab did not create it" in done.stderr
    assert (tmp_path / "two.dat").read_bytes() == b"precious" * 4096
    assert sorted(p.name for p in tmp_path.iterdir()) == ["study.toml", "two.dat"]


def test_a_file_put_in_the_place_of_ours_is_not_touched(tmp_path: Path) -> None:
    study = write_study(tmp_path, keep=True, workload=BRIEF, repeats=1)
    storlab("run", study, "--out", tmp_path / "first", "--no-report")
    laid_out = tmp_path / "one.dat"
    (tmp_path / "new").write_bytes(b"precious" * (1 << 20))
    (tmp_path / "new").rename(laid_out)
    storlab("run", study, "--out", tmp_path / "second", "--no-report", code=5)
    assert laid_out.read_bytes() == b"precious" * (1 << 20)


def test_a_foreign_file_may_be_read(tmp_path: Path) -> None:
    study = write_study(tmp_path, repeats=1)
    study.write_text(study.read_text().replace("[0, 100]", "100"))
    content = random.Random(1).randbytes(8 << 20)
    (tmp_path / "one.dat").write_bytes(content)
    storlab("run", study, "--out", tmp_path / "out", "--no-report")
    assert (tmp_path / "one.dat").read_bytes() == content  # read, and not cleaned up
    assert not (tmp_path / "two.dat").exists()


@pytest.mark.root
def test_a_foreign_file_may_be_read_where_nothing_can_be_made(tmp_path: Path) -> None:
    place = tmp_path / "fs"
    study = write_study(tmp_path, repeats=1, workload=BRIEF)
    text = study.read_text().replace(f"{tmp_path}/", f"{place}/")
    study.write_text(text.replace("[0, 100]", "100"))
    with loop_device(make_image(tmp_path / "disk.img", 64 << 20)) as loop:
        with mounted(place, loop) as there:
            (there / "one.dat").write_bytes(os.urandom(8 << 20))
            (there / "two.dat").write_bytes(os.urandom(9000 << 10))
        with mounted(place, loop, "-o", "ro"):
            assert main(["run", str(study), "--out", str(tmp_path / "out"), "--no-report"]) == 0
            study.write_text(study.read_text().replace("two.dat", "three.dat"))
            assert main(["run", str(study), "--no-report"]) == ExitCode.PREFLIGHT


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_is_finished(tmp_path: Path, number: signal.Signals) -> None:
    study, out = write_study(tmp_path, repeats=40), tmp_path / "out"
    with running("run", study, "--out", out, "--no-report") as process:
        wait_for_runs(out, 2, process)
        process.send_signal(number)
        stdout, stderr = process.communicate()
    assert process.returncode == 7, stdout + stderr
    assert f"storlab resume {out}" in stdout
    store = ResultStore.open(out)
    ended = store.records()
    assert 2 <= len(ended) < 160
    # A worker without a turn in so short a window failed; none was cut short.
    failed = [record for record in ended if record.status != "finished"]
    for record in failed:
        assert record.failure is not None
        assert "no operation completed in the window" in record.failure.message
    assert (tmp_path / "one.dat").exists()
    report = json.loads(storlab("status", out, "--json").stdout)
    assert report["runs"]["finished"] == len(ended) - len(failed)
    assert report["runs"]["failed"] == len(failed)
    assert report["runs"]["missing"] == 160 - len(ended)
    assert report["running"] is False


def test_clean_removes_data_even_when_interrupted(tmp_path: Path) -> None:
    study, out = write_study(tmp_path, repeats=40), tmp_path / "out"
    with running("run", study, "--out", out, "--no-report", "--clean") as process:
        wait_for_runs(out, 1, process)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 7
    assert not (tmp_path / "one.dat").exists()


def test_kill_and_resume_until_every_run_is_there_once(tmp_path: Path) -> None:
    """Check that runs finished before a SIGKILL at random moments are not repeated."""
    study, out = write_study(tmp_path, repeats=3, runtime="100ms"), tmp_path / "out"
    chance = random.Random(11)
    seen: dict[str, str] = {}
    arguments: tuple[str | Path, ...] = ("run", study, "--out", out)
    for _ in range(3):
        with running(*arguments, "--no-report") as process:
            wait_for_runs(out, len(seen) + 1, process)
            time.sleep(chance.uniform(0, 0.15))
            process.kill()
        for record in ResultStore.open(out).records():
            assert seen.setdefault(record.run_id, record.started_at) == record.started_at
        arguments = ("resume", out)
    assert seen
    report = json.loads(storlab("resume", out, "--no-report", "--json").stdout)
    store = ResultStore.open(out)
    store.check()
    records = store.records()
    assert [r.run_id for r in records] == [r.run_id for r in store.plan.runs]
    assert {r.run_id: r.started_at for r in records}.items() >= seen.items()
    assert report["runs"]["this_session"] == 12 - len(seen)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "study.toml"]


def test_nothing_is_probed_where_nothing_is_left_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study, out = write_study(tmp_path, repeats=1, workload=BRIEF), str(tmp_path / "out")
    assert main(["run", str(study), "--out", out, "--no-report"]) == 0
    probed: list[object] = []
    monkeypatch.setattr(session, "check_study", lambda *given: probed.append(given) or [])
    capsys.readouterr()
    assert main(["resume", out, "--no-report", "--json"]) == 0
    told = capsys.readouterr()
    assert probed == []
    assert "warning" not in told.err
    assert json.loads(told.out)["exit_code"] == 0


def test_kill_during_layout_resumes(tmp_path: Path) -> None:
    study, out = write_study(tmp_path, repeats=1), tmp_path / "out"
    study.write_text(study.read_text().replace('"8MiB"', '"512MiB"'))
    with running("run", study, "--out", out, "--no-report") as process:
        while not (tmp_path / "one.dat").exists():
            assert process.poll() is None
            time.sleep(0.002)
        process.kill()
    report = json.loads(storlab("resume", out, "--no-report", "--json").stdout)
    assert report["runs"]["finished"] == 4


def test_two_campaigns_cannot_share_a_directory(tmp_path: Path) -> None:
    study, out = write_study(tmp_path, repeats=40), tmp_path / "out"
    with running("run", study, "--out", out, "--no-report") as process:
        wait_for_runs(out, 1, process)
        report = json.loads(storlab("status", out, "--json").stdout)
        assert report["running"] is True
        assert report["runs"]["finished"] >= 1
        done = storlab("resume", out, code=8)
        assert "another campaign is running here" in done.stderr
        done = storlab("run", study, "--out", out, code=8)
        assert "storlab resume" in done.stderr


def test_a_missing_engine_stops_before_anything_is_written(tmp_path: Path) -> None:
    study = write_study(tmp_path, more='engine = "fio"')
    done = storlab("run", study, "--out", tmp_path / "out", code=9, STORLAB_FIO="/no/such/fio")
    assert "install fio" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["study.toml"]


def test_a_data_set_that_does_not_fit_stops_before_anything_is_written(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    study.write_text(study.read_text().replace('"8MiB"', '"900PiB"'))
    done = storlab("run", study, "--out", tmp_path / "out", code=4)
    assert "are free" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["study.toml"]


def test_targets_that_share_a_file_agree_on_its_size(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    text = study.read_text().replace("two.dat", "one.dat")
    study.write_text(text)
    done = storlab("run", study, "--out", tmp_path / "out", code=4)
    assert "same size" in done.stderr
    study.write_text(text.replace("9000KiB", "8MiB").replace("[0, 100]", "0"))
    done = storlab("run", study, "--out", tmp_path / "out", "--no-report")
    assert done.stderr.count("laying out") == 1
    assert "warning: one: page cache" in done.stderr or "memory" in done.stderr
    assert not (tmp_path / "one.dat").exists()


def test_directory_targets_get_a_file_per_job(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    study = tmp_path / "study.toml"
    study.write_text(f"""
    [study]
    name = "directory"
    repeats = 1
    ramp = 0
    runtime = "100ms"
    interval = "50ms"
    [[target]]
    name = "dir"
    directory = "{data}"
    size = "2MiB"
    direct = false
    [[workload]]
    kind = "block"
    block_size = "4KiB"
    jobs = [1, 3]
    """)
    done = storlab("run", study, "--out", tmp_path / "out", "--no-report", "--json")
    removed = json.loads(done.stdout)["removed_data_files"]
    assert sorted(removed) == [str(data / f"storlab.{n}.dat") for n in range(3)]
    assert list(data.iterdir()) == []


VERIFY = "verify = true"


def verify_json(out: Path, code: int) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(storlab("verify", out, "--json", code=code).stdout)
    return report


def test_verify_finds_a_corrupted_block(tmp_path: Path) -> None:
    study = write_study(tmp_path, keep=True, repeats=1, workload=VERIFY)
    study.write_text(study.read_text().replace("[0, 100]", "0"))
    out = tmp_path / "out"
    storlab("run", study, "--out", out, "--no-report")
    for record in ResultStore.open(out).records():
        assert record.verify is not None
        assert record.verify.ok
        assert record.verify.checked_blocks > 0
    assert verify_json(out, 0)["ok"] is True
    with (tmp_path / "one.dat").open("r+b") as file:
        file.seek(3 << 20)
        file.write(bytes(1 << 20))
    report = verify_json(out, 10)
    assert report["ok"] is False
    bad = [run for run in report["runs"].values() if not run["ok"]]
    assert len(bad) == 1
    offsets = [example["offset"] for example in bad[0]["examples"]]
    assert offsets
    assert all(3 << 20 <= offset < 4 << 20 for offset in offsets)


def test_verify_works_after_a_kill_in_the_middle_of_a_run(tmp_path: Path) -> None:
    study = write_study(tmp_path, keep=True, repeats=1, runtime="60s", workload=VERIFY)
    study.write_text(study.read_text().replace("[0, 100]", "0"))
    out = tmp_path / "out"
    with running("run", study, "--out", out, "--no-report") as process:
        while not list((out / "verify").glob("*/state")):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.3)
        process.kill()
    (run,) = verify_json(out, 0)["runs"].values()
    assert run["checked_blocks"] > 0


def test_verify_says_when_there_is_nothing_to_verify(tmp_path: Path) -> None:
    study, out = write_study(tmp_path, repeats=1, workload=BRIEF), tmp_path / "out"
    storlab("run", study, "--out", out, "--no-report")
    assert "verify = true" in storlab("verify", out, code=8).stderr


def test_a_second_interrupt_ends_the_process_at_once(tmp_path: Path) -> None:
    code = (
        "import time; from storlab.process.execution import StopRequest\n"
        "with StopRequest().installed() as stop:\n"
        "    print('go', flush=True)\n"
        "    while not stop.requested: time.sleep(0.01)\n"
        "    print('asked', flush=True)\n"
        "    while True: time.sleep(0.01)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "asked\n"
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == -signal.SIGINT
