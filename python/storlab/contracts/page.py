"""Description of a workload family for reports: names, axes, order and metrics of its pages."""

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
    """Source in a run's record from which the audit of a brief recomputes a metric.

    The source is a list in the run's details whose entries have ``start_ns`` and ``bytes``. The
    metric is the entries' mean duration or, in MB/s, bytes over time. Without a list, it
    is the time from the start of the first to the end of the last span of the metric's kind.
    """

    entries: str = ""  # name of a list in the details, such as writes
    end: str = "end_ns"  # field with the end of an entry


@dataclass(frozen=True, slots=True)
class Quantity:
    """Metric of a workload family besides rates and latencies: names, unit, and its table."""

    name: str  # name of the metric, such as durable_time_s
    title: str  # name in a sentence, such as "time to durable"
    unit: str
    better: Literal["more", "less", ""]
    group: str  # caption of the table that shows it
    operation: str = "all"
    short: str = ""  # column head; default: the title
    power: bool = False  # whether it depends on power, so that it is shown at a power boundary
    compared: bool = False  # whether it is compared with the baseline
    time: str = ""  # name of its distribution: latency, or one of the page's own times
    most: float | None = None  # largest possible value
    published: str = ""  # name in published tables, such as duration or energy
    counted: Counted | None = None  # None if the audit accepts the recorded value

    @property
    def key(self) -> str:
        """Return the key of the metric's column, such as ``durable_time_s.all``."""
        return f"{self.name}.{self.operation}"


@dataclass(frozen=True, slots=True)
class FlagMeaning:
    """Meaning of a kind of flag: its label and text in legends, and the values it applies to."""

    kind: str  # kind in ``storlab.model.result.Flag``, such as client-bound
    label: str  # unique words of at most 20 characters, shown next to numbers
    meaning: str  # text in the legend
    # severity of the audit's finding about the flag; empty if there is none
    severity: Literal["", "note", "warning"] = ""
    why: str = ""  # reason why the finding matters
    # Name prefixes of the metrics that are marked with the label; empty for all metrics.
    about: tuple[str, ...] = ()
    latencies: bool = False  # whether it marks only latencies
    energies: bool = False  # whether it also marks power and energies
    caveat: bool = False  # whether it is named before the numbers
    claims: bool = False  # whether it must be shown next to claims based on flagged runs
    advice: str = ""  # text next to a search result based on flagged runs
    implied_provenance: str = ""  # provenance that then needs no mark of its own: emulated

    @property
    def precedence(self) -> tuple[bool, bool]:
        """Sort key: flags that qualify claims come first, then those named before the numbers."""
        return (not self.claims, not self.caveat)


@dataclass(frozen=True, slots=True)
class Definition:
    """Definition of a workload family's term, for the brief's section on method."""

    term: str
    text: str


@dataclass(frozen=True, slots=True)
class Time:
    """Times that only one workload family measures, such as the wait of a training step.

    Their histograms are stored as latencies of ``operation``. Unlike the latency of an I/O, they do
    not depend on concurrency.
    """

    name: str  # name prefix of its metrics, such as step_wait
    words: str
    operation: str


@dataclass(frozen=True, slots=True)
class WorkItemColumn:
    """Column of the table of work items; flags of the metric ``flagged`` mark its values."""

    name: str
    head: str
    unit: str
    flagged: str = ""
    # Value over all repeats: the mean, the most frequent value, or whether it is true for all.
    shown: Literal["mean", "usual", "every"] = "mean"


@dataclass(frozen=True, slots=True)
class WorkItemValues:
    """Values of one work item of a run, such as an epoch or a checkpoint."""

    values: Mapping[str, float]  # by name, which ends with the unit
    workers: Mapping[int, float]  # seconds by rank or accelerator
    # name of the client that runs each rank or accelerator
    clients: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkItemKind:
    """Kind of work item, a repeated unit of fixed work: epoch, checkpoint or restore.

    ``read`` returns the work items of a run in order, as the engine reported them. Each has a span
    of the measure window, whose energy is added to its values.
    """

    kind: str  # kind of its span
    read: Callable[[RunRecord], Sequence[WorkItemValues]]
    word: str
    caption: str  # such as "Epoch by epoch"
    columns: tuple[WorkItemColumn, ...]
    worker: str = ""  # kind of worker whose times get a table, such as rank; empty for none


