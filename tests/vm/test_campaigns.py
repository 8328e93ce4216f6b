"""Campaigns on drives that are slow, broken, full or removed."""

from __future__ import annotations

from typing import Any

import pytest

from vm import inside
from vm.machine import PLAIN, Guest
from vm.studies import study

BY_ID = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl"
DELAY_MS = 40
TICK_MS = 10  # longest tick of a kernel's clock; dm-delay counts whole ticks from the last one
DATA_MIB = 4
# Three devices on parts of one drive: each I/O is late, each write fails, four of 32 MiB are there.
STACKED = f"""
plain=$(readlink -f {BY_ID}_PLAIN_1)
dmsetup create late --uuid late --table "0 65536 delay $plain 0 {DELAY_MS}"
dmsetup create broken --uuid broken --table \\
  "0 65536 flakey $plain 65536 0 1 1 error_writes"
dmsetup create index --table "0 8192 linear $plain 131072"
dmsetup create data --table "0 {DATA_MIB * 2048} linear $plain 139264"
dmsetup create pool --table \\
  "0 {DATA_MIB * 2048} thin-pool /dev/mapper/index /dev/mapper/data 128 0 1 error_if_no_space"
dmsetup message pool 0 "create_thin 0"
dmsetup create thin --uuid thin --table "0 65536 thin /dev/mapper/pool 0"
"""
REMOVED = f"""
dmsetup remove -f late broken thin pool data index
wipefs --all --quiet {BY_ID}_PLAIN_1
"""


@pytest.fixture(scope="module")
def runs(guest: Guest) -> dict[str, dict[str, Any]]:
    """Run sequential writes on several devices in one campaign, and return its runs by target."""
    guest.call(inside.shell, STACKED)
    large = guest.call(inside.device, f"{BY_ID}_LARGE_1")["facts"]["wwid"]
    targets = [
        ("late", "/dev/mapper/late", "late"),
        ("broken", "/dev/mapper/broken", "broken"),
        ("thin", "/dev/mapper/thin", "thin"),
        ("large", f"{BY_ID}_LARGE_1", large),
        ("protected", f"{BY_ID}_PROTECTED_1", "PROTECTED"),
        ("shared", f"{BY_ID}_SHARED_1", "SHARED"),
    ]
    written = 'access = "sequential"\nblock_size = "64KiB"\nread_percent = 0\nqueue_depth = 4'
    text = study(*targets, runtime="1s", workload=written)
    text = text.replace(f'serial = "{large}"', f'serial = "{large}"\n        power_state = 0')
    done = guest.call(inside.run, text, "/tmp/campaign")
    assert "runs" in done, done
    assert done["missing"] == 0
    guest.call(inside.shell, REMOVED)
    return {run["target"]: run for run in done["runs"]}


def test_latency_includes_the_delay_of_the_device(runs: dict[str, dict[str, Any]]) -> None:
    assert runs["late"]["status"] == "finished"
    latency = runs["late"]["totals"]["write"]["latency"]
    assert latency["min_ns"] >= (DELAY_MS - TICK_MS) * 1_000_000


@pytest.mark.parametrize("name", ["late", "large"])
def test_devices_prove_that_they_served_a_run(runs: dict[str, dict[str, Any]], name: str) -> None:
    proof = runs[name]["proof"]
    # A guest that gets no CPU time cannot read the counters of a short window often enough.
    too_short = any("too short for counters" in reason for reason in proof["reasons"])
    assert proof["state"] == ("unproven" if too_short else "proven"), proof


@pytest.mark.parametrize("name", ["late", "large", "shared"])
def test_the_health_of_the_drive_is_read_before_and_after_a_run(
    runs: dict[str, dict[str, Any]], name: str
) -> None:
    (drive,) = runs[name]["details"]["health"]
    assert drive["drive"].startswith("nvme")
    assert drive["source"] == "log 02h"
    assert "log C0h" in drive["absent"]
    before, after = drive["before"], drive["after"]
    # The log counts units of 512,000 bytes, and also what the guard and the ramp transferred.
    grown = after["host_written_bytes"] - before["host_written_bytes"]
    assert grown > runs[name]["totals"]["write"]["bytes"] - 512_000
    assert drive["hottest_c"] == before["temperature_c"] == 50
    assert after["percentage_used"] == 0
    assert not {"worn", "throttled", "media-errors"} & {f["kind"] for f in runs[name]["flags"]}


