"""storlab purge on emulated NVMe drives: what is refused stays as it was, the rest is erased."""

from __future__ import annotations

import json
from typing import Any

from storlab.base.errors import ExitCode
from vm import inside
from vm.machine import Guest

PLAIN = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_PLAIN_1"
LARGE = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_LARGE_1"
NOT_ZERO = f"dd if={PLAIN} bs=1M skip=8 count=1 iflag=direct status=none | tr -d '\\0' | wc -c"


def refused(guest: Guest, *arguments: str) -> str:
    done = guest.call(inside.storlab, ["purge", *arguments, "--json"])
    assert done["code"] == ExitCode.GUARD, done
    error: dict[str, Any] = json.loads(done["out"])["error"]
    return f"{error['what']}; {error['fix']}"


def test_a_namespace_with_data_or_in_use_is_not_purged(guest: Guest) -> None:
    digest = f"head -c 1M {PLAIN} | sha256sum"
    before = guest.call(inside.shell, f"mkfs.ext4 -q {PLAIN}; {digest}")
    assert "ext4" in refused(guest, PLAIN, "--serial", "PLAIN")
    mount = f"mkdir -p /mnt/purge; mount {PLAIN} /mnt/purge"
    assert guest.call(inside.shell, f"{digest}; {mount}") == before
    assert "/mnt/purge" in refused(guest, PLAIN, "--serial", "PLAIN")
    guest.call(inside.shell, f"umount /mnt/purge; wipefs --all --quiet {PLAIN}")
    assert "consent" in refused(guest, PLAIN)
    assert '"ZONED"' in refused(guest, PLAIN, "--serial", "ZONED")
    assert '"LARGE"' in refused(guest, LARGE, "--serial", "LARGE")  # of two namespaces


def test_a_purge_erases_the_namespace(guest: Guest) -> None:
    written = guest.call(
        inside.shell,
        f"head -c 1M /dev/urandom | dd of={PLAIN} bs=1M seek=8 oflag=direct status=none; "
        f"{NOT_ZERO}",
    )
    assert int(written) > 1_000_000
    done = guest.call(inside.storlab, ["purge", PLAIN, "--serial", "PLAIN", "--json"])
    assert done["code"] == 0, done
    purged = json.loads(done["out"])
    assert (purged["namespace"], purged["size_bytes"]) == (1, 256 << 20)
    assert purged["model"] == "QEMU NVMe Ctrl"
    assert int(guest.call(inside.shell, NOT_ZERO)) == 0
