"""Render the HTML pages of a history site, in the style of the brief."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from jinja2 import DictLoader, Environment, StrictUndefined

from storlab import __version__
from storlab.analysis.changes import FEWEST
from storlab.brief.html import brief_script, shown, style_sheet
from storlab.figures.svg import inline
from storlab.history.page import OPEN, DirectoryRow, PointView
from storlab.history.read import Problem
from storlab.history.series import NEAR
from storlab.words.history import unchanged_text
from storlab.words.text import plural, sentence_case

NEWEST = 3  # number of a point's changes that are shown unfolded
_TEMPLATES = ("base", "macros", "index", "point", "method")
HEADS = (
    ("point", "text"),
    ("changed by", "num"),
    ("last change (UTC)", "time"),
    ("candidate", "text"),
    ("last value", "num"),
    ("results", "num"),
    ("family", "text"),
)
"""Columns of the table of points, each with its sort type."""


class Pages:
    """Renderer of a history site's HTML pages, which loads its templates once."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=DictLoader(
                {f"{name}.html.j2": _resource(f"{name}.html.j2") for name in _TEMPLATES}
            ),
            autoescape=True,
            finalize=shown,
            undefined=StrictUndefined,
            trim_blocks=False,
        )
        self._environment.globals.update(
            version=__version__,
            plural=plural,
            sentence=sentence_case,
            near=NEAR,
            inline=inline,
            unchanged=unchanged_text,
            fewest=FEWEST,
        )

    def index(
        self,
        points: Sequence[PointView],
        directories: Sequence[DirectoryRow],
        problems: Sequence[Problem],
    ) -> bytes:
        """Render the first page: points, result directories, and those that could not be read."""
        template = self._environment.get_template("index.html.j2")
        text = template.render(
            root="", points=points, directories=directories, problems=problems, heads=HEADS,
            summary=_summary(points),
        )  # fmt: skip
        return _bytes(text)

    def point(self, view: PointView) -> bytes:
        """Render the page of one workload point on one target."""
        template = self._environment.get_template("point.html.j2")
        return _bytes(template.render(root="../", p=view, open=OPEN, newest=NEWEST))


def css() -> bytes:
    """Return the site's style sheet: that of the brief, followed by the history's own."""
    return (style_sheet() + _resource("history.css")).encode()


def script() -> bytes:
    """Return the site's JavaScript: that of the brief, followed by the history's own."""
    return (brief_script() + _resource("history.js")).encode()


def _summary(points: Sequence[PointView]) -> str:
    changed = [view for view in points if view.changes]
    if not changed:
        return f"{sentence_case(unchanged_text(most_results(points), 'no change was found'))}."
    newest = changed[0]
    return (
        f"{plural(len(changed), 'point')} changed. The newest change: {newest.changed} of "
        f"{newest.target}, {newest.newest} UTC."
    )


def most_results(points: Sequence[PointView]) -> int:
    """Return the largest number of results of any point."""
    return max((view.results for view in points), default=0)


def _bytes(text: str) -> bytes:
    """Encode a page as UTF-8; parts of file names that are not valid text become "?"."""
    return text.encode(errors="replace")


def _resource(name: str) -> str:
    return files("storlab.history").joinpath("templates", name).read_text(encoding="utf-8")
