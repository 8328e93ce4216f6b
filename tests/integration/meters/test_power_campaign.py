"""Campaigns with meters on a real file: energy from the reading to the brief."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.errors import EngineError, ExitCode, MeterError
from storlab.cli.main import main
from storlab.contracts.engine import RunHandle
from storlab.engines.native.engine import NativeEngine
from storlab.lab.guard.guard import Guard
from storlab.lab.plan.plan import make_plan
from storlab.lab.run.campaign import Campaign
from storlab.lab.run.progress import PlainReporter
from storlab.lab.study.file import load_study
from storlab.meters import rapl
from storlab.meters.nvme_admin import PowerState
from storlab.model.job import Job
from storlab.model.result import RunRecord
from storlab.power.metering import power_over_time
from storlab.process.execution import StopRequest
from storlab.results.store import ResultStore
from support.sysfs_trees import RunningCounter, rapl_tree

RAPL = 'kind = "rapl", boundary = "host", rate_hz = 100, zones = ["package-0", "package-1"]'
DECLARED = (
    'kind = "declared", boundary = "device", idle_watts = 5, joules_per_gb_read = 0.5, '
    'joules_per_gb_written = 1.5, accuracy_percent = 3'
)  # fmt: skip


def write_study(
    place: Path,
    *meters: str,
    facts: str = "",
    repeats: int = 1,
    settle: str = "500ms",
    runtime: str = "1s",
) -> Path:
    path = place / "study.toml"
    listed = ", ".join(f"{{ {meter} }}" for meter in meters)
    path.write_text(f"""
    [study]
    name = "power"
    repeats = {repeats}
    ramp = "50ms"
    runtime = "{runtime}"
    settle = "{settle}"
    interval = "50ms"

    [[target]]
    name = "file"
    path = "{place}/data.dat"
    size = "8MiB"
    direct = false
    meters = [{listed}]
    {facts}

    [[target]]
    name = "null"
    path = "null:"
    meters = [{{ {DECLARED} }}]

    [[workload]]
    kind = "block"
    block_size = "64KiB"
    read_percent = 50
    rate_iops = 2000
    queue_depth = 4
    """)
    return path


@contextmanager
def packages(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Provide a machine with two packages of 40 and 20 W."""
    monkeypatch.setattr(rapl, "ROOT", root)
    counters = rapl_tree(root, packages=2)
    range_uj = 262_143_328_850
    with (
        RunningCounter(counters[0], 40.0, range_uj, range_uj - 1_000_000),  # wraps at once
        RunningCounter(counters[1], 20.0, range_uj),
    ):
        yield counters


def records(out: Path) -> dict[str, RunRecord]:
    store = ResultStore.open(out)
    store.check()
    return {record.target: record for record in store.records()}


