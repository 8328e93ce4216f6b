"""Build the content of a brief from result directories, independent of HTML and PDF."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from storlab import __version__
from storlab.analysis.clients import has_clients, sections_by_clients
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.load_curve import curve_documents
from storlab.analysis.points import Section
from storlab.analysis.proofs import proofs_of
from storlab.analysis.table import comparison_dict
from storlab.analysis.verdict import verdicts
from storlab.audit.finding import Finding
from storlab.base.clock import utc_now_iso
from storlab.brief import fact_tables, tables
from storlab.brief.all_mixes import family_section
from storlab.brief.answers import answer_tiles
from storlab.brief.audit_input import audited
from storlab.brief.best_values import best_tables, best_tiles
from storlab.brief.caveats import caveats, flag_rows
from storlab.brief.cluster import cluster_data, cluster_facts, cluster_method, cluster_section
from storlab.brief.density import density_section
from storlab.brief.family_additions import additions_of, all_additions
from storlab.brief.flags import Mark, general, legend
from storlab.brief.heat import heat_tables
from storlab.brief.implementations import (
    implementation_data,
    implementations,
    implementations_section,
)
from storlab.brief.key_findings import findings_data, key_findings
from storlab.brief.main_figures import count, main_figures
from storlab.brief.main_values import main_values
from storlab.brief.model import (
    MOST_TILES,
    Audit,
    Body,
    Brief,
    DataTable,
    Drawing,
    ExtraSection,
    FactTable,
    FigureGroup,
    Findings,
    FindingTable,
    Head,
    PointRuns,
    Publisher,
    Reference,
    Runs,
    SectionBlock,
    Summary,
    TargetCard,
)
from storlab.brief.not_compared import not_compared
from storlab.brief.openings import opening
from storlab.brief.power import power_method, power_section
from storlab.brief.proofs import proof_sections
from storlab.brief.published import load_tables, match, published_section
from storlab.brief.publisher import folders_of, publisher_of, without
from storlab.brief.rounds import rounds_section
from storlab.brief.selection import caveat, every_point, shown, with_linked
from storlab.brief.timelines import chosen_section, timelines_section
from storlab.brief.work_item_tables import work_item_tables
from storlab.contracts.figure import FigureKind
from storlab.contracts.registry import FAMILIES
from storlab.figures.campaign import (
    CLIENT_BALANCE,
    CLIENT_LATENCY,
    CLIENT_RATES,
    CLIENT_THROUGHPUT,
    COST_CAPACITY,
    COST_STACK,
    DENSITY,
    PUBLISHED_BARS,
    PUBLISHED_MIXES,
    ROUNDS,
    WORTH,
)
from storlab.figures.common import slug
from storlab.figures.drawing import draw
from storlab.figures.svg import render
from storlab.model.published import PublishedTable
from storlab.model.publisher import BriefTable
from storlab.results.store import ResultStore
from storlab.words.answers import basis, document, sentences, summary
from storlab.words.caveats import changed_settings
from storlab.words.figures import mean_words
from storlab.words.text import and_list, date_range, named


def build_brief(
    store: ResultStore,
    others: Sequence[ResultStore] = (),
    *,
    title: str | None = None,
    beside: Path,
    name: str = "brief",
    published_by: tuple[BriefTable, Path] | None = None,
    runs: Sequence[str] = (),
    whole: Comparison | None = None,
    changes: Sequence[str] = (),
) -> Brief:
    """Build the content of a brief from result directories.

    For a large campaign the brief shows only a selection of points, but answers, summaries and
    caveats use all points.

    Args:
        store: Result directory to report on.
        others: Further result directories for the same brief.
        title: Title of the brief; by default the name of the study.
        beside: Directory of the brief's file, to which links are relative.
        name: Name of the brief's file, without suffix.
        published_by: A ``[brief]`` table to use instead of the one in the study, and the folder to
            search for files that it names.
        runs: Ids of single runs to draw over time.
        whole: Comparison of these result directories, if the caller has made it already.
        changes: Settings under which they were read, if other than the study's, as phrases.
    """
    stores = [store, *others]
    whole = whole or compare(load_dataset(stores))
    whole.published = match(whole, published := load_tables(stores))
    comparison = shown(whole)
    scales = tables.scales_of(whole)
    judged, findings = verdicts(whole), key_findings(whole)
    additions, chosen = all_additions(whole), chosen_section(whole, comparison, runs)
    steady = rounds_section(comparison, _group(ROUNDS, whole, whole.sections), scales)
    extras = [steady] if steady is not None else []
    extras += _extras(comparison, scales, published, chosen, findings)
    extras += proof_sections(whole)
    overview = _overview(comparison, "workload")
    sections, extras = _sections(comparison, scales, extras, overview)
    ratios = _ratios(comparison)
    tiles = [*answer_tiles(whole), *best_tiles(whole, scales)]
    listed = with_linked(whole, comparison, tiles, findings)
    runs_listed = Runs(tables.run_tables(listed, scales, {id(s): _href(s, beside) for s in stores}))
    openings = [section.opening for section in sections if section.opening is not None]
    audit = audited(whole, findings, openings)
    brief = Brief(
        head=_head(whole, stores, comparison.baseline, title),
        targets=_cards(whole),
        summary=Summary(
            warnings=[sentence for extra in additions for sentence in extra.warnings(whole)],
            sentences=summary(judged),
            tiles=tiles[:MOST_TILES],
            basis=basis(judged),
            more=[sentences(verdict)[0] for verdict in judged[MOST_TILES:]],
            not_compared=not_compared(whole),
            differing=fact_tables.differing(whole),
            changed=changed_settings(changes) if changes else "",
        ),
        findings=Findings(
            of_families=_of_families(whole),
            tables=findings,
            best=best_tables(whole, scales),
            rule=fact_tables.rule(comparison),
            heat=heat_tables(comparison),
            caveats=[*caveat(whole, comparison, _every_point(name)), *caveats(whole)],
            flags=flag_rows(whole, _legend(sections, ratios, extras, runs_listed.points)),
        ),
        body=Body(
            main_values=main_values(comparison, scales),
            sections=sections,
            overview=overview,
            ratios=ratios,
            extras=extras,
        ),
        reference=Reference(
            configuration=_configuration(whole),
            environment=fact_tables.environment_tables(stores),
            method=[("Provenance", _provenance(whole)), *_method(comparison)],
        ),
        runs=runs_listed,
        audit=Audit(audit, frozenset(rule for extra in additions for rule in extra.rules)),
        data={**_data(whole, listed, findings, audit), "changed_settings": [*changes]},
        files={} if comparison is whole else {_every_point(name): every_point(whole)},
        publisher=_publisher(whole, published_by),
    )
    own, _ = published_by or (store.study.brief, None)
    return without(brief, own)


def _head(
    whole: Comparison, stores: Sequence[ResultStore], baseline: str, title: str | None
) -> Head:
    return Head(
        title=title or _title(stores),
        subtitle=_subtitle(whole, stores),
        date=_date(whole),
        study=_study_name(stores),
        baseline=baseline,
        plan_hash=", ".join(store.plan.plan_hash for store in stores),
        version=__version__,
        generated=utc_now_iso()[:19].replace("T", " ") + " UTC",
        provenance=_provenance(whole),
        status=_status(whole),
    )


def _publisher(whole: Comparison, published_by: tuple[BriefTable, Path] | None) -> Publisher:
    first = whole.dataset.stores[0]
    own, folder = published_by or (first.study.brief, first.directory)
    targets = [column.target for column in whole.dataset.targets]
    return publisher_of(own, [folder, *folders_of(first)], targets)


def _cards(whole: Comparison) -> list[TargetCard]:
    columns = enumerate(whole.dataset.targets)
    return [fact_tables.target_card(whole, index, column) for index, column in columns]


def _every_point(name: str) -> str:
    """Return the name of the CSV file next to a brief that holds all points of a large campaign."""
    return f"{name}-points.csv"


def _ratios(comparison: Comparison) -> list[DataTable]:
    candidates = (tables.ratio_table(comparison, section) for section in comparison.kinds.values())
    return [table for table in candidates if table is not None]


def _of_families(whole: Comparison) -> list[str]:
    return [
        *implementations(whole),
        *(sentence for extra in all_additions(whole) for sentence in extra.findings(whole)),
    ]


def _date(whole: Comparison) -> str:
    started = date_range(run.record.started_at for run in whole.dataset.all_runs())
    return started or "nothing measured yet"


def _study_name(stores: Sequence[ResultStore]) -> str:
    return and_list(list(dict.fromkeys(store.study.study.name for store in stores)))


def _title(stores: Sequence[ResultStore]) -> str:
    """Return the name of the study; names of several studies are put in quotes.

    A name may end in a question mark, which would be confusing inside a list.
    """
    names = list(dict.fromkeys(store.study.study.name for store in stores))
    return names[0] if len(names) == 1 else and_list([f"“{name}”" for name in names])


def _configuration(whole: Comparison) -> list[FactTable]:
    return [
        *fact_tables.configuration_tables(whole),
        *cluster_facts(whole),
        *(table for extra in all_additions(whole) for table in extra.facts(whole)),
    ]


def _method(comparison: Comparison) -> list[tuple[str, str]]:
    return [*fact_tables.method(comparison), *cluster_method(comparison), *power_method(comparison)]


def _data(
    whole: Comparison,
    comparison: Comparison,
    findings: Sequence[FindingTable],
    audit: Sequence[Finding],
) -> dict[str, Any]:
    """Return the numbers behind a brief, which the page embeds as JSON for other programs."""
    own: dict[str, Any] = {}
    if has_clients(comparison):
        own["clients"] = cluster_data(comparison)
    if curves := curve_documents(comparison):
        own["load_curves"] = curves
    for extra in all_additions(comparison):
        own |= extra.data(comparison)
    return {
        "comparison": comparison_dict(comparison),
        "findings": findings_data(findings),
        "proofs": [proof.model_dump() for proof in proofs_of(whole)],
        "verdicts": [document(verdict) for verdict in verdicts(whole)],
        "runs": [
            {
                "run_id": record.run_id,
                "status": record.status,
                "metrics": {f"{m.name}.{m.operation}": m.value for m in record.metrics},
            }
            for record in (run.record for run in comparison.dataset.all_runs())
        ],
        "audit": [finding.dump() for finding in audit],
        "implementations": implementation_data(comparison),
        **own,
    }


def section_anchor(section: Section) -> str:
    """Return the HTML id of a section."""
    return "mix-" + slug(section.workload, section.title, section.points[0].engine)


def _sections(
    comparison: Comparison,
    scales: tables.Scales,
    extras: Sequence[ExtraSection],
    overview: Sequence[FigureGroup],
) -> tuple[list[SectionBlock], list[ExtraSection]]:
    """Build a section per mix; each family's section over all of its mixes comes first.

    Returns:
        These sections, and ``extras`` with their figures split into main part and appendix.
    """
    families = [_family(comparison, identity) for identity in _identities(comparison)]
    mixes = [(s, _section(comparison, s, scales[s.kind])) for family in families for s in family]
    every = [
        family_section(comparison, f, _scoped(comparison, f, "family"), scales[f[0].kind])
        for f in families
    ]
    known, ratios = [w for w in every if w is not None], count([g for g in overview if g.main])
    blocks, wholes, extras = main_figures(mixes, known, extras, ratios)
    sections_of: list[SectionBlock] = []
    for family, whole in zip(families, every, strict=True):
        sections_of += [wholes.pop(0)] if whole is not None else []
        sections_of += [blocks.pop(0) for _ in family]
    return sections_of, extras


def _identities(comparison: Comparison) -> list[tuple[str, str, str]]:
    return list(dict.fromkeys(section.family for section in comparison.sections))


def _family(comparison: Comparison, identity: tuple[str, str, str]) -> list[Section]:
    return [section for section in comparison.sections if section.family == identity]


def _section(comparison: Comparison, section: Section, scale: tables.Scale) -> SectionBlock:
    return SectionBlock(
        anchor=section_anchor(section),
        title=section.title,
        opening=opening(comparison, section, scale),
        groups=_with_rates(_scoped(comparison, [section], "section"), comparison, section),
        tables=[
            *tables.section_tables(comparison, section, scale),
            *work_item_tables(comparison, section),
        ],
        short=f"{section.prefix}: {section.mix}" if section.prefix else section.mix,
        numbers=f"All numbers of {section.title}",
    )


def _with_rates(
    groups: list[FigureGroup], comparison: Comparison, section: Section
) -> list[FigureGroup]:
    """Put the figure of each client's operation rate first."""
    rates = _group(CLIENT_RATES, comparison, [section])
    return [*([rates] if rates else []), *groups]


