"""Description of a family for reports: names, axes, order and metrics of its pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from storlab.contracts.question import USUAL, Question
from storlab.model.result import RunRecord

RUNS = "runs"
"""Group of quantities that are shown in the table of all runs."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Source from which the audit recomputes a metric, to check a brief.

    The source is a list in a run's details whose entries have ``start_ns`` and ``bytes``. The
    metric is their mean time or, in MB/s, bytes over time. Without a list, the time from the first
    to the last span of the metric's kind is used.
    """

    entries: str = ""  # name of a list in the details, such as writes
    end: str = "end_ns"  # field with the end of an entry


@dataclass(frozen=True, slots=True)
class Quantity:
    """Metric of a family besides rates and latencies: its names, and the table that shows it."""

    name: str  # name of the metric, such as durable_time_s
    title: str  # name in a sentence, such as "time to durable"
    unit: str
    better: Literal["more", "less", ""]
    group: str  # caption of the table that shows it
    operation: str = "all"
    short: str = ""  # column head; default: the title
    power: bool = False  # whether it is based on power, and so shown at the brief's boundary
    compared: bool = False  # whether it is compared with the baseline
    time: str = ""  # name of its distribution: latency, or one of the page's own times
    most: float | None = None  # largest possible value
    published: str = ""  # name in published tables, such as duration or energy
    counted: Counted | None = None  # None if the audit accepts the recorded value

    @property
    def key(self) -> str:
        """Return the key of its column, such as ``durable_time_s.all``."""
        return f"{self.name}.{self.operation}"


@dataclass(frozen=True, slots=True)
class FlagMeaning:
    """Meaning of a kind of flag: its letter and text in legends, and its effect on other values."""

    kind: str  # kind in ``storlab.model.result.Flag``, such as client-bound
    letter: str  # unique letter shown next to numbers
    meaning: str  # text in the legend
    # severity of the audit's finding; empty for no finding
    severity: Literal["", "note", "warning"] = ""
    why: str = ""  # reason why the finding matters
    # Name prefixes of the metrics that it marks; empty for all metrics.
    about: tuple[str, ...] = ()
    latencies: bool = False  # whether it marks only latencies
    energies: bool = False  # whether it also marks power and energies
    caveat: bool = False  # whether it is named before the numbers
    claims: bool = False  # whether it must be shown next to claims based on flagged runs
    advice: str = ""  # text next to a search result based on flagged runs
    tells: str = ""  # provenance that then needs no mark of its own, such as emulated


@dataclass(frozen=True, slots=True)
class Definition:
    """Term of a family in the brief's section on method, with its definition."""

    term: str
    text: str


@dataclass(frozen=True, slots=True)
class Time:
    """Distribution of times specific to a family, with its metrics and histograms.

    Its samples are stored as latencies of ``operation``. Unlike the latency of an I/O, it does not
    depend on concurrency.
    """

    name: str  # name prefix of its metrics, such as step_wait
    words: str
    operation: str


@dataclass(frozen=True, slots=True)
class WorkItemColumn:
    """Column of the table of pieces; ``flagged`` is the metric whose marks are shown with it."""

    name: str
    head: str
    unit: str
    flagged: str = ""
    # Aggregation over repeats: the mean, the most frequent value, or whether it is true for all.
    shown: Literal["mean", "usual", "every"] = "mean"


@dataclass(frozen=True, slots=True)
class PieceValues:
    """Values of one piece of a run."""

    values: Mapping[str, float]  # by name, which ends with the unit
    workers: Mapping[int, float]  # seconds by rank or accelerator
    # names of clients by rank or accelerator
    clients: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkItemKind:
    """Kind of repeated unit of fixed work: epoch, checkpoint or restore.

    ``read`` returns the pieces in order, as the engine reported them. Each has a span, whose energy
    is added to its values.
    """

    kind: str  # kind of its span
    read: Callable[[RunRecord], Sequence[PieceValues]]
    word: str
    caption: str  # such as "Epoch by epoch"
    columns: tuple[WorkItemColumn, ...]
    worker: str = ""  # kind of worker whose times get a table, such as rank; empty for none


