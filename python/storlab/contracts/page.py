"""How the parameters and operations of a family lie on a page: names, axes and order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from storlab.contracts.question import USUAL, Question
from storlab.model.result import RunRecord

RUNS = "runs"
"""The group of quantities that stand in the table of all runs."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What the audit computes a metric from once more, to check a brief.

    Entries of a run's details with ``start_ns`` and ``bytes``, all of them: as a mean time or, in
    MB/s, as bytes over time. Without entries: from the first to the last of the metric's spans.
    """

    entries: str = ""  # name of a list in the details: writes
    end: str = "end_ns"  # when one of them ended


@dataclass(frozen=True, slots=True)
class Quantity:
    """A metric that the family has beside rates and latencies: its words, and where it stands."""

    name: str  # of the metric: durable_time_s
    title: str  # in a sentence: "time to durable"
    unit: str
    better: Literal["more", "less", ""]
    group: str  # the table that it stands in, by its caption
    operation: str = "all"
    short: str = ""  # as the head of a column; by default the title
    power: bool = False  # rests on a meter: taken at the boundary that the brief shows
    compared: bool = False  # divided by the baseline
    time: str = ""  # a distribution: latency, or one of the page's own times
    most: float | None = None  # the largest value that there can be
    published: str = ""  # what the audit of publications calls it: duration, energy
    counted: Counted | None = None  # None: the audit takes it as recorded

    @property
    def key(self) -> str:
        """``durable_time_s.all``."""
        return f"{self.name}.{self.operation}"


@dataclass(frozen=True, slots=True)
class FlagMeaning:
    """What a kind of flag means: its letter and words in legends, and what it asks of others."""

    kind: str  # of ``storlab.model.result.Flag``: client-bound
    letter: str  # beside numbers; no other kind has it
    meaning: str  # in the legend
    severity: Literal["", "note", "warning"] = ""  # of the audit's finding; empty: it says nothing
    why: str = ""  # the finding matters
    # Beginnings of the names of metrics that it stands beside; empty: all of them.
    about: tuple[str, ...] = ()
    latencies: bool = False  # stands beside latencies only
    energies: bool = False  # stands beside power and energies, too
    caveat: bool = False  # is named before the numbers
    claims: bool = False  # must stand beside a claim that rests on a flagged run
    advice: str = ""  # beside the answer of a search that rests on a flagged run
    tells: str = ""  # the provenance that needs no mark of its own beside it: emulated


@dataclass(frozen=True, slots=True)
class Definition:
    """A term of the family in the section about method."""

    term: str
    text: str


@dataclass(frozen=True, slots=True)
class Time:
    """A distribution of times of the family's own: its metrics, and whose histograms it has.

    Its samples are those of latencies of ``operation``. It is not the latency of an I/O, which
    depends on the concurrency that it was taken at.
    """

    name: str  # its metrics begin with it: step_wait
    words: str
    operation: str


@dataclass(frozen=True, slots=True)
class PieceColumn:
    """A column of the table of pieces. ``flagged`` is the metric whose marks stand beside it."""

    name: str
    head: str
    unit: str
    flagged: str = ""
    # Of the repeats the mean; the value that most of them have; or whether it is true of all.
    shown: Literal["mean", "usual", "every"] = "mean"


@dataclass(frozen=True, slots=True)
class PieceValues:
    """What one piece of a run came to."""

    values: Mapping[str, float]  # by name, the unit last in it
    workers: Mapping[int, float]  # s, by rank or accelerator
    clients: Mapping[int, str] = field(default_factory=dict)  # of a cluster, that they were on


@dataclass(frozen=True, slots=True)
class PieceKind:
    """What a run of fixed work does again and again: epochs, checkpoints, restores.

    ``read`` gives them in order, as the engine told of them, and each has a span; the energy of
    its span is added to its values.
    """

    kind: str  # of its span
    read: Callable[[RunRecord], Sequence[PieceValues]]
    word: str
    caption: str  # "Epoch by epoch"
    columns: tuple[PieceColumn, ...]
    worker: str = ""  # whose times have a table of their own: rank


@dataclass(frozen=True, slots=True)
class Headline:
    """What tells a family's targets apart in one number, and the words of the comparison."""

    keys: tuple[str, ...]  # of columns; the first that was measured
    more: str  # "{target} <more> {baseline}": where the number is larger
    less: str
    noun: str  # "its throughput"


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
    """What two engines are compared by: the margin of each metric, as a share.

    ``rates`` and ``times`` are the family's own beside throughput and latencies; what is
    ``reported`` has no margin and is never judged.
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
    """What counts a family's operations: ``requests_s``, in ``requests/s``."""
    return Quantity(name, title, unit, "more", RUNS, short=short)