def margins(
    rates: Mapping[str, float] = MappingProxyType({}),
    times: Mapping[str, float] = MappingProxyType({}),
    reported: tuple[str, ...] = (),
) -> Mapping[str, float | None]:
    """Return the margins within which two engines must agree, as a fraction for each metric.

    Args:
        rates: Margins of the family's rates, besides throughput.
        times: Margins of the family's times, besides latencies.
        reported: Metrics that are shown but need not agree; they have no margin.
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
    """Return the metric for a family's operations per second, such as ``requests_s``."""
    return Quantity(name, title, unit, "more", RUNS, short=short)


@dataclass(frozen=True, slots=True)
class Search:
    """Search of ``storlab capacity``: largest parameter value at which a metric is sufficient."""

    parameter: str  # such as accelerators
    noun: str  # singular, such as accelerator
    metric: str  # metric in percent to keep at or above a threshold, such as au_percent


@dataclass(frozen=True, slots=True)
class Implementations:
    """Table that compares implementations (engines) by the time and resources for equal work."""

    parameter: str  # parameter whose values are engines to compare
    heads: Mapping[str, str]  # column heads by key of the quantity, in order
    # names of the columns with ratios to the reference implementation, by key of the metric
    ratios: Mapping[str, str]
    note: str = ""  # text below the table


@dataclass(frozen=True, slots=True)
class Operations:
    """Operations of a workload family, and which of their rates and latencies are shown."""

    main: tuple[str, ...]  # operations that do the work, in display order
    moved: tuple[str, ...]  # operations whose bytes count as transferred
    # metric for operations per second; metrics per watt or per TB are derived from it
    rate: Quantity
    # Operations, such as flushes, that have a rate and latencies of their own, but are excluded
    # from totals.
    auxiliary: tuple[str, ...] = ()
    over_time: tuple[str, ...] = ()  # operations in throughput over time; default: moved
    names: Mapping[str, str] = field(default_factory=dict)  # display names: get -> GET
    by_operation: bool = False  # whether throughput and rate are also shown by operation
    # Whether rates are operations or bytes divided by the time of the spans of that operation,
    # instead of the time of the whole window.
    over_spans: bool = False
    # latency percentiles to show; if there are several, they have a table of their own
    percentiles: tuple[str, ...] = ("p99",)
    first_byte: tuple[str, ...] = ()  # operations with a time to first byte

    @property
    def transferred(self) -> tuple[str, ...]:
        """Return the operations whose bytes make up throughput over time."""
        return self.over_time or self.moved

    @property
    def rate_short(self) -> str:
        """Return the column heading of operations per second: ``IOPS``, ``requests/s``."""
        return self.rate.short or self.rate.title

    def name_of(self, operation: str) -> str:
        """Return the display name of an operation: ``read``, ``GET``."""
        return self.names.get(operation, operation)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of a workload family: their roles on the page, and how they are printed.

    A swept parameter becomes the horizontal axis or small multiples, or it separates sections.
    """

    axes: tuple[str, ...]  # candidates for the horizontal axis; the first that is swept is used
    model: type[Params] = Params  # its types tell which parameters are sizes and durations
    facet: str | None = None  # parameter of small multiples
    by_rate: int = 0  # small multiples of at most this many bytes are drawn by rate (IOPS)
    mix: str | None = None  # parameter that names a section even if it is not swept
    mix_words: str = ""  # end of a mix's phrase that is left out on axes: ``read/write``
    # Display order of the values of parameters that separate sections; other values are sorted.
    order: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)  # display names of parameters
    # Axis titles with parameter values in braces; a title is left out if one of these varies.
    axis_titles: Mapping[str, str] = field(default_factory=dict)
    # Texts for points that do not have a parameter, by parameter.
    absent: Mapping[str, str] = field(default_factory=dict)
    # Function that formats a parameter's value as a phrase (``70/30 read/write``), given all
    # parameters of the point. It returns None for the default format, and an empty text if another
    # phrase includes the value.
    phrase: Callable[[str, Mapping[str, Any]], str | None] = lambda _name, _params: None
    # Function that returns whether a parameter affects the point; only such ones are printed.
    is_relevant: Callable[[str, Mapping[str, Any]], bool] = lambda _name, _params: True

    @property
    def sizes(self) -> frozenset[str]:
        """Return the names of parameters that are sizes in bytes."""
        return self.model.marked(BYTES)

    @property
    def durations(self) -> frozenset[str]:
        """Return the names of parameters that are durations in nanoseconds."""
        return self.model.marked(InStudy(Duration))


@dataclass(frozen=True, slots=True)
class Load:
    """How a client generates load: parameters for workers, concurrency and open loop."""

    workers: str = ""  # parameter with the number of worker threads on a client
    # Function that computes the number of worker threads (0 if unknown) from the parameters, if no
    # single parameter has it.
    threads: Callable[[Mapping[str, Any]], int] | None = None
    # Parameter with the concurrency of one client, which adds up over clients; default: workers.
    concurrency: str = ""
    # Parameters that set the operations in flight, the usual one first, each with its lower-case
    # names in published tables.
    outstanding: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    open_loop: str = ""  # parameter that selects an open loop, which has no fixed concurrency
    level: str = ""  # parameter with the rate of an open loop in percent of the measured maximum
    byte_limit: str = ""  # parameter that, if given, ends the window after that many bytes
    buffered: bool = False  # whether reads and writes always use the page cache
    # whether rates are averages over the whole measure window, including pauses between spans
    whole_window: bool = False

    @property
    def per_client(self) -> str:
        """Return the name of the parameter whose values add up over clients, or ""."""
        return self.concurrency or self.workers

    def workers_of(self, params: Mapping[str, Any]) -> int:
        """Return the number of worker threads on one client; 0 if unknown."""
        if self.threads is not None:
            return self.threads(params)
        return int(params.get(self.workers) or 0)


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics that reports show and compare, besides the rates and latencies of operations."""

    # The family's own metrics, in table order. If there are any, the usual tables are left out.
    quantities: tuple[Quantity, ...] = ()
    # resource metrics such as CPU time; those of group RUNS are shown for each run
    costs: tuple[Quantity, ...] = ()
    times: tuple[Time, ...] = ()  # distributions besides latency
    # keys of the main metric; the first that was measured is used
    headline: tuple[str, ...] = ("throughput_mb_s.all",)
    # questions that a study may ask, with those asked by default first
    questions: tuple[Question, ...] = USUAL
    findings: tuple[str, ...] = ()  # keys of the main metrics; if empty, rates and latencies
    # Keys of the metrics in a one-line summary of a run (by default the rate), and in the text that
    # opens a section (by default the headline and the findings): the first over the sweep.
    run_line: tuple[str, ...] = ()
    # name of a metric per watt, by name of the metric to divide by mean power
    per_watt: Mapping[str, str] = field(default_factory=dict)
    # relative differences up to which two engines agree, by metric; None: not compared
    margins: Mapping[str, float | None] = field(default_factory=margins)


