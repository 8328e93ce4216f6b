"""Render a brief as PDF by typst, without network or system programs.

Figures are embedded as PDF drawings with their fonts (vl-convert), so that they look the same
wherever the brief is made.

Why the PDF is not printed from the HTML, measured on a brief with 16 points in November 2026:

- typst takes 0.8 s of CPU time for 14 pages.
- WeasyPrint 70 takes 68 s for 25 pages, needs Pango from the system, overprints text in cards and
  leaves headings alone on pages.
- Chromium prints 20 good pages, but few machines that run storlab have a browser.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import typst
import vl_convert

from storlab.base.display_safe import visible
from storlab.brief.flags import labels_text
from storlab.brief.model import (
    Brief,
    DataTable,
    Drawing,
    ExtraSection,
    FactTable,
    FigureGroup,
    FindingTable,
    HeatTable,
    Number,
    Opening,
    SectionBlock,
    Tile,
)
from storlab.figures.footer import flag_line
from storlab.figures.signs import DRAWN_SIGNS
from storlab.figures.svg import with_colours
from storlab.figures.theme import LIGHT, SERIES
from storlab.words.findings import EXPLAINED, HEADS
from storlab.words.text import breakable, sentence_case

Pages = TypeVar("Pages")
MOST_ROWS = 20  # of a table besides that of main values


class PdfError(Exception):
    """Error for a PDF that could not be made; the message is that of typst."""


def render_pdf(brief: Brief, page: str = "brief.html") -> bytes:
    """Render the main part of a brief as PDF.

    Args:
        brief: Content of the brief.
        page: Name of the HTML page beside the PDF, which has the rest of the content.

    Raises:
        PdfError: typst reports an error.
    """
    with _workplace(brief, page) as source:
        return _set(lambda: typst.compile(source, root=str(Path(source).parent), format="pdf"))


def render_pages(brief: Brief, ppi: float) -> list[bytes]:
    """Render the brief as PNG images, one per page.

    Raises:
        PdfError: typst reports an error.
    """
    with _workplace(brief) as source:
        root = str(Path(source).parent)
        pages = _set(lambda: typst.compile(source, root=root, format="png", ppi=ppi))
    return pages if isinstance(pages, list) else [pages]


@contextmanager
def _workplace(brief: Brief, page: str = "brief.html") -> Iterator[str]:
    """Write template, data and figures to a temporary directory; yield the template's path."""
    template = files("storlab.brief").joinpath("templates", "brief.typ").read_text("utf-8")
    with tempfile.TemporaryDirectory(prefix="storlab-brief-") as name:
        root = Path(name)
        (root / "brief.typ").write_text(template, "utf-8")
        (root / "brief.json").write_text(
            json.dumps(visible(_model(brief, page)), ensure_ascii=False), "utf-8"
        )
        if brief.publisher.logo is not None:
            (root / _logo_file(brief)).write_bytes(brief.publisher.logo.content)
        for drawing in _drawings(brief):
            pdf = vl_convert.svg_to_pdf(with_colours(drawing.svg, LIGHT))
            (root / f"{drawing.figure.name}.pdf").write_bytes(pdf)
        yield str(root / "brief.typ")


def _set(compiled: Callable[[], Pages]) -> Pages:
    try:
        return compiled()
    except (typst.TypstError, RuntimeError) as error:
        raise PdfError(re.sub(r"\s+", " ", str(error))) from error


def _tile(tile: Tile) -> dict[str, Any]:
    return {**asdict(tile), "marks": labels_text(tile.marks)}


def _findings(table: FindingTable) -> dict[str, Any]:
    return {
        "caption": table.caption,
        "sides": table.sides,
        "shared": labels_text(table.shared),
        "rows": [
            {**asdict(replace(row, finding=None)), "marks": labels_text(row.marks)}
            for row in table.rows
        ],
    }


def _model(brief: Brief, page: str) -> dict[str, Any]:
    body, reference = brief.body, brief.reference
    return {
        "title": brief.head.title,
        "subtitle": brief.head.subtitle,
        "date": brief.head.date,
        "status": brief.head.status,
        "provenance": brief.head.provenance,
        "footer": f"storlab {brief.head.version} · plan {brief.head.plan_hash}",
        "colours": [LIGHT[f"s{i + 1}"] for i in range(SERIES)],
        "targets": [asdict(card) for card in brief.targets],
        "publisher": {**asdict(replace(brief.publisher, logo=None)), "logo": _logo_file(brief)},
        "warnings": brief.summary.warnings,
        "sentences": brief.summary.sentences,
        "tiles": [_tile(tile) for tile in brief.summary.tiles],
        "basis": brief.summary.basis,
        "other_answers": brief.summary.more,
        "not_compared": " ".join(brief.summary.not_compared),
        "differing": " ".join(brief.summary.differing),
        "changed": brief.summary.changed,
        "of_families": brief.findings.of_families,
        "signs": DRAWN_SIGNS,
        "findings": [_findings(table) for table in brief.findings.tables],
        "finding_heads": HEADS,
        "explained": EXPLAINED,
        "best": [_table(table) for table in brief.findings.best],
        "heat": [_heat(table) for table in brief.findings.heat],
        "caveats": brief.findings.caveats,
        "flags": [
            {"label": row.mark.label, "meaning": row.mark.meaning, "where": row.where}
            for row in brief.findings.flags
        ],
        "main_values": [_table(table) for table in body.main_values],
        "sections": [_section(s) for s in body.sections if s.opening is not None or s.groups],
        "baseline": brief.head.baseline,
        "ratios": [_table(table) for table in _short(body.ratios)],
        "show_target": len(brief.targets) > 2,
        "configuration": [_facts(table) for table in reference.configuration],
        "method": reference.method,
        "extras": [_extra(e) for e in body.extras if e.groups or e.tables or e.notes],
        "points": [point.point_id for point in brief.runs.points],
        "audit": brief.audit.counts,
        "page": page,
        "more": len(brief.drawings) - len(_drawings(brief)),
    }


