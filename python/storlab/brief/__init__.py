"""Write briefs: reports that compare targets, as one HTML file, with the main part as PDF."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from storlab.base.files import make_folder, parse_json, read_input, replace_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storlab.analysis.compare import Comparison
    from storlab.brief.model import Brief
    from storlab.model.publisher import BriefTable
    from storlab.results.store import ResultStore

_LOG = logging.getLogger(__name__)
_MANIFEST = "storlab-figures.json"  # list of the figures in the folder that belong to the brief


def write_brief(
    store: ResultStore,
    others: Sequence[ResultStore] = (),
    *,
    title: str | None = None,
    out: Path | None = None,
    pdf: bool = True,
    published_by: tuple[BriefTable, Path] | None = None,
    runs: Sequence[str] = (),
    whole: Comparison | None = None,
    changes: Sequence[str] = (),
) -> Path:
    """Write the brief as HTML, its figures as SVG files and the PDF; return the path of the HTML.

    Each file is replaced atomically. If typst cannot make the PDF, a warning is logged and an older
    PDF is removed, so that it does not lie next to a newer HTML file.

    Args:
        store: Result directory to report on.
        others: Further result directories for the same brief.
        title: Title of the brief; by default the name of the study.
        out: HTML file to write; by default ``brief.html`` in the result directory.
        pdf: Whether to write a PDF, too.
        published_by: A ``[brief]`` table to use instead of the one in the study, and the folder to
            search for files that it names.
        runs: Ids of single runs to draw over time.
        whole: Comparison of these result directories, if the caller has made it already.
        changes: Settings under which they were read, if other than the study's, as phrases.

    Raises:
        ResultError: A run is damaged.
        UsageError: One of ``runs`` does not exist or is too short to draw.
        AuditError: A number does not follow from its runs, or is impossible. No file is written.
        OSError: A file cannot be written.
    """
    # Imported here, as importers of this package that print tables need neither Vega nor typst.
    from storlab.audit.from_claims import stop_on_error
    from storlab.brief.build import build_brief
    from storlab.brief.html import render_html
    from storlab.brief.pdf import PdfError, render_pdf

    path = (out or store.directory / "brief.html").absolute()
    brief = build_brief(
        store, others, title=title, beside=path.parent, name=path.stem, published_by=published_by,
        runs=runs, whole=whole, changes=changes,
    )  # fmt: skip
    stop_on_error(str(path), brief.audit.unstated)
    path.parent.mkdir(parents=True, exist_ok=True)
    figures = path.parent / ("figures" if out is None else f"{path.stem}-figures")
    _write_figures(brief, figures)
    for name, content in brief.files.items():
        replace_file(path.parent / name, content, durable=False)
    replace_file(path, render_html(brief, f"{figures.name}/").encode(), durable=False)
    if pdf:
        try:
            replace_file(path.with_suffix(".pdf"), render_pdf(brief, path.name), durable=False)
        except PdfError as error:
            _LOG.warning("no PDF was made: %s", error)
            path.with_suffix(".pdf").unlink(missing_ok=True)
    return path


def _write_figures(brief: Brief, directory: Path) -> None:
    from storlab.figures.svg import standalone
    from storlab.figures.theme import DARK, LIGHT

    make_folder(directory)
    written: list[str] = []
    for drawing in brief.drawings:
        for name, palette in (("light", LIGHT), ("dark", DARK)):
            path = directory / f"{drawing.figure.name}.{name}.svg"
            svg = standalone(drawing.svg, drawing.figure, palette).encode()
            replace_file(path, svg, durable=False)
            written.append(path.name)
    for stale in sorted(_listed(directory) - set(written)):
        (directory / stale).unlink(missing_ok=True)
    manifest = (json.dumps({"figures": written}, indent=2) + "\n").encode()
    replace_file(directory / _MANIFEST, manifest, durable=False)


def _listed(directory: Path) -> set[str]:
    """Return the names of the SVG files that an earlier brief wrote to this directory.

    They are listed in a manifest, so that files of other origin are never removed.
    """
    try:
        names = parse_json(read_input(directory / _MANIFEST))["figures"]
        return {name for name in names if Path(name).name == name and name.endswith(".svg")}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
