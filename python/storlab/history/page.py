"""Collect the content of a history site's pages, independent of HTML."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from storlab.analysis.compare import PLACES
from storlab.base.units import format_number
from storlab.figures.common import slug
from storlab.figures.figure import Figure
from storlab.figures.trend import (
    Mark,
    Trend,
    Turn,
    date_text,
    draw_trend,
)
from storlab.history.series import NEAR, Campaign, History, PointHistory, Result, Series, Shift
from storlab.model.decision import Interval
from storlab.words.history import (
    candidates_text,
    chance_text,
    changed_text,
    course_shows,
    course_text,
    shift_levels,
    shift_sign,
    shift_text,
)
from storlab.words.text import latency_text, sentence_case, spread_text, value_text

POINTS, BRIEFS = "points", "briefs"
OPEN = 50  # number of results whose rows are shown unfolded
_SLUG = 60  # characters of the readable part of a file name


@dataclass(frozen=True, slots=True)
class ShiftRow:
    """Change of one quantity, as shown in a row on a point's page."""

    title: str
    text: str
    levels: str
    verdict: str
    chance: str


@dataclass(frozen=True, slots=True)
class ChangeView:
    """Change of one or several quantities at the same time, as shown on a point's page."""

    date: str
    rows: list[ShiftRow]
    candidates: list[str]
    before: Link
    after: Link


@dataclass(frozen=True, slots=True)
class Link:
    """Name of a result directory with the address of its brief; empty if there is no brief."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class CourseView:
    """Drawing of one quantity over time; that of the main quantity has a wide and a narrow form."""

    figure: Figure
    key: str
    places: list[int]
    drawings: list[tuple[str, str, list[float]]]  # CSS class, SVG, and positions of the results


@dataclass(frozen=True, slots=True)
class ResultRow:
    """Row of the table of results on a point's page: one result directory."""

    place: int
    date: str
    cells: list[tuple[str, str]]  # value, interval
    runs: str
    link: Link


@dataclass(frozen=True, slots=True)
class PointView:
    """Content of a point's page and of its row on the first page."""

    href: str
    kind: str
    workload: str
    engine: str
    target: str
    where: str
    span: str
    results: int
    runs: int
    last: str
    last_value: float
    change: str
    change_value: float
    verdict: str
    newest: str
    newest_time: float
    changed: str
    candidate: str
    changes: list[ChangeView]
    courses: list[CourseView]
    heads: list[tuple[str, str, str]]  # key, title, unit
    rows: list[ResultRow]


@dataclass(frozen=True, slots=True)
class DirectoryRow:
    """Row of a result directory on the first page."""

    study: str
    date: str
    points: int
    runs: int
    link: Link


def page_name(point: PointHistory) -> str:
    """Return the file name of a point's page, which contains a hash and so is unique."""
    own = f"{point.work.key}\0{point.target}".encode()
    return _file_name(POINTS, slug(point.target, point.where), own)


def _file_name(folder: str, words: str, own: bytes) -> str:
    short = hashlib.sha256(own).hexdigest()[:10]
    return f"{folder}/{words[:_SLUG].strip('-') or 'point'}-{short}.html"


class Briefs:
    """Links from a history site's pages to the briefs of result directories.

    If briefs are to be copied into the site, ``copies`` maps names of the copies to the briefs.
    """

    def __init__(self, site: Path, *, copied: bool = False) -> None:
        self._site, self._copied = os.fspath(site), copied
        self._links: dict[str, str] = {}
        self.copies: dict[str, Path] = {}

    def href(self, directory: str) -> str:
        """Return the address of a directory's brief relative to the first page; "" if none."""
        if directory not in self._links:
            path = os.path.join(directory, "brief.html")  # noqa: PTH118 - there are thousands
            relative = self._place(directory, path) if os.path.exists(path) else ""  # noqa: PTH110
            self._links[directory] = quote(os.fsencode(relative))
        return self._links[directory]

    def _place(self, directory: str, path: str) -> str:
        if not self._copied:
            return os.path.relpath(path, self._site)
        if os.path.islink(path) or not os.access(path, os.R_OK):  # noqa: PTH114
            return ""  # a symbolic link could publish a file from elsewhere
        words = slug(os.path.basename(directory))  # noqa: PTH119
        name = _file_name(BRIEFS, words, os.fsencode(directory))
        self.copies[name] = Path(path)
        return name

    def of(self, result: Result) -> Link:
        """Return the link from a point's page to the same point in the brief of a result."""
        directory = result.campaign.directory
        href = self.href(directory)
        anchor = f"#point-{quote(result.point['point_id'])}"
        return Link(os.path.basename(directory), f"../{href}{anchor}" if href else "")  # noqa: PTH119


def directory_rows(history: History, briefs: Briefs) -> list[DirectoryRow]:
    """Return the first page's rows for all result directories, newest first."""
    return [_directory(campaign, briefs) for campaign in history.campaigns]


def _directory(campaign: Campaign, briefs: Briefs) -> DirectoryRow:
    points = campaign.record["points"]
    starts = [point["started_at"] for point in points if point["started_at"]]
    return DirectoryRow(
        campaign.record["study"],
        min(starts, default=campaign.record["created_at"])[:16].replace("T", " "),
        len(points),
        sum(point["runs"] for point in points),
        Link(campaign.directory, briefs.href(campaign.directory)),
    )