def _extras(
    comparison: Comparison,
    scales: tables.Scales,
    published: Sequence[PublishedTable],
    chosen: ExtraSection | None,
    findings: Sequence[FindingTable],
) -> list[ExtraSection]:
    """Build the sections that appear once per campaign, such as power; empty ones are left out."""
    drawn = {d.figure.name for group in (chosen.groups if chosen else ()) for d in group.drawings}
    every = comparison.sections
    cost = (_group(kind, comparison, every) for kind in (DENSITY, WORTH, COST_STACK, COST_CAPACITY))
    printed = (_group(kind, comparison, every) for kind in (PUBLISHED_BARS, PUBLISHED_MIXES))
    beside = [group for group in printed if group is not None]
    candidates = (
        implementations_section(comparison, scales),
        cluster_section(comparison, _client_groups(comparison), scales),
        *(_own_section(comparison, kind, scales[kind]) for kind in comparison.kinds),
        power_section(comparison, _overview(comparison, "power")),
        density_section(comparison, [group for group in cost if group is not None]),
        published_section(comparison, published, beside, scales),
        timelines_section(comparison, findings, drawn),
        chosen,
    )
    return [section for section in candidates if section is not None]


def _own_section(comparison: Comparison, kind: str, scale: tables.Scale) -> ExtraSection | None:
    """Build the extra section that a workload family defines, with its figures; None without."""
    extra = additions_of(kind)
    section = None if extra is None else extra.section(comparison, scale)
    if section is None:
        return None
    own = [identity for identity in _identities(comparison) if identity[0] == kind]
    groups = [g for page in own for g in _scoped(comparison, _family(comparison, page), "own")]
    return replace(section, groups=[*groups, *section.groups])


