"""Tables of a brief about what was measured and how: targets, configuration, environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storlab.analysis.compare import PER_REPEAT, Comparison
from storlab.analysis.dataset import TargetColumn, directory_names
from storlab.analysis.density import whole_cost
from storlab.analysis.merge_directories import differences
from storlab.analysis.points import (
    WorkloadPoint,
    constants,
    describe,
    fill_in,
    page_of,
    spaced_size,
    title_of,
    value_text,
)
from storlab.base.units import (
    SIZE_UNITS,
    TB,
    exact_number,
    format_bytes_si,
    format_duration,
    format_number,
    significant,
)
from storlab.brief.all_mixes import reach
from storlab.brief.method_definitions import fixed_method, has_window
from storlab.brief.model import FactTable, TargetCard
from storlab.brief.target_state import target_state
from storlab.figures.common import last_point_text
from storlab.model.s3 import S3Options
from storlab.model.study import Target
from storlab.results.store import ResultStore
from storlab.words.text import and_list, plural

UNMERGED = (
    " Runs without histograms, such as imported ones, cannot be merged: the number is then the "
    "median of the repeats’ own percentiles, marked “not merged”, with the smallest and largest "
    "below it."
)
INTENDED = (
    "In open loop operations are due at given times. Latency from the intended start counts the "
    "wait behind a stalled device; latency from submission does not see it."
)
FIRST_BYTE = (
    "From the start of a request to the first byte of the answer’s body, measured by the load "
    "generator; part of the latency, which ends with the last byte."
)
FAILED = (
    "Counted by kind, and part of no rate, no byte count and no latency. Only in open loop does a "
    "request that timed out count in the latency from the intended start. What answered in time "
    "with the right content succeeded."
)
# entries of environment.json that do not help readers of a brief
HIDDEN_ENVIRONMENT = ("schema_version", "guard")
POWER = "power_w.all"


def target_card(comparison: Comparison, index: int, column: TargetColumn) -> TargetCard:
    """Build the card of a target: facts declared in the study or recorded in the environment."""
    target = column.target
    places = [target.s3] if target.s3 is not None else target.locations
    where = places[0] if len(places) == 1 else f"{len(places)} devices"
    facts = [("Location", "the current directory" if where == "." else where, False)]
    examined = _examined(column)
    facts += [(label, examined[key], False) for key, label in _FOUND.items() if key in examined]
    if target.capacity is not None:
        facts.append(("Capacity", capacity_text(target.capacity), True))
    if target.usable is not None:
        facts.append(("Usable", capacity_text(target.usable), True))
    if target.drives is not None:
        facts.append(("Drives", str(target.drives), True))
    if target.rack_units is not None:
        facts.append(("Rack units", exact_number(target.rack_units), True))
    facts += [(name, price, True) for name, price in _prices(target)]
    facts += [("Power", power, True) for power in _declared_power(comparison, column.label)]
    if target.size is not None:
        facts.append(("Data set", spaced_size(target.size), False))
    in_memory = examined.get("in_memory") == "yes"
    access = _access(target, _kinds_on(comparison, column.label), in_memory)
    facts.append(("Access", access, False))
    is_baseline = bool(comparison.others) and column.label == comparison.baseline
    of_target = (run for run in comparison.dataset.all_runs() if run.target == column.label)
    state = target_state([run.record for run in of_target if not run.group])
    return TargetCard(column.label, index, is_baseline, facts, state)


def _prices(target: Target) -> list[tuple[str, str]]:
    """Return declared prices of the storage and of the whole target, with prices per raw TB."""
    storage, whole = target.storage_price, whole_cost(target)
    prices = [("Price", storage), ("Whole cost", whole if whole != storage else None)]
    facts = []
    for name, price in prices:
        if price is not None:
            per_tb = (
                f" ({format_number(price / target.capacity * TB)} per TB)"
                if target.capacity
                else ""
            )
            facts.append((name, f"{target.currency} {price:,.0f}{per_tb}"))
    return facts


def _declared_power(comparison: Comparison, target: str) -> list[str]:
    """Return the declared mean power with its boundary, as a list of at most one text."""
    accounts = [
        (cell.values[POWER], cell.power)
        for row in comparison.rows.values()
        for cell in [row.cells[target]]
        if cell.power is not None and cell.power.provenance == "declared" and POWER in cell.values
    ]
    if not accounts:
        return []
    watts = sorted(value.estimate for value, _ in accounts)
    ends = dict.fromkeys(format_number(end) for end in (watts[0], watts[-1]))
    return [f"{' to '.join(ends)}\u00a0W ({accounts[0][1].boundary})"]


def _kinds_on(comparison: Comparison, target: str) -> list[str]:
    """Return the workload families that the study runs on a target."""
    rows = comparison.rows.values()
    return sorted({row.point.kind for row in rows if row.cells[target].point_id is not None})


def _access(target: Target, kinds: Sequence[str], in_memory: bool) -> str:
    if target.is_embedded:
        return "storlab’s own server, over loopback"
    if target.s3 is not None:
        options = target.s3_options or S3Options()
        if target.s3.startswith("https:"):
            tls = "TLS, certificate verified" if options.verify_tls else "TLS, not verified"
        else:
            tls = "no TLS"
        return f"S3, {options.addressing} style, {tls}"
    cached = "in memory" if in_memory else "through the page cache"
    buffered = [page_of(kind).text.work for kind in kinds if page_of(kind).load.buffered]
    if not target.direct or (buffered and len(buffered) == len(kinds)):
        return cached
    if in_memory:
        return "in memory: the file system accepts O_DIRECT and has no drive"
    return "O_DIRECT" + "".join(f"; {work} {cached}" for work in buffered)


_FOUND = {
    "model": "Model",
    "firmware": "Firmware",
    "file_system": "File system",
    "filesystem": "File system",
    "fs_type": "File system",
    "scheduler": "I/O scheduler",
}


def capacity_text(size_bytes: int) -> str:
    """Format a capacity such as ``245.76 TB``, with up to five digits."""
    for unit in ("PB", "TB", "GB", "MB"):
        if size_bytes >= SIZE_UNITS[unit]:
            return f"{significant(size_bytes / SIZE_UNITS[unit], 5)}\u00a0{unit}"
    return f"{size_bytes:,}\u00a0B"


def _examined(column: TargetColumn) -> dict[str, str]:
    """Return what the recorded environment says about a target, as names and texts."""
    about = column.store.environment.get("targets", {})
    if isinstance(about, list):
        about = {str(entry.get("name")): entry for entry in about if isinstance(entry, Mapping)}
    described = about.get(column.target.name, {}) if isinstance(about, Mapping) else {}
    facts: dict[str, str] = {}
    for key, value in flatten(described):
        leaf = key.rsplit(".", 1)[-1].split(" ")[0]
        if value not in ("", "none known"):
            facts.setdefault(leaf, value)
    return facts


def flatten(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Flatten nested values to pairs of dotted name and text; empty values are left out."""
    if isinstance(value, Mapping):
        return [
            pair
            for key, inner in value.items()
            for pair in flatten(inner, f"{prefix}.{key}" if prefix else str(key))
        ]
    if isinstance(value, list | tuple):
        if any(isinstance(item, Mapping | list) for item in value):
            return [
                pair
                for number, item in enumerate(value, 1)
                for pair in flatten(item, f"{_singular(prefix)} {number}")
            ]
        return [(prefix, ", ".join(str(item) for item in value))] if value else []
    if value is None or value == "":
        return []
    if isinstance(value, bool):
        return [(prefix, "yes" if value else "no")]
    if isinstance(value, int) and prefix.endswith("_bytes"):
        return [(prefix.removesuffix("_bytes"), _bytes_text(value))]
    if isinstance(value, int) and prefix.endswith("_ns"):
        return [(prefix.removesuffix("_ns"), format_duration(value))]
    return [(prefix, str(value))]


