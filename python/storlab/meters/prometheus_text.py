"""Find one series on an exporter's page of metrics, with the parsers of prometheus_client."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from storlab.base.errors import MeterError
from storlab.base.nearest import nearest

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Found:
    """Value of a series, and its time stamp (s since 1970) if the exporter gives one."""

    value: float
    timestamp_s: float | None


def find_series(
    page: str, metric: str, labels: Mapping[str, str], *, openmetrics: bool, where: str
) -> Found:
    """Return the value of the only series of a metric that has the given labels.

    Args:
        page: The exporter's page.
        metric: Name of the metric.
        labels: Labels of the series; it may have others.
        openmetrics: Whether the page is in the OpenMetrics format, not the Prometheus text format.
        where: Name of the exporter in errors.

    Raises:
        MeterError: The metric or the labels do not exist, several series match (the error lists the
            labels that distinguish them), or the page is malformed.
    """
    samples = [s for s in _parse(_about(page, metric), openmetrics, where) if s.name == metric]
    if not samples:
        names = {_name_of(line) for line in page.splitlines() if line and not line.startswith("#")}
        raise MeterError(where, f"has no metric {metric}", _advice(metric, names))
    matching = [s for s in samples if labels.items() <= s.labels.items()]
    if not matching:
        raise MeterError(
            where,
            f"no series of {metric} has the labels {_text(labels)}",
            f"choose from {_list(samples, sorted({n for s in samples for n in s.labels}))}",
        )
    if len(matching) > 1:
        differing = _differing(matching)
        raise MeterError(
            where,
            f"{len(matching)} series of {metric} match {_text(labels)}; they differ in "
            f"{', '.join(differing) or 'nothing'}",
            f"add one of these to labels: {_list(matching, differing)}",
        )
    stamp = matching[0].timestamp
    return Found(float(matching[0].value), None if stamp is None else float(stamp))


def _about(page: str, metric: str) -> Iterator[str]:
    """Yield the lines about one metric, because parsing a page of thousands of lines is slow."""
    for line in page.splitlines():
        is_sample = line.startswith(metric) and _name_of(line) == metric
        if is_sample or (line.startswith("# TYPE ") and _family(line.split(" ")[2], metric)):
            yield line


def _family(name: str, metric: str) -> bool:
    return metric == name or metric.removeprefix(name) in ("_total", "_sum", "_count", "_bucket")


def _name_of(line: str) -> str:
    match = _NAME.match(line)
    return match.group() if match else ""


def _parse(lines: Iterable[str], openmetrics: bool, where: str) -> list[Sample]:
    try:
        parser: Any = import_module(f"prometheus_client.{'openmetrics.' * openmetrics}parser")
    except ModuleNotFoundError as failure:
        raise MeterError(
            where, "prometheus-client is not installed", 'pip install "storlab[power]"'
        ) from failure
    text = "".join(f"{line}\n" for line in lines) + ("# EOF\n" if openmetrics else "")
    try:
        families = parser.text_string_to_metric_families(text)
        return [sample for family in families for sample in family.samples]
    except ValueError as failure:
        raise MeterError(
            where,
            f"its page is not in the Prometheus exposition format: {failure}",
            "set url to the exporter's metrics page",
        ) from failure


def _differing(samples: Sequence[Sample]) -> list[str]:
    names = sorted({name for sample in samples for name in sample.labels})
    return [name for name in names if len({s.labels.get(name) for s in samples}) > 1]


def _list(samples: Sequence[Sample], names: Sequence[str]) -> str:
    shown = [_text({n: s.labels[n] for n in names if n in s.labels}) for s in samples[:_SHOWN]]
    more = len(samples) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")


def _text(labels: Mapping[str, str]) -> str:
    return ", ".join(f'{name} = "{value}"' for name, value in labels.items()) or "(none)"


def _advice(metric: str, names: Iterable[str]) -> str:
    close = nearest(metric, [name for name in names if name])
    return f"did you mean {close}?" if close is not None else "look for the name on its page"
