"""Audit of a result directory: warnings about its comparison of targets.

The rules for published tables are applied to the means (see ``results_table``). The other checks
need the runs: effective concurrency, flags, repeats, engines, power boundaries and provenance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from storlab.analysis.compare import Cell, CellFlag, Comparison, Row, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.offered_load import level_of
from storlab.analysis.points import WorkloadPoint, page_of
from storlab.audit import RULES, audit_table, sort_findings
from storlab.audit.finding import Finding
from storlab.audit.results_table import results_table
from storlab.audit.screening import Selection, select
from storlab.base.units import significant
from storlab.contracts.hook import load
from storlab.contracts.registry import FAMILIES
from storlab.results.store import ResultStore
from storlab.workloads.common.flags import flag_meanings

# Rules for published tables that are not applied to results, because the checks of this module are
# more precise.
FROM_RUNS = ("effective_concurrency", "missing", "power_boundary")
# Names of the rules of this module, besides those of flags and of workload families.
RUN_RULES = (
    "selection",
    "repeats",
    "failed_runs",
    "incomplete",
    "engines",
    "provenance",
    "power",
    "offered_load",
)
SHOWN = 4  # examples per finding
RATE_SLACK = 1e-6  # relative difference of an offered load from the recomputed one


def result_rules() -> list[str]:
    """Return the names of all rules that can occur in findings on a result directory."""
    flags = [meaning for meaning in flag_meanings().values() if meaning.severity]
    hooks = [FAMILIES[kind].page.audit for kind in FAMILIES]
    return [
        *RULES,
        *RUN_RULES,
        *(_rule_of(meaning.kind) for meaning in flags),
        *(place.partition(":")[2] for place in hooks if place),
    ]


def _rule_of(flag: str) -> str:
    return flag.replace("-", "_")


def audit_results(path: str | Path) -> list[Finding]:
    """Audit a result directory and return the findings, errors first.

    Failed runs are excluded from all values.

    Raises:
        ResultError: The directory or a run is damaged.
    """
    return audit_comparison(compare(load_dataset([ResultStore.open(Path(path))])))


def audit_comparison(comparison: Comparison) -> list[Finding]:
    """Audit a comparison of targets and return the findings, errors first.

    ``rows`` of a finding are the ids of points or runs.
    """
    chosen = select(comparison)
    table = results_table(comparison, chosen.points)
    findings = audit_table(table, [name for name in RULES if name not in FROM_RUNS])
    findings += _left_out(chosen)
    for check in CHECKS:
        findings += check(comparison)
    return sort_findings(findings, comparison.dataset.point_ids.values())


def _left_out(chosen: Selection) -> Iterator[Finding]:
    if not chosen.is_all:
        yield Finding(
            rule="selection",
            severity="note",
            rows=[],
            printed=f"{chosen.of:,} workload points",
            recomputed=f"the rules for tables were applied to {len(chosen.points):,} of them: "
            f"first points whose numbers contradict each other in a quick check (there are "
            f"{chosen.suspicious:,}), then the extremes of each target, then points spread evenly",
            why="Rules that compare each number with all others are not applied to every point "
            "of a large campaign. Whether the numbers of one point agree with each other was "
            "checked at every point.",
        )


def _where(comparison: Comparison, point: WorkloadPoint) -> str:
    section = comparison.section_of(point)
    return point.workload if section is None else section.where(point).replace("\u00a0", " ")


def _ids(*cells: Cell) -> list[str]:
    return [cell.point_id for cell in cells if cell.point_id is not None]


def _examples(texts: Sequence[str | Callable[[], str]]) -> str:
    """Join the first examples and count the rest; callables are evaluated only if shown."""
    more = f"; and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return "; ".join(t if isinstance(t, str) else t() for t in texts[:SHOWN]) + more


def _compared(comparison: Comparison) -> Iterator[tuple[Row, Cell, Cell]]:
    """Yield each measured cell of a target with the baseline's cell of the same row."""
    for row in comparison.rows.values():
        base = row.cells[comparison.baseline]
        for target in comparison.others:
            if row.cells[target].measured and base.measured:
                yield row, row.cells[target], base