def _client_groups(comparison: Comparison) -> list[FigureGroup]:
    """Build the figures of cluster clients: scaling with their number, and balance between them."""
    if not has_clients(comparison):
        return []
    by_clients = sections_by_clients(comparison)
    groups = [
        _group(kind, comparison, by_clients)
        for kind in (CLIENT_THROUGHPUT, CLIENT_RATES, CLIENT_LATENCY)
    ]
    groups.append(_group(CLIENT_BALANCE, comparison, comparison.sections))
    return [group for group in groups if group is not None]


def _overview(comparison: Comparison, scope: str) -> list[FigureGroup]:
    families = [_family(comparison, identity) for identity in _identities(comparison)]
    return [group for family in families for group in _scoped(comparison, family, scope)]


def _scoped(comparison: Comparison, sections: list[Section], scope: str) -> list[FigureGroup]:
    """Draw the figures that a workload family defines for one part of a brief, such as power."""
    wanted = [kind for kind in FAMILIES[sections[0].kind].figures if kind.scope == scope]
    return [group for kind in wanted if (group := _group(kind, comparison, sections))]


def _group(
    kind: FigureKind, comparison: Comparison, sections: Sequence[Section]
) -> FigureGroup | None:
    drawings = [Drawing(figure, render(figure)) for figure in draw(kind, comparison, sections)]
    if not drawings:
        return None
    rows = (comparison.row(point) for section in sections for point in section.points)
    mean = mean_words(len(cell.runs) for row in rows for cell in row.cells.values())
    lead = kind.lead.replace("{mean}", mean)
    return FigureGroup(kind.name, kind.heading, lead, drawings, kind.main)


