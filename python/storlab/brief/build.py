"""From a result directory to the model of its brief."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from storlab import __version__
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.points import Section, title_of, value_text
from storlab.analysis.table import comparison_dict
from storlab.audit.finding import Finding
from storlab.base.clock import utc_now_iso
from storlab.brief import facts, tables
from storlab.brief.audited import audited
from storlab.brief.claims import Claim, make_claims, summarise, undecided
from storlab.brief.density import density_section
from storlab.brief.extra import extras_of
from storlab.brief.family import family_section
from storlab.brief.flags import Mark, legend, mark
from storlab.brief.implementations import (
    implementation_data,
    implementations,
    implementations_section,
)
from storlab.brief.model import (
    Brief,
    DataTable,
    Drawing,
    ExtraSection,
    FigureGroup,
    Mapping,
    MappingRow,
    RunRow,
    SectionBlock,
)
from storlab.brief.pieces import piece_tables
from storlab.brief.power import power_method, power_section
from storlab.brief.published import load_tables, match, published_section
from storlab.brief.selection import caveat, every_point, shown
from storlab.brief.text import and_list, date_range, sentence_case
from storlab.contracts.figure import FigureKind
from storlab.contracts.registry import FAMILIES
from storlab.figures.campaign import COST_STACK, PUBLISHED_BARS, PUBLISHED_MIXES
from storlab.figures.common import slug
from storlab.figures.drawing import draw
from storlab.figures.svg import render
from storlab.lab.results.store import ResultStore
from storlab.model.published import PublishedTable
from storlab.model.result import RunRecord


def build_brief(
    store: ResultStore, *, title: str | None = None, beside: Path, name: str = "brief"
) -> Brief:
    """The model. ``beside`` is the directory of the file that will hold the brief, for links.

    ``name`` is that file's, without its suffix. Of a large campaign the page shows a selection;
    what it says of the whole, and the audit, rests on all points.
    """
    whole = compare(load_dataset([store]))
    published = load_tables(store)
    whole.published = match(whole, published)
    comparison = shown(whole)
    everything = f"{name}-points.csv"
    scale = tables.Scale(comparison)
    told = extras_of(whole)
    extras = _extras(comparison, scale, published)
    sections = _sections(comparison, scale)
    families = comparison.kinds.values()
    ratios = [t for s in families if (t := tables.ratio_table(comparison, s)) is not None]
    href = _href(store, beside)
    run_tables = tables.run_tables(comparison, scale, {id(store): href})
    runs = [point for table in run_tables for point in table.points]
    records = [run.record for run in comparison.dataset.all_runs()]
    started = (run.record.started_at for run in whole.dataset.all_runs())
    claims = make_claims(comparison)
    findings = audited(whole, claims)
    return Brief(
        title=title or store.study.study.name,
        subtitle=_subtitle(whole, store),
        date=date_range(started) or "nothing measured yet",
        study=store.study.study.name,
        baseline=comparison.baseline,
        plan_hash=store.plan.plan_hash,
        version=__version__,
        generated=utc_now_iso()[:19].replace("T", " ") + " UTC",
        provenance=_provenance(whole),
        status=_status(whole),
        targets=[
            facts.target_card(whole, index, column)
            for index, column in enumerate(whole.dataset.targets)
        ],
        summary=[
            *(said for extra in told for said in extra.warnings(whole)),
            *summarise(whole),
            *implementations(whole),
            *(said for extra in told for said in extra.findings(whole)),
        ],
        claims=claims,
        undecided=undecided(comparison),
        rule=facts.rule(comparison),
        mappings=_mappings(comparison),
        sections=sections,
        overview=_overview(comparison, "workload"),
        ratios=ratios,
        configuration=[
            *facts.configuration_tables(whole, store),
            *(table for extra in told for table in extra.facts(whole)),
        ],
        environment=facts.environment_tables(store),
        method=[*facts.method(comparison), *power_method(comparison)],
        caveats=[*caveat(whole, comparison, everything), *facts.caveats(whole, store)],
        legend=_legend(sections, ratios, extras, [r for p in runs for r in p.runs]),
        run_tables=run_tables,
        failed=[(p.target, run) for p in runs for run in p.runs if run.status != "finished"],
        data=_data(comparison, claims, findings, records),
        audit=findings,
        told=frozenset(rule for extra in told for rule in extra.rules),
        extras=extras,
        beside={} if comparison is whole else {everything: every_point(whole)},
    )


def _data(
    comparison: Comparison,
    claims: Sequence[Claim],
    findings: Sequence[Finding],
    records: Sequence[RunRecord],
) -> dict[str, Any]:
    """What the brief rests on, for programs: it lies in the page as JSON."""
    own: dict[str, Any] = {}
    for extra in extras_of(comparison):
        own |= extra.data(comparison)
    return {
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
        "implementations": implementation_data(comparison),
        **own,
    }


def section_anchor(section: Section) -> str:
    """The section's id on the page."""
    return "mix-" + slug(section.workload, section.title, section.points[0].engine)


