"""Meters in threads: slow, failing, or hanging ones; and a campaign's worth."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.errors import MeterError, StudyError
from storlab.contracts.registry import study_class
from storlab.lab.run.records import completed_record
from storlab.meters import rapl
from storlab.model.point import PlannedRun, Point
from storlab.model.power import Reading, SensorInfo
from storlab.model.power_readings import readings_from_parquet, readings_to_parquet
from storlab.model.result import EngineInfo, OperationTotals, RunOutcome, RunRecord
from storlab.model.study import MeterSpec, Target
from storlab.power import meter_thread
from storlab.power.meter_thread import MeterThread
from storlab.power.metering import Metering, headline_boundary, open_thread, power_over_time
from support.sysfs_trees import RunningCounter, put, rapl_tree

INFO = SensorInfo(
    sensor="m", kind="test", description="", boundary="wall", sampling="instantaneous", unit="W"
)


class Probe:
    """Meter controlled by the test."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.calls = 0
        self.closed = False
        self.fail: BaseException | None = None
        self.block: threading.Event | None = None
        self.answer_s = 0.0

    def describe(self) -> list[SensorInfo]:
        self.threads.add(threading.get_ident())
        return [INFO]

    def sample(self) -> list[Reading]:
        self.threads.add(threading.get_ident())
        self.calls += 1
        if self.fail is not None:
            raise self.fail
        if self.block is not None:
            self.block.wait()
        sleep_s(self.answer_s)
        return [Reading("m", monotonic_ns(), 10.0 + self.calls % 2)]

    def after_run(self, outcome: RunOutcome) -> list[Reading]:
        self.threads.add(threading.get_ident())
        return [Reading("m", outcome.window_end_ns, 1.0)]

    def close(self) -> None:
        self.closed = True


def outcome(start_ns: int, end_ns: int) -> RunOutcome:
    return RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="0"),
        window_start_ns=start_ns,
        window_end_ns=end_ns,
        samples=[],
        totals={"read": OperationTotals(operations=1000, bytes=10**9)},
        cpu=None,
    )


def wait_for(probe: Probe, calls: int) -> None:
    while probe.calls < calls:
        sleep_s(0.001)


def test_a_meter_is_read_from_one_thread_and_closed() -> None:
    probe = Probe()
    thread = MeterThread("p", lambda: probe, 200)
    assert thread.open() == [INFO]
    wait_for(probe, 3)
    thread.read_now()
    assert thread.after_run(outcome(1, 2)) == [Reading("m", 2, 1.0)]
    readings = thread.take(0)
    assert len(readings) >= 3
    assert thread.take(readings[-1].time_ns) != readings
    thread.close()
    assert probe.closed
    assert len(probe.threads) == 1
    assert threading.get_ident() not in probe.threads
    with pytest.raises(MeterError, match="is closed"):
        thread.describe()