def environment_tables(stores: Sequence[ResultStore]) -> list[FactTable]:
    """Build a table per top-level entry of ``environment.json``; equal tables are merged."""
    if len(stores) == 1:
        return _environment_tables(stores[0])
    tables: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for store, place in zip(stores, directory_names(stores), strict=True):
        for table in _environment_tables(store):
            tables.setdefault((table.heading, tuple(table.rows)), []).append(place)
    return [
        FactTable(heading if len(on) == len(stores) else f"{heading} ({and_list(on)})", [*rows])
        for (heading, rows), on in tables.items()
    ]


def _environment_tables(store: ResultStore) -> list[FactTable]:
    tables, loose = [], []
    for name, value in _told(store).items():
        if name in HIDDEN_ENVIRONMENT:
            continue
        if name == "targets" and isinstance(value, Mapping):
            tables += [
                FactTable(f"Target {target}", [(_words(k), text) for k, text in flatten(about)])
                for target, about in value.items()
            ]
            continue
        rows = [(_words(key), text) for key, text in flatten(value)]
        if not isinstance(value, Mapping | list):
            loose += [(_words(name), text) for _, text in rows]
        elif rows:
            tables.append(FactTable(_heading(name), rows))
    return [FactTable("This machine", loose), *tables] if loose else tables


def _told(store: ResultStore) -> dict[str, Any]:
    """Return the recorded environment without engines that no point of the plan uses."""
    told = dict(store.environment)
    if isinstance(engines := told.get("engines"), Mapping):
        used = {point.engine for point in store.plan.points.values()}
        told["engines"] = {name: about for name, about in engines.items() if name in used}
    return told


