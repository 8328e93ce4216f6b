"""warp's own summary, from recorded files, and where it misleads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storlab.engines.warp import records as warp_records
from storlab.engines.warp import summary as warp_summary
from storlab.engines.warp.records import Records, WarpFormatError

GOLDEN = Path(__file__).parents[3] / "golden" / "warp"
SAMPLES = ("get_4m_minio", "mix50_4m_minio", "mix90_4m_minio")


def sample(name: str) -> str:
    data = (GOLDEN / f"{name}.benchdata.json.zst").read_bytes()
    return warp_records.unpacked(data).decode()


def recorded(name: str) -> Records:
    data = (GOLDEN / name).read_bytes()
    return warp_records.load_of(warp_records.read_records(warp_records.unpacked(data)))[0]


@pytest.mark.parametrize("name", SAMPLES)
def test_figures_are_those_that_warp_prints(name: str) -> None:
    summary = warp_summary.read_summary(sample(name))
    printed = (GOLDEN / f"{name}.analysis.txt").read_text()
    for operation, of_kind in summary.operations.items():
        report = printed.split(f"Report: {operation.upper()}. ")[1].split("Report:")[0]
        assert of_kind.throughput_bytes_s is not None
        assert f"Average: {of_kind.throughput_bytes_s / 2**20:.2f} MiB/s" in report
        (piece,) = of_kind.pieces
        assert f"50%: {piece.p50_ns / 1e6:.1f}ms" in report
        assert f"99%: {piece.p99_ns / 1e6:.1f}ms" in report
        assert f"Concurrency: {of_kind.concurrency}." in report
        assert (of_kind.errors, of_kind.size) == (0, 4 << 20)
        assert of_kind.bytes_moved == of_kind.requests * (4 << 20)


def test_flags_of_a_command_line() -> None:
    flags = warp_summary.read_summary(sample("mix90_4m_minio")).flags
    assert flags[""] == "mixed"
    assert (flags["get-distrib"], flags["put-distrib"]) == ("90", "10")
    assert (flags["obj.size"], flags["host"], flags["duration"]) == (
        "4MiB",
        "127.0.0.1:9100",
        "8s",
    )
    assert warp_summary.flags("") == {}


def test_failed_requests_counted_as_moved_are_told() -> None:
    text = (GOLDEN / "get-404-1.6.1.analysis.json").read_text()
    summary = warp_summary.read_summary(text)
    own = recorded("get-404-1.6.1.csv.zst")
    of_kind = summary.operations["get"]
    assert of_kind.requests == len(own.name)
    assert of_kind.errors == int(np.count_nonzero(~own.ok)) > 0
    assert of_kind.bytes == of_kind.requests * (4 << 20)  # includes bytes that did not arrive
    assert of_kind.bytes_moved == int(own.bytes[own.ok].sum())
    (note,) = [n for n in warp_summary.misleading(own, summary) if "counts" in n]
    assert f"{of_kind.errors} failed of {of_kind.requests} requests" in note


def test_percentiles_that_are_means_of_percentiles_are_told() -> None:
    own = recorded("get-prepared-1.6.1.csv.zst")
    truth_ms = float(np.percentile(own.duration_ns, 99, method="inverted_cdf")) / 1e6
    document = json.loads(sample("get_4m_minio"))
    rows = next(iter(document["by_op_type"]["GET"]["requests_by_client"].values()))
    first = rows[0]["single_sized_requests"]
    first["dur_99_millis"], first["first_byte"]["p99_millis"] = truth_ms, 0.0
    low = {**first, "dur_99_millis": truth_ms / 2}
    rows.append({**rows[0], "single_sized_requests": low})
    notes = warp_summary.misleading(own, warp_summary.read_summary(json.dumps(document)))
    assert len(notes) == 2
    assert "mean of the p99 of 2 periods" in notes[0]
    assert "first byte" in notes[1]
    low["dur_99_millis"] = truth_ms  # same value, so it says nothing about the latency
    notes = warp_summary.misleading(own, warp_summary.read_summary(json.dumps(document)))
    assert len(notes) == 1


def test_bytes_of_failed_requests_of_unequal_size_cannot_be_told() -> None:
    document = json.loads(sample("get_4m_minio"))
    record = document["by_op_type"]["GET"]
    record["total_errors"], record["requests_by_client"] = 47, {}
    read = warp_summary.read_summary(json.dumps(document)).operations["get"]
    assert (read.succeeded, read.bytes_moved, read.pieces) == (2000, None, ())


def without(document: dict[str, Any], field: str) -> dict[str, Any]:
    del document["by_op_type"]["GET"][field]
    return document


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{", "file"),
        ("[]", "by_op_type"),
        ('{"commandline": ""}', "by_op_type"),
        (json.dumps(without(json.loads(sample("get_4m_minio")), "total_bytes")), "by_op_type.GET"),
        (sample("get_4m_minio").replace("2026-11-20T10:30:37.3336553Z", "soon"), "start_time"),
    ],
)
def test_damage_is_named(text: str, field: str) -> None:
    with pytest.raises(WarpFormatError) as caught:
        warp_summary.read_summary(text)
    assert field in caught.value.field
