"""Every printed number agrees with the others: page, PDF, terminal and JSON of random results."""

from __future__ import annotations

import json
import math
import os
import random
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import redirect_stdout
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from statistics import geometric_mean
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integration.brief.brief_fixture import ENVIRONMENT, INTERVAL_NS, WINDOW_NS, _summarise
from storlab._native import Histogram
from storlab.audit.from_claims import StatedValue
from storlab.brief.build import build_brief
from storlab.brief.html import render_html
from storlab.brief.key_findings import assertions
from storlab.brief.model import Brief
from storlab.brief.pdf import _model
from storlab.cli.main import main
from storlab.contracts.registry import study_class
from storlab.model.point import Plan, PlannedRun, Point
from storlab.model.result import Sample
from storlab.results.store import ResultStore
from storlab.words.openings import text_of

EXAMPLES = 1_000 if os.environ.get("STORLAB_TEST_THOROUGH") else 5
STUDY = """
[study]
name = "random results"
repeats = {repeats}
runtime = "1200ms"
interval = "100ms"
baseline = "old"

[[target]]
name = "new"
path = "/var/tmp/new.dat"
size = "1GiB"

[[target]]
name = "old"
path = "/var/tmp/old.dat"
size = "1GiB"

[[workload]]
kind = "block"
access = "random"
block_size = "{block_size}"
read_percent = 100
queue_depth = 4
jobs = [1, 2]
"""


class Results(NamedTuple):
    """Random results of two targets: operations in the window, and how much they vary."""

    block_size: str
    repeats: int
    operations: tuple[int, int, int, int]  # at both points: new, old, new, old
    noise: float  # sigma of the log-normal factor of each run
    tail: float  # sigma of the log-normal latency
    seed: int


RESULTS = st.builds(
    Results,
    block_size=st.sampled_from(["4KiB", "60KiB", "1MiB", "16MiB"]),
    repeats=st.integers(1, 5),
    operations=st.tuples(*[st.integers(8, 400)] * 4),
    noise=st.sampled_from([0.0, 0.002, 0.03, 0.3, 1.0]),
    tail=st.sampled_from([0.02, 0.5, 2.0]),
    seed=st.integers(0, 2**32),
)


def stored(directory: Path, results: Results) -> ResultStore:
    """Write all runs of some random results to a new result directory."""
    text = STUDY.format(repeats=results.repeats, block_size=results.block_size)
    study = study_class().model_validate(tomllib.loads(text))
    points = [
        Point(
            target=target.name, workload="block", workload_index=0, kind="block", engine="native",
            params=params,
        )
        for params in study.workload[0].values()
        for target in study.target
    ]  # fmt: skip
    repeats = range(1, results.repeats + 1)
    pairs = [(place, repeat) for repeat in repeats for place in range(len(points))]
    runs = [
        PlannedRun(order=order, repeat=repeat, point_id=points[place].point_id)
        for order, (place, repeat) in enumerate(pairs)
    ]
    plan = Plan(
        study_name=study.study.name, study_sha256="0" * 64, runs=runs, bytes_written=0,
        points={point.point_id: point for point in points}, estimated_ns=1,
    )  # fmt: skip
    store = ResultStore.create(directory, text, study, plan, dict(ENVIRONMENT))
    draw = random.Random(results.seed)
    for run, (place, _) in zip(runs, pairs, strict=True):
        factor = draw.lognormvariate(0, results.noise)
        count = min(max(round(results.operations[place] * factor), 4), 2_000)
        samples = list(_samples(points[place], draw, count, results.tail))
        outstanding = 4 * points[place].params["jobs"]
        record = _summarise(points[place], run, samples, float(outstanding), outstanding)
        store.write_run(record, samples, {})
    return store


def _samples(point: Point, draw: random.Random, count: int, tail: float) -> Iterator[Sample]:
    """Yield one sample with some operations, whose latencies follow from Little's law."""
    mean_ns = 4 * point.params["jobs"] * WINDOW_NS / count
    histogram, block = Histogram(), int(point.params["block_size"])
    for _ in range(count):
        latency_ns = draw.lognormvariate(math.log(mean_ns) - tail**2 / 2, tail)
        histogram.record(max(1, int(latency_ns)))
    start = 1_000_000_000
    yield Sample(
        0, start, start + INTERVAL_NS, "read", count, count * block, histogram.to_v2(), None, 1
    )


