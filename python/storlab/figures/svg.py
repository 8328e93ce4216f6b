"""Convert figures to SVG by vl-convert, which needs no browser and no network."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape

from storlab import __version__
from storlab.base.display_safe import visible
from storlab.figures.figure import DAGGER, Figure
from storlab.figures.theme import FONT, LIGHT, SMALL_PX

_VARIABLE = re.compile(r"var\(--([a-z0-9-]+)\)")
_NOISE = re.compile(
    r' (?:class|role|aria-[a-z]+|pointer-events)="[^"]*"'
    r'| (?:opacity|stroke-width)="1"'
    r'| xmlns:xlink="[^"]*"'
)
_EMPTY_PATH = re.compile(r'<path(?: [a-z-]+="[^"]*")*? d="(?:M0,0h0v0h0Z)?"(?: [a-z-]+="[^"]*")*/>')
_ID = re.compile(r'\bid="([^"]+)"|url\(#([^)]+)\)')
_HATCH = re.compile(r"url\(#(?:[a-z0-9-]+-)?(hatch[23]?)-(s\d)\)")
_LINES = {"hatch": (45, 6, 2.5), "hatch2": (135, 6, 1.2), "hatch3": (90, 3.5, 1.2)}
_TAG = re.compile(r"<[^>]*>")
_LONG_NUMBER = re.compile(r"(\d+\.\d{2})\d+")  # coordinates only; printed numbers are not shortened
_SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"')
LINE_HEIGHT = 18
SMALL_CHARACTER_PX = 6.65  # width of a small character in the widest fallback font
BOLD_PX = 9  # width of a title character in the widest fallback font


def render(figure: Figure) -> str:
    """Render a figure as SVG with CSS variables as colours, which a style sheet must define."""
    import vl_convert

    # vl-convert would abort the process at control characters, which XML does not allow.
    spec: Any = visible(figure.spec)
    svg = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    svg = _NOISE.sub("", svg)
    svg = _EMPTY_PATH.sub("", svg)
    svg = _TAG.sub(lambda tag: _LONG_NUMBER.sub(r"\1", tag.group()), svg)
    svg = _with_hatches(svg)
    return _ID.sub(lambda m: _own_id(m, figure.name), svg)


def with_colours(svg: str, palette: Mapping[str, str] = LIGHT) -> str:
    """Replace the CSS variables of an SVG by colours of a palette."""
    return _VARIABLE.sub(lambda m: palette[m.group(1)], svg)


def inline(svg: str, figure: Figure) -> str:
    """Adapt an SVG for embedding in HTML: make it scale, and label it for screen readers.

    Overflow is visible, because a reader's font may be wider than the one used for layout.
    """
    width, height = size_of(svg)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" overflow="visible" role="img" '
        f'aria-label="{_attribute(visible(figure.alt))}">'
    )
    return opening + svg[svg.index(">") + 1 :]


def standalone(svg: str, figure: Figure, palette: Mapping[str, str]) -> str:
    """Make an SVG file of its own, with title, description, background and fixed colours.

    Flags of the runs are part of the metadata only; a dagger after the drawn title stands for them.
    """
    width, height = size_of(svg)
    title, alt = visible(figure.full_title), visible(figure.alt)
    drawn = f"{title} {DAGGER}" if figure.flags else title
    lines = _wrapped(drawn, int((width - 16) / BOLD_PX))
    below = _wrapped(visible(figure.source), int((width - 16) / SMALL_CHARACTER_PX))
    top = LINE_HEIGHT * len(lines) + 12
    bottom = top + height
    full = bottom + LINE_HEIGHT * len(below)
    text = "".join(
        f'<text x="8" y="{LINE_HEIGHT * (i + 1)}" font-family="{FONT}" font-size="14" '
        f'font-weight="bold" fill="{palette["fig-ink"]}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    ) + "".join(
        f'<text x="8" y="{bottom + LINE_HEIGHT * i + 10:g}" font-family="{FONT}" '
        f'font-size="{SMALL_PX}" fill="{palette["fig-muted"]}">{escape(line)}</text>'
        for i, line in enumerate(below)
    )
    body = svg[svg.index(">") + 1 : svg.rindex("</svg>")]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{full:g}" '
        f'viewBox="0 0 {width:g} {full:g}" role="img">'
        f"<title>{escape(title)}</title><desc>{escape(alt)}</desc>"
        f"<metadata>{escape(_provenance(figure))}</metadata>"
        f'<rect width="{width:g}" height="{full:g}" fill="{palette["fig-paper"]}"/>'
        f'{text}<g transform="translate(0,{top})">{with_colours(body, palette)}</g></svg>\n'
    )


def _provenance(figure: Figure) -> str:
    """Return the origin of a figure as JSON: source, points, and flags of its runs."""
    return json.dumps(
        {
            "generator": f"storlab {__version__}",
            "source": visible([*figure.foot, figure.source]),
            "points": figure.point_ids,
            "flags": visible([*figure.flags]),
        },
        ensure_ascii=False,
    )


def size_of(svg: str) -> tuple[float, float]:
    """Return width and height of an SVG in px."""
    match = _SIZE.search(svg)
    if match is None:
        raise ValueError("the SVG has no width and height")
    return float(match.group(1)), float(match.group(2))


def _with_hatches(svg: str) -> str:
    wanted = sorted(set(_HATCH.findall(svg)))
    if not wanted:
        return svg
    patterns = "".join(_pattern(kind, name) for kind, name in wanted)
    head = svg.index(">") + 1
    return f"{svg[:head]}<defs>{patterns}</defs>{svg[head:]}"


def _pattern(kind: str, name: str) -> str:
    """Return an SVG pattern of hatching over a pale background of the same colour."""
    angle, step, line = _LINES[kind]
    return (
        f'<pattern id="{kind}-{name}" width="{step}" height="{step}" '
        f'patternUnits="userSpaceOnUse" patternTransform="rotate({angle})">'
        f'<rect width="{step}" height="{step}" fill="var(--{name})" fill-opacity="0.25"/>'
        f'<rect width="{line}" height="{step}" fill="var(--{name})"/></pattern>'
    )


def _own_id(match: re.Match[str], name: str) -> str:
    """Prefix an SVG id with the figure's name, because ids must be unique on a page."""
    if match.group(1) is not None:
        return f'id="{name}-{match.group(1)}"'
    return f"url(#{name}-{match.group(2)})"


def _attribute(text: str) -> str:
    return escape(text, {'"': "&quot;"})


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, max(width, 20), break_on_hyphens=False)