def _sections(comparison: Comparison, scale: tables.Scale) -> list[SectionBlock]:
    """All mixes; those of a family that has figures over all of them behind these."""
    found: list[SectionBlock] = []
    families = [_family(comparison, identity) for identity in _identities(comparison)]
    for mine in families:
        whole = family_section(comparison, mine, _scoped(comparison, mine, "family"), scale)
        found += [whole] if whole is not None else []
        found += [_section(comparison, section, scale) for section in mine]
    return found


def _identities(comparison: Comparison) -> list[tuple[str, str, str]]:
    return list(dict.fromkeys(section.family for section in comparison.sections))


def _family(comparison: Comparison, identity: tuple[str, str, str]) -> list[Section]:
    return [section for section in comparison.sections if section.family == identity]


def _section(comparison: Comparison, section: Section, scale: tables.Scale) -> SectionBlock:
    cases: dict[str, str] = {}
    for point in section.points:
        size = section.facet_text(point.params.get(section.axes.facet or ""))
        for name in comparison.row(point).use_cases:
            cases.setdefault(name, size)
            if size not in cases[name]:
                cases[name] += f", {size}"
    return SectionBlock(
        anchor=section_anchor(section),
        title=section.title,
        use_cases=list(cases.items()),
        groups=_scoped(comparison, [section], "section"),
        tables=[
            *tables.section_tables(comparison, section, scale),
            *piece_tables(comparison, section),
        ],
        short=f"{section.prefix}: {section.mix}" if section.prefix else section.mix,
        numbers=f"All numbers of {section.title}",
    )


def _extras(
    comparison: Comparison, scale: tables.Scale, published: Sequence[PublishedTable]
) -> list[ExtraSection]:
    """The sections that stand once for the campaign, where there is something to say."""
    every = comparison.sections
    cost = _group(COST_STACK, comparison, every)
    printed = (_group(kind, comparison, every) for kind in (PUBLISHED_BARS, PUBLISHED_MIXES))
    beside = [group for group in printed if group is not None]
    found = (
        implementations_section(comparison, scale),
        *(extra.section(comparison, scale) for extra in extras_of(comparison)),
        power_section(comparison, _overview(comparison, "power")),
        density_section(comparison, [cost] if cost else []),
        published_section(comparison, published, beside, scale),
    )
    return [section for section in found if section is not None]


def _overview(comparison: Comparison, scope: str) -> list[FigureGroup]:
    families = [_family(comparison, identity) for identity in _identities(comparison)]
    return [group for mine in families for group in _scoped(comparison, mine, scope)]


def _scoped(comparison: Comparison, sections: list[Section], scope: str) -> list[FigureGroup]:
    """What the family of these sections wants to be drawn of them."""
    wanted = [kind for kind in FAMILIES[sections[0].kind].figures if kind.scope == scope]
    return [group for kind in wanted if (group := _group(kind, comparison, sections))]


def _group(
    kind: FigureKind, comparison: Comparison, sections: Sequence[Section]
) -> FigureGroup | None:
    drawings = [Drawing(figure, render(figure)) for figure in draw(kind, comparison, sections)]
    return FigureGroup(kind.name, kind.heading, kind.lead, drawings) if drawings else None


def _mappings(comparison: Comparison) -> list[Mapping]:
    """Which use case stands for which parameters, and where it is: one table per workload."""
    found = []
    for identity in _identities(comparison):
        rows: dict[tuple[str, ...], MappingRow] = {}
        head: list[str] = []
        for section in _family(comparison, identity):
            names = [n for n in (*section.axes.section, section.axes.facet) if n is not None]
            head = head or [title_of(section.page, name) for name in names]
            for point in section.points:
                cases = comparison.row(point).use_cases
                values = [value_text(section.page, name, point.params) for name in names]
                key = (section_anchor(section), *cases, *values)
                if cases and len(values) == len(head) and key not in rows:
                    rows[key] = MappingRow("; ".join(cases), values, section_anchor(section))
        if rows:
            found.append(Mapping(head, list(rows.values())))
    return found


def _subtitle(comparison: Comparison, store: ResultStore) -> str:
    names = [t for t in comparison.targets if t != comparison.baseline] + [comparison.baseline]
    versus = " against ".join([and_list(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
    versus = sentence_case(versus)
    said = f"{versus}: {facts.where_measured(comparison)}"
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
    weak = facts.weak_values(comparison) + facts.weak_power(comparison)
    every = "All values are" if not weak else "Values are"
    return f"{every} {and_list(words)}, by {and_list(engines)}{weak}."


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
    ratios: Sequence[DataTable],
    extras: Sequence[ExtraSection],
    runs_flags: Sequence[RunRow],
) -> list[Mark]:
    marks = [m for section in sections for table in section.tables for m in table.marks]
    marks += [m for table in ratios for m in table.marks]
    marks += [m for extra in extras for table in extra.tables for m in table.marks]
    marks += [m for run in runs_flags for m in run.flags]
    return [mark(m.kind, "") if m.letter != "†" else m for m in legend(marks)]


def _href(store: ResultStore, beside: Path) -> str:
    """The result directory as a relative link, with a slash at its end; empty for "here"."""
    relative = os.path.relpath(store.directory, beside)
    return "" if relative == "." else f"{Path(relative).as_posix()}/"