@dataclass(frozen=True, slots=True)
class Search:
    """What ``storlab capacity`` looks for: the most of a parameter at which a metric stays up."""

    parameter: str  # accelerators
    noun: str  # of one: accelerator
    metric: str  # at or above a threshold, in percent: au_percent


@dataclass(frozen=True, slots=True)
class Implementations:
    """Whose code is measured, and how the brief tells what each takes for the same work."""

    parameter: str  # its values are engines, and no references for one another
    heads: Mapping[str, str]  # keys of the table's columns, in order, and their heads
    ratios: Mapping[str, str]  # of these, those that are divided by the first's: "time"
    note: str = ""  # below the table


@dataclass(frozen=True, slots=True)
class Page:
    """What the brief knows of a family without knowing the family.

    A swept parameter is the horizontal axis, the small multiple, or tells sections apart.
    """

    operations: tuple[str, ...]  # that do the work, in the order of the page
    moved: tuple[str, ...]  # of these, the ones whose bytes are transferred
    axes: tuple[str, ...]  # the first that is swept is the horizontal axis
    rate: Quantity  # counts operations; its unit is that of what is made of it: per watt, per TB
    series: tuple[str, ...] = ()  # whose bytes make up throughput over time; by default ``moved``
    # Operations that are shown with a rate and latencies of their own, but are part of no sum over
    # operations: flushes.
    beside: tuple[str, ...] = ()
    facet: str | None = None  # small multiples
    small: int = 0  # small multiples of at most so many bytes are drawn by their rate: IOPS
    mix: str | None = None  # names a section even where it is not swept
    # Values of a parameter that tells sections apart, in the order of the page; others by size.
    order: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    sizes: tuple[str, ...] = ()  # parameters in bytes
    durations: tuple[str, ...] = ()  # parameters in ns
    titles: Mapping[str, str] = field(default_factory=dict)  # parameter names for people
    # A parameter's value as a phrase (``70/30 read/write``), or None for the usual one; empty where
    # another parameter's phrase says it. Sees all parameters of the point.
    phrase: Callable[[str, Mapping[str, Any]], str | None] = lambda _name, _params: None
    whole_window: bool = False  # rates are over the window, what lies between spans included
    buffered: bool = False  # reads and writes through the page cache, whatever the target says
    implementations: Implementations | None = None  # of families that compare them
    names: Mapping[str, str] = field(default_factory=dict)  # operations for people: get -> GET
    mix_words: str = ""  # what a phrase of the mix ends with, left out on axes: ``read/write``
    split: bool = False  # throughput and rate stand in tables by operation, too
    percentiles: tuple[str, ...] = ("p99",)  # of latencies in tables; several get their own table
    first_byte: tuple[str, ...] = ()  # operations that have a time to first byte
    # Texts with parameters in braces: of an axis, and of the work as a whole. What is swept
    # elsewhere has no one value there, and is left out.
    axis_titles: Mapping[str, str] = field(default_factory=dict)
    work: str = "I/O"
    # Metrics that are divided by mean power, and what the quotient is called.
    per_watt: Mapping[str, str] = field(default_factory=dict)
    told: tuple[str, ...] = ()  # said of the work as a whole wherever it does not vary
    far: str = "the far end of its axis"  # where findings look: "the largest number of jobs"
    headline: Headline = THROUGHPUT
    questions: tuple[Question, ...] = USUAL  # that a study may ask, those asked by default first
    # The family's own metrics, in the order of its tables; with them no table but these.
    quantities: tuple[Quantity, ...] = ()
    line: tuple[str, ...] = ()  # keys of those that stand for a run in one line; empty: the rate
    times: tuple[Time, ...] = ()  # distributions beside latency
    costs: tuple[Quantity, ...] = ()  # beside rates and latencies; of group RUNS: of every run
    pieces: tuple[PieceKind, ...] = ()
    # What the brief says beside its metrics, as "module:Class": see storlab.brief.extra.
    extra: str = ""
    # "module:function" of a comparison, which yields findings of the audit: their rule is its name.
    audit: str = ""
    findings: tuple[str, ...] = ()  # keys that findings are made of; empty: rates and latencies
    published: tuple[str, ...] = ()  # words in the names of published workloads of this kind
    # Whether a point does what those did: their claims stand beside no others.
    published_for: Callable[[Mapping[str, Any]], bool] = lambda _params: True
    flags: tuple[FlagMeaning, ...] = ()  # that it raises, beside those of all families
    definitions: tuple[Definition, ...] = ()  # of its terms, in the section about method
    margins: Mapping[str, float | None] = field(default_factory=margins)  # between two engines
    # Whether a parameter that all points share says anything: not of what is not done.
    says: Callable[[str, Mapping[str, Any]], bool] = lambda _name, _params: True
    search: Search | None = None
    workers: str = ""  # the parameter that says how many threads of the client do the work
    # As many, where no one parameter says it. 0: nobody knows.
    threads: Callable[[Mapping[str, Any]], int] | None = None
    # The parameter by which clients of a cluster add up, as far as what is outstanding goes: a
    # client's concurrency. By default its workers.
    load: str = ""
    # Parameters that say how much is outstanding, with the names of their columns in publications,
    # in lower case: first the usual one.
    outstanding: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    paced: str = ""  # the parameter that makes an open loop, which has no concurrency of its own
    by_bytes: str = ""  # the parameter that, where it is given, ends the window
    access: str = ""  # the parameter that says in which order offsets come: random, sequential
    # What a point's figures have to say of work that is smaller than its name: ``scaled to 1 %``.
    shrunk: Callable[[Mapping[str, Any]], str] = lambda _params: ""
    # Of what the engine tells of a run (its details): the kinds of spans of which an earlier
    # process did a part, so that their times and energies are not those of the whole work.
    resumed: Callable[[Mapping[str, Any]], frozenset[str]] = lambda _details: frozenset()

    @property
    def searched(self) -> Search:
        """What is looked for. Raises ValueError of a family that has no such search."""
        if self.search is None:
            raise ValueError("this family has nothing to search for")
        return self.search

    def workers_of(self, params: Mapping[str, Any]) -> int:
        """How many threads of the client do the work of a point; 0: nobody knows."""
        if self.threads is not None:
            return self.threads(params)
        return int(params.get(self.workers) or 0)

    @property
    def transferred(self) -> tuple[str, ...]:
        """The operations whose bytes make up throughput over time."""
        return self.series or self.moved

    @property
    def per_client(self) -> str:
        """The parameter that clients of a cluster multiply; empty where there is none."""
        return self.load or self.workers

    @property
    def rate_short(self) -> str:
        """The rate as the head of a column: ``IOPS``, ``requests/s``."""
        return self.rate.short or self.rate.title

    def name_of(self, operation: str) -> str:
        """An operation for people: ``read``, ``GET``."""
        return self.names.get(operation, operation)
