"""Work shared by all clients of a cluster: division and merging."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlab import _native
from storlab.base.errors import StudyError
from storlab.base.units import NS_PER_S
from storlab.cluster.offsets import ClockOffset
from storlab.cluster.task import ClientPlace
from storlab.contracts.family import WHOLE, Access, ClientDetails, JobContext, Share
from storlab.contracts.registry import FAMILIES
from storlab.contracts.services import dividing_family
from storlab.lab.plan.plan import make_plan
from storlab.lab.site.client_report import ClientReport
from storlab.lab.site.merge import Client, meeting_times, merge
from storlab.lab.study.file import LoadedStudy, load_study, parse_study
from storlab.model.point import PlannedRun, Point
from storlab.model.result import EngineInfo, RunOutcome, Sample, Span
from storlab.model.study import Header, Target
from storlab.workloads.checkpoint.job import CheckpointJob
from storlab.workloads.training.job import TrainingJob
from support.run_records import run_record

HEADER = Header(name="s")
TARGET = Target(name="t", directory="d")
CHECKPOINT = 'kind = "checkpoint"\nprofile = "llama3-405b-8gpu-415gb"\nscale = 0.001\n'
TRAINING = 'kind = "training"\nprofile = "resnet50-h100"\nfiles = 20\naccelerators = 7\n'
AHEAD = 5_000 * NS_PER_S  # clock of one client


def point(lines: str, *, engine: str = "native") -> Point:
    head = '[study]\nname = "s"\n[[target]]\nname = "t"\ndirectory = "d"\n[[workload]]\n'
    workload = parse_study(head + lines).workload[0]
    (values,) = workload.values()
    return Point(
        target="t",
        workload="w",
        workload_index=0,
        kind=workload.kind,
        engine=engine,
        params=values,
    )


def context(share: Share) -> JobContext:
    access = Access(home=Path("/h"))
    return JobContext(HEADER, TARGET, access, 7, Path("w"), run_id="p1-r1", share=share)


def part(client: str, details: dict[str, Any], offset_ns: int = 0, host: str = "") -> ClientDetails:
    return ClientDetails(client, host or client, offset_ns, details, 64 << 30)


@given(st.integers(0, 500), st.integers(1, 40))
def test_every_piece_is_of_exactly_one_share(total: int, count: int) -> None:
    shares = [Share(index, count).of(total) for index in range(count)]
    assert [piece for share in shares for piece in share] == list(range(total))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert WHOLE.of(total) == range(total)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_clients_write_each_file_of_a_checkpoint_once(count: int) -> None:
    family, asked = FAMILIES["checkpoint"], point(CHECKPOINT)
    offer = dividing_family("checkpoint")
    assert offer is not None
    assert offer.pieces(asked) == 8
    whole = family.job(asked, context(WHOLE))
    jobs = [family.job(asked, context(Share(index, count))) for index in range(count)]
    assert isinstance(whole, CheckpointJob)
    found = []
    for job in jobs:
        assert isinstance(job, CheckpointJob)
        assert {file.rank for file in job.files} == set(range(job.ranks))
        found += [(f.name, f.bytes, f.rank + job.first_rank) for f in job.files]
    assert found == [(f.name, f.bytes, f.rank) for f in whole.files]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_clients_have_each_accelerator_once_and_make_each_file_once(count: int) -> None:
    family, asked = FAMILIES["training"], point(TRAINING)
    shares = [Share(index, count) for index in range(count)]
    numbers, files = [], []
    for share in shares:
        job = family.job(asked, context(share))
        (step,) = family.prepare([asked], context(share))
        made = step.job
        assert isinstance(job, TrainingJob)
        assert isinstance(made, TrainingJob)
        assert (job.all_accelerators, job.place) == (7, made.place)
        numbers += range(job.first_accelerator, job.first_accelerator + job.accelerators)
        files += range(made.first_file, made.records.files, made.file_step)
        assert (job.seed, job.records) == (7, made.records), "the same order on all clients"
    assert numbers == list(range(7))
    assert sorted(files) == list(range(20))


def rank(number: int, start_ns: int, end_ns: int) -> dict[str, Any]:
    return {
        "rank": number, "bytes": 5, "start_ns": start_ns, "moved_ns": end_ns - 1, "end_ns": end_ns
    }  # fmt: skip


def test_a_checkpoint_lasts_until_the_last_rank_of_all_clients() -> None:
    def told(ahead: int, ranks: list[int], end: int) -> dict[str, Any]:
        start = 1_000 + ahead
        times = [rank(number, start, start + end) for number in ranks]
        common = {"number": 1, "bytes": 5 * len(ranks), "start_ns": start, "ranks": times}
        return {
            "writes": [
                {
                    **common,
                    "written_ns": start + end - 1,
                    "durable_ns": start + end + 7,
                    "device_written_bytes": 11,
                }
            ],
            "restores": [
                {
                    **common,
                    "end_ns": start + end,
                    "device_read_bytes": None,
                    "resident_before_bytes": 3,
                    "verified": True,
                }
            ],
        }

    parts = [
        part("c1", told(0, [0, 1], 400), host="h"),
        part("c2", told(AHEAD, [2], 900), AHEAD, host="h"),
    ]
    offer = dividing_family("checkpoint")
    assert offer is not None
    details = offer.merge_details(parts)
    (write,), (restore,) = details["writes"], details["restores"]
    assert (write["start_ns"], write["written_ns"], write["durable_ns"]) == (1_000, 1_899, 1_907)
    assert (write["bytes"], restore["bytes"]) == (15, 15)
    assert write["device_written_bytes"] == 11, "two clients of one host count the same device"
    assert (restore["end_ns"], restore["resident_before_bytes"]) == (1_900, 6)
    assert (restore["device_read_bytes"], restore["verified"]) == (None, True)
    ranks = [(r["rank"], r["client"], r["end_ns"]) for r in write["ranks"]]
    assert ranks == [(0, "c1", 1_400), (1, "c1", 1_400), (2, "c2", 1_900)]
    # Work that one client did not finish is unfinished.
    parts[1] = replace(parts[1], details={**parts[1].details, "restores": []})
    assert offer.merge_details(parts)["restores"] == []


def test_the_slowest_rank_is_named_with_its_client() -> None:
    (kind, _) = FAMILIES["checkpoint"].page.work_items
    write = {"start_ns": 0, "durable_ns": 10, "bytes": 10}
    ranks = [{**rank(5, 0, 10), "client": "c02"}, rank(6, 0, 9)]
    record = run_record(PlannedRun(order=0, repeat=1, point_id="p"), "t").model_copy(
        update={
            "params": {"profile": "p", "sync": "none"},
            "details": {"writes": [{**write, "ranks": ranks}, write]},
        }
    )
    of_clients, alone = kind.read(record)
    assert (of_clients.clients, alone.clients) == ({5: "c02"}, {})
    assert (of_clients.values["slowest_rank"], "slowest_rank" in alone.values) == (5, False)
    assert "durable_s" not in alone.values, "nothing was flushed"


def test_an_epoch_lasts_until_the_last_accelerator_of_all_clients() -> None:
    def told(ahead: int, numbers: list[int], end: int) -> dict[str, Any]:
        times = {"start_ns": 100 + ahead, "end_ns": end + ahead, "first_end_ns": 150 + ahead}
        return {
            "epochs": [
                {
                    "number": 1,
                    "start_ns": 100 + ahead,
                    "end_ns": end + ahead,
                    "bytes": 7,
                    "samples": 3,
                    "device_read_bytes": 5,
                    "accelerators": [{"accelerator": n, "steps": 2, **times} for n in numbers],
                }
            ],
            "retries": 1,
            "accelerator_precedence": "normal" if ahead else "nice -15",
        }

    offer = dividing_family("training")
    assert offer is not None
    details = offer.merge_details(
        [part("c1", told(0, [0], 900)), part("c2", told(AHEAD, [1, 2], 950), AHEAD)]
    )
    (epoch,) = details["epochs"]
    assert (epoch["start_ns"], epoch["end_ns"], epoch["bytes"], epoch["samples"]) == (
        100, 950, 14, 6,
    )  # fmt: skip
    assert epoch["device_read_bytes"] == 10
    told_of = [(a["accelerator"], a["client"], a["first_end_ns"]) for a in epoch["accelerators"]]
    assert told_of == [(0, "c1", 150), (1, "c2", 150), (2, "c2", 150)]
    assert (details["retries"], details["accelerator_precedence"]) == (2, "normal")
    assert details["host_memory_bytes"] == 2 * (64 << 30)


def test_what_messages_took_and_what_the_work_waited_for() -> None:
    here, there = ClockOffset(0, 0), ClockOffset(AHEAD, 0)
    first = [(100, 130, 500), (600, 660, 610)]
    second = [(AHEAD + t, AHEAD + told, AHEAD + ready) for t, told, ready in [(120, 140, 500)]]
    second.append((AHEAD + 620, AHEAD + 650, AHEAD + 610))
    found = meeting_times([(here, first), (there, second)])
    assert found == {"count": 2, "mean_ns": 30, "max_ns": 40, "waited_ns": 40}
    assert meeting_times([(here, first), (there, [])]) is None


def outcome(start_ns: int, lengths: list[int], details: dict[str, Any]) -> RunOutcome:
    """Return the outcome of a client with one write per interval."""
    samples, at_ns = [], start_ns
    for number, length_ns in enumerate(lengths):
        latency = _native.Histogram()
        latency.record(1_000_000, 1)
        end_ns = at_ns + length_ns
        samples.append(Sample(number, at_ns, end_ns, "write", 1, 10, latency.to_v2()))
        at_ns = end_ns
    span = Span(kind="write", name="checkpoint 1", start_ns=start_ns, end_ns=at_ns, bytes=10)
    engine = EngineInfo(name="native", version="0")
    made = RunOutcome("finished", engine, start_ns, at_ns, samples, {}, None)
    made.details, made.spans = details, [span]
    made.totals = _totals(made)
    return made


def _totals(made: RunOutcome) -> Any:
    from storlab.model.result import OperationTotals

    count = len(made.samples)
    return {"write": OperationTotals(operations=count, bytes=10 * count)}


def client(rank_number: int, made: RunOutcome, ahead: int = 0) -> Client:
    name = f"c{rank_number}"
    clock = ClockOffset(ahead, 10)
    place = ClientPlace(name=name, host=name, rank=rank_number)
    return Client(place, ClientReport(outcome=made), clock, clock)


def test_fixed_work_ends_with_the_last_client() -> None:
    """Check that fixed work ends with the last client, at no loss for earlier ones."""
    second = NS_PER_S
    short = outcome(3 * second, [second, second // 4], {"writes": []})
    long = outcome(AHEAD + 3 * second + 900, [second] * 3 + [second // 2], {"writes": []})
    clients = [client(1, short), client(2, long, AHEAD)]
    whole = merge(clients, second, None, "checkpoint", divided=True)
    assert (whole.window_start_ns, whole.window_end_ns) == (
        3 * second,
        6 * second + second // 2 + 900,
    )
    assert whole.totals["write"].operations == 6
    assert [sample.operations for sample in whole.samples] == [2, 2, 1, 1]
    assert whole.samples[-1].end_ns == whole.window_end_ns
    (span,) = whole.spans
    assert (span.start_ns, span.end_ns, span.bytes) == (
        3 * second, 6 * second + second // 2 + 900, 20,
    )  # fmt: skip
    assert whole.cluster is not None
    assert (whole.cluster.window_kept, whole.cluster.divided) == (1.0, True)


def load(tmp_path: Path, workload: str, clients: int) -> LoadedStudy:
    path = tmp_path / "study.toml"
    (tmp_path / "d").mkdir(exist_ok=True)
    path.write_text(
        '[study]\nname = "s"\n'
        f'[cluster]\nhosts = ["localhost"]\nclients = {clients}\n'
        f'[[target]]\nname = "t"\ndirectory = "{tmp_path}/d"\n[[workload]]\n{workload}'
    )
    return load_study(path)


def problems(make: Callable[[], object]) -> list[dict[str, str]]:
    with pytest.raises(StudyError) as caught:
        make()
    return caught.value.problems  # type: ignore[return-value]


def test_more_clients_than_ranks_are_refused(tmp_path: Path) -> None:
    (found,) = problems(lambda: make_plan(load(tmp_path, CHECKPOINT, 9)))
    assert "9 clients are more than the 8 ranks" in found["what"]
    assert found["fix"] == "use at most 8"
    assert make_plan(load(tmp_path, CHECKPOINT, 8)).points


def test_work_that_cannot_be_divided_says_what_can_be_done(tmp_path: Path) -> None:
    lines = 'kind = "preprocess"\nrows = 1000\n'
    (found,) = problems(lambda: make_plan(load(tmp_path, lines, 2)))
    assert "cannot divide" in found["what"]
    assert '[scale] engine = "dask"' in found["fix"]
    lines = TRAINING + 'loader = "pytorch"\n'
    (found,) = problems(lambda: make_plan(load(tmp_path, lines, 2)))
    assert "engine cannot divide training workloads" in found["what"]