ACRONYMS = {
    "cpu": "CPU",
    "io": "I/O",
    "iommu": "IOMMU",
    "numa": "NUMA",
    "pcie": "PCIe",
    "uring": "io_uring",
}


def _words(name: str) -> str:
    """Turn a dotted name into words: ``drive 1.numa_node`` becomes ``drive 1: NUMA node``."""
    words = name.replace("_", " ").replace(".", ": ").split(" ")
    return " ".join(ACRONYMS.get(word, word) for word in words)


def _heading(name: str) -> str:
    words = _words(name)
    return words[0].upper() + words[1:]


def _singular(name: str) -> str:
    return name.removesuffix("s")


def _bytes_text(size_bytes: int) -> str:
    """Format bytes: powers of two up to 1 MiB as block sizes, everything else as capacities."""
    small = 0 < size_bytes <= 1 << 20 and size_bytes & (size_bytes - 1) == 0
    return spaced_size(size_bytes) if small else format_bytes_si(size_bytes)


def configuration_tables(comparison: Comparison) -> list[FactTable]:
    """Return a table per study with its settings, and one per workload with its parameters."""
    stores = comparison.dataset.stores
    tables = [
        _study_table(comparison, store, f"Study in {place}" if len(stores) > 1 else "Study")
        for store, place in zip(stores, directory_names(stores), strict=True)
    ]
    seen = set()
    for section in comparison.sections:
        if section.family in seen:
            continue
        seen.add(section.family)
        page = section.page
        same = [p for s in comparison.sections for p in s.points if s.family == section.family]
        params = constants(same, section.axes)
        swept = [(title_of(page, name), _swept(same, name)) for name in section.axes.varying]
        shown = [
            (title_of(page, name), _as_run(comparison, same, name))
            for name, value in params.items()
            if value is not None and page.parameters.is_relevant(name, same[0].params)
        ]
        tables.append(
            FactTable(f"Workload {section.workload} ({section.engine} engine)", [*swept, *shown])
        )
    return tables


def _as_run(comparison: Comparison, points: Sequence[WorkloadPoint], name: str) -> str:
    """Return a parameter's value as text, followed by differing values of runs, if any."""
    cells = (cell for point in points for cell in comparison.row(point).cells.values())
    params = [run.record.params for cell in cells for run in cell.runs]
    own = [points[0].params, *(values for values in params if values.get(name) is not None)]
    return ", ".join(dict.fromkeys(value_text(points[0].page, name, value) for value in own))


def _study_table(comparison: Comparison, store: ResultStore, heading: str) -> FactTable:
    header = store.study.study
    window = [
        ("Ramp (load, not counted)", format_duration(header.ramp)),
        ("Measure window", format_duration(header.runtime)),
    ]
    rows = [
        ("Repeats of every point", repeats_text(comparison)),
        *(window if has_window(comparison) else [("Measured", "the whole of fixed work")]),
        ("Sample interval", format_duration(header.interval)),
        ("Pause after a run", format_duration(header.settle)),
        ("Seed", str(header.seed)),
        ("Baseline of ratios", comparison.baseline),
    ]
    return FactTable(heading, rows)


def planned_repeats(comparison: Comparison) -> list[int]:
    """Return the planned numbers of repeats per point, ascending and without duplicates.

    They are counted in the plan, because crosscheck and capacity do not use the study's repeats.
    """
    cells = (cell for row in comparison.rows.values() for cell in row.cells.values())
    return sorted({cell.planned for cell in cells if cell.planned})


def repeats_text(comparison: Comparison) -> str:
    """Return the number of repeats as text: ``5``, or ``3 to 5`` if points differ."""
    known = planned_repeats(comparison)
    return " to ".join(dict.fromkeys(str(n) for n in (known[0], known[-1]))) if known else "0"


def _repeats_words(comparison: Comparison) -> str:
    return "1\u00a0repeat" if (text := repeats_text(comparison)) == "1" else f"{text}\u00a0repeats"


def _swept(points: Sequence[WorkloadPoint], name: str) -> str:
    return ", ".join(dict.fromkeys(value_text(p.page, name, p.params) for p in points))


