"""Figures with a panel for each block size (or other facet), side by side in one drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from storlab.analysis.compare import Comparison, Row
from storlab.analysis.points import Section, title_of
from storlab.figures.common import last_point, slug
from storlab.figures.figure import WHOLE, Figure, Place, Size
from storlab.figures.theme import FONT_PX, HEIGHT, PANELS_WIDTH, WIDTH, legend_columns
from storlab.words.figures import OF, panels_title
from storlab.words.text import and_list, sentence_case

MOST = 4  # panels of one figure; more are drawn as several figures
GAP = 54  # px between the plots of two panels: room for the axis of the second
ROW_GAP = 56  # px between the plots of panels below each other
DENSE = 14  # marks on the horizontal axis of a panel; of more, panels are below each other


def panel_size(count: int, columns: int = 2) -> Size:
    """Return the size of each of ``count`` panels, of which ``columns`` are side by side."""
    if count == 1:
        return WHOLE
    rows = ceil(count / columns)
    height = HEIGHT if rows == 1 else max(HEIGHT // rows, 80)
    return Size(WIDTH - 80 if columns == 1 else PANELS_WIDTH // 2, height, panel=True)


def chunks(facets: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Divide facets into as few figures as possible, of about equal numbers of panels."""
    figures = ceil(len(facets) / MOST)
    for number in range(figures):
        start, stop = (round(len(facets) * n / figures) for n in (number, number + 1))
        yield facets[start:stop]


def over_facets(
    comparison: Comparison,
    section: Section,
    draw: Callable[[Place], Figure | None],
    title: Callable[[Sequence[Place]], str],
) -> list[Figure]:
    """Draw a figure of the sweep at all block sizes (or other facets) of a section.

    Args:
        comparison: Comparison to draw from.
        section: Section whose facets become panels.
        draw: Draws one panel.
        title: Returns the title of a figure with these panels.
    """
    figures: list[Figure] = []
    for facets in chunks(section.facets()):
        points = max(len(section.of_facet(facet)) for facet in facets)
        marks = points * len(comparison.planned(section.points))
        columns = 1 if marks > DENSE else 2
        size = panel_size(len(facets), columns)
        places = [Place.along(comparison, section, facet, size) for facet in facets]
        drawn = [(place, figure) for place in places if (figure := draw(place)) is not None]
        if len(drawn) > 1:
            head = title_of(section.page, section.axes.facet or "")
            panels = [(place.words, figure) for place, figure in drawn]
            text = title([place for place, _ in drawn])
            whole = beside(panels, head, text, columns)
            name = f"{whole.name}-{len(figures) + 1}" if figures else whole.name
            figures.append(replace(whole, name=name))
        elif drawn:
            place = replace(drawn[0][0], size=WHOLE)
            figures += [figure for figure in (draw(place),) if figure is not None]
    return figures


def sweep_words(places: Sequence[Place], key: str, noun: str, template: str = OF) -> str:
    """Return a title: ratios to the baseline at the last points of the sweep of each panel.

    Without ratios, or if they take too many words, it names the quantity and the panels.

    Args:
        places: Points of each panel.
        key: Column key of the quantity to compare.
        noun: Name of the quantity.
        template: Clause for a ratio, see ``storlab.words.figures``.
    """
    comparison, section = places[0].comparison, places[0].section
    ends = [(place.words, last_point(comparison, section, place.facet)) for place in places]
    known = [(name, point) for name, point in ends if point is not None]
    at = and_list(list(dict.fromkeys(section.at(point) for _, point in known)))
    rows = [(name, comparison.row(point)) for name, point in known]
    return ratio_words(comparison, rows, key, noun, template, at)


def ratio_words(
    comparison: Comparison,
    rows: Sequence[tuple[str, Row]],
    key: str,
    noun: str,
    template: str,
    at: str,
) -> str:
    """Return a title from the rows of a comparison and the names of their panels.

    :func:`sweep_words` describes the other arguments.
    """
    panels = [
        [(name, row.ratios[target][key]) for name, row in rows if key in row.ratios[target]]
        for target in comparison.others
    ]
    names = list(dict.fromkeys(name for name, _ in rows))
    return panels_title(panels, noun, template, at) or sentence_case(f"{noun}, {and_list(names)}")


