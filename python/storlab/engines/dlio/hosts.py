"""Merge of the results of several hosts in MLPerf Storage v0.5.

In that version, each host ran its own DLIO on its own data, and MLPerf's result is the sum of the
hosts' samples/s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from storlab.engines.dlio import result as dlio_result
from storlab.engines.dlio.layout import SUMMARY
from storlab.engines.dlio.result import DlioFormatError, Results

_MEANS = ("train_au_percentage", "train_au_mean_percentage")
_SUMS = (
    "train_throughput_samples_per_second",
    "train_throughput_mean_samples_per_second",
    "train_io_mean_MB_per_second",
)


def merged_results(files: Mapping[str, bytes]) -> Results:
    """Merge the results of all hosts into one result without steps.

    Args:
        files: Content by ``<host>/<name>``; files without a host in their name are ignored.

    Raises:
        DlioFormatError: A host's files are malformed, lack a metric, or have another number of
            epochs than those of other hosts.
    """
    by_host: dict[str, dict[str, bytes]] = {}
    for path, data in files.items():
        host, _, name = path.rpartition("/")
        if host:
            by_host.setdefault(host, {})[name] = data
    each = [dlio_result.read_results(by_host[host]) for host in sorted(by_host)]
    first = each[0].summary
    summary = {
        **first,
        "num_hosts": len(each),
        "metric": {
            **{name: _merged(each, name, mean=True) for name in _MEANS},
            **{name: _merged(each, name, mean=False) for name in _SUMS},
        },
        "end": max(str(results.summary.get("end")) for results in each),
        "potential_caching": [
            flag for results in each for flag in results.summary.get("potential_caching") or ()
        ],
        "host_memory_GB": [_memory(results) for results in each],
    }
    for name in ("num_accelerators", "num_files_train"):
        summary[name] = sum(int(results.summary.get(name) or 0) for results in each)
    return Results(summary, [], _times(each), [])


def _merged(each: Sequence[Results], name: str, *, mean: bool) -> Any:
    values = [results.metric.get(name) for results in each]
    merge = fmean if mean else sum
    if all(isinstance(value, list) for value in values):
        rows = [value for value in values if isinstance(value, list)]
        if len({len(row) for row in rows}) != 1:
            raise DlioFormatError(f"{SUMMARY}: metric.{name}", "has a different length on a host")
        return [merge(column) for column in zip(*rows, strict=True)]
    numbers = [dlio_result.number(value) for value in values]
    if None in numbers:
        raise DlioFormatError(f"{SUMMARY}: metric.{name}", "is missing on a host, or not a number")
    return merge([number for number in numbers if number is not None])


def _memory(results: Results) -> Any:
    gib = results.summary.get("host_memory_GB")
    return gib[0] if isinstance(gib, list) and gib else gib


def _times(each: Sequence[Results]) -> dict[int, list[tuple[int, int]]]:
    """Return for each epoch the time from the first host's start to the last host's end."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for results in each:
        for epoch, times in results.times.items():
            spans.setdefault(epoch, []).append((times[0][0], times[-1][1]))
    return {
        epoch: [(min(start for start, _ in ends), max(end for _, end in ends))]
        for epoch, ends in spans.items()
    }
