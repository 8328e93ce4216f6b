"""Flags on a run's time axis: at the times they applied, or over the whole run if unknown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from integration.brief.brief_fixture import INTERVAL_NS, build_store
from storlab.analysis.dataset import RunData
from storlab.analysis.flag_times import Span, flag_times
from storlab.analysis.timeline import timeline
from storlab.base.units import NS_PER_S
from storlab.figures.timeline import timeline_figure
from storlab.model.cluster import ClientRun, ClusterRun
from storlab.model.result import Concurrency, CpuUse, Flag, Sample
from storlab.model.run_course import COURSE_FILE
from storlab.model.samples import table_to_samples
from storlab.results.store import ResultStore

S = INTERVAL_NS / NS_PER_S
RAMP_NS = 300_000_000  # of the fixture's study
STEAL, WAIT, NEITHER = (0, 50), (INTERVAL_NS, 0), (0, 0)


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return build_store(tmp_path / "run", repeats=1, mixes=(70,))


def stored(
    store: ResultStore,
    kind: str,
    samples: Mapping[int, Mapping[str, Any]] | None = None,
    beside: Mapping[str, Any] | None = None,
    **fields: Any,
) -> RunData:
    """Store a disk run with this flag; ``samples`` edits some intervals."""
    record = next(r for r in store.records() if r.target == "Disk")
    changed = {} if samples is None else samples
    own: list[Sample] = [
        replace(sample, **changed.get(sample.interval, {}))
        for sample in table_to_samples(store.samples(record.run_id))
    ]
    record = record.model_copy(update={"flags": [Flag(kind=kind, message="m")], **fields})
    raw = {} if beside is None else {COURSE_FILE: json.dumps(beside).encode()}
    return RunData(store.write_run(record, own, raw), record.target, store)


def near(*spans: Span) -> list[Span]:
    return [(pytest.approx(start), pytest.approx(end)) for start, end in spans]


def drawn(run: RunData) -> list[tuple[float, float, str]]:
    known = timeline(run)
    assert known is not None
    figure = timeline_figure(known, 0, "here", [])
    return [(f["start"], f["end"], f["text"]) for f in figure.spec["datasets"]["flags"]]


def test_a_client_at_its_limit(store: ResultStore) -> None:
    """Check that the workers' CPU time counts once per interval, whatever the operations."""
    used = {n: {"worker_cpu_ns": (INTERVAL_NS if n in {2, 3, 6} else 0) // 2} for n in range(12)}
    cpu = CpuUse(user_ns=0, system_ns=0, cores=1, worker_ns=0)
    run = stored(store, "client-bound", used, cpu=cpu)
    assert flag_times(run) == {"client-bound": near((2 * S, 4 * S), (6 * S, 7 * S))}
    assert drawn(run) == [
        (pytest.approx(2 * S), pytest.approx(4 * S), "client bound"),
        (pytest.approx(6 * S), pytest.approx(7 * S), ""),
    ]


@pytest.mark.parametrize(("rate_iops", "clients"), [(100 / S, None), (50 / S, 2)])
def test_an_open_loop_that_stalls_and_catches_up(
    store: ResultStore, rate_iops: float, clients: int | None
) -> None:
    """Check that an open loop counts as behind until the backlog of a stall is done."""
    work = {4: 0, 5: 0, 6: 100, 7: 250, 8: 150}  # of two operations each
    samples = {n: {"operations": work.get(n, 100) // 2} for n in range(12)}
    params = {**store.records()[0].params, "rate_iops": rate_iops}
    few = Concurrency(configured=1, implied=1)
    run = stored(
        store, "open-loop-behind", samples, params=params, clients=clients, concurrency=few
    )
    assert flag_times(run) == {"open-loop-behind": near((4 * S, 8 * S))}


@pytest.mark.parametrize("kept", [STEAL, WAIT])
def test_workers_that_wait_for_a_core(store: ResultStore, kept: tuple[int, int]) -> None:
    """Check the times of workers waiting in the run queue or because of steal."""
    start = store.records()[0].window_start_ns
    readings = [(start - INTERVAL_NS // 2, 0, 0, 0)]
    for number in range(13):
        waited, stolen = kept if number in {0, 5, 6} else NEITHER
        time_ns, *before = readings[-1]
        more = (waited, stolen, 100)
        readings.append(
            (time_ns + INTERVAL_NS, *(a + b for a, b in zip(before, more, strict=True)))
        )
    names = ("time_ns", "waited_ns", "stolen", "ticks")
    waits = dict(zip(names, map(list, zip(*readings, strict=True)), strict=True))
    run = stored(store, "starved", beside={"waits": waits})
    assert run.record.window_start_ns == start
    assert flag_times(run) == {"starved": near((0.0, S / 2), (4.5 * S, 6.5 * S))}


@pytest.mark.parametrize(
    ("late_ns", "end_ns", "words"),
    [
        (RAMP_NS + INTERVAL_NS, INTERVAL_NS, "late start"),
        (RAMP_NS // 2, 0, "late start (before the window)"),
    ],
)
def test_clients_that_began_late(store: ResultStore, late_ns: int, end_ns: int, words: str) -> None:
    clients = [
        ClientRun(
            name=f"c{late}", host="h", offset_ns=0, round_trip_ns=0, drift_ns=0,
            first_io_late_ns=late,
        )
        for late in (None, 0, late_ns)
    ]  # fmt: skip
    run = stored(store, "late-start", cluster=ClusterRun(clients=clients, window_kept=1.0))
    assert flag_times(run) == {"late-start": near((0.0, end_ns / NS_PER_S))}
    assert drawn(run) == [(0.0, pytest.approx(end_ns / NS_PER_S), words)]


@pytest.mark.parametrize("kind", ["not-steady", "starved", "client-bound", "late-start"])
def test_what_has_no_times_is_of_the_whole_run(store: ResultStore, kind: str) -> None:
    run = stored(store, kind)
    assert flag_times(run) == {}
    ((start, end, text),) = drawn(run)
    assert (start, end) == (0.0, pytest.approx(1.2, abs=0.001))
    assert text == f"{kind.replace('-', ' ')} (of the whole run)"