def _subtitle(comparison: Comparison, stores: Sequence[ResultStore]) -> str:
    names = [*map(named, [*comparison.others, comparison.baseline])]
    versus = " against ".join([and_list(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
    text = f"{versus}: {fact_tables.where_measured(comparison)}"
    description = stores[0].study.study.description.strip() if len(stores) == 1 else ""
    if description and description[-1] not in ".!?":
        description += "."
    return f"{text}. {description}".rstrip()


def _provenance(comparison: Comparison) -> str:
    words = sorted({run.record.provenance for run in comparison.dataset.all_runs()})
    engines = sorted(
        {f"{r.record.engine.name} {r.record.engine.version}" for r in comparison.dataset.all_runs()}
    )
    if not words:
        return "No run has finished yet."
    weak = fact_tables.weak_values(comparison)
    every = "All values are" if not weak else "Values are"
    return f"{every} {and_list(words)}, by {and_list(engines)}{weak}."


def _status(comparison: Comparison) -> str:
    cells = [cell for row in comparison.rows.values() for cell in row.cells.values()]
    planned = sum(cell.planned for cell in cells)
    done, failed = sum(len(c.runs) for c in cells), sum(len(c.failed) for c in cells)
    if done == planned:
        return ""
    text = f"{done:,} of {planned:,} planned runs finished"
    return f"{text}, {failed:,} failed." if failed else f"{text}; the others are missing."


def _legend(
    sections: Sequence[SectionBlock],
    ratios: Sequence[DataTable],
    extras: Sequence[ExtraSection],
    points: Sequence[PointRuns],
) -> list[Mark]:
    marks = [m for section in sections for table in section.tables for m in table.marks]
    marks += [m for table in ratios for m in table.marks]
    marks += [m for extra in extras for table in extra.tables for m in table.marks]
    marks += [m for point in points for run in point.runs for m in run.flags]
    return [general(m) for m in legend(marks)]


def _href(store: ResultStore, beside: Path) -> str:
    """Return a link from ``beside`` to the result directory, ending in a slash.

    The link is empty if both are the same directory.
    """
    relative = os.path.relpath(store.directory, beside)
    return "" if relative == "." else f"{Path(relative).as_posix()}/"