@dataclass(frozen=True, slots=True)
class Headline:
    """Quantity that compares targets in one number, with the phrases of the comparison."""

    keys: tuple[str, ...]  # column keys; the first that was measured is used
    more: str  # verb phrase in "{target} <more> {baseline}" if the number is larger
    less: str
    noun: str  # such as "its throughput"


THROUGHPUT = Headline(
    keys=("throughput_mb_s.all",),
    more="moved more data per second than",
    less="moved less data per second than",
    noun="throughput",
)


def margins(
    rates: Mapping[str, float] = MappingProxyType({}),
    times: Mapping[str, float] = MappingProxyType({}),
    reported: tuple[str, ...] = (),
) -> Mapping[str, float | None]:
    """Return the margin for each metric when two engines are compared, as a fraction.

    Args:
        rates: Margins of the family's rates, besides throughput.
        times: Margins of the family's times, besides latencies.
        reported: Metrics that are shown without being judged.
    """
    return {
        "throughput_mb_s": 0.05,
        **rates,
        "latency_mean_ns": 0.05,
        "latency_p50_ns": 0.05,
        "latency_p99_ns": 0.10,
        **times,
        **dict.fromkeys(reported),
        "cpu_s_per_gb": None,
        "error_percent": None,
        "concurrency_effective": None,
    }


def rate(name: str, title: str, unit: str = "1/s", short: str = "") -> Quantity:
    """Return the quantity that counts a family's operations, such as ``requests_s``."""
    return Quantity(name, title, unit, "more", RUNS, short=short)


@dataclass(frozen=True, slots=True)
class Search:
    """Search of ``storlab capacity``: the largest parameter value that keeps a metric up."""

    parameter: str  # such as accelerators
    noun: str  # singular, such as accelerator
    metric: str  # metric in percent to keep at or above a threshold, such as au_percent


@dataclass(frozen=True, slots=True)
class Implementations:
    """Comparison of implementations (engines) by what each needs for the same work."""

    parameter: str  # parameter whose values are engines to compare
    heads: Mapping[str, str]  # column heads by key of the quantity, in order
    # columns that are divided by the first implementation's, with their names
    ratios: Mapping[str, str]
    note: str = ""  # text below the table


