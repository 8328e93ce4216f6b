"""A test of the SNIA PTS in small on an emulated NVMe drive: fills, rounds, end when steady."""

from __future__ import annotations

import json

from vm import inside
from vm.machine import Guest
from vm.studies import study

PLAIN = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_PLAIN_1"
MIB = 1 << 20


def test_a_filled_drive_is_run_in_rounds_until_it_is_steady(guest: Guest) -> None:
    """Limits of any size make the drive steady after five rounds, however slow the guest is."""
    text = study(
        ("drive", PLAIN, "PLAIN"),
        runtime="1s",
        workload='block_size = "4KiB"\nread_percent = [100, 0]',
    )
    steady = "{ at = { read_percent = 0 }, slope_percent = 1e9, excursion_percent = 1e9 }"
    fills = '{ fills = 2, fill_block_size = "128KiB", max_rounds = 0 }'
    text = text.replace("repeats = 1", f"repeats = 7\nuntil_steady = {steady}")
    text = text.replace("[[workload]]", f'size = "4MiB"\nprecondition = {fills}\n[[workload]]')
    done = guest.call(inside.run, text, "/tmp/rounds")
    assert done.get("missing") == 0, done
    assert {run["status"] for run in done["runs"]} == {"finished"}
    assert sorted(run["repeat"] for run in done["runs"]) == sorted([1, 2, 3, 4, 5] * 2)
    prepared = json.loads(guest.call(inside.shell, "cat /tmp/rounds/prepare/*.json"))
    assert prepared["fill"]["bytes"] == 2 * 4 * MIB
    guest.call(inside.shell, f"rm -r /tmp/rounds; blkdiscard {PLAIN}")