def test_energy_from_the_counter_to_the_brief(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = 'power_boundary = "host"\ncapacity = "2TB"\nrack_units = 2.0\nprice = 500.0'
    study = write_study(tmp_path, RAPL, DECLARED, facts=facts)
    out = tmp_path / "out"
    with packages(tmp_path / "sys", monkeypatch):
        assert main(["run", str(study), "--out", str(out)]) == 0, capsys.readouterr().err
    found = records(out)
    record = found["file"]
    assert [s.info.sensor for s in record.power] == ["rapl:package-0", "rapl:package-1", "declared"]
    assert record.power_boundary == "host"
    assert record.metric("power_w") == pytest.approx(60, rel=0.3)
    assert record.metric("idle_power_w") == pytest.approx(60, rel=0.3)
    window_s = (record.window_end_ns - record.window_start_ns) / 1e9
    host = {m.name: m for m in record.metrics if m.boundary in (None, "host")}
    energy_j = host["energy_j"].value
    assert energy_j == pytest.approx(host["power_w"].value * window_s)
    moved = sum(record.totals[op].bytes for op in ("read", "write"))
    assert host["efficiency_mb_s_w"].value == pytest.approx(moved / 1e6 / energy_j)
    assert host["efficiency_mb_s_w"].value == pytest.approx(
        host["throughput_mb_s"].value / host["power_w"].value
    )
    assert host["efficiency_tb_kwh"].value == 3.6 * host["efficiency_mb_s_w"].value
    assert host["throughput_mb_s_tb"].value == host["throughput_mb_s"].value / 2
    assert host["power_w_ru"].value == host["power_w"].value / 2
    device = {m.name: m for m in record.metrics if m.boundary == "device"}
    assert device["energy_j"].provenance == "declared"
    read, written = (record.totals[op].bytes for op in ("read", "write"))
    exact = 5 * window_s + read / 1e9 * 0.5 + written / 1e9 * 1.5
    assert device["energy_j"].value == pytest.approx(exact)
    assert device["energy_j"].uncertainty == pytest.approx(0.03 / 3**0.5 * exact, rel=1e-6)
    assert found["null"].power_boundary == "device"
    assert found["null"].metric("energy_j") is not None
    assert record.wall_at_start_ns is not None
    assert (out / "brief.html").stat().st_size > 10_000


def test_readings_are_a_part_of_the_run_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, out = write_study(tmp_path, RAPL), tmp_path / "out"
    with packages(tmp_path / "sys", monkeypatch):
        assert main(["run", str(study), "--out", str(out), "--no-report"]) == 0
    store = ResultStore.open(out)
    record = records(out)["file"]
    directory = store.run_dir(record.run_id)
    content = (directory / "power.parquet").read_bytes()
    assert record.power_sha256 == hashlib.sha256(content).hexdigest()
    assert "power.parquet" in (directory / "SHA256SUMS").read_text()
    table = store.power(record.run_id)
    assert set(table.column("sensor").to_pylist()) == {"rapl:package-0", "rapl:package-1"}
    times, watts = power_over_time(record, table)
    assert times[0] < record.window_start_ns < record.window_end_ns < times[-1]
    assert len(times) == len(watts)
    (directory / "power.parquet").write_bytes(content[:-1])
    assert main(["status", str(out)]) == 0
    with pytest.raises(Exception, match="checksum differs"):
        store.power(record.run_id)


def test_a_sensor_that_goes_takes_no_run_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a run without its sensor is kept, and the next waits for the sensor."""
    study, out = write_study(tmp_path, RAPL, repeats=2, runtime="3s"), tmp_path / "out"
    study.write_text(study.read_text().replace("[study]", '[study]\nwait_for_target = "1s"'))
    unplugged = tmp_path / "unplugged"
    with packages(tmp_path / "sys", monkeypatch) as counters:
        place = counters[1].parent

        def unplug() -> None:
            while not list((out / "work").glob("*")):
                sleep_s(0.002)
            place.rename(unplugged)

        helper = threading.Thread(target=unplug)
        helper.start()
        assert main(["run", str(study), "--out", str(out), "--no-report"]) == ExitCode.UNREACHABLE
        helper.join()
        (record,) = (r for r in ResultStore.open(out).records() if r.target == "file")
        assert record.status == "finished"
        assert record.metric("throughput_mb_s")
        assert record.metric("energy_j") is None
        assert "power-not-measured" in {flag.kind for flag in record.flags}
        unplugged.rename(place)
        assert main(["resume", str(out), "--no-report"]) == ExitCode.OK
    runs = {r.repeat: r for r in ResultStore.open(out).records() if r.target == "file"}
    assert runs[1].metric("energy_j") is None
    assert runs[2].metric("energy_j")


def test_missing_runs_are_metered_on_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, out = write_study(tmp_path, RAPL, DECLARED, facts='power_boundary = "host"'), (
        tmp_path / "out"
    )  # fmt: skip
    with packages(tmp_path / "sys", monkeypatch):
        assert main(["run", str(study), "--out", str(out), "--no-report"]) == 0
        first = records(out)["file"]
        shutil.rmtree(ResultStore.open(out).run_dir(first.run_id))
        assert main(["resume", str(out), "--no-report"]) == 0
    again = records(out)["file"]
    assert again.started_at != first.started_at
    assert again.metric("power_w") == pytest.approx(60, rel=0.3)


def test_an_unreachable_meter_stops_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rapl, "ROOT", tmp_path / "nothing")
    study = write_study(tmp_path, RAPL)
    assert main(["run", str(study), "--out", str(tmp_path / "out")]) == 4
    assert "no RAPL counters" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["study.toml"]


def test_a_logged_trace_gives_energy_and_idle_power(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("t,w\n")
    stop = threading.Event()

    def logger() -> None:
        with log.open("a", buffering=1) as file:
            while not stop.wait(0.005):
                now = monotonic_ns() + 3_000_000_000  # its clock is 3 s ahead
                file.write(f"{now // 10**9}.{now % 10**9:09d},{12 + now % 2}\n")

    csv = (
        'kind = "csv", boundary = "wall", path = "log.csv", time_column = "t", columns = ["w"], '
        'time_format = "monotonic", clock_offset = "-3s", clock_uncertainty = "2ms", rate_hz = 100'
    )
    study = write_study(tmp_path, csv.replace('"log.csv"', f'"{log}"'))
    helper = threading.Thread(target=logger)
    helper.start()
    try:
        assert main(["run", str(study), "--out", str(tmp_path / "out"), "--no-report"]) == 0
    finally:
        stop.set()
        helper.join()
    record = records(tmp_path / "out")["file"]
    assert record.metric("power_w") == pytest.approx(12.5, abs=0.6)
    assert record.metric("idle_power_w") == pytest.approx(12.5, abs=0.6)
    assert record.power[0].info.boundary == "wall"


class OneDrive:
    """The drive below the data file, like NvmeAdmin."""

    device = "nvme-test"

    def __init__(self) -> None:
        self.state = 0
        self.sets: list[int] = []
        self.obeys = True

    def open(self, path: str) -> OneDrive:
        del path
        return self

    def power_states(self) -> list[PowerState]:
        return [PowerState(i, 20.0 - 5 * i, 5, 7, False, None, None) for i in range(3)]

    def current(self) -> int:
        return self.state

    def set(self, index: int) -> None:
        self.sets.append(index)
        if not self.obeys:
            raise MeterError("nvme-test", "accepted the state and stays in another")
        self.state = index

    def close(self) -> None:
        pass


def campaign(study_path: Path, out: Path, drive: OneDrive, **more: Any) -> list[RunRecord]:
    loaded = load_study(study_path)
    plan = make_plan(loaded)
    with Guard(loaded.study, plan) as guard:
        environment = {"guard": guard.record()}
        store = ResultStore.create(out, loaded.text, loaded.study, plan, environment)
        reporter = PlainReporter(Console(quiet=True))
        stop = more.get("stop") or StopRequest()
        Campaign(store, guard, reporter, stop, drive.open).execute(clean=True)
    return [record for record in store.records() if record.target == "file"]


class CountedPauses(StopRequest):
    """Pauses whose lengths are recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        super().pause(seconds)


class FailsFirst(NativeEngine):
    """Engine whose first run raises an error."""

    runs = 0

    def start(self, job: Job, work_dir: Path) -> RunHandle:
        self.runs += job.kind == "block"
        if self.runs == 1:
            raise EngineError("native", "cannot begin", "this is a test")
        return super().start(job, work_dir)


def test_idle_power_is_read_after_a_run_whose_engine_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check idle power after a failed run: the pause serves this run and the next."""
    engine, stop = FailsFirst(), CountedPauses()
    monkeypatch.setattr("storlab.lab.run.campaign.get_engine", lambda _name: engine)
    study = write_study(tmp_path, DECLARED, repeats=2, settle="30ms", runtime="100ms")
    ran = campaign(study, tmp_path / "out", OneDrive(), stop=stop)
    assert [record.status for record in ran] == ["failed", "finished"]
    settled = [seconds for seconds in stop.pauses if seconds == 0.03]
    assert len(settled) == 1 + 4  # before the first run, and after each run of both targets
    assert ran[1].metric("idle_power_w") is not None


def test_a_power_state_is_recorded_with_the_run_and_restored(tmp_path: Path) -> None:
    drive = OneDrive()
    study = write_study(tmp_path, DECLARED, facts="power_state = 2", settle="20ms")
    (record,) = campaign(study, tmp_path / "out", drive)
    (applied,) = record.power_states
    assert (applied.index, applied.former_index, applied.max_power_w) == (2, 0, 10.0)
    assert (applied.entry_latency_us, applied.exit_latency_us) == (5, 7)
    assert (drive.sets, drive.state) == ([2, 0], 0)
    assert not (tmp_path / "out" / "power-states.json").exists()


def test_a_drive_that_does_not_obey_fails_its_run(tmp_path: Path) -> None:
    drive = OneDrive()
    drive.obeys = False
    study = write_study(tmp_path, DECLARED, facts="power_state = 2", settle="20ms")
    (record,) = campaign(study, tmp_path / "out", drive)
    assert record.status == "failed"
    assert record.failure is not None
    assert "stays in another" in record.failure.message


def test_a_stop_request_restores_the_power_state_and_keeps_the_run(tmp_path: Path) -> None:
    drive, stop = OneDrive(), StopRequest()
    study = write_study(
        tmp_path, DECLARED, facts="power_state = 1", settle="30s", repeats=2, runtime="100ms"
    )
    study.write_text(study.read_text().replace('settle = "30s"', 'settle = "5s"'))

    def ask() -> None:
        while not list((tmp_path / "out" / "work").glob("*")):
            sleep_s(0.005)
        while list((tmp_path / "out" / "work").glob("*")):
            sleep_s(0.005)
        stop.ask()  # in the pause after the run

    helper = threading.Thread(target=ask)
    helper.start()
    done = campaign(study, tmp_path / "out", drive, stop=stop)
    helper.join()
    assert drive.state == 0
    assert len(ResultStore.open(tmp_path / "out").records()) == 1
    assert all(record.status == "finished" for record in done)
    assert all(record.metric("energy_j") for record in done)