@dataclass(frozen=True, slots=True)
class Text:
    """Phrases of the brief about a workload family's work."""

    work: str = "I/O"  # the work as a whole; parameters in braces, empty if one of them varies
    # parameters that are printed once for the whole work if they do not vary
    stated: tuple[str, ...] = ()
    # description of the point that findings quote, such as "the largest number of jobs"
    last_point: str = "the last point of its axis"
    definitions: tuple[Definition, ...] = ()  # terms for the section on method
    # Function that returns a remark such as ``scaled to 1 %`` if the work is smaller than its full
    # size, and otherwise an empty text.
    scale_note: Callable[[Mapping[str, Any]], str] = lambda _params: ""


@dataclass(frozen=True, slots=True)
class Publications:
    """Rules by which measured points are matched with workloads of published tables."""

    names: tuple[str, ...] = ()  # words in the names of published workloads of this kind
    # Function that returns whether a point's parameters are comparable with published workloads.
    is_comparable: Callable[[Mapping[str, Any]], bool] = lambda _params: True
    access: str = ""  # parameter with the order of offsets: random, sequential


@dataclass(frozen=True, slots=True)
class Page:
    """Description of a workload family for the brief and other reports."""

    # Fields that every family sets:
    operations: Operations
    parameters: Parameters

    # Fields that most families set in part:
    load: Load = Load()
    metrics: Metrics = Metrics()
    text: Text = Text()
    flags: tuple[FlagMeaning, ...] = ()  # flags that the family raises, besides common ones

    # Fields that few families set:
    published: Publications = Publications()
    work_items: tuple[WorkItemKind, ...] = ()  # for fixed work of repeated units
    search: Search | None = None  # for ``storlab capacity``
    implementations: Implementations | None = None  # for families that compare implementations
    # class "module:Class" that adds a section to the brief, see storlab.brief.family_additions
    additions: str = ""
    # Function "module:function" that takes a comparison and yields audit findings; its name is the
    # name of the rule.
    audit: str = ""

    @property
    def searched(self) -> Search:
        """Return the family's capacity search; raise ValueError if it has none."""
        if self.search is None:
            raise ValueError("storlab capacity does not support this workload family")
        return self.search
