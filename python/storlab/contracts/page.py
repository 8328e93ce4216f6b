"""Description of a family for reports: names, axes, order and metrics of its pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from storlab.contracts.question import USUAL, Question
from storlab.model.params import InStudy, Params
from storlab.model.result import RunRecord
from storlab.model.types import BYTES, Duration

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
    implied_provenance: str = ""  # provenance that then needs no mark of its own: emulated


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
    """Column of the table of work items, with the marks of the metric ``flagged``."""

    name: str
    head: str
    unit: str
    flagged: str = ""
    # Aggregation over repeats: the mean, the most frequent value, or whether it is true for all.
    shown: Literal["mean", "usual", "every"] = "mean"


@dataclass(frozen=True, slots=True)
class WorkItemValues:
    """Values of one work item of a run."""

    values: Mapping[str, float]  # by name, which ends with the unit
    workers: Mapping[int, float]  # seconds by rank or accelerator
    # names of clients by rank or accelerator
    clients: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkItemKind:
    """Kind of repeated unit of fixed work: epoch, checkpoint or restore.

    ``read`` returns the work items in order, as the engine reported them. Each has a span, whose
    energy is added to its values.
    """

    kind: str  # kind of its span
    read: Callable[[RunRecord], Sequence[WorkItemValues]]
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
class Operations:
    """Operations of a family, and the rates and latencies of them that are shown."""

    main: tuple[str, ...]  # operations that do the work, in display order
    moved: tuple[str, ...]  # operations whose bytes count as transferred
    # quantity that counts operations; its unit is used for derived ones, per watt or per TB
    rate: Quantity
    # Operations such as flushes that have a rate and latencies of their own, but are part of no
    # sum.
    auxiliary: tuple[str, ...] = ()
    over_time: tuple[str, ...] = ()  # those for throughput over time; default: ``moved``
    names: Mapping[str, str] = field(default_factory=dict)  # display names: get -> GET
    by_operation: bool = False  # whether throughput and rate are also shown by operation
    # latency percentiles in tables; several get a table of their own
    percentiles: tuple[str, ...] = ("p99",)
    first_byte: tuple[str, ...] = ()  # operations with a time to first byte

    @property
    def transferred(self) -> tuple[str, ...]:
        """Return the operations whose bytes make up throughput over time."""
        return self.over_time or self.moved

    @property
    def rate_short(self) -> str:
        """Return the rate as a column head: ``IOPS``, ``requests/s``."""
        return self.rate.short or self.rate.title

    def name_of(self, operation: str) -> str:
        """Return the display name of an operation: ``read``, ``GET``."""
        return self.names.get(operation, operation)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of a family's points: their roles on the page and their printed forms.

    A swept parameter becomes the horizontal axis or small multiples, or it separates sections.
    """

    axes: tuple[str, ...]  # candidates for the horizontal axis; the first that is swept is used
    model: type[Params] = Params  # its types tell which parameters are sizes and durations
    facet: str | None = None  # parameter of small multiples
    by_rate: int = 0  # small multiples of at most this many bytes are drawn by rate (IOPS)
    mix: str | None = None  # parameter that names a section even if it is not swept
    mix_words: str = ""  # end of a mix's phrase that is left out on axes: ``read/write``
    # Display order of the values of a parameter that separates sections; others are sorted.
    order: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)  # display names of parameters
    # Titles of axes with parameters in braces; without the title if one of them varies.
    axis_titles: Mapping[str, str] = field(default_factory=dict)
    # Function that formats a parameter's value as a phrase (``70/30 read/write``), given all
    # parameters of the point. None for the default format, empty if another phrase includes it.
    phrase: Callable[[str, Mapping[str, Any]], str | None] = lambda _name, _params: None
    # Function that returns whether a parameter affects the point, and so is worth stating.
    is_relevant: Callable[[str, Mapping[str, Any]], bool] = lambda _name, _params: True

    @property
    def sizes(self) -> frozenset[str]:
        """Return the parameters in bytes."""
        return self.model.marked(BYTES)

    @property
    def durations(self) -> frozenset[str]:
        """Return the parameters in nanoseconds."""
        return self.model.marked(InStudy(Duration))