def _concurrency(comparison: Comparison) -> Iterator[Finding]:
    for target in comparison.others:
        rows: list[str] = []
        texts: list[Callable[[], str]] = []
        for row, cell, base in _compared(comparison):
            differing = [r.concurrency for r in row.ratios[target].values() if r.concurrency]
            if cell.target == target and differing:
                texts.append(partial(_queues_text, comparison, row, *differing[0]))
                rows += _ids(cell, base)
        if texts:
            yield Finding(
                rule="effective_concurrency",
                severity="warning",
                rows=rows,
                printed=f"latency ratios of {target} to {comparison.baseline}",
                recomputed=f"operations in flight: {_examples(texts)}",
                why="Comparison made at different effective concurrency (Little's law: rate x mean "
                "latency). Latency grows with the operations in flight, so the ratio depends on "
                "the queues as well as on the targets.",
            )


def _queues_text(comparison: Comparison, row: Row, first: float, other: float) -> str:
    return (
        f"{_where(comparison, row.point)}: {significant(first, 3)} against {significant(other, 3)}"
    )


def _flags(comparison: Comparison) -> Iterator[Finding]:
    for meaning in flag_meanings().values():
        kind = meaning.kind
        if not meaning.severity:
            continue
        flagged = comparison.flagged(kind)
        for target in comparison.targets:
            touched = [(row, row.cells[target]) for row in flagged.get(target, [])]
            if touched:
                measured = sum(row.cells[target].measured for row in comparison.rows.values())
                yield Finding(
                    rule=_rule_of(kind),
                    severity=meaning.severity,
                    rows=_ids(*(cell for _, cell in touched)),
                    printed=f"{target}: {len(touched)} of {measured} points",
                    recomputed=_examples(
                        [
                            partial(_flag_text, comparison, row, flag)
                            for row, cell in touched
                            for flag in cell.flags
                            if flag.kind == kind
                        ]
                    ),
                    why=meaning.why,
                )


def _flag_text(comparison: Comparison, row: Row, flag: CellFlag) -> str:
    return f"{_where(comparison, row.point)}: {flag.message}"


def _repeats(comparison: Comparison) -> Iterator[Finding]:
    cells = [cell for row in comparison.rows.values() for cell in row.cells.values()]
    single = [cell for cell in cells if len(cell.runs) == 1]
    if single:
        yield Finding(
            rule="repeats",
            severity="note",
            rows=_ids(*single),
            printed=f"{len(single)} of {sum(c.measured for c in cells)} points with one run",
            recomputed="no interval",
            why="A single run has no spread, so the significance of a ratio that uses it is "
            "unknown.",
        )


def _runs(comparison: Comparison) -> Iterator[Finding]:
    cells = [cell for row in comparison.rows.values() for cell in row.cells.values()]
    failed = [run.record.run_id for cell in cells for run in cell.failed]
    if failed:
        yield Finding(
            rule="failed_runs",
            severity="note",
            rows=failed,
            printed=f"{len(failed)} runs that failed or were cancelled",
            recomputed="not included in any value",
            why="Slow runs may be the ones that fail: the values describe only the runs that "
            "finished.",
        )
    missing = [cell for cell in cells if len(cell.runs) + len(cell.failed) < cell.planned]
    if missing:
        yield Finding(
            rule="incomplete",
            severity="note",
            rows=_ids(*missing),
            printed=f"{len(missing)} points with fewer runs than were planned",
            recomputed=f"{sum(c.planned - len(c.runs) - len(c.failed) for c in missing)} runs are "
            "missing",
            why="Repeats are spread over the campaign to catch drift; the missing ones belong "
            "to its end.",
        )


def _engines(comparison: Comparison) -> Iterator[Finding]:
    cells: dict[str, list[tuple[Row, Cell, Cell]]] = {}
    for row, cell, base in _compared(comparison):
        if _programs(cell) != _programs(base):
            cells.setdefault(cell.target, []).append((row, cell, base))
    for target, places in cells.items():
        rows = [i for _, cell, base in places for i in _ids(cell, base)]
        row, cell, base = places[-1]
        first, other = (_programs(side) for side in (cell, base))
        text = f"{_where(comparison, row.point)}: {first} against {other}"
        yield Finding(
            rule="engines",
            severity="warning",
            rows=rows,
            printed=f"ratios of {target} to {comparison.baseline}",
            recomputed=text,
            why="The two sides were loaded by different programs or kernel interfaces; these "
            "may cause a part of the difference.",
        )