class StrangeError(Exception):
    """Unexpected error type of a library."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("error", [StrangeError("lost"), AttributeError("lost")])
def test_a_thread_that_dies_is_seen(error: Exception) -> None:
    probe = Probe()
    thread = MeterThread("p", lambda: probe, 500)
    thread.open()
    wait_for(probe, 1)
    probe.fail = error
    while thread._thread.is_alive() and thread.ended is None:
        sleep_s(0.001)
    thread.close()
    assert thread.ended is not None
    assert "lost" in thread.ended.why


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_an_answer_of_a_thread_that_died(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probe = Probe()
    probe.fail = StrangeError("lost")
    monkeypatch.setattr(probe, "periodic", False, raising=False)
    thread = MeterThread("p", lambda: probe, 500)
    thread.open()

    def break_it() -> None:
        raise StrangeError("lost")

    with pytest.raises(MeterError, match="lost"):
        thread.ask(break_it, limit_s=3600)
    thread.close()


def test_a_failure_ends_the_readings_and_nothing_else() -> None:
    probe = Probe()
    thread = MeterThread("p", lambda: probe, 500)
    thread.open()
    wait_for(probe, 2)
    probe.fail = MeterError("m", "the sensor is gone")
    while thread.ended is None:
        sleep_s(0.001)
    assert thread.ended.why == "the sensor is gone"
    calls = probe.calls
    thread.read_now()
    sleep_s(0.02)
    assert probe.calls == calls
    assert thread.describe() == [INFO]
    thread.close()
    assert probe.closed


def test_what_opening_raises_is_raised_and_the_thread_ends() -> None:
    def opener() -> Probe:
        raise MeterError("m", "wrong user name or password")

    thread = MeterThread("p", opener, 1)
    with pytest.raises(MeterError, match="wrong user name"):
        thread.open()
    thread.close()
    assert not [t for t in threading.enumerate() if t.name == "meter p"]


def test_a_defect_of_a_meter_is_a_failure_of_that_meter() -> None:
    def opener() -> Probe:
        raise ValueError("not a number")

    with pytest.raises(MeterError, match="not a number"):
        MeterThread("p", opener, 1).open()


def test_a_meter_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter_thread, "ANSWER_LIMIT_S", 0.05)
    monkeypatch.setattr(meter_thread, "CLOSE_LIMIT_S", 0.05)
    probe = Probe()
    probe.block = threading.Event()
    thread = MeterThread("p", lambda: probe, 500)
    thread.open()
    wait_for(probe, 1)
    with pytest.raises(MeterError, match="not answer within"):
        thread.ask(lambda: None, 0.05)
    with pytest.raises(MeterError, match="an earlier request"):
        thread.describe()
    assert thread.ended is not None
    thread.close()
    probe.block.set()


def test_a_slow_meter_delays_itself_only() -> None:
    slow, quick = Probe(), Probe()
    slow.answer_s = 0.3
    threads = [MeterThread("quick", lambda: quick, 200), MeterThread("slow", lambda: slow, 200)]
    for thread in threads:
        thread.open()
    wait_for(slow, 4)
    counted = slow.calls, quick.calls
    for thread in threads:
        thread.close()
    assert counted[1] > 2 * counted[0]


def target(name: str, *meters: dict[str, object], **more: object) -> Target:
    specs = [MeterSpec.model_validate(meter) for meter in meters]
    return Target.model_validate({"name": name, "path": "null:", "meters": specs, **more})


RAPL = {"kind": "rapl", "boundary": "host", "rate_hz": 200}
DECLARED = {"kind": "declared", "boundary": "device", "idle_watts": 2.0, "joules_per_byte": 1e-9}


def metered(metering: Metering, of: Target, seconds: float = 1.0) -> RunOutcome:
    """Simulate a run without a load, with its pauses, and return its outcome."""
    metering.idle_begins()
    sleep_s(0.3)
    metering.load_begins()
    start = monotonic_ns()
    sleep_s(seconds)
    end = monotonic_ns()
    metering.idle_begins()
    sleep_s(0.3)
    return outcome(start, end)


def test_a_run_with_counters_that_wrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rapl, "ROOT", tmp_path)
    range_uj = 400_000_000  # wraps every ten seconds at 40 W, first after 700 ms
    start_uj = range_uj - 28_000_000
    (counter,) = rapl_tree(tmp_path, range_uj=range_uj)
    both = target("t", RAPL, DECLARED, power_boundary="host")
    with (
        RunningCounter(counter, 40.0, range_uj, start_uj),
        Metering([both], tmp_path) as metering,
    ):
        result = metered(metering, both)
        done = metering.finish(both, result)
    window_s = (result.window_end_ns - result.window_start_ns) / 1e9
    assert [s.info.sensor for s in done.summaries] == [
        "rapl:package-0",
        "rapl:package-0/dram",
        "declared",
    ]
    package, dram, declared = done.summaries
    assert package.mean_w == pytest.approx(40, rel=0.3)
    assert dram.energy_j is None  # the counter does not move: not measured, rather than 0
    assert "not measured: the counter did not change" in dram.notes
    assert declared.energy_j is not None
    assert declared.energy_j == pytest.approx(2 * window_s + 1)
    assert declared.idle_before_w == 2
    assert [power.boundary for power in done.totals] == ["device"]
    assert any("rapl:package-0/dram: not measured" in note for note in done.notes)


def record_of(of: Target, result: RunOutcome, metering: Metering) -> RunRecord:
    study = study_class().model_validate(
        {
            "study": {"name": "s"},
            "target": [of.model_dump(exclude_unset=True)],
            "workload": [{"kind": "block"}],
        }
    )
    point = Point.model_validate(
        {
            "target": of.name,
            "workload": "block",
            "workload_index": 0,
            "kind": "block",
            "engine": "native",
            "params": study.workload[0].values()[0],
        }
    )
    run = PlannedRun(order=0, repeat=1, point_id=point.point_id)
    return completed_record(run, point, study, "now", result, metering.finish(of, result))


def test_a_sensor_gone_in_mid_run_flags_the_run_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rapl, "ROOT", tmp_path)
    (counter,) = rapl_tree(tmp_path)
    aimed = target("t", {**RAPL, "zones": ["package-0"]})
    with Metering([aimed], tmp_path) as metering:
        with RunningCounter(counter, 40.0, 10**9):
            metering.load_begins()
            start = monotonic_ns()
            sleep_s(0.1)
        counter.unlink()
        sleep_s((monotonic_ns() - start) / 1e9)  # as long again: at most half of the window
        record = record_of(aimed, outcome(start, monotonic_ns()), metering)
        assert [flag.kind for flag in record.flags if "power" in flag.kind] == [
            "power-not-measured"
        ]
        assert record.power[0].energy_j is None
        assert record.power_boundary == "host"
        assert record.metric("energy_j") is None
        assert record.metric("throughput_mb_s") is not None
        put(counter, 0)
        with RunningCounter(counter, 40.0, 10**9):
            assert metering.absences(aimed) == []
            record = record_of(aimed, metered(metering, aimed), metering)
    assert record.metric("power_w") == pytest.approx(40, rel=0.3)
    assert record.metric("idle_power_w") == pytest.approx(40, rel=0.3)
    assert not [flag for flag in record.flags if flag.kind == "power-not-measured"]


def test_power_over_time_adds_parts_and_takes_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rapl, "ROOT", tmp_path)
    counters = rapl_tree(tmp_path, packages=2)
    shared = {"share": 0.5, "share_rule": "half", "zones": ["package-0", "package-1"]}
    aimed = target("t", {**RAPL, **shared})
    with (
        RunningCounter(counters[0], 40.0, 10**9),
        RunningCounter(counters[1], 20.0, 10**9),
        Metering([aimed], tmp_path) as metering,
    ):
        result = metered(metering, aimed)
        done = metering.finish(aimed, result)
        record = record_of(aimed, result, metering)
    (total,) = done.totals
    assert total.mean_w == pytest.approx(30, rel=0.3)
    table = readings_from_parquet(readings_to_parquet(done.readings))
    times, watts = power_over_time(record, table)
    assert times == sorted(times)
    assert times[0] < result.window_start_ns < result.window_end_ns < times[-1]
    energy = sum(w * (b - a) for a, b, w in zip(times, times[1:], watts, strict=False))
    assert energy / (times[-1] - times[0]) == pytest.approx(30, rel=0.3)
    assert power_over_time(record, table, "wall") == ([], [])


def test_two_meters_of_one_kind_keep_their_readings_apart(tmp_path: Path) -> None:
    two = target("t", DECLARED, {**DECLARED, "idle_watts": 7.0})
    with Metering([two], tmp_path) as metering:
        done = metering.finish(two, metered(metering, two, 0.02))
    assert [s.info.sensor for s in done.summaries] == ["declared", "declared#2"]
    assert [s.idle_before_w for s in done.summaries] == [2, 7]
    assert len(done.totals) == 1  # two views of one power: the first one counts


def test_boundaries_have_one_headline(tmp_path: Path) -> None:
    wall = {**DECLARED, "boundary": "wall"}
    with pytest.raises(StudyError, match="power_boundary"):
        Metering([target("t", DECLARED, wall)], tmp_path).__enter__()
    with pytest.raises(StudyError, match="no meter of this target measures at the boundary host"):
        Metering([target("t", DECLARED, power_boundary="host")], tmp_path).__enter__()
    plain = target("t")
    assert headline_boundary(plain, []) is None
    assert headline_boundary(plain, ["wall", "wall"]) == "wall"
    with Metering([plain], tmp_path) as metering:
        assert not metering.any
        assert metering.finish(plain, outcome(0, 1)).summaries == []


def test_paths_of_a_study_are_where_the_campaign_began(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("t,w\n1,2\n")
    spec = MeterSpec.model_validate(
        {
            "kind": "csv",
            "boundary": "wall",
            "path": "log.csv",
            "time_column": "t",
            "time_format": "monotonic",
            "clock_offset": 0,
            "columns": ["w"],
        }
    )
    thread = open_thread(spec, target("t"), tmp_path)
    assert [info.sensor for info in thread.open()] == ["csv:w"]
    thread.close()


def test_an_unknown_kind_of_meter_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="rapel"):
        open_thread(MeterSpec(kind="rapel"), target("t"), tmp_path)
