"""One HTML file that needs no network: style, figures, data and the code for them are inside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import vl_convert
from jinja2 import DictLoader, Environment, StrictUndefined

from storlab.brief.model import Brief
from storlab.figures.svg import inline
from storlab.figures.theme import DARK, LIGHT

CARDS = 8  # claims with a large number; the others are listed

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


def render_html(brief: Brief, figures_href: str = "figures/") -> str:
    """The page. ``figures_href`` is where the SVG files lie, relative to it, with a slash."""
    environment = Environment(
        loader=DictLoader({"brief": _resource("brief.html.j2")}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=False,
    )
    environment.filters["nobreak"] = _nobreak
    cards = [claim for claim in brief.claims if claim.kind != "latency"][:CARDS]
    return environment.get_template("brief").render(
        brief=brief,
        cards=cards,
        listed=[claim for claim in brief.claims if claim not in cards],
        css=style_sheet(),
        js=_resource("brief.js"),
        bundle=_script(_vega_bundle()),
        data=_json(brief.data),
        inline=lambda drawing: inline(drawing.svg, drawing.figure),
        spec=lambda drawing: _json(drawing.figure.spec),
        figures_href=figures_href,
        audit_points=brief.audit_points,
    )


def style_sheet() -> str:
    """The style sheet with the colours of light and dark filled in."""
    light = _variables({**PAGE_LIGHT, **LIGHT})
    dark = _variables({**PAGE_DARK, **DARK})
    themes = (
        f":root{{{light};color-scheme:light}}\n"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light])"
        f"{{{dark};color-scheme:dark}}}}\n"
        f":root[data-theme=dark]{{{dark};color-scheme:dark}}\n"
        f"@media print{{:root,:root:not([data-theme=light]),:root[data-theme=dark]"
        f"{{{light};color-scheme:light}}}}\n"
    )
    return themes + _resource("brief.css")


def _vega_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that defines ``window.vegaEmbed``."""
    return vl_convert.javascript_bundle(None)  # type: ignore[arg-type]  # None: all of it


def _variables(colours: Mapping[str, str]) -> str:
    return ";".join(f"--{name}:{value}" for name, value in colours.items())


def _nobreak(text: str) -> str:
    """Keep intervals on one line: a word joiner on both sides of the dash."""
    return text.replace("–", "\u2060–\u2060").replace(" MB/s", "\u00a0MB/s")


def _json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _script(code: str) -> str:
    """Code that cannot end the script element it stands in."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _resource(name: str) -> str:
    return files("storlab.brief").joinpath("templates", name).read_text(encoding="utf-8")