def _programs(cell: Cell) -> str:
    engines = (run.record.engine for run in cell.runs)
    return " or ".join(sorted({f"{e.name} {e.version} {e.backend or ''}".strip() for e in engines}))


def _provenance(comparison: Comparison) -> Iterator[Finding]:
    mixed = [
        (row, cell, base)
        for row, cell, base in _compared(comparison)
        if cell.provenance != base.provenance
    ]
    if mixed:
        row, cell, base = mixed[0]
        yield Finding(
            rule="provenance",
            severity="warning",
            rows=[i for _, first, other in mixed for i in _ids(first, other)],
            printed=f"ratios at {len(mixed)} points",
            recomputed=f"{_where(comparison, row.point)}: {cell.target} is {cell.provenance}, "
            f"{base.target} {base.provenance}",
            why="A ratio of a measured to a modelled or emulated value is not a measurement.",
        )


def _power(comparison: Comparison) -> Iterator[Finding]:
    cells = [c for row in comparison.rows.values() for c in row.cells.values() if c.measured]
    without = [cell for cell in cells if cell.power is None]
    if without:
        reasons = dict.fromkeys(f"{c.target}: {c.power_missing or 'no meter'}" for c in without)
        yield Finding(
            rule="power",
            severity="note",
            rows=_ids(*without),
            printed="power, energy and efficiency",
            recomputed=f"not measured ({_examples(list(reasons))})",
            why="Watts and efficiency are unknown at these points.",
        )
    for target in comparison.others:
        unequal = [
            (row, cell, base)
            for row, cell, base in _compared(comparison)
            if cell.target == target
            and cell.power is not None
            and base.power is not None
            and cell.power.boundary != base.power.boundary
        ]
        if unequal:
            _, cell, base = unequal[0]
            is_refused = all(target in r.refused for r, _, _ in unequal)
            yield Finding(
                rule="power_boundary",
                severity="note" if is_refused else "warning",
                rows=[i for _, first, other in unequal for i in _ids(first, other)],
                printed="no ratio of power (refused)" if is_refused else "ratios of power",
                recomputed=f"power of {target} is that of the "
                f"{cell.power.boundary if cell.power else ''}, of {base.target} that of the "
                f"{base.power.boundary if base.power else ''}",
                why="Watts at unequal boundaries include different things: fans, power supplies "
                "and controllers on one side only.",
            )


def _offered(comparison: Comparison) -> Iterator[Finding]:
    """Yield a finding if rates of load levels do not follow from the runs that gave the maximum."""
    runs = list(comparison.dataset.all_runs())
    rate_of = {
        (id(run.store), run.directory_name): run.record.metric(
            page_of(run.record.kind).operations.rate.name
        )
        for run in runs
    }
    wrong: list[tuple[str, str]] = []
    for run in runs:
        load, level = run.record.offered, level_of(run.record)
        if load is None or level is None:
            continue
        rates = [rate_of.get((id(run.store), name)) or math.nan for name in load.maximum_runs]
        maximum = fmean(rates) if rates else math.nan
        offered = maximum * level / 100
        if not abs(load.rate_s - offered) <= RATE_SLACK * offered:
            text = (
                f"{run.record.run_id} offered {significant(load.rate_s, 4)}/s, but {level:g} % of "
                f"the mean of {' and '.join(load.maximum_runs) or 'no run'} is "
                f"{significant(offered, 4)}/s"
            )
            wrong.append((run.record.run_id, text))
    if wrong:
        yield Finding(
            rule="offered_load",
            severity="error",
            rows=[run_id for run_id, _ in wrong],
            printed=f"offered load of {len(wrong)} runs",
            recomputed=_examples([text for _, text in wrong]),
            why="The offered load is not the percentage of the measured maximum that its axis "
            "states.",
        )


def _of_families(comparison: Comparison) -> Iterator[Finding]:
    for kind in comparison.kinds:
        place = page_of(kind).audit
        if place:
            yield from load(place)(comparison)


CHECKS: tuple[Callable[[Comparison], Iterator[Finding]], ...] = (
    _concurrency,
    _flags,
    _repeats,
    _runs,
    _engines,
    _provenance,
    _power,
    _offered,
    _of_families,
)
