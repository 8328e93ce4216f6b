"""DLIO's recorded result files, and values computed from them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from storlab.engines.dlio import result as dlio_result
from storlab.engines.dlio.result import DlioFormatError, Results, Timeline
from storlab.model.result import EngineInfo, RunOutcome
from storlab.workloads.training.metrics import au_percent, au_with_first_percent, epochs_of

GOLDEN = Path(__file__).parents[3] / "golden" / "dlio"
RECORDED = ("unet3d-hot", "unet3d-odirect", "pypi-2.0.0-two-ranks")
NS_PER_S = 1_000_000_000


def files(name: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((GOLDEN / name).iterdir())}


def results(name: str) -> Results:
    return dlio_result.read_results(files(name))


def outcome(line: Timeline) -> RunOutcome:
    made = RunOutcome(
        status="finished",
        engine=EngineInfo(name="dlio", version="1"),
        window_start_ns=line.window[0],
        window_end_ns=line.window[1],
        samples=[],
        totals={},
        cpu=None,
    )
    made.details = {"epochs": line.epochs}
    return made


def changed(name: str, file: str, change: dict[str, Any]) -> dict[str, bytes]:
    contents = files(name)
    document = json.loads(contents[file])
    document.update(change)
    return {**contents, file: json.dumps(document).encode()}


@pytest.mark.parametrize("name", ["unet3d-hot", "unet3d-odirect"])
def test_utilisation_is_dlios_where_it_measures(name: str) -> None:
    found = results(name)
    line = dlio_result.timeline(found, 0, batch=7, sample_bytes=146_600_628)
    epochs = epochs_of(outcome(line))
    printed = found.metric["train_au_mean_percentage"]
    assert au_percent(epochs) == pytest.approx(printed, abs=0.01)
    with_first = au_with_first_percent(epochs)
    assert with_first is not None
    assert with_first < printed
    assert found.compute_is_measured


def test_utilisation_is_measured_where_dlio_takes_the_configured_time() -> None:
    found = results("pypi-2.0.0-two-ranks")
    assert not found.compute_is_measured
    line = dlio_result.timeline(found, 0, batch=2, sample_bytes=200_000)
    measured = au_percent(epochs_of(outcome(line)))
    assert measured is not None
    assert measured > found.metric["train_au_mean_percentage"]  # steps take longer than configured
    assert any("configured" in note for note in dlio_result.defects(found))


def test_every_rank_and_step_is_in_the_timeline() -> None:
    found = results("pypi-2.0.0-two-ranks")
    line = dlio_result.timeline(found, 0, batch=2, sample_bytes=200_000)
    assert [len(epoch["accelerators"]) for epoch in line.epochs] == [2, 2]
    read, step = line.events
    assert (read.operation, len(read.end_ns), int(read.bytes.sum())) == ("read", 48, 48 * 200_000)
    assert (step.operation, len(step.end_ns)) == ("step", 24)
    loads = [b.load for rank in found.ranks for blocks in rank.values() for b in blocks]
    assert int(step.latency_ns.sum()) == pytest.approx(sum(x.sum() for x in loads) * NS_PER_S)
    for epoch, span in zip(line.epochs, line.spans, strict=True):
        assert (span.kind, span.bytes) == ("epoch", epoch["bytes"])
        for each in epoch["accelerators"]:
            assert epoch["start_ns"] <= each["first_end_ns"] <= each["end_ns"] <= epoch["end_ns"]
            parts = each["wait_ns"] + each["compute_ns"] + each["barrier_ns"]
            assert parts == pytest.approx(each["end_ns"] - each["start_ns"], rel=0.01)
    inside = (step.end_ns >= line.window[0]) & (step.end_ns <= line.window[1])
    assert inside.all()


@pytest.mark.parametrize("name", RECORDED)
def test_the_nominal_size_is_told_by_the_rates(name: str) -> None:
    expected = 200_000 if "pypi" in name else 146_600_628
    assert dlio_result.nominal_bytes(results(name)) == expected


def test_its_mb_are_named_mib_beside_its_number() -> None:
    notes = " ".join(dlio_result.defects(results("unet3d-hot")))
    assert "2,794.3 MB/s" in notes
    assert "in MiB" in notes
    assert "all but two steps" in notes


def test_a_bare_nan_is_read_and_is_no_number() -> None:
    contents = changed("unet3d-hot", "summary.json", {"metric": {"train_au_mean_percentage": 1}})
    contents["summary.json"] = contents["summary.json"].replace(b": 1}", b": NaN}")
    assert b"NaN" in contents["summary.json"]
    found = dlio_result.read_results(contents)
    assert dlio_result.nominal_bytes(found) is None
    assert dlio_result.defects(found) == []


def test_an_infinite_rate_is_no_number() -> None:
    names = ("train_io_mean_MB_per_second", "train_throughput_mean_samples_per_second")
    metric = dict.fromkeys((*names, "train_au_mean_percentage"), math.inf)
    found = dlio_result.read_results(changed("unet3d-hot", "summary.json", {"metric": metric}))
    assert dlio_result.nominal_bytes(found) is None
    assert dlio_result.defects(found) == []


@pytest.mark.parametrize("phase", ["load", "proc", "compute"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, None])
def test_a_step_without_a_time_is_named(phase: str, bad: float | None) -> None:
    document = json.loads(files("unet3d-hot")["0_output.json"])
    document["1"][phase]["block1"][3] = bad
    with pytest.raises(DlioFormatError, match=r"0_output\.json: 1 .*block1 has a step"):
        dlio_result.read_results(changed("unet3d-hot", "0_output.json", document))


def test_a_missing_rank_is_named() -> None:
    contents = files("pypi-2.0.0-two-ranks")
    del contents["1_output.json"]
    with pytest.raises(DlioFormatError, match="1 of 2 accelerators"):
        dlio_result.read_results(contents)


def test_a_run_that_did_not_end_is_named() -> None:
    contents = files("unet3d-hot")
    del contents["summary.json"]
    with pytest.raises(DlioFormatError, match=r"summary\.json is missing"):
        dlio_result.read_results(contents)


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("summary.json", b"{", "is not JSON"),
        ("0_output.json", b"[1]", "is not a JSON object"),
        ("0_output.json", b'{"1": {"load": {"block1": [1]}}}', "DLIO's known formats"),
        ("0_per_epoch_stats.json", b"{}", "number of blocks"),
        ("0_per_epoch_stats.json", b'{"1": {"block1": {"start": "soon", "end": 1}}}', "start and"),
    ],
)
def test_damage_is_named_by_file(file: str, content: bytes, words: str) -> None:
    with pytest.raises(DlioFormatError, match=words):
        dlio_result.read_results({**files("unet3d-hot"), file: content})


def test_blocks_between_checkpoints_count_without_the_checkpoints() -> None:
    block = {"load": [0.1, 0.1], "proc": [0.6, 0.6], "compute": [0.5, 0.5001]}
    epoch = {what: {"block1": values, "block2": values} for what, values in block.items()}
    at = "2026-11-20T10:00:{:09.6f}".format
    times = {
        "block1": {"start": at(0), "end": at(1.2)},
        "save_ckpt1": {"start": at(1.2), "end": at(11.2)},
        "block2": {"start": at(11.2), "end": at(12.4)},
    }
    contents = {
        "summary.json": json.dumps({"num_accelerators": 1, "metric": {}}).encode(),
        "0_output.json": json.dumps({"1": epoch}).encode(),
        "0_per_epoch_stats.json": json.dumps({"1": times}).encode(),
    }
    found = dlio_result.read_results(contents)
    line = dlio_result.timeline(found, 0, batch=1, sample_bytes=10)
    (each,) = line.epochs[0]["accelerators"]
    assert each["end_ns"] - each["start_ns"] == 2_400_000_000
    assert line.epochs[0]["end_ns"] - line.epochs[0]["start_ns"] == 12_400_000_000
    (moved,) = found.checkpoints
    assert (moved.kind, moved.end_ns - moved.start_ns) == ("write", 10_000_000_000)


def test_a_checkpoint_lasts_from_the_first_rank_to_the_last() -> None:
    at = "2026-11-20T10:00:{:09.6f}".format
    contents = {"summary.json": json.dumps({"num_accelerators": 2, "metric": {}}).encode()}
    for rank, (start, end) in enumerate([(1.0, 4.0), (2.0, 7.5)]):
        stats = {"1": {"load_ckpt1": {"start": at(start), "end": at(end), "throughput": 1.0}}}
        contents[f"{rank}_per_epoch_stats.json"] = json.dumps(stats).encode()
    (moved,) = dlio_result.read_results(contents).checkpoints
    assert (moved.kind, moved.end_ns - moved.start_ns, len(moved.ranks)) == (
        "read",
        6_500_000_000,
        2,
    )
