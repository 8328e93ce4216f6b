"""Zoned drives: a ZNS namespace and a host-managed SMR disk, with the I/O that the kernel saw."""

from __future__ import annotations

import re
from typing import Any

import pytest

from vm import inside
from vm.machine import Guest
from vm.studies import study

ZNS = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_ZONED_1"
ZONE, CAPACITY, MOST_OPEN = 16 << 20, 12 << 20, 4
BLOCK, JOBS, DEPTH = 256 << 10, 2, 2
USED = 4  # zones of the region, of which jobs have two each
WRITTEN = USED * CAPACITY + 8 * BLOCK  # some zones are written twice
REGION = f'region_size = "{USED * ZONE >> 20}MiB"'
WRITES = f"""
access = "sequential"
read_percent = 0
block_size = "{BLOCK >> 10}KiB"
"""
SMR = "modprobe scsi_debug dev_size_mb=32 zbc=managed zone_size_mb=4 zone_nr_conv=1 zone_max_open=2"


def zoned(path: str, serial: str, *workloads: str) -> str:
    return study(
        ("drive", path, serial),
        runtime="500ms",
        workload='\n[[workload]]\nkind = "block"\n'.join(workloads),
    )


@pytest.fixture(scope="module")
def zns(guest: Guest) -> dict[str, Any]:
    """Write and read a ZNS drive, and return its runs, the requests of each, and its zones."""
    filled = f'name = "write"\n{WRITES}{REGION}\njobs = {JOBS}\nqueue_depth = {DEPTH}'
    text = zoned(
        ZNS,
        "ZONED",
        f"{filled}\ntotal_bytes = {WRITTEN}",
        'name = "read"\nblock_size = "4KiB"\nqueue_depth = 4',
    )
    done = guest.call(inside.traced, text, "/tmp/zns", ZNS)
    assert "runs" in done, done
    return {**done, "runs": {run["workload"]: run for run in done["runs"]}}


def test_runs_on_zones_finish_and_are_served_by_their_medium(zns: dict[str, Any]) -> None:
    for kind in ("read", "write"):
        run = zns["runs"][kind]
        assert run["status"] == "finished", run["failure"]
        # On a busy host counters lag, so that a short run is unproven.
        assert run["proof"]["state"] != "contradicted", run["proof"]
        assert "never-written" not in [flag["kind"] for flag in run["flags"]]
    assert zns["runs"]["write"]["totals"]["write"]["bytes"] == WRITTEN


def test_each_zone_is_written_in_order_and_reset_before_it_is_written_again(
    zns: dict[str, Any],
) -> None:
    pointers = [0] * USED
    resets, most_open = 0, 0
    for kind, start, size in zns["requests"]:
        zone, within = divmod(start, ZONE)
        if kind == "W":
            assert within == pointers[zone]
            pointers[zone] += size
            most_open = max(most_open, sum(0 < p < CAPACITY for p in pointers))
        elif kind == "N":
            assert (within, pointers[zone]) == (0, CAPACITY)
            pointers[zone] = 0
            resets += 1
    assert most_open == JOBS * DEPTH
    assert resets > 0
    assert any(f"{resets} zones were reset" in note for note in zns["runs"]["write"]["notes"])
    assert [written for _, _, _, written in zns["zones"][:USED]] == pointers


def test_reads_stay_below_the_write_pointers(zns: dict[str, Any]) -> None:
    written = {start: size for start, _, _, size in zns["zones"]}
    starts = [start for kind, start, _ in zns["requests"] if kind == "R"]
    assert len(starts) >= zns["runs"]["read"]["totals"]["read"]["operations"]
    for start in starts:
        zone, within = divmod(start, ZONE)
        assert within + 4096 <= written[zone * ZONE]
    assert len({start // ZONE for start in starts}) > 1


def test_work_that_zones_cannot_take_is_refused_with_the_reason(guest: Guest) -> None:
    before = guest.call(inside.zones_of, ZNS)
    text = zoned(
        ZNS,
        "ZONED",
        'name = "at random"\nread_percent = 0',
        f'name = "too deep"\n{WRITES}queue_depth = 5',
    )
    done = guest.call(inside.run, text, "/tmp/refused")
    assert done["error"] == "StudyError"
    for field, reason in (("access", "random writes"), ("queue_depth", "4 open and 5 active")):
        assert re.search(rf"workload.*{field}.*{reason}", done["text"]), done
    assert guest.call(inside.zones_of, ZNS) == before


@pytest.mark.parametrize("command", ["plan", "doctor"])
def test_plan_and_doctor_name_a_zoned_drive(guest: Guest, command: str) -> None:
    text = zoned(ZNS, "ZONED", WRITES + "queue_depth = 1")
    done = guest.call(inside.storlab, [command], text)
    named = "zoned drive: 16 zones of 16MiB, at most 4 open and 5 active"
    assert named in " ".join(done["out"].split()), done


def test_an_smr_disk_is_filled_and_read(guest: Guest) -> None:
    name = guest.call(
        inside.shell,
        f"{SMR}; udevadm settle; ls /sys/bus/pseudo/drivers/scsi_debug/*/*/*/*/block",
    )
    serial = guest.call(inside.device, f"/dev/{name}")["facts"]["wwid"]
    text = zoned(
        f"/dev/{name}",
        serial,
        f"{WRITES}queue_depth = 2\ntotal_bytes = {30 << 20}",
        'access = "sequential"\nblock_size = "64KiB"\nqueue_depth = 4',
    )
    done = guest.call(inside.run, text, "/tmp/smr")
    assert [run["status"] for run in done["runs"]] == ["finished", "finished"], done
    zones = guest.call(inside.zones_of, f"/dev/{name}")
    assert len(zones) == 7  # of eight, one is conventional
    assert sum(written for *_, written in zones) > 20 << 20
    guest.call(inside.shell, "rmmod scsi_debug")
