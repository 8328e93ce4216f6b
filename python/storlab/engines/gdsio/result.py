"""Parser of the result line of gdsio, NVIDIA's benchmark of GPUDirect Storage.

gdsio prints one line per configuration, in GiB/s and us. ``DataSetSize`` has the KiB transferred
before the slash and the KiB of the files after it. Throughput is KiB transferred / ``total_time``.
For batches, the line has ``IoDepth`` besides ``Threads``. gdsio before 1.0 uses other units and is
not supported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from storlab.base.units import GIB, NS_PER_S, significant

_LINE = re.compile(
    r"(?:IoType:\s*)?(?P<io>RANDREAD|RANDWRITE|READ|WRITE)\s+XferType:\s*(?P<xfer>\w+)\s+"
    r"Threads:\s*(?P<threads>\d+)\s+(?:IoDepth:\s*(?P<depth>\d+)\s+)?"
    r"DataSetSize:\s*(?P<moved>\d+)/(?P<size>\d+)\(KiB\)\s+"
    r"IOSize:\s*(?P<block>\d+)(?:-(?P<largest>\d+)-\d+)?\(KiB\)\s+"
    r"Throughput:\s*(?P<rate>[\d.]+)\s*GiB/sec,\s*Avg_Latency:\s*(?P<latency>[\d.]+)\s*usecs\s+"
    r"ops:\s*(?P<operations>\d+)\s+total_time\s*(?P<seconds>[\d.]+)\s*secs"
)
_BEGUN = re.compile(r"XferType:")


class GdsioFormatError(ValueError):
    """Error: gdsio's output has no valid result line."""


@dataclass(frozen=True, slots=True)
class Result:
    """Parsed result line of gdsio: operations, bytes, time and mean latency."""

    io_type: str  # READ, WRITE, RANDREAD or RANDWRITE
    xfer_type: str  # such as GPUD or CPUONLY
    threads: int
    depth: int | None  # entries of a batch
    operations: int
    bytes: int
    block_bytes: int  # size of an I/O; the smallest of a range (-i MIN:MAX:STEP)
    largest_bytes: int  # largest size of an I/O
    length_ns: int
    bytes_s: float  # as printed
    latency_mean_ns: float
    position: int  # index in the text of the line's first character

    @property
    def operation(self) -> str:
        """Kind of operation: ``read`` or ``write``."""
        return "read" if self.io_type.endswith("READ") else "write"

    def disagreement(self) -> str | None:
        """Return a note if gdsio's printed rate differs from bytes over time by more than 1 %."""
        rate = self.bytes * NS_PER_S / self.length_ns
        if abs(self.bytes_s / rate - 1) <= 0.01:
            return None
        return (
            f"gdsio prints {significant(self.bytes_s / 1e6, 4)} MB/s, but transferred "
            f"{self.bytes:,} bytes in {self.length_ns / NS_PER_S:.3f} s, which is "
            f"{significant(rate / 1e6, 4)} MB/s: the latter is used"
        )


def read_results(text: str) -> list[Result]:
    """Parse all result lines of gdsio's output.

    Raises:
        GdsioFormatError: There is no result line, a line is incomplete, or no data was moved.
    """
    results = [_result(match) for match in _LINE.finditer(text)]
    if not results and _BEGUN.search(text):
        raise GdsioFormatError("the result line is cut short, or from a gdsio before 1.0")
    if not results:
        raise GdsioFormatError("it has no result line")
    if len(results) != len(_BEGUN.findall(text)):
        raise GdsioFormatError("a result line is cut short")
    return results


def _result(match: re.Match[str]) -> Result:
    try:
        length_ns = round(float(match["seconds"]) * NS_PER_S)
        bytes_s, latency_ns = float(match["rate"]) * GIB, float(match["latency"]) * 1_000
    except ValueError as error:
        raise GdsioFormatError(f"the result line has an invalid number: {error}") from error
    operations, moved = int(match["operations"]), int(match["moved"]) * 1024
    if not operations or not moved or length_ns <= 0:
        raise GdsioFormatError("the result line reports no operations, bytes or time")
    return Result(
        io_type=match["io"],
        xfer_type=match["xfer"],
        threads=int(match["threads"]),
        depth=int(match["depth"]) if match["depth"] else None,
        operations=operations,
        bytes=moved,
        block_bytes=int(match["block"]) * 1024,
        largest_bytes=int(match["largest"] or match["block"]) * 1024,
        length_ns=length_ns,
        bytes_s=bytes_s,
        latency_mean_ns=latency_ns,
        position=match.start(),
    )