def beside(
    panels: Sequence[tuple[str, Figure]],
    head: str,
    title: str,
    columns: int,
    gap: int = GAP,
    row_gap: int = ROW_GAP,
) -> Figure:
    """Join figures of the same kind into one with a panel for each.

    Args:
        panels: Title of each panel with its figure.
        head: What the titles of panels are, such as ``block size``: a column of the data table.
        title: Title of the whole.
        columns: Panels side by side.
        gap: Space in px between the plots of two panels side by side.
        row_gap: Space in px between the plots of two panels below each other.
    """
    first, names = panels[0][1], [name for name, _ in panels]
    views = [_view(figure.spec, number) for number, (_, figure) in enumerate(panels)]
    for (name, _), view in zip(panels, views, strict=True):
        view["layer"].append(_heading(name, view["width"]))
    _share(views, columns * views[0]["width"] + (columns - 1) * gap)
    if len({_titles(view, "y") for view in views}) == 1:
        for view in (view for number, view in enumerate(views) if number % columns):
            _untitled(view, "y")
    for view in views[: max(len(views) - columns, 0)]:  # panels with another one below
        _untitled(view, "x")
    data = {
        f"{name}{number}": records
        for number, (_, figure) in enumerate(panels)
        for name, records in figure.spec["datasets"].items()
    }
    shared = ("$schema", "background", "config", "padding")
    whole: dict[str, Any] = {key: first.spec[key] for key in shared if key in first.spec}
    return replace(
        first,
        name=first.name.removesuffix(f"-{slug(names[0])}"),
        title=sentence_case(title),
        shows=f"{first.shows}, in a panel for each {head}: {', '.join(names)}",
        spec={
            **whole,
            "concat": views,
            "columns": columns,
            "spacing": {"column": gap, "row": row_gap},
            "bounds": "flush",
            "datasets": data,
        },
        columns=[head, *first.columns],
        rows=[[name, *row] for name, figure in panels for row in figure.rows],
        point_ids=[point for _, figure in panels for point in figure.point_ids],
        note=first.where,
        remark="; ".join(dict.fromkeys(f.remark for _, f in panels if f.remark)),
    )


def _view(spec: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return a specification as part of a larger one, with its own names of data sets."""
    parts = ("layer", "width", "height", "encoding", "resolve", "mark", "transform", "data")
    view: dict[str, Any] = _renamed({k: spec[k] for k in parts if k in spec}, number)
    return view


def _heading(name: str, width: float) -> dict[str, Any]:
    """Return a layer with the name of a panel above it.

    A title would be at different heights, as it avoids the labels of the axis.
    """
    return {
        "data": {"values": [{}]},
        "mark": {"type": "text", "baseline": "bottom", "fontWeight": "bold", "fontSize": FONT_PX},
        "encoding": {"x": {"value": width / 2}, "y": {"value": -9}, "text": {"value": name}},
    }


def _renamed(part: Any, number: int) -> Any:
    if isinstance(part, list):
        return [_renamed(each, number) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        key: {"name": f"{value['name']}{number}"}
        if key == "data" and isinstance(value, dict) and "name" in value
        else _renamed(value, number)
        for key, value in part.items()
    }


def _encodings(view: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for layer in view["layer"]:
        yield layer["encoding"]


def _share(views: Sequence[Mapping[str, Any]], width: float) -> None:
    """Give all panels the same colours and shapes, so that they share one legend.

    The legend has one column if its entries side by side do not fit into ``width`` px.
    """
    for channel in ("color", "fill", "shape"):
        owns = [
            own
            for view in views
            for encoding in _encodings(view)
            if isinstance(own := encoding.get(channel), dict)
            and isinstance(own.get("scale"), dict)
            and "range" in own["scale"]
        ]
        used = [own["scale"] for own in owns]
        every = {
            name: value
            for scale in used
            for name, value in zip(scale["domain"], scale["range"], strict=True)
        }
        for scale in used:
            scale["domain"], scale["range"] = [*every], [*every.values()]
        for own in owns:
            if isinstance(legend := own.get("legend"), dict) and "columns" in legend:
                legend["columns"] = legend_columns([*every], width)


def _axes(view: Mapping[str, Any], channel: str) -> list[dict[str, Any]]:
    own = (encoding.get(channel) for encoding in _encodings(view))
    return [axis for axis in own if isinstance(axis, dict) and axis.get("title")]


def _titles(view: Mapping[str, Any], channel: str) -> tuple[str, ...]:
    return tuple(str(axis["title"]) for axis in _axes(view, channel))


def _untitled(view: Mapping[str, Any], channel: str) -> None:
    """Remove the title of an axis that another panel in the same row or column has as well."""
    for axis in _axes(view, channel):
        axis["title"] = None