def test_a_drive_that_warns_is_flagged(guest: Guest) -> None:
    text = study(
        ("plain", f"{BY_ID}_PLAIN_1", "PLAIN"), runtime="500ms", workload="read_percent = 100"
    )
    warning = {"path": "/machine/peripheral/plain", "property": "smart_critical_warning"}
    guest.monitor("qom-set", **warning, value=4)
    (run,) = guest.call(inside.run, text, "/tmp/worn")["runs"]
    guest.monitor("qom-set", **warning, value=0)
    (flag,) = (flag for flag in run["flags"] if flag["kind"] == "worn")
    assert "reliability is degraded" in flag["message"]


@pytest.mark.parametrize("name", ["large", "shared"])
def test_a_drive_of_4_kib_sectors_and_one_of_two_paths_are_measured(
    runs: dict[str, dict[str, Any]], name: str
) -> None:
    assert runs[name]["status"] == "finished"
    assert runs[name]["totals"]["write"]["bytes"] > 0


@pytest.mark.parametrize(
    ("name", "error"), [("broken", "EIO"), ("thin", "ENOSPC"), ("protected", "ENODATA")]
)
def test_a_write_that_fails_ends_the_run_with_its_error(
    runs: dict[str, dict[str, Any]], name: str, error: str
) -> None:
    failure = runs[name]["failure"]
    assert runs[name]["status"] == "failed"
    assert (failure["operation"], failure["errno_name"]) == ("write", error)
    assert failure["fix"]


def test_trims_reach_the_drive(guest: Guest) -> None:
    wwid = guest.call(inside.device, f"{BY_ID}_LARGE_1")["facts"]["wwid"]
    text = study(
        ("large", f"{BY_ID}_LARGE_1", wwid),
        runtime="500ms",
        workload='block_size = "64KiB"\nread_percent = 0\ntrim_percent = 100',
    )
    (run,) = guest.call(inside.run, text, "/tmp/trims")["runs"]
    assert run["totals"]["trim"]["operations"] > 0
    # The twelfth number counts discards.
    trims = f"awk '{{print $12}}' /sys/class/block/$(basename $(readlink -f {BY_ID}_LARGE_1))/stat"
    assert int(guest.call(inside.shell, trims)) >= run["totals"]["trim"]["operations"]


def test_the_power_state_of_a_drive_is_set_and_recorded(runs: dict[str, dict[str, Any]]) -> None:
    (state,) = runs["large"]["power_states"]
    assert (state["index"], state["former_index"], state["max_power_w"]) == (0, 0, 25)


def test_a_power_state_that_the_drive_lacks_is_refused(guest: Guest) -> None:
    target = ("plain", f"{BY_ID}_PLAIN_1", 'PLAIN"\npower_state = "1')
    text = study(target, runtime="1s", workload="read_percent = 100").replace('"1"', "1")
    done = guest.call(inside.run, text, "/tmp/power")
    assert "power state 1" in done["text"]


def test_a_drive_removed_in_a_run_is_named_and_resumed_when_it_is_back(guest: Guest) -> None:
    workload = 'block_size = "4KiB"\nread_percent = 0\nrate_iops = 100'
    target = ("plain", f"{BY_ID}_PLAIN_1", "PLAIN")
    text = study(target, runtime="15s", workload=workload).replace('"2min"', "0")
    # The fifth number counts writes, of which the guard makes none.
    writes = f"awk '{{print $5}}' /sys/class/block/$(basename $(readlink -f {BY_ID}_PLAIN_1))/stat"
    before = int(guest.call(inside.shell, writes))
    campaign = guest.start(inside.run, text, "/tmp/removed")
    guest.call(inside.shell, f"until (( $({writes}) > {before + 10} )); do sleep 0.1; done")
    guest.monitor("device_del", id="plain")
    ended = campaign()
    assert ended["error"] == "UnreachableError"
    assert f"{BY_ID}_PLAIN_1: the device was removed" in ended["text"]
    gone = f"until [[ ! -e {BY_ID}_PLAIN_1 ]]; do sleep 0.1; done"
    guest.call(inside.shell, gone)
    assert guest.call(inside.run, "", "/tmp/removed")["error"] == "GuardError"
    name, *options = PLAIN.split(",")
    guest.monitor("device_add", driver=name, **dict(option.split("=") for option in options))
    guest.call(inside.shell, gone.replace("! ", ""))
    done = guest.call(inside.run, "", "/tmp/removed")
    assert done["missing"] == 0
    assert [run["status"] for run in done["runs"]] == ["finished"]
