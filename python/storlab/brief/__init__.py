"""The brief: a report that compares targets, as one HTML file and as PDF from the same model."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from storlab.base.files import make_folder, parse_json, read_input, temporary_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from storlab.analysis.answer import Verdict
    from storlab.brief.model import Brief
    from storlab.lab.results.store import ResultStore
    from storlab.model.publisher import BriefTable

_LOG = logging.getLogger(__name__)
_MANIFEST = "storlab-figures.json"  # which figures in the folder are those of the brief


def write_brief(
    store: ResultStore,
    others: Sequence[ResultStore] = (),
    *,
    title: str | None = None,
    out: Path | None = None,
    pdf: bool = True,
    published_by: tuple[BriefTable, Path] | None = None,
    runs: Sequence[str] = (),
    tell: Callable[[list[Verdict]], None] = lambda _: None,
) -> Path:
    """Write the brief, its figures as SVG files beside it, and the PDF; return the HTML's path.

    It is of one result directory, or of it and ``others`` together.

    ``tell`` is handed the answers before anything is written.
    ``published_by`` is a ``[brief]`` in place of the study's, and the folder that it lay in.
    ``runs`` are ids of single runs to draw on a time axis.
    ``out`` is the HTML file, by default ``brief.html`` in the result directory. Files are replaced
    in one step each. A PDF that cannot be set is left out with a warning in the log, and an older
    one removed: the HTML says everything. Raises ResultError for damaged runs, UsageError for one
    of ``runs`` that cannot be drawn, OSError when a file cannot be written, and AuditError, before
    anything is written, when a claim does not follow from its runs or a number cannot be.
    """
    # the terminal's table shares this package, and needs neither Vega nor typst
    from storlab.audit.from_claims import stop_on_error
    from storlab.brief.build import build_brief
    from storlab.brief.html import render_html
    from storlab.brief.pdf import PdfError, render_pdf

    path = (out or store.directory / "brief.html").absolute()
    brief = build_brief(
        store, others, title=title, beside=path.parent, name=path.stem, published_by=published_by,
        runs=runs,
    )  # fmt: skip
    tell(brief.verdicts)
    stop_on_error(str(path), [f for f in brief.audit if f.rule not in brief.told])
    path.parent.mkdir(parents=True, exist_ok=True)
    figures = path.parent / ("figures" if out is None else f"{path.stem}-figures")
    _write_figures(brief, figures)
    for name, content in brief.beside.items():
        _replace(path.parent / name, content)
    _replace(path, render_html(brief, f"{figures.name}/").encode())
    if pdf:
        try:
            _replace(path.with_suffix(".pdf"), render_pdf(brief))
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
            _replace(path, standalone(drawing.svg, drawing.figure, palette).encode())
            written.append(path.name)
    for stale in sorted(_listed(directory) - set(written)):
        (directory / stale).unlink(missing_ok=True)
    _replace(directory / _MANIFEST, (json.dumps({"figures": written}, indent=2) + "\n").encode())


def _listed(directory: Path) -> set[str]:
    """Figures that an earlier brief made here; whatever else lies there is somebody's."""
    try:
        names = parse_json(read_input(directory / _MANIFEST))["figures"]
        return {name for name in names if Path(name).name == name and name.endswith(".svg")}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _replace(path: Path, content: bytes) -> None:
    """Readers see the old file or the new one. A brief can be made again, so it is not synced."""
    temporary = temporary_beside(path)
    try:
        with temporary.open("xb") as file:
            file.write(content)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from None
