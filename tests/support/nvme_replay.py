"""Replayed NVMe controller: pages from ``tests/golden/nvme`` and settable features.

A page file has one field per line, ``offset: bytes in hex  # meaning``; all other bytes are 0. They
were written from the offsets in the base specification, not copied from a drive.
"""

from __future__ import annotations

import re
from pathlib import Path

from storlab.meters.nvme_transport import NvmeStatusError, os_failure

PAGES = Path(__file__).parents[1] / "golden" / "nvme"
_LINE = re.compile(r"(\d+): ([0-9a-f ]+?)\s*(?:#.*)?")


def page(name: str, size: int) -> bytes:
    """Return the bytes of a page file."""
    content = bytearray(size)
    for line in (PAGES / name).read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        assert match is not None, line
        value = bytes.fromhex(match.group(2))
        at = int(match.group(1))
        content[at : at + len(value)] = value
    return bytes(content)


class Controller:
    """Fake controller that answers admin commands and records them."""

    def __init__(self, identify: bytes, smart: bytes, power_log: bytes | None = None) -> None:
        self.identify = identify
        self.smart = smart
        self.power_log = power_log
        self.ocp_log: bytes | None = None
        self.power = 0
        self.apst = 0
        self.takes_settings = True
        self.fails: OSError | int | None = None  # errno of the kernel, or status of the controller
        self.sent: list[tuple[int, int, int, int, int]] = []
        self.closed = False

    def admin(
        self, opcode: int, *, nsid: int = 0, cdw10: int = 0, cdw11: int = 0, data_len: int = 0
    ) -> tuple[bytes, int]:
        self.sent.append((opcode, nsid, cdw10, cdw11, data_len))
        if isinstance(self.fails, OSError):
            raise os_failure("/dev/nvme0", self.fails)
        if self.fails is not None:
            raise NvmeStatusError("/dev/nvme0", self.fails)
        if opcode == 0x06 and cdw10 == 1:
            return self.identify, 0
        if opcode == 0x02 and nsid == 0xFFFFFFFF:
            return self._log(cdw10 & 0xFF, cdw10 >> 16, data_len), 0
        if opcode == 0x0A and cdw10 == 0x02:
            return b"", self.power
        if opcode == 0x0A and cdw10 == 0x0C:
            return bytes(data_len), self.apst
        if opcode == 0x09 and cdw10 == 0x02:
            self.power = cdw11 if self.takes_settings else self.power
            return b"", 0
        raise NvmeStatusError("/dev/nvme0", 0x4002)

    def _log(self, identifier: int, dwords: int, data_len: int) -> bytes:
        assert (dwords + 1) * 4 == data_len
        log = {0x02: self.smart, 0x25: self.power_log, 0xC0: self.ocp_log}.get(identifier)
        if log is None:
            raise NvmeStatusError("/dev/nvme0", 0x4109)
        return log[:data_len]

    def close(self) -> None:
        self.closed = True


def reporting_drive() -> Controller:
    """Return an NVMe 2.3 drive that reports its power."""
    return Controller(
        page("identify_2_3.txt", 4096), page("smart_2_3.txt", 512), page("power_log_2_3.txt", 64)
    )


def silent_drive() -> Controller:
    """Return an NVMe 1.4 drive that does not report power."""
    return Controller(page("identify_1_4.txt", 4096), page("smart_1_4.txt", 512))