@dataclass(frozen=True, slots=True)
class Load:
    """How a client generates load, and the parameters that decide it."""

    workers: str = ""  # parameter with the number of worker threads on a client
    # Function for the number of threads, if no single parameter has it; 0 if unknown.
    threads: Callable[[Mapping[str, Any]], int] | None = None
    # Parameter that sets a client's concurrency, and so adds up over clients; default: workers.
    concurrency: str = ""
    # Parameters for outstanding I/O, the usual one first, with lower-case column names in
    # publications.
    outstanding: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    open_loop: str = ""  # parameter that selects an open loop, which has no fixed concurrency
    byte_limit: str = ""  # parameter that, if given, ends the window after that many bytes
    buffered: bool = False  # whether reads and writes always use the page cache
    # whether rates are over the whole window, including pauses between spans
    whole_window: bool = False

    @property
    def per_client(self) -> str:
        """Return the parameter that adds up over the clients of a cluster, or ""."""
        return self.concurrency or self.workers

    def workers_of(self, params: Mapping[str, Any]) -> int:
        """Return the number of worker threads of a point on a client; 0 if unknown."""
        if self.threads is not None:
            return self.threads(params)
        return int(params.get(self.workers) or 0)


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics that reports show and compare, besides the rates and latencies of operations."""

    # The family's own metrics, in table order; if given, other tables are left out.
    quantities: tuple[Quantity, ...] = ()
    # costs besides rates and latencies; those of group RUNS are shown for each run
    costs: tuple[Quantity, ...] = ()
    times: tuple[Time, ...] = ()  # distributions besides latency
    headline: Headline = THROUGHPUT
    # questions that a study may ask, with those asked by default first
    questions: tuple[Question, ...] = USUAL
    findings: tuple[str, ...] = ()  # keys of metrics for findings; empty for rates and latencies
    # keys of the metrics that describe a run in one line; empty for the rate
    run_line: tuple[str, ...] = ()
    # Metrics to divide by mean power, with the name of the quotient.
    per_watt: Mapping[str, str] = field(default_factory=dict)
    # margins between two engines
    margins: Mapping[str, float | None] = field(default_factory=margins)


@dataclass(frozen=True, slots=True)
class Text:
    """Words of the brief about a family's work."""

    work: str = "I/O"  # the work as a whole; parameters in braces, empty if one of them varies
    # parameters that are stated for the work as a whole if they do not vary
    stated: tuple[str, ...] = ()
    # description of the point of findings: "the largest number of jobs"
    last_point: str = "the last point of its axis"
    definitions: tuple[Definition, ...] = ()  # terms for the section on method
    # Function that describes work scaled down from its name: ``scaled to 1 %``; empty if it is not.
    scale_note: Callable[[Mapping[str, Any]], str] = lambda _params: ""


@dataclass(frozen=True, slots=True)
class Publications:
    """Rules by which points are matched with workloads of published tables."""

    names: tuple[str, ...] = ()  # words in the names of published workloads of this kind
    # Function that returns whether a point is comparable with the published ones.
    is_comparable: Callable[[Mapping[str, Any]], bool] = lambda _params: True
    access: str = ""  # parameter with the order of offsets: random, sequential


@dataclass(frozen=True, slots=True)
class Page:
    """Description of a family for the brief and other reports."""

    # Every family has these.
    operations: Operations
    parameters: Parameters

    # Most families set some of their fields.
    load: Load = Load()
    metrics: Metrics = Metrics()
    text: Text = Text()
    flags: tuple[FlagMeaning, ...] = ()  # flags that the family raises, besides common ones

    # Few families have these.
    published: Publications = Publications()
    work_items: tuple[WorkItemKind, ...] = ()  # for fixed work of repeated units
    search: Search | None = None  # for ``storlab capacity``
    implementations: Implementations | None = None  # for families that compare implementations
    # Further section of the brief as "module:Class", see storlab.brief.family_additions.
    additions: str = ""
    # Audit function as "module:function" that takes a comparison and yields findings; its name is
    # the rule.
    audit: str = ""

    @property
    def searched(self) -> Search:
        """Return the family's search; raise ValueError if it has none."""
        if self.search is None:
            raise ValueError("this family has nothing to search for")
        return self.search
