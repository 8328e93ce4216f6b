"""Show in a brief which path transfers took: sentences, table of routes, GPUs and libraries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storlab.analysis.compare import Cell, Comparison
from storlab.analysis.points import Section, WorkloadPoint
from storlab.base.units import format_bytes_si, format_number, significant
from storlab.brief.flags import cell_marks
from storlab.brief.model import DataTable, FactTable, Number
from storlab.brief.tables import Leaf, table_of
from storlab.model.result import Operation, OperationTotals
from storlab.words.text import all_named, and_list, named, plural
from storlab.workloads.gpudirect.details import (
    CuFileTold,
    GpuDirectDetails,
    LibraryTold,
    RouteReport,
)
from storlab.workloads.gpudirect.findings.best import NONE, sections_of
from storlab.workloads.gpudirect.flags import NOT_DIRECT, UNPROVEN
from storlab.workloads.gpudirect.metrics import LEAST_DIRECT_PERCENT

DIRECT = "direct"
SHARES = ("direct", "p2p", "nvfs", "posix")


@dataclass(frozen=True, slots=True)
class Proof:
    """Which path a target's transfers took at one point: counts and reports of all runs."""

    section: Section
    point: WorkloadPoint
    cell: Cell
    route: RouteReport  # sum over the runs
    details: tuple[GpuDirectDetails, ...]

    @property
    def path(self) -> str:
        """Path that the study asks for."""
        return str(self.point.params["path"])

    def has(self, kind: str) -> bool:
        """Return whether any run has a flag of this kind."""
        return any(flag.kind == kind for flag in self.cell.flags)


def proofs(comparison: Comparison) -> Iterator[Proof]:
    """Yield what is known about the path for every measured point of every target."""
    for section in sections_of(comparison):
        for point in section.points:
            for target in comparison.planned([point]):
                cell = comparison.row(point).cells[target]
                if cell.measured:
                    told = tuple(GpuDirectDetails.of(run.record) for run in cell.runs)
                    yield Proof(
                        section, point, cell, RouteReport.summed([d.route for d in told]), told
                    )


def emulated(comparison: Comparison) -> list[str]:
    """Return warnings about targets whose runs used an emulated GPU or emulated libraries."""
    reasons: dict[str, dict[str, None]] = {}
    for proof in proofs(comparison):
        for told in proof.details:
            reasons.setdefault(proof.cell.target, {}).update(dict.fromkeys(told.stand_ins))
    targets: dict[str, list[str]] = {}
    for target, texts in reasons.items():
        if texts:
            targets.setdefault("; ".join(texts), []).append(target)
    return [
        f"Emulated on {all_named(names)}: {why}. Nothing was measured on a GPU there; do not quote "
        "these numbers."
        for why, names in targets.items()
    ]


def not_direct(comparison: Comparison) -> list[str]:
    """Return warnings about points with path = direct that were not, or not proven, direct."""
    direct = [proof for proof in proofs(comparison) if proof.path == DIRECT]
    sentences = []
    for target in dict.fromkeys(proof.cell.target for proof in direct):
        own = [proof for proof in direct if proof.cell.target == target]
        bad = [proof for proof in own if proof.has(NOT_DIRECT)]
        if bad:
            sentences.append(_not_direct(target, bad, len(own)))
        unsure = [proof for proof in own if proof.has(UNPROVEN)]
        if unsure:
            sentences.append(
                f"The direct path is not proven on {named(target)} at "
                f"{_of(len(unsure), len(own))}: {_why_unproven(unsure)}. "
                "Do not quote these numbers as GPUDirect Storage."
            )
    return sentences


def _why_unproven(unsure: Sequence[Proof]) -> str:
    """Return why the path of some points is not proven, as a clause of a sentence."""
    details = [told for proof in unsure for told in proof.details]
    against = dict.fromkeys(text for d in details for text in (*d.stand_ins, *d.path_obstacles))
    if against:
        why = "; ".join(against)
        return f"the counters show direct transfers, but this machine cannot make them ({why})"
    return "no counter shows which path the bytes took"


def _of(some: int, every: int) -> str:
    """Format a number of points as ``all 8 points`` or ``3 of 8 points``."""
    if some < every:
        return f"{some:,} of {plural(every, 'point')}"
    return f"all {plural(every, 'point')}" if every > 1 else "the one point"


def _not_direct(target: str, bad: Sequence[Proof], count: int) -> str:
    shares = [proof.route.percents()["posix"] for proof in bad if proof.route.counted]
    low, high = min(shares, default=0.0), max(shares, default=0.0)
    span = (
        format_number(high)
        if math.isclose(low, high, abs_tol=0.05)
        else f"{format_number(low)} to {format_number(high)}"
    )
    compat = low >= LEAST_DIRECT_PERCENT
    why = "cuFile ran in compatibility mode, and " if compat else ""
    where = f"at {_of(len(bad), count)} with path = direct"
    return (
        f"Not GPUDirect on {named(target)}: {why}{span} % of the bytes went through host memory "
        f"(POSIX) {where}. Do not quote these numbers as GPUDirect Storage."
    )


def proven(comparison: Comparison) -> list[str]:
    """Return sentences on targets whose runs with path = direct all were direct, by a counter."""
    direct = [proof for proof in proofs(comparison) if proof.path == DIRECT]
    good: dict[str, list[str]] = {}
    for target in dict.fromkeys(proof.cell.target for proof in direct):
        own = [proof for proof in direct if proof.cell.target == target]
        if any(proof.has(NOT_DIRECT) or proof.has(UNPROVEN) for proof in own):
            continue
        p2p, nvfs = (sum(getattr(p.route, n) for p in own) for n in ("p2p_bytes", "nvfs_bytes"))
        ways = [w for w, b in (("the kernel’s P2PDMA", p2p), ("nvidia-fs", nvfs)) if b]
        counters = and_list(list(dict.fromkeys(p.route.counter for p in own)))
        least = min(proof.route.percents()["direct"] for proof in own)
        share = "all bytes" if least >= 100 else f"{significant(least, 4)} % of the bytes or more"
        good.setdefault(f"{share} went by {and_list(ways)}, counted by {counters}", []).append(
            target
        )
    return [
        f"The direct path was direct on {all_named(targets)}: {words}."
        for words, targets in good.items()
    ]


