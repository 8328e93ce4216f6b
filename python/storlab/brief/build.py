"""From a result directory to the model of its brief."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from storlab import __version__
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.points import Section, format_value, title_of
from storlab.analysis.table import comparison_dict
from storlab.base.clock import utc_now_iso
from storlab.brief import facts, tables
from storlab.brief.audited import audited
from storlab.brief.claims import make_claims, summarise, undecided
from storlab.brief.density import density_section
from storlab.brief.flags import Mark, legend, mark
from storlab.brief.model import (
    Brief,
    DataTable,
    Drawing,
    ExtraSection,
    FigureGroup,
    MappingRow,
    RunRow,
    SectionBlock,
)
from storlab.brief.power import power_method, power_section
from storlab.brief.published import load_tables, match, published_section
from storlab.brief.text import and_list, date_range, plural, sentence_case
from storlab.figures import FIGURES, draw
from storlab.figures.common import slug
from storlab.figures.svg import render
from storlab.lab.store import ResultStore
from storlab.model.published import PublishedTable
from storlab.workloads import WORKLOADS


def build_brief(store: ResultStore, *, title: str | None = None, beside: Path) -> Brief:
    """The model. ``beside`` is the directory of the file that will hold the brief, for links."""
    comparison = compare(load_dataset([store]))
    scale = tables.Scale(comparison)
    published = load_tables(store)
    comparison.published = match(comparison, published)
    extras = _extras(comparison, scale, published)
    sections = [_section(comparison, section, scale) for section in comparison.sections]
    ratios = tables.ratio_table(comparison) if comparison.others else None
    href = _href(store, beside)
    runs = tables.appendix(comparison, scale, {id(store): href})
    run_columns = tables.columns_for(comparison, tables.RUN_KEYS)
    mapping_head, mapping = _mapping(comparison)
    records = [run.record for run in comparison.dataset.all_runs()]
    claims = make_claims(comparison)
    findings = audited(comparison, claims)
    return Brief(
        title=title or store.study.study.name,
        subtitle=_subtitle(comparison, store),
        date=date_range(record.started_at for record in records) or "nothing measured yet",
        study=store.study.study.name,
        baseline=comparison.baseline,
        plan_hash=store.plan.plan_hash,
        version=__version__,
        generated=utc_now_iso()[:19].replace("T", " ") + " UTC",
        provenance=_provenance(comparison),
        status=_status(comparison),
        targets=[
            facts.target_card(comparison, index, column)
            for index, column in enumerate(comparison.dataset.targets)
        ],
        summary=summarise(comparison),
        claims=claims,
        undecided=undecided(comparison),
        mapping_head=mapping_head,
        mapping=mapping,
        sections=sections,
        overview=_overview(comparison, "workload"),
        ratios=ratios,
        configuration=facts.configuration_tables(comparison, store),
        environment=facts.environment_tables(store),
        method=[*facts.method(comparison, store), *power_method(comparison)],
        caveats=facts.caveats(comparison, store),
        legend=_legend(sections, ratios, extras, [r for p in runs for r in p.runs]),
        run_columns=[(tables.SHORT[c.key], scale.of(c)[0]) for c in run_columns],
        appendix=runs,
        failed=[(p.target, run) for p in runs for run in p.runs if run.status != "finished"],
        data={
            "comparison": comparison_dict(comparison),
            "claims": [claim.as_dict() for claim in claims],
            "runs": [
                {
                    "run_id": record.run_id,
                    "status": record.status,
                    "metrics": {f"{m.name}.{m.operation}": m.value for m in record.metrics},
                }
                for record in records
            ],
            "audit": [finding.dump() for finding in findings],
        },
        audit=findings,
        extras=extras,
    )


def section_anchor(section: Section) -> str:
    """The section's id on the page."""
    return "mix-" + slug(section.workload, section.title, section.points[0].engine)


def _section(comparison: Comparison, section: Section, scale: tables.Scale) -> SectionBlock:
    wanted = [n for n in WORKLOADS[section.kind].figures if FIGURES[n].scope == "section"]
    cases: dict[str, str] = {}
    for point in section.points:
        facet = section.axes.facet
        size = format_value(facet, point.params.get(facet)) if facet else ""
        for name in comparison.row(point).use_cases:
            cases.setdefault(name, size)
            if size not in cases[name]:
                cases[name] += f", {size}"
    return SectionBlock(
        anchor=section_anchor(section),
        title=section.title,
        use_cases=list(cases.items()),
        groups=[group for name in wanted if (group := _group(name, comparison, [section]))],
        table=tables.section_table(comparison, section, scale),
    )


