"""Detection of job sections that ``group_reporting`` merged into one result of fio.

For such a group, fio prints the name of the first section and the options of the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from storlab.base.units import NS_PER_MS
from storlab.engines.fio import importer_options as fio_options
from storlab.engines.fio.result import Figures

_MORE_THREADS = 1.05  # ratio above which run times cannot be those of ``numjobs`` threads
_FAR_PERCENT = 5.0  # difference of the share of reads from rwmixread, in percentage points
_FEW = 1_000  # with fewer I/Os, the share of reads is not judged, because it varies by chance


@dataclass(frozen=True, slots=True)
class Sections:
    """Jobs and share of reads of a result, and the evidence that it merges several sections."""

    jobs: int  # per client
    read_percent: float
    reasons: list[str] = field(default_factory=list)  # empty: the result is of one section

    @property
    def note(self) -> str:
        """Note on the evidence for several sections, and on the options that are unknown."""
        why = "; ".join(self.reasons)
        return (
            f"several sections of the job file are merged in this result: {why}. All options "
            "(rw, bs, iodepth, size, ...) are those of the last section, because fio prints no "
            "others; run fio without group_reporting to keep sections apart"
        )


def find_sections(
    figures: Figures, options: Mapping[str, str], jobs: int, clients: int
) -> Sections:
    """Judge by run times and share of reads whether a result merges several sections.

    Args:
        figures: Results of the group.
        options: Options that fio printed for it, which are of one section.
        jobs: Number of jobs per client by these options.
        clients: Number of clients.
    """
    reasons: list[str] = []
    threads = _threads(figures, options, jobs * clients)
    if threads > jobs * clients:
        reasons.append(
            f"job_runtime is the sum of {threads:,} threads, but numjobs is {jobs * clients:,}"
        )
        jobs = max(jobs + 1, round(threads / clients))
    data = {k: d.operations for k, d in figures.directions.items() if k in ("read", "write")}
    reads, total = data.get("read", 0), sum(data.values())
    asked = _asked_percent(options)
    share = 100 * reads / total if total else asked
    if asked is None or share is None:
        return Sections(jobs, share or 0.0, reasons)
    pure = asked in (0, 100)
    if (pure and round(share, 3) != asked) or (
        not pure and total >= _FEW and abs(share - asked) > _FAR_PERCENT
    ):
        reasons.append(f"{share:.3g} % of the I/Os are reads, but the options give {asked:g} %")
        asked = float(5 * round(share / 5))  # coarse, because measured shares differ by repeat
    return Sections(jobs, asked, reasons)


def _asked_percent(options: Mapping[str, str]) -> float | None:
    """Return the configured percentage of reads; None if rates, pauses or trims may shift it."""
    kinds = fio_options.kinds_of({"rw": "read", **options})
    if "trim" in kinds or any(name.startswith(("rate", "thinktime")) for name in options):
        return None
    if kinds == ["read", "write"]:
        return fio_options.number(options, "rwmixread", 50)
    return 100.0 if kinds == ["read"] else 0.0


def _threads(figures: Figures, options: Mapping[str, str], jobs: int) -> int:
    """Return the number of threads whose run times add up to ``job_runtime``, at least ``jobs``."""
    window_ms = figures.runtime_ms
    ramp_ms = (fio_options.time_ns(options.get("ramp_time", "")) or 0) // NS_PER_MS
    if not window_ms or figures.job_runtime_ms < _MORE_THREADS * jobs * (window_ms + ramp_ms):
        return jobs
    return max(jobs, round(figures.job_runtime_ms / window_ms))