@dataclass(frozen=True, slots=True)
class Page:
    """Description of a family for the brief and other reports.

    A swept parameter becomes the horizontal axis or small multiples, or it separates sections.
    """

    operations: tuple[str, ...]  # operations that do the work, in display order
    moved: tuple[str, ...]  # operations whose bytes count as transferred
    axes: tuple[str, ...]  # candidates for the horizontal axis; the first that is swept is used
    # quantity that counts operations; its unit is used for derived ones, per watt or per TB
    rate: Quantity
    series: tuple[str, ...] = ()  # operations for throughput over time; default: ``moved``
    # Operations such as flushes that have a rate and latencies of their own, but are part of no
    # sum.
    beside: tuple[str, ...] = ()
    facet: str | None = None  # parameter of small multiples
    small: int = 0  # small multiples of at most this many bytes are drawn by rate (IOPS)
    mix: str | None = None  # parameter that names a section even if it is not swept
    # Display order of the values of a parameter that separates sections; others are sorted.
    order: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    sizes: tuple[str, ...] = ()  # parameters in bytes
    durations: tuple[str, ...] = ()  # parameters in ns
    titles: Mapping[str, str] = field(default_factory=dict)  # display names of parameters
    # Function that formats a parameter's value as a phrase (``70/30 read/write``), given all
    # parameters of the point. None for the default format, empty if another phrase includes it.
    phrase: Callable[[str, Mapping[str, Any]], str | None] = lambda _name, _params: None
    # whether rates are over the whole window, including pauses between spans
    whole_window: bool = False
    buffered: bool = False  # whether reads and writes always use the page cache
    implementations: Implementations | None = None  # for families that compare implementations
    # display names of operations: get -> GET
    names: Mapping[str, str] = field(default_factory=dict)
    mix_words: str = ""  # end of a mix's phrase that is left out on axes: ``read/write``
    split: bool = False  # whether throughput and rate are also shown by operation
    # latency percentiles in tables; several get a table of their own
    percentiles: tuple[str, ...] = ("p99",)
    first_byte: tuple[str, ...] = ()  # operations with a time to first byte
    # Templates with parameters in braces, for axis titles and the work as a whole. Parameters that
    # vary are left out.
    axis_titles: Mapping[str, str] = field(default_factory=dict)
    work: str = "I/O"
    # Metrics to divide by mean power, with the name of the quotient.
    per_watt: Mapping[str, str] = field(default_factory=dict)
    # parameters that are stated for the work as a whole if they do not vary
    told: tuple[str, ...] = ()
    # description of the point of findings: "the largest number of jobs"
    far: str = "the last point of its axis"
    headline: Headline = THROUGHPUT
    # questions that a study may ask, with those asked by default first
    questions: tuple[Question, ...] = USUAL
    # The family's own metrics, in table order; if given, other tables are left out.
    quantities: tuple[Quantity, ...] = ()
    # keys of the metrics that describe a run in one line; empty for the rate
    line: tuple[str, ...] = ()
    times: tuple[Time, ...] = ()  # distributions besides latency
    # costs besides rates and latencies; those of group RUNS are shown for each run
    costs: tuple[Quantity, ...] = ()
    pieces: tuple[WorkItemKind, ...] = ()
    # Further section of the brief as "module:Class", see storlab.brief.family_additions.
    extra: str = ""
    # Audit function as "module:function" that takes a comparison and yields findings; its name is
    # the rule.
    audit: str = ""
    findings: tuple[str, ...] = ()  # keys of metrics for findings; empty for rates and latencies
    published: tuple[str, ...] = ()  # words in the names of published workloads of this kind
    # Function that returns whether a point is comparable with the published ones.
    published_for: Callable[[Mapping[str, Any]], bool] = lambda _params: True
    flags: tuple[FlagMeaning, ...] = ()  # flags that the family raises, in addition to common ones
    definitions: tuple[Definition, ...] = ()  # terms for the section on method
    # margins between two engines
    margins: Mapping[str, float | None] = field(default_factory=margins)
    # Function that returns whether a parameter affects the point, and so is worth stating.
    says: Callable[[str, Mapping[str, Any]], bool] = lambda _name, _params: True
    search: Search | None = None
    workers: str = ""  # parameter with the number of worker threads on a client
    # Function for the number of threads, if no single parameter has it; 0 if unknown.
    threads: Callable[[Mapping[str, Any]], int] | None = None
    # Parameter that sets a client's concurrency, and so adds up over clients; default: workers.
    load: str = ""
    # Parameters for outstanding I/O, the usual one first, with lower-case column names in
    # publications.
    outstanding: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    paced: str = ""  # parameter that selects an open loop, which has no fixed concurrency
    by_bytes: str = ""  # parameter that, if given, ends the window after that many bytes
    access: str = ""  # parameter with the order of offsets: random, sequential
    # Function that describes work scaled down from its name: ``scaled to 1 %``; empty if it is not.
    scale_note: Callable[[Mapping[str, Any]], str] = lambda _params: ""
    # Function of a run's details that returns the kinds of spans partly done by an earlier process,
    # whose times and energies therefore do not cover the whole work.
    resumed: Callable[[Mapping[str, Any]], frozenset[str]] = lambda _details: frozenset()

    @property
    def searched(self) -> Search:
        """Return the family's search; raise ValueError if it has none."""
        if self.search is None:
            raise ValueError("this family has nothing to search for")
        return self.search

    def workers_of(self, params: Mapping[str, Any]) -> int:
        """Return the number of worker threads of a point on a client; 0 if unknown."""
        if self.threads is not None:
            return self.threads(params)
        return int(params.get(self.workers) or 0)

    @property
    def transferred(self) -> tuple[str, ...]:
        """Return the operations whose bytes make up throughput over time."""
        return self.series or self.moved

    @property
    def per_client(self) -> str:
        """Return the parameter that adds up over the clients of a cluster, or ""."""
        return self.load or self.workers

    @property
    def rate_short(self) -> str:
        """Return the rate as a column head: ``IOPS``, ``requests/s``."""
        return self.rate.short or self.rate.title

    def name_of(self, operation: str) -> str:
        """Return the display name of an operation: ``read``, ``GET``."""
        return self.names.get(operation, operation)