def _drawings(brief: Brief) -> list[Drawing]:
    """Return the figures of the PDF; those of ratios are too small to read on paper."""
    body = brief.body
    groups = [group for section in body.sections for group in section.groups]
    groups += [group for extra in body.extras for group in extra.groups]
    return [drawing for group in groups for drawing in group.drawings]


def _logo_file(brief: Brief) -> str:
    """Return the file name of the publisher's logo beside the document; empty without a logo."""
    logo = brief.publisher.logo
    return "" if logo is None else f"publisher-logo.{logo.kind}"


def _facts(table: FactTable) -> dict[str, Any]:
    return {
        "heading": table.heading,
        "rows": [(name, breakable(value)) for name, value in table.rows],
    }


def _section(section: SectionBlock) -> dict[str, Any]:
    return {
        "title": section.title,
        "opening": None if section.opening is None else _opening(section.opening),
        "groups": [_group(group) for group in section.groups],
    }


def _short(tables: Sequence[DataTable]) -> list[DataTable]:
    """Return the tables that are short enough for the PDF."""
    return [table for table in tables if len(table.rows) <= MOST_ROWS]


def _opening(opening: Opening) -> dict[str, Any]:
    return {
        "paragraphs": [
            {
                "head": paragraph.head,
                "profile": sentence_case(paragraph.profile),
                "pieces": [piece for sentence in paragraph.sentences for piece in (*sentence, " ")],
            }
            for paragraph in opening.paragraphs
        ],
        "closing": opening.closing,
        "marks": labels_text(opening.marks),
    }


def _extra(extra: ExtraSection) -> dict[str, Any]:
    return {
        "title": extra.title,
        "lead": extra.lead,
        "groups": [_group(group) for group in extra.groups],
        "tables": [_table(table) for table in _short(extra.tables)],
        "notes": extra.notes,
    }


def _heat(table: HeatTable) -> dict[str, Any]:
    plain = asdict(table)
    plain["labels"] = [labels_text(marks) for marks in table.shared]
    plain["everywhere"] = labels_text(table.everywhere)
    return plain


def _group(group: FigureGroup) -> dict[str, Any]:
    drawings = [
        {
            "file": f"{d.figure.name}.pdf",
            "title": d.figure.title,
            "alt": d.figure.alt,
            "flags": flag_line(d.figure.flags),
        }
        for d in group.drawings
    ]
    return {
        "kind": group.kind,
        "heading": group.heading,
        "lead": group.lead,
        "drawings": drawings,
    }


def _table(table: DataTable) -> dict[str, Any]:
    table = table.condensed(by_row=True)
    return {
        "caption": table.caption,
        "head": table.head,
        "columns": table.columns,
        "widths": _widths(table),
        "rows": [
            {
                "heads": row.heads,
                "target": row.target,
                "chip": row.chip,
                "index": row.index,
                "numbers": [_number(number) for number in row.numbers],
            }
            for row in table.rows
        ],
        "everywhere": labels_text(table.everywhere),
    }


def _widths(table: DataTable) -> list[int]:
    """Return relative column widths by the longest word of the heading or the longest number.

    With equal widths, long words would be broken beside columns that are half empty.
    """
    numbers = [[row.numbers[place] for row in table.rows] for place in range(len(table.columns))]
    return [
        max(
            *(round(1.2 * len(word)) for word in f"{name} {unit}".split()),  # bold text is wider
            *(len(number.text) for number in column),
            *(min(len(labels_text(number.marks)) // 2, 14) for number in column),
            *(round(0.85 * len(number.spread)) for number in column),
        )
        + 3  # insets of a table cell
        for (name, unit), column in zip(table.columns, numbers, strict=True)
    ]


def _number(number: Number) -> dict[str, Any]:
    return {
        "text": number.text,
        "spread": number.spread,
        "point": number.point_id,
        "marks": labels_text(number.marks),
        "strong": number.strong,
        "missing": number.missing,
    }
