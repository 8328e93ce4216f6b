"""Render a brief as one HTML file that contains its style, figures, data and scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import DictLoader, Environment, StrictUndefined, Template

from storlab.base.display_safe import visible
from storlab.brief.bundle import vega_bundle
from storlab.brief.flags import labels
from storlab.figures.footer import flag_line
from storlab.figures.signs import DRAWN_SIGNS
from storlab.figures.svg import inline
from storlab.figures.theme import DARK, LIGHT, SERIES
from storlab.words.findings import EXPLAINED, HEADS
from storlab.words.text import plural

if TYPE_CHECKING:  # other pages import style and script and need no model of a brief
    from storlab.brief.model import Brief

# fraction of a target's colour in the background of a heat table's cell, by colour step
TINTS = (0.05, 0.10, 0.16, 0.23, 0.30)
MOST_ROWS = 8  # rows of a table that is open by default, outside the appendix

PAGE_LIGHT: dict[str, str] = {
    "bg": "#f4f6f8",
    "paper": "#ffffff",
    "ink": "#1b2733",
    "muted": "#566575",
    "line": "#dbe1e7",
    "soft": "#eef2f5",
    "link": "#005a92",
    "note": "#fff6e3",
    "note-line": "#d9a441",
    "bad": "#a5281b",
    "mark": "#8a3b00",
    "mark-bg": "#fdeedd",
    "focus": "#005fcc",
}
PAGE_DARK: dict[str, str] = {
    "bg": "#0b1118",
    "paper": "#131b24",
    "ink": "#e6edf3",
    "muted": "#a3b1bf",
    "line": "#2a3541",
    "soft": "#1a2430",
    "link": "#7cc4f5",
    "note": "#2a2212",
    "note-line": "#a97b27",
    "bad": "#ff9c8f",
    "mark": "#ffc58a",
    "mark-bg": "#3a2712",
    "focus": "#7cc4f5",
}


THEMES = ((PAGE_LIGHT, LIGHT), (PAGE_DARK, DARK))
"""Colours of page and figures, for the light and the dark theme."""


def colours_of(page: Mapping[str, str], drawings: Mapping[str, str]) -> dict[str, str]:
    """Return all colours of a theme by name, including the background tints of heat tables."""
    return {**page, **drawings, **_tints(page["paper"], drawings)}


def render_html(brief: Brief, figures_href: str = "figures/") -> str:
    """Render a brief as one HTML page.

    Args:
        brief: Content of the brief.
        figures_href: Folder of the SVG files relative to the page, with a trailing slash.
    """
    from storlab.brief.main_figures import is_narrow  # slow, and not needed by other pages

    return _template().render(
        brief=brief,
        contents=_contents(brief),
        css=style_sheet(),
        js=brief_script(),
        bundle=_script(vega_bundle()),
        data=_json(visible(brief.data)),
        inline=lambda drawing: inline(drawing.svg, drawing.figure),
        spec=lambda drawing: _json(visible(drawing.figure.spec)),
        figures_href=figures_href,
        audit_points=brief.audit_points,
        labels=labels,
        flag_line=flag_line,
        narrow=is_narrow,
        counted_as=plural,
        most_rows=MOST_ROWS,
        drawn_signs=DRAWN_SIGNS,
        finding_heads=HEADS,
        explained=EXPLAINED,
    )


def _contents(brief: Brief) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Return the entries of the navigation: words, anchor, and the entries of a menu, if any.

    All workloads are one menu, and so is the appendix, so that the entries fit into one row.
    """
    body, reference = brief.body, brief.reference
    drawn = any(group.main for group in body.overview)
    sections = [(section.short, section.anchor) for section in body.sections]
    appendix = [
        ("More figures", "more-figures", bool(body.appendix)),
        ("All numbers", "numbers", bool(sections)),
        ("Method", "method", True),
        ("Configuration", "configuration", bool(reference.configuration or reference.environment)),
        ("Audit", "audit", True),
        ("Runs", "runs", True),
    ]
    workloads = (
        [("Workloads", "", sections)]
        if len(sections) > 1
        else [(short, anchor, []) for short, anchor in sections]
    )
    return [
        ("Findings", "findings", []),
        *workloads,
        *([("Ratios", "ratio-figures" if drawn else "ratios", [])] if body.ratios else []),
        *((extra.short, extra.anchor, []) for extra in body.extras),
        ("Appendix", "appendix", [(words, anchor) for words, anchor, has in appendix if has]),
    ]


@cache  # compiling takes a quarter of a second
def _template() -> Template:
    environment = Environment(
        loader=DictLoader({"brief": _resource("brief.html.j2")}),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=False,
    )
    environment.filters["nobreak"] = _nobreak
    return environment.get_template("brief")


def shown(value: object) -> object:
    """Make control characters visible in text that a template prints; leave other values alone."""
    return visible(value) if type(value) is str else value


def style_sheet() -> str:
    """Return the style sheet with the colours of the light and the dark theme filled in."""
    light, dark = (_variables(colours_of(page, own)) for page, own in THEMES)
    themes = (
        f":root{{{light};color-scheme:light}}\n"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light])"
        f"{{{dark};color-scheme:dark}}}}\n"
        f":root[data-theme=dark]{{{dark};color-scheme:dark}}\n"
        f"@media print{{:root,:root:not([data-theme=light]),:root[data-theme=dark]"
        f"{{{light};color-scheme:light}}}}\n"
    )
    heat = "".join(
        f".hot.s{number}.h{step}{{background:var(--{_tint(number, step)})}}\n"
        for number in range(1, SERIES + 1)
        for step in range(len(TINTS))
    )
    return themes + heat + _resource("brief.css")


def brief_script() -> str:
    """Return the script of a page: choice of theme, folding, and interactive figures by Vega."""
    return _resource("brief.js")


def _tints(paper: str, colours: Mapping[str, str]) -> dict[str, str]:
    """Mix each target's colour with the paper colour, once per colour step of heat tables."""
    return {
        _tint(number, step): _mixed(colours[f"s{number}"], paper, share)
        for number in range(1, SERIES + 1)
        for step, share in enumerate(TINTS)
    }


def _tint(number: int, step: int) -> str:
    return f"tint-{number}-{step}"


def _mixed(colour: str, paper: str, share: float) -> str:
    """Mix a colour (fraction ``share``) with the paper colour (the rest), both ``#rrggbb``."""
    pairs = ((int(c[at : at + 2], 16) for c in (colour, paper)) for at in (1, 3, 5))
    return "#" + "".join(
        f"{round(ink * share + ground * (1 - share)):02x}" for ink, ground in pairs
    )


def _variables(colours: Mapping[str, str]) -> str:
    return ";".join(f"--{name}:{value}" for name, value in colours.items())


def _nobreak(text: str) -> str:
    """Prevent line breaks inside intervals (at dashes) and between a number and MB/s."""
    return text.replace("–", "\u2060–\u2060").replace(" MB/s", "\u00a0MB/s")


def _json(value: Any) -> str:
    """Return JSON with ``<``, ``>`` and ``&`` escaped, so that it cannot end its script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _script(code: str) -> str:
    """Escape ``</script`` and ``<!--`` in JavaScript, so that it cannot end its script element."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _resource(name: str) -> str:
    return files("storlab.brief").joinpath("templates", name).read_text(encoding="utf-8")