def point_view(point: PointHistory, briefs: Briefs) -> PointView:
    """Return the content of one point's page."""
    results, headline = point.results, point.headline
    newest = next(groups(point), [])  # all change fields of the row describe this group
    shift, lead = (newest[0], _lead(newest)) if newest else (None, None)
    last = None if headline is None else headline.intervals[-1].estimate
    unit = "" if headline is None else headline.column.unit
    changes = list(_changes(point, briefs))
    engine = point.work.engine
    return PointView(
        href=page_name(point),
        kind=point.work.kind,
        workload=point.work.workload,
        engine=engine,
        target=point.target,
        where=point.where,
        span=f"{date_text(results[0].time)} to {date_text(results[-1].time)}",
        results=len(results),
        runs=point.runs,
        last="no finished run" if last is None else value_text(last, unit),
        last_value=last or 0.0,
        change="" if shift is None else shift_text(shift.interval, shift.levels),
        change_value=0.0
        if shift is None or shift.interval is None
        else shift.interval.estimate - 1,
        verdict="" if shift is None else shift.verdict,
        newest="" if lead is None else date_text(results[lead.index].time),
        newest_time=0.0 if lead is None else results[lead.index].time.timestamp(),
        changed=changed_text([row.title for row in changes[0].rows]) if changes else "",
        candidate=changes[0].candidates[0] if lead is not None and lead.candidates else "",
        changes=changes,
        courses=list(_courses(point)),
        heads=[(s.column.key, sentence_case(s.title), _head_unit(s)) for s in point.series],
        rows=list(_rows(point, briefs)),
    )


def _head_unit(series: Series) -> str:
    return "" if series.column.unit in ("ns", "1") else series.column.unit


def groups(point: PointHistory) -> Iterator[list[Shift]]:
    """Yield groups of shifts that are so close in time that they count as one change, newest first.

    A shift is the change of level of one quantity.
    """
    left = point.shifts
    while left:
        first = left[0]
        together = [shift for shift in left if first.index - shift.index <= NEAR]
        left = left[len(together) :]
        yield sorted(together, key=lambda shift: PLACES[shift.column.key])


def _lead(shifts: Sequence[Shift]) -> Shift:
    """Return the shift of a group that is least likely noise; its time is that of the change."""
    return min(shifts, key=lambda shift: (shift.chance, shift.index))


def _changes(point: PointHistory, briefs: Briefs) -> Iterator[ChangeView]:
    titles = {(series.column, series.boundary): series.title for series in point.series}
    for shifts in groups(point):
        lead = _lead(shifts)
        rows = [
            ShiftRow(
                sentence_case(titles[s.column, s.boundary]),
                shift_text(s.interval, s.levels),
                shift_levels(s.interval, s.levels),
                s.verdict,
                chance_text(s.chance),
            )
            for s in shifts
        ]
        index = lead.index
        beside = point.results[max(0, index - 1) : index + 1]
        imported = any(result.campaign.record["imported"] for result in beside)
        yield ChangeView(
            date=date_text(point.results[index].time),
            rows=rows,
            candidates=candidates_text(lead.candidates, is_imported=imported),
            before=briefs.of(point.results[index - 1]),
            after=briefs.of(point.results[index]),
        )


def _courses(point: PointHistory) -> Iterator[CourseView]:
    for number, series in enumerate(point.series):
        trend = _trend(point, series)
        widths = (("wide", True), ("narrow", False)) if number == 0 else (("", False),)
        drawings = [(name, *draw_trend(trend, wide=wide)) for name, wide in widths]
        yield CourseView(_figure(point, series), series.column.key, series.places, drawings)


def _trend(point: PointHistory, series: Series) -> Trend:
    key = series.column.key
    marks = [
        Mark(point.seconds[place], interval, point.results[place].point["values"][key]["runs"])
        for place, interval in zip(series.places, series.intervals, strict=True)
    ]
    turns = [Turn(series.places.index(s.index), shift_sign(s.interval)) for s in series.shifts]
    return Trend(marks, turns, series.column.unit)


def _figure(point: PointHistory, series: Series) -> Figure:
    number, unit = len(series.places), series.column.unit
    name = sentence_case(series.title)
    shifts = [
        (shift_text(s.interval, s.levels), date_text(point.results[s.index].time))
        for s in series.shifts
    ]
    course = course_text(shifts, number)
    newest = value_text(series.intervals[-1].estimate, unit)
    return Figure(
        name=slug("course", series.column.key, series.boundary),
        kind="course",
        title=f"{name}: {course}",
        shows=course_shows(name, number, newest),
        spec={},
        columns=[],
        rows=[],
    )


def _rows(point: PointHistory, briefs: Briefs) -> Iterator[ResultRow]:
    """Yield the rows of a point's table of results, newest first."""
    cells = [dict(zip(s.places, s.intervals, strict=True)) for s in point.series]
    for place in range(len(point.results) - 1, -1, -1):
        result = point.results[place]
        yield ResultRow(
            place,
            date_text(result.time),
            [
                _cell(own.get(place), series.column.unit)
                for series, own in zip(point.series, cells, strict=True)
            ],
            _runs(result),
            briefs.of(result),
        )


def _cell(interval: Interval | None, unit: str) -> tuple[str, str]:
    if interval is None:
        return "", ""
    show = latency_text if unit == "ns" else format_number
    return show(interval.estimate), spread_text(interval, show=show)


def _runs(result: Result) -> str:
    failed = result.point["failed"]
    return f"{result.point['runs']}" + (f", {failed} failed" if failed else "")