def method(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the definitions for a brief's section on method, as pairs of term and text."""
    open_loop = any(column.is_intended for column in comparison.columns)
    unmerged = bool(comparison.flagged(PER_REPEAT))
    outstanding = (
        "Effective concurrency",
        "Operations per second times mean latency (Little’s law). "
        "Latencies taken at effective concurrencies that differ by more "
        "than 10 % are marked “unequal concurrency”.",
    )
    return [
        (
            "Units",
            "Throughput is in MB/s with 1 MB = 10⁶ bytes. Block sizes in KiB and MiB count "
            "in 1,024s. Latencies are in SI units of time.",
        ),
        (
            "Latency",
            "From submission to completion of one operation, measured by the load "
            "generator, in HDR histograms with three significant digits.",
        ),
        *([("Time to first byte", FIRST_BYTE)] if comparison.has("ttfb") else []),
        *([("Failed requests", FAILED)] if comparison.has("errors") else []),
        *([("Intended latency", INTENDED)] if open_loop else []),
        (
            "Percentiles",
            "Read from the histograms of all repeats merged; percentiles are never "
            "averaged. Their interval is that of the repeats’ own percentiles, "
            f"widened to hold the merged value.{UNMERGED if unmerged else ''}",
        ),
        (
            "Intervals",
            f"Means of {_repeats_words(comparison)} with Student’s 95 % t-interval, on a "
            "logarithmic scale where all values are positive. With two repeats, bounds are the two "
            "values; an interval that spans more than a factor of ten is not printed. Single runs "
            "are drawn as dots.",
        ),
        (
            "Ratios",
            "Mean of the target over mean of the baseline, computed before the means are rounded, "
            "with a 95 % Welch t-interval on logarithms: everywhere that of one comparison alone. "
            "A difference is called decided when the interval excludes 1. A decided "
            "ratio whose interval spans more than a factor of four is printed by its bound near 1 "
            "(“at least”).",
        ),
        (
            "The answer",
            "All pairs of targets are compared at the last point of every mix and size; the "
            "outcomes of all these comparisons hold together (Bonferroni). The winner is ahead of "
            "each other target somewhere and behind none anywhere; its headline is the median of "
            "these points. Disadvantages are looked for at every point and in every quantity.",
        ),
        *([outstanding] if has_window(comparison) else []),
        *fixed_method(comparison),
        (
            "Order",
            "Runs of the targets are interleaved and repeats are spread over the campaign, "
            "so that a slow change of the machine does not favour one target.",
        ),
        (
            "Findings",
            "The table of key findings counts all workload points, each judged by its own "
            f"interval. The cover and the overview are about {rule(comparison)}.",
        ),
    ]


def rule(comparison: Comparison) -> str:
    """Describe the points of cover and overview: ``every mix and block size at the most jobs``."""
    sentences = []
    for sections in comparison.kinds.values():
        page = sections[0].page
        own = page.parameters
        words = ["mix"] if own.mix and not page.metrics.quantities else []
        words += [] if own.facet is None else [title_of(page, own.facet)]
        what = " and ".join(words) or "workload"
        sentences.append(
            f"every {what} at {last_point_text(sections[0])} {reach(comparison, sections)}"
        )
    return "; ".join(sentences)


def differing(comparison: Comparison) -> list[str]:
    """Describe how the campaigns of a brief differ, such as in CPU; empty for one campaign."""
    stores = comparison.dataset.stores
    return differences(stores, directory_names(stores))


def weak_values(comparison: Comparison) -> str:
    """Return a clause of quantities that were not measured, such as ``; declared: power``."""
    words: dict[str, list[str]] = {}
    for kind in comparison.kinds:
        cells = [
            cell
            for section in comparison.kinds[kind]
            for point in section.points
            for cell in comparison.row(point).cells.values()
        ]
        own = (q for q in page_of(kind).metrics.quantities if not q.power)
        keys = {q.key: q.group.partition(" (")[0].lower() for q in own}
        for column in (column for column in comparison.columns if column.key in keys):
            provenances = {
                cell.provenance_of(column) for cell in cells if column.key in cell.values
            }
            for word in sorted(provenances & {"emulated", "modelled"}):
                words.setdefault(word, []).append(keys[column.key])
    of_power = {
        metric.provenance
        for run in comparison.dataset.all_runs()
        for metric in run.record.metrics
        if metric.boundary is not None
    }
    for word in sorted(of_power - {"measured"}):
        words.setdefault(word, []).append("power")
    return "".join(
        f"; {word}: {and_list(list(dict.fromkeys(titles)))}" for word, titles in words.items()
    )


def where_measured(comparison: Comparison) -> str:
    """Describe what was measured: ``16 workload points of random I/O at queue depth 16``."""
    sentences = []
    for sections in comparison.kinds.values():
        points = [point for section in sections for point in section.points]
        first, page = sections[0], sections[0].page
        params, varying = first.points[0].params, first.axes.varying
        swept = {n for n in params if any(p.params.get(n) != params[n] for p in points)}
        work = (
            fill_in(page, page.text.work, params, {*varying, *swept})
            or page.text.work.split("} ")[-1]
        )
        told = describe(page, params, [name for name in page.text.stated if name not in swept])
        at = f" at {told}" if told else ""
        sentences.append(f"{plural(len(points), 'workload point')} of {work}{at}")
    return "; ".join(sentences) or plural(0, "workload point")