class _Text(HTMLParser):
    """Text of a page without scripts, styles and drawings."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in ("script", "style", "svg")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style", "svg")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)


def printed(store: ResultStore, brief: Brief) -> dict[str, str]:
    """Return the text of the results on every surface."""
    page = _Text()
    page.feed(render_html(brief))
    terminal, document = StringIO(), StringIO()
    for out, options in ((terminal, []), (document, ["--json"])):
        with redirect_stdout(out):
            main(["compare", str(store.directory), *options])
    texts = {
        "page": "\n".join(page.parts),
        "PDF": json.dumps(_model(brief, "brief.html"), ensure_ascii=False),
        "terminal": terminal.getvalue(),
        "JSON": document.getvalue(),
    }
    plain = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2060": "", "≥": "at least"})
    return {name: re.sub(r"\s+", " ", text.translate(plain)) for name, text in texts.items()}


MULTIPLE = re.compile(r"(at least |at most |)([\d,]+(?:\.\d+)?)(×| times)")
RATE = re.compile(r"([\d,]+(?:\.\d+)?)(?: \[([\d,.]+)(?:–| to )([\d,.]+)\])? MB/s")
TIME = re.compile(r"([\d,]+(?:\.\d+)?)(?: \[([\d,.]+)(?:–| to )([\d,.]+)\])? (ns|µs|ms|s)\b")
TIME_UNITS = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9}


class Number(NamedTuple):
    """Printed number."""

    value: float
    unit: float  # place value of the last digit
    bound: str  # "at least" or "at most"

    @classmethod
    def of(cls, text: str) -> Number:
        """Read a mean or a bound of its interval."""
        digits = text.replace(",", "").rstrip(".")
        return cls(float(digits), 10.0 ** -len(digits.partition(".")[2]), "")

    @classmethod
    def ratio(cls, bound: str, text: str) -> Number:
        """Read a ratio: of 100 and more it has two significant digits at least, as 130."""
        value, unit, _ = cls.of(text)
        if "." not in text:
            unit = 10.0 ** max(len(text.replace(",", "")) - 2, 0)
        return cls(value, unit, bound.strip())

    def rounds(self, truth: float) -> bool:
        """Return whether a value, rounded or bounded, gives this number."""
        off, slack = self.value - truth, 1e-9 * abs(truth)
        if self.bound == "at least":
            return -self.unit <= off <= slack
        if self.bound == "at most":
            return -slack <= off <= self.unit
        return abs(off) <= self.unit / 2 + slack


def ratios_of(document: dict[str, Any]) -> Iterator[float]:
    """Yield all ratios of a comparison and their bounds, in both directions."""
    for point in document["points"]:
        for by_key in point["ratios"].values():
            for decision in by_key.values():
                for value in (decision["interval"] or {}).items():
                    if value[0] != "n" and value[1]:
                        yield from (value[1], 1 / value[1])


def values_of(document: dict[str, Any], metric: str) -> Iterator[float]:
    """Yield all values of a metric, their bounds, and those of repeats that drift."""
    for point in document["points"]:
        for cell in point["targets"].values():
            for drift in cell["drifts"]:
                if drift["metric"].startswith(metric):
                    yield from drift["values"]
            for key, value in cell["values"].items():
                if key.startswith(metric):
                    yield from (value[end] for end in ("estimate", "low", "high") if value[end])


def mean_of(document: dict[str, Any]) -> float:
    """Return the geometric mean of the ratios of throughput over all points."""
    points = (point["ratios"]["new"] for point in document["points"])
    return geometric_mean([p["throughput_mb_s.all"]["interval"]["estimate"] for p in points])


def divided(brief: Brief) -> Iterator[tuple[str, str, str]]:
    """Yield the texts of two means and of their ratio, for every quantity at every point."""
    ratios = brief.body.ratios[0]
    for values in brief.body.sections[0].tables:
        heads = [head for head, _ in ratios.columns]
        for at, (head, _) in enumerate(values.columns):
            if head not in heads:
                continue
            means = [row.numbers[at] for row in values.rows]
            quotients = [row.numbers[heads.index(head)] for row in ratios.rows]
            for new, old, ratio in zip(means[::2], means[1::2], quotients, strict=True):
                yield new.text, old.text, ratio.text


def opening_sentences(brief: Brief) -> list[str]:
    """Return the sentences that open the brief's only mix, which are in the tables' words."""
    opening = brief.body.sections[-1].opening
    assert opening is not None
    (paragraph,) = opening.paragraphs
    assert paragraph.sentences
    cells = {n.text for t in brief.body.sections[-1].tables for r in t.rows for n in r.numbers}
    for value in (checked for checked in opening.checked if isinstance(checked, StatedValue)):
        assert value.numbers[0].text in cells
    return [text_of(pieces) for pieces in paragraph.sentences]


@pytest.mark.timeout(60 * EXAMPLES)
@settings(max_examples=EXAMPLES)
@given(RESULTS)
def test_printed_numbers_agree(results: Results) -> None:
    with TemporaryDirectory() as folder:
        store = stored(Path(folder) / "results", results)
        brief = build_brief(store, beside=store.directory)
        texts = printed(store, brief)
    document = json.loads(texts["JSON"])
    ratios = [*ratios_of(document), mean_of(document)]
    rates, times = (list(values_of(document, metric)) for metric in ("throughput", "latency"))

    same: dict[float, set[str]] = defaultdict(set)
    for surface, text in texts.items():
        for bound, digits, _ in MULTIPLE.findall(text):
            number = Number.ratio(bound, digits)
            truths = [ratio for ratio in ratios if number.rounds(ratio)]
            assert truths, (surface, bound, digits)
            if len(truths) == 1:
                same[truths[0]].add(bound + digits)
        for texts_of_rate in RATE.findall(text):
            for digits in filter(None, texts_of_rate):
                assert any(map(Number.of(digits).rounds, rates)), (surface, digits)
    sentences = [row.statement for row in assertions(brief.findings.tables)]
    sentences += opening_sentences(brief)
    for text in (*sentences, *(drawing.figure.title for drawing in brief.drawings)):
        for *texts_of_time, unit in TIME.findall(text.replace("\u00a0", " ")):
            for number in map(Number.of, filter(None, texts_of_time)):
                assert any(number.rounds(ns / TIME_UNITS[unit]) for ns in times), text
    assert all(len(strings) == 1 for strings in same.values()), same

    for new, old, ratio in divided(brief):
        match = MULTIPLE.fullmatch(ratio)
        if match is None or match[1]:
            continue  # "at least" and "not decided" say why the quotient is not printed
        above, below, number = Number.of(new), Number.of(old), Number.ratio("", match[2])
        quotient = above.value / below.value
        rounding = above.unit / above.value / 2 + below.unit / below.value / 2
        assert abs(quotient - number.value) <= number.unit + 1.01 * rounding * quotient