def _extras(
    comparison: Comparison, scale: tables.Scale, published: Sequence[PublishedTable]
) -> list[ExtraSection]:
    """The sections that stand once for the campaign, where there is something to say."""
    every = comparison.sections
    cost, beside = (_group(n, comparison, every) for n in ("cost_stack", "published_bars"))
    found = (
        power_section(comparison, _overview(comparison, "power")),
        density_section(comparison, [cost] if cost else []),
        published_section(comparison, published, [beside] if beside else [], scale),
    )
    return [section for section in found if section is not None]


def _overview(comparison: Comparison, scope: str) -> list[FigureGroup]:
    groups: list[FigureGroup] = []
    for family in dict.fromkeys(
        (s.kind, s.workload, s.points[0].engine) for s in comparison.sections
    ):
        mine = [
            s for s in comparison.sections if (s.kind, s.workload, s.points[0].engine) == family
        ]
        wanted = [n for n in WORKLOADS[family[0]].figures if FIGURES[n].scope == scope]
        groups += [group for name in wanted if (group := _group(name, comparison, mine))]
    return groups


def _group(name: str, comparison: Comparison, sections: Sequence[Section]) -> FigureGroup | None:
    kind = FIGURES[name]
    drawings = [Drawing(figure, render(figure)) for figure in draw(name, comparison, sections)]
    return FigureGroup(name, kind.heading, kind.lead, drawings) if drawings else None


def _mapping(comparison: Comparison) -> tuple[list[str], list[MappingRow]]:
    """The workload mapping: which use case stands for which parameters, and where it is."""
    rows: dict[tuple[str, ...], MappingRow] = {}
    head: list[str] = []
    for section in comparison.sections:
        names = [n for n in (*section.axes.section, section.axes.facet) if n is not None]
        head = head or [title_of(name) for name in names]
        for point in section.points:
            cases = comparison.row(point).use_cases
            values = [format_value(name, point.params.get(name)) for name in names]
            key = (section_anchor(section), *cases, *values)
            if cases and len(values) == len(head) and key not in rows:
                rows[key] = MappingRow("; ".join(cases), values, section_anchor(section))
    return head, list(rows.values())


def _subtitle(comparison: Comparison, store: ResultStore) -> str:
    names = [t for t in comparison.targets if t != comparison.baseline] + [comparison.baseline]
    versus = " against ".join([and_list(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
    versus = sentence_case(versus)
    points = len(comparison.rows)
    what = facts.where_measured(comparison)
    said = f"{versus}: {plural(points, 'workload point')}"
    said += f" of {what}" if what else ""
    description = store.study.study.description.strip()
    if description and description[-1] not in ".!?":
        description += "."
    return f"{said}. {description}".rstrip()


def _provenance(comparison: Comparison) -> str:
    words = sorted({run.record.provenance for run in comparison.dataset.all_runs()})
    engines = sorted(
        {f"{r.record.engine.name} {r.record.engine.version}" for r in comparison.dataset.all_runs()}
    )
    if not words:
        return "No run has finished yet."
    return f"All values are {and_list(words)}, by {and_list(engines)}."


def _status(comparison: Comparison) -> str:
    cells = [cell for row in comparison.rows.values() for cell in row.cells.values()]
    planned = sum(cell.planned for cell in cells)
    done, failed = sum(len(c.runs) for c in cells), sum(len(c.failed) for c in cells)
    if done == planned:
        return ""
    said = f"{done:,} of {planned:,} planned runs finished"
    return f"{said}, {failed:,} failed." if failed else f"{said}; the others are missing."


def _legend(
    sections: Sequence[SectionBlock],
    ratios: DataTable | None,
    extras: Sequence[ExtraSection],
    runs_flags: Sequence[RunRow],
) -> list[Mark]:
    marks = [m for section in sections for m in section.table.marks]
    marks += ratios.marks if ratios else []
    marks += [m for extra in extras for table in extra.tables for m in table.marks]
    marks += [m for run in runs_flags for m in run.flags]
    return [mark(m.kind, "") if m.letter != "†" else m for m in legend(marks)]


def _href(store: ResultStore, beside: Path) -> str:
    """The result directory as a relative link, with a slash at its end; empty for "here"."""
    relative = os.path.relpath(store.directory, beside)
    return "" if relative == "." else f"{Path(relative).as_posix()}/"
