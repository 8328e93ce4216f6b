"""Reports of vdbench, printed like its sources print them, from counted operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

MIB = 1 << 20
RAW_HEADS = (
    "Mar 08, 2026    interval        i/o   MB/sec   bytes   read     resp     read    write"
    "     read    write     resp  queue  cpu%  cpu%\n"
    "                               rate  1024**2     i/o    pct     time     resp     resp"
    "      max      max   stddev  depth sys+u   sys"
)
FILE_HEADS = (
    "Mar 08, 2026 ..Interval.. .ReqstdOps... ...cpu%...  read ....read..... ....write...."
    " ..mb/sec... mb/sec .xfer.. ...mkdir.... ....open....\n"
    "                            rate   resp total  sys   pct   rate   resp   rate   resp"
    "  read write  total    size  rate   resp  rate   resp"
)
RAW_COLUMNS = (
    "tod timestamp Run Interval reqrate rate MB/sec bytes/io read% resp read_resp write_resp "
    "resp_max read_max write_max resp_std read_std write_std xfersize threads rdpct rhpct whpct "
    "seekpct lunsize version compratio dedupratio queue_depth cpu_used"
)


@dataclass(frozen=True)
class Load:
    """Operations of an interval; times in ms."""

    reads: int
    writes: int = 0
    size: int = 4096
    read_ms: float = 0.2504
    write_ms: float = 0.0
    read_max: float = 9.75
    write_max: float = 0.0
    seconds: float = 1.0

    @property
    def operations(self) -> int:
        """Number of operations."""
        return self.reads + self.writes

    @property
    def mean_ms(self) -> float:
        """Mean response time of all operations."""
        waited = self.reads * self.read_ms + self.writes * self.write_ms
        return waited / max(1, self.operations)


@dataclass(frozen=True)
class Run:
    """Run definition with the loads of its intervals, of which the first is not averaged."""

    name: str
    loads: Sequence[Load]
    start: int = 18 * 3600  # second of the day
    settings: str = "I/O rate: Uncontrolled MAX; elapsed=4; For loops: None"
    reqrate: str = "9999988"
    columns: dict[str, str] = field(default_factory=dict)

    @property
    def averaged(self) -> Load:
        """All averaged intervals together."""
        rest = self.loads[1:]
        return replace(
            rest[0],
            reads=sum(load.reads for load in rest),
            writes=sum(load.writes for load in rest),
            seconds=sum(load.seconds for load in rest),
        )

    def rows(self) -> list[tuple[str, str, Load]]:
        """Return time, interval and load of each row, the averages last."""
        rows, at = [], float(self.start)
        for number, load in enumerate(self.loads, 1):
            at += load.seconds
            rows.append((clock(at + 0.014), str(number), load))
        rows.append((clock(at + 0.02), f"avg_2-{len(self.loads)}", self.averaged))
        return rows


def clock(second: float) -> str:
    """Return a time of day as vdbench prints it."""
    whole = int(second)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{second % 60:06.3f}"


def summary(*runs: Run, heads: str = RAW_HEADS, title: str = "summary report, created") -> str:
    """Return ``summary.html``; with another title, another report with the same rows.

    ``totals.html`` has averages only, and heads only for its first run.
    """
    is_total = title == "Run totals"
    zone = " 17:59:57 Mar 08 2026 CET (16:59:57 Mar 08 2026 UTC)" if "created" in title else ""
    parts = [f"<title>Vdbench out/summary.html</title><pre>\nVdbench {title}{zone}\n"]
    for run in runs:
        start = f"{clock(run.start)} Starting RD={run.name}; {run.settings}"
        shown = "" if is_total and len(parts) > 1 else heads
        parts.append(f'\n<a name="_1"></a><i><b>{start}</b></i>\n\n\n{shown}\n')
        form = raw_row if heads == RAW_HEADS else file_row
        rows = run.rows()[-1:] if is_total else run.rows()
        parts += [f"{tod}  {interval:>10} {form(load)}\n" for tod, interval, load in rows]
    return "".join([*parts, "18:00:06.752 Vdbench execution completed successfully\n"])


def raw_row(load: Load) -> str:
    """Return the values of raw I/O as a summary has them."""
    count = load.operations
    moved = count * load.size
    return (
        f"{count / load.seconds:10.1f} {moved / load.seconds / MIB:8.2f} "
        f"{moved // max(1, count):7d} {100 * load.reads / max(1, count):6.2f} {load.mean_ms:8.3f} "
        f"{load.read_ms:8.3f} {load.write_ms:8.3f} {load.read_max:8.2f} {load.write_max:8.2f} "
        f"{0.1:8.3f} {15.9:6.1f} {2.0:5.1f} {1.0:5.1f}"
    )


def file_row(load: Load) -> str:
    """Return the values of a file system workload as a summary has them."""
    rates = [number / load.seconds for number in (load.reads, load.writes)]
    mbs = [rate * load.size / MIB for rate in rates]
    percent = 100 * load.reads / max(1, load.operations)
    return (
        f"{sum(rates):6.1f} {load.mean_ms:6.3f} {2.0:5.1f} {1.0:4.2f} {percent:5.1f} "
        f"{rates[0]:6.1f} {load.read_ms:6.3f} {rates[1]:6.1f} {load.write_ms:6.3f} "
        f"{mbs[0]:5.2f} {mbs[1]:5.2f} {sum(mbs):6.2f} {load.size:7d} {0.0:5.1f} {0.0:6.3f} "
        f"{12.0:5.1f} {0.025:6.3f}"
    )


def flatfile(*runs: Run) -> str:
    """Return ``flatfile.html`` of raw I/O."""
    lines = [
        "<title>Vdbench out/flatfile.html</title><pre>",
        "*",
        "* 'flatfile.html' contains Vdbench generated information in a column by column format.",
        "* rate            : Observed i/o rate",
        f"         {RAW_COLUMNS}",
    ]
    for run in runs:
        settings = {
            "xfersize": str(run.loads[0].size), "threads": "8", "rdpct": "100", "rhpct": "0",
            "whpct": "0", "seekpct": "100", "lunsize": "16", "compratio": "1", "dedupratio": "n/a",
            **run.columns,
        }  # fmt: skip
        for tod, interval, load in run.rows():
            count = load.operations
            moved = count * load.size
            values = {
                "tod": tod, "timestamp": f"03/08/2026-{tod[:8]}-CET", "Run": run.name,
                "Interval": interval, "reqrate": run.reqrate, "rate": number(count / load.seconds),
                "MB/sec": number(moved / load.seconds / MIB),
                "bytes/io": str(moved // max(1, count)),
                "read%": number(100 * load.reads / max(1, count)), "resp": number(load.mean_ms),
                "read_resp": number(load.read_ms), "write_resp": number(load.write_ms),
                "resp_max": number(max(load.read_max, load.write_max)),
                "read_max": number(load.read_max), "write_max": number(load.write_max),
                "resp_std": "0.1", "read_std": "0.1", "write_std": "0", "version": "n/a",
                "queue_depth": "15.921", "cpu_used": "2.01", **settings,
            }  # fmt: skip
            lines.append(" ".join(values[name] for name in RAW_COLUMNS.split()))
    return "\n".join(lines) + "\n"


def number(value: float) -> str:
    """Return a number as the flatfile has it: four decimals, without zeros at the end."""
    return f"{value:.4f}".rstrip("0").rstrip(".")