def proof_table(comparison: Comparison) -> DataTable | None:
    """Build the table of bytes by route for points with path = direct; None without any."""
    leaves = [
        Leaf([proof.section.where(proof.point)], proof.cell, _numbers(proof))
        for proof in proofs(comparison)
        if proof.path == DIRECT
    ]
    if not leaves:
        return None
    return table_of(
        comparison,
        "The path that each byte took where the direct one was asked for: all runs of a point "
        "together, ramp included. The other paths go through host memory, as asked",
        ["workload point"],
        [
            ("moved", ""),
            ("direct", "%"),
            ("P2PDMA", "%"),
            ("nvidia-fs", "%"),
            ("POSIX", "%"),
            ("counted by", ""),
            ("device / moved", "%"),
            ("compared", ""),
        ],
        leaves,
    )


def _numbers(proof: Proof) -> list[Number]:
    route, cell = proof.route, proof.cell
    kinds = [flag for flag in cell.flags if flag.kind in (NOT_DIRECT, UNPROVEN)]
    marks = cell_marks(kinds, len(cell.runs), latency=False)
    moved = Number(format_bytes_si(route.bytes), "", cell.point_id) if route.bytes else NONE
    ends = [_device(proof), _compared(proof)]
    if not route.counted:
        shares = [NONE] * 4
        by = Number("not counted", "", cell.point_id, marks)
    else:
        percents = route.percents()
        shares = [
            Number(
                significant(percents[name], 4), "", cell.point_id,
                marks if name == "direct" else (), strong=name == "direct",
            )
            for name in SHARES
        ]  # fmt: skip
        unproven = [mark for mark in marks if mark.kind == UNPROVEN]
        by = Number(route.counter, "", cell.point_id, tuple(unproven))
    return [moved, *shares, by, *ends]


def _device(proof: Proof) -> Number:
    """Return the bytes counted by the device as a percentage of those moved by the load."""
    counted, moved = 0.0, 0.0
    for run, told in zip(proof.cell.runs, proof.details, strict=True):
        window_ns = run.record.window_end_ns - run.record.window_start_ns
        totals = counted_and_moved(told, run.record.totals, window_ns)
        if totals is None:
            return NONE
        counted, moved = counted + totals[0], moved + totals[1]
    return Number(f"{100 * counted / moved:.0f}", "", proof.cell.point_id) if moved else NONE


def counted_and_moved(
    told: GpuDirectDetails, totals: Mapping[Operation, OperationTotals], window_ns: int
) -> tuple[float, float] | None:
    """Return the bytes that the device counted, and those that the load generator moved.

    Both are for the whole load. If the engine reports only the measure window, the bytes of the
    device are scaled to the window. None if the device has no count.
    """
    whole = told.load_device
    if whole is not None and told.route.bytes:
        return whole.read_bytes + whole.written_bytes, told.route.bytes
    device = told.device
    if device is None or not device.over_ns or not window_ns:
        return None
    share = min(1.0, window_ns / device.over_ns)
    moved = sum(total.bytes for total in totals.values())
    return (device.read_bytes + device.written_bytes) * share, moved


def _compared(proof: Proof) -> Number:
    """Return how many bytes were compared with storage, and how many were wrong."""
    passes = [c for d in proof.details for c in (d.first_pass, d.read_back) if c is not None]
    if not passes:
        return NONE
    wrong, compared = sum(p.wrong for p in passes), sum(p.bytes for p in passes)
    text = format_bytes_si(compared) if compared else "by earlier runs"
    verdict = f"{format_bytes_si(wrong)} wrong" if wrong else "equal"
    return Number(f"{text}, {verdict}", "", proof.cell.point_id)


def proof_data(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the bytes by route of all points, as plain values for JSON."""
    return [
        {
            "where": proof.section.where(proof.point),
            "target": proof.cell.target,
            "point": proof.cell.point_id,
            "by": proof.route.by,
            "bytes": proof.route.bytes,
            "percent": proof.route.percents() if proof.route.counted else None,
        }
        for proof in proofs(comparison)
    ]


def machine_facts(comparison: Comparison) -> list[FactTable]:
    """Return a table of the GPUs and libraries that runs used."""
    rows: dict[str, dict[str, None]] = {}
    for proof in proofs(comparison):
        for told in proof.details:
            for gpu in told.gpus:
                text = f"{gpu.name}, {gpu.pci}, compute capability {gpu.compute}, " + (
                    f"{format_bytes_si(gpu.memory_bytes)} of memory"
                )
                rows.setdefault(f"GPU {gpu.number}", {})[text] = None
            for name, library in (
                ("CUDA driver", told.libraries.cuda),
                ("libcufile", told.libraries.cufile),
            ):
                if library is not None:
                    rows.setdefault(name, {})[_library(library)] = None
    if not rows:
        return []
    return [FactTable("GPU and libraries", [(name, "; ".join(v)) for name, v in rows.items()])]


def _library(library: LibraryTold) -> str:
    compat = {True: ", compatibility mode allowed", False: ", compatibility mode not allowed"}
    allowed = library.compat_allowed if isinstance(library, CuFileTold) else None
    mode = "" if allowed is None else compat[allowed]
    return f"{library.version} ({library.path}){mode}"
