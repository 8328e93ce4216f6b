"""Strip on a target's card: what was in order in its runs, and what was off."""

from __future__ import annotations

from typing import Any

import pytest

from storlab.brief.target_state import target_state
from storlab.model.point import PlannedRun
from storlab.model.result import Flag, RunRecord
from storlab.workloads.common.flags import STATE_FLAGS
from support.run_records import run_record

GB = 10**9


def run(
    *flags: str,
    verdict: str | None = "steady",
    status: str = "finished",
    drives: list[dict[str, Any]] | None = None,
    machine: dict[str, Any] | None = None,
) -> RunRecord:
    record = run_record(PlannedRun(order=0, point_id="p", repeat=0), "disk")
    return record.model_copy(
        update={
            "status": status,
            "flags": [Flag(kind=kind, message="m") for kind in flags],
            "steady": None if verdict is None else {"verdict": verdict},
            "details": {"health": drives or [], "machine": machine},
        }
    )


def drive(hottest: float | None = None, limit: float | None = None, media: float = 0) -> Any:
    """Return the health of a drive that was given 10 GB and wrote ``media`` GB to its medium."""
    before = {"host_written_bytes": 512_000, "media_written_bytes": 16_384} if media else {}
    after = {"host_written_bytes": 10 * GB + 512_000, "media_written_bytes": round(media * GB)}
    if limit is not None:
        before["temperature_limit_c"] = limit
    return {"drive": "d", "before": before, "after": after if media else {}, "hottest_c": hottest}


def texts(*runs: RunRecord) -> list[str]:
    return [word.text.replace("\u00a0", " ") for word in target_state(runs)]


def test_a_target_in_good_order() -> None:
    found = texts(run(drives=[drive(41.2, 70, 17)]), run(drives=[drive(44.8, 70, 19)]))
    assert found == ["cool (up to 45 °C)", "steady", "write amplification 1.8"]
    assert not any(word.is_off for word in target_state([run(drives=[drive(45, 70, 17)])]))


@pytest.mark.parametrize(
    ("drives", "text", "off"),
    [
        ([drive(60, 70)], "cool (up to 60 °C)", False),
        ([drive(61, 70)], "warm (up to 61 °C)", False),
        ([drive(70, 70)], "hot (up to 70 °C, warns from 70 °C)", True),
        ([drive(50)], "at most 50 °C", False),
        ([drive(50, 85), drive(45, 50)], "warm (up to 45 °C)", False),  # nearest to its own limit
    ],
)
def test_the_temperature_is_judged_by_the_drives_own_limit(
    drives: list[Any], text: str, off: bool
) -> None:
    (word,) = target_state([run(verdict=None, drives=drives)])
    assert (word.text.replace("\u00a0", " "), word.is_off) == (text, off)


def link(text: str = "16 GT/s x4", *, degraded: bool = False, by_slot: bool = False) -> Any:
    told = {"drive": "d", "link": text, "possible": "16 GT/s x4", "degraded": degraded}
    return {**told, "limited_by_slot": by_slot}


@pytest.mark.parametrize(
    ("links", "text"),
    [
        ([link()], "full link (PCIe 16 GT/s x4)"),
        ([link(), link()], "full link (PCIe 16 GT/s x4)"),
        ([link(), link("8 GT/s x4")], "full link"),
        ([link(by_slot=True)], "full link of the slot (PCIe 16 GT/s x4)"),
        ([], None),  # a virtual machine
    ],
)
def test_a_full_link(links: list[Any], text: str | None) -> None:
    assert texts(run(machine={"links": links})) == [*([text] if text else []), "steady"]


def test_a_degraded_link_is_named_with_what_is_possible() -> None:
    slow = run("link-degraded", machine={"links": [link("16 GT/s x2", degraded=True)]})
    assert texts(run(machine={"links": [link()]}), slow) == [
        "steady",
        "slow PCIe link (16 GT/s x2 of 16 GT/s x4) in 1 of 2 runs",
    ]


def test_paths_and_nodes_are_named_if_all_was_well() -> None:
    paths = {"nvme0n1": ["nvme0 live", "nvme1 live"]}
    cores = {"cpus": [0], "remote_percent": 1.0}
    well = run(machine={"paths": paths, "cores": cores})
    near = "workers on the drive’s NUMA node"
    assert texts(well) == ["all 2 paths", near, "steady"]
    one = run("remote-node", machine={"paths": paths, "cores": {**cores, "remote_percent": 50.0}})
    assert texts(well, one) == ["all 2 paths", "steady", "other NUMA node in 1 of 2 runs"]
    fewer = run(machine={"paths": {"nvme0n1": ["nvme0 live"]}, "cores": None})
    assert texts(well, fewer) == [near, "steady"]
    unknown = run(machine={"cores": {"cpus": [0], "remote_percent": None}})
    assert texts(unknown) == ["steady"]


@pytest.mark.parametrize("kind", sorted(STATE_FLAGS))
def test_each_flag_on_the_state_is_named_with_its_runs_and_leads_to_its_meaning(kind: str) -> None:
    (word,) = target_state([run(verdict=None), run(kind, verdict=None), run(kind, verdict=None)])
    assert word.text.endswith("in 2 of 3\u00a0runs")
    assert (word.kind, word.is_off) == (kind, True)


def test_what_is_off_comes_last() -> None:
    runs = [run("throttled", drives=[drive(75, 70, 20)]), run(drives=[drive(40, 70, 20)])]
    offs = [word.is_off for word in target_state(runs)]
    assert offs == [False, False, True, True]


def test_unsteady_and_short_runs() -> None:
    assert texts(run(), run("not-steady", verdict="not-steady")) == ["not steady in 1 of 2 runs"]
    assert texts(run(verdict="too-short")) == []
    assert texts(run(), run(verdict="too-short")) == ["steady"]


def test_failed_runs_and_runs_without_counters_are_left_out() -> None:
    failed = run("throttled", status="failed", drives=[drive(99, 70, 50)])
    assert texts(failed) == []
    assert texts(run(drives=[drive(media=20)]), run(drives=[drive()])) == [
        "steady",
        "write amplification 2.0",
    ]
    assert texts(run(drives=[drive(media=20), drive()])) == ["steady"]
