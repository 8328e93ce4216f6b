"""Load result directories as Arrow tables, typed records and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from storlab.analysis.compare import PER_REPEAT, Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.verdict import verdicts
from storlab.base.errors import UsageError
from storlab.exchange.exporters.tidy import metrics_table, samples_table
from storlab.figures.figure import Figure
from storlab.figures.svg import render, standalone
from storlab.figures.theme import LIGHT
from storlab.model.decision import Interval, Verdict
from storlab.results.store import ResultStore
from storlab.words.answers import sentences

_INTERVAL = (
    ("estimate", pa.float64()),
    ("low", pa.float64()),
    ("high", pa.float64()),
    ("repeats", pa.int64()),
)


def load(*directories: str | Path) -> Results:
    """Load result directories, and compare the targets that ran the same workload points.

    Args:
        *directories: Result directories.

    Raises:
        ResultError: A directory is not a result directory or is damaged.
        UsageError: No directory is given.
    """
    return Results([ResultStore.open(Path(directory)) for directory in directories])


@dataclass(frozen=True, slots=True)
class Drawing:
    """Figure of the brief; a notebook draws it if it is the value of a cell."""

    figure: Figure
    plain: str  # SVG with names of theme colours instead of values

    @property
    def title(self) -> str:
        """Title of the figure, a sentence that states what it shows."""
        return self.figure.full_title

    @property
    def spec(self) -> dict[str, Any]:
        """Vega-Lite specification of the figure; colours are names of roles in the theme."""
        return self.figure.spec

    @property
    def table(self) -> pa.Table:
        """Data of the figure as a table of formatted texts."""
        columns = zip(*self.figure.rows, strict=True) if self.figure.rows else ([],)
        names = self.figure.columns if self.figure.rows else self.figure.columns[:1]
        return pa.table([pa.array(list(c), pa.string()) for c in columns], names=names)

    def svg(self) -> str:
        """Return the figure as a complete SVG document, in the colours of the light theme."""
        return standalone(self.plain, self.figure, LIGHT)

    def _repr_html_(self) -> str:
        return self.svg()


class Results:
    """Runs and analysis of one or more result directories.

    Tables are Arrow tables; convert them with ``.to_pandas()`` or ``polars.from_arrow(...)``.
    """

    def __init__(self, stores: Sequence[ResultStore]) -> None:
        self._dataset = load_dataset(stores)
        self.stores = list(stores)

    @cached_property
    def comparison(self) -> Comparison:
        """Comparison of all targets as in the brief, as objects, with the runs of every number."""
        return compare(self._dataset)

    @property
    def verdicts(self) -> list[Verdict]:
        """Answers to each question: which target leads, by how much, and with what confidence.

        The study's first question comes first.
        """
        return verdicts(self.comparison)

    @property
    def runs(self) -> pa.Table:
        """Table with one row per run and metric: identity, parameters, name, value and unit.

        It has the same content as ``storlab export --format parquet``.

        Raises:
            ResultError: There is no run yet.
        """
        return _joined([metrics_table(store) for store in self.stores])

    @property
    def samples(self) -> pa.Table:
        """Table with one row per run, interval and operation, including HdrHistogram V2 data."""
        return _joined([samples_table(store) for store in self.stores])

    @property
    def points(self) -> pa.Table:
        """Table with one row per workload point, target and metric: mean and 95 % interval.

        Bounds of two repeats are the two values; an interval that spans more than a factor of ten,
        or that of a single run, has no bounds.
        Percentiles come from the merged histograms of the repeats. If ``per_repeat`` is true, there
        are no histograms to merge, and the estimate is the median of the repeats' own percentiles.
        """
        rows = [
            {
                **identity, "target": target, "metric": key, **_interval(interval),
                "per_repeat": key in cell.percentile_flags.get(PER_REPEAT, ()),
            }
            for identity, row in self._rows()
            for target, cell in row.cells.items()
            for key, interval in cell.values.items()
        ]  # fmt: skip
        return _table(rows, ("workload", "where", "target", "metric"), ("per_repeat",))

    @property
    def ratios(self) -> pa.Table:
        """Table with one row per workload point, target and metric: the ratio to the baseline.

        ``outcome`` tells how the target compares with the baseline, for example ``better``;
        ``decided`` is true if the ratio's confidence interval excludes 1.
        """
        rows = [
            {
                **identity, "target": target, "metric": key, **_interval(decision.ratio),
                "outcome": decision.outcome, "decided": decision.decided,
            }
            for identity, row in self._rows()
            for target, ratios in row.ratios.items()
            for key, decision in ratios.items()
        ]  # fmt: skip
        texts = ("workload", "where", "target", "metric", "outcome")
        return _table(rows, texts, ("decided",))

    @cached_property
    def figures(self) -> list[Drawing]:
        """Figures of the brief, in its order; for a large campaign, only those it selects.

        Raises:
            StorlabError: The brief cannot be built.
        """
        from storlab.brief.build import build_brief

        first, *others = self.stores
        brief = build_brief(first, others, beside=first.directory)
        return [Drawing(drawing.figure, drawing.svg) for drawing in brief.drawings]

    def timeline(self, run_id: str) -> Drawing:
        """Return the timeline of a run: latency, throughput, device, power, temperature, flags.

        Args:
            run_id: Id of the run as in :attr:`runs`, or as in the brief if several directories
                contain a run with this id.

        Raises:
            UsageError: The id does not exist or is ambiguous, or the run cannot be drawn.
        """
        from storlab.brief.timelines import run_figures

        first, *others = run_figures(self.comparison, run_id)
        if others:
            what = "is the id of a run in several of these directories"
            raise UsageError(
                run_id,
                what,
                "use the id that a brief of these directories shows, or load only one of them",
            )
        return Drawing(first, render(first))

    @property
    def sentences(self) -> list[str]:
        """Sentences that answer each question of the study, its first question first."""
        return [sentence for verdict in self.verdicts for sentence in sentences(verdict)]

    def _rows(self) -> Iterator[tuple[dict[str, str], Any]]:
        for section in self.comparison.sections:
            for point in section.points:
                identity = {"workload": point.workload, "where": section.where(point)}
                yield identity, self.comparison.row(point)

    def _repr_html_(self) -> str:
        from html import escape

        lines = "".join(f"<p>{escape(line)}</p>" for line in self.sentences)
        return lines or "<p>No run has finished.</p>"


def _interval(interval: Interval) -> dict[str, float | int | None]:
    return {
        "estimate": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "repeats": interval.n,
    }


def _table(rows: list[dict[str, Any]], texts: Sequence[str], bools: Sequence[str] = ()) -> pa.Table:
    fields: list[tuple[str, pa.DataType]] = [(name, pa.string()) for name in texts]
    fields += [*_INTERVAL, *((name, pa.bool_()) for name in bools)]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables whose parameter columns may differ; missing values become null."""
    return pa.concat_tables(tables, promote_options="permissive")
