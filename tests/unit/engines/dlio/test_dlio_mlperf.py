"""Import of MLPerf Storage's result trees, built from its submission guidelines and DLIO's source.

Submissions have ``summary.json``, ``per_epoch_stats.json`` and hydra's ``config.yaml``, but often
no step times of ranks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import ResultError
from storlab.engines.dlio import layout
from storlab.engines.dlio.importer import DlioImport
from storlab.engines.dlio.settings import read_settings
from storlab.exchange.importer import import_files
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore

MIB = 1 << 20
RECORD = 146_600_628
CONFIG = f"""workload:
  model: unet3d
  framework: pytorch
  workflow: {{generate_data: false, train: true, checkpoint: true}}
  dataset:
    data_folder: /mnt/data
    format: npz
    num_files_train: 1400
    num_samples_per_file: 1
    record_length: {RECORD}
    record_length_stdev: 68341808
    record_length_resize: 2097152
  reader:
    data_loader: pytorch
    batch_size: 7
    read_threads: 8
  train:
    epochs: 2
    computation_time: 0.323
  checkpoint:
    checkpoint_folder: /mnt/data
    model_size: 499153191
  metric: {{au: 0.9}}
"""
SYSTEM = Path("Closed", "Acme", "results", "Acme_F1_2xNDR")
AT = "2024-08-29T12:{:02d}:00.000000".format


def epoch_times(number: int, *, checkpoint: bool = False) -> dict[str, Any]:
    """Times of an epoch that lasts 40 s and starts at minute ``number``; a checkpoint takes 9 s."""

    def lasts(start: int, end: int) -> dict[str, str]:
        minute = f"2024-08-29T12:{number:02d}:"
        return {"start": f"{minute}{start:02d}.0", "end": f"{minute}{end:02d}.0"}

    saved = {"ckpt1": lasts(41, 50)} if checkpoint else {}
    return {**lasts(0, 50), "block1": lasts(0, 40), **saved}


def summary(**changes: Any) -> dict[str, Any]:
    """Summary of 2 epochs on 2 accelerators: 1,400 samples in 40 s are 35 samples/s."""
    metric = {
        "train_au_percentage": [96.0, 97.0],
        "train_au_mean_percentage": 96.5,
        "train_au_meet_expectation": "success",
        "train_throughput_samples_per_second": [34.0, 36.0],
        "train_throughput_mean_samples_per_second": 35.0,
        "train_io_mean_MB_per_second": 35.0 * RECORD / MIB,
    }
    return {
        "start": AT(0),
        "end": AT(3),
        "num_accelerators": 2,
        "num_hosts": 1,
        "hostname": "client1",
        "metric": {**metric, **changes.pop("metric", {})},
        "num_files_train": 1400,
        "num_samples_per_file": 1,
        "host_memory_GB": [16.0],
        "potential_caching": [0],
        "epochs": 2,
        **changes,
    }


def written(
    place: Path,
    document: Mapping[str, Any],
    *,
    config: str | None = CONFIG,
    folder: str = "configs",
    checkpoint: bool = False,
) -> Path:
    place.mkdir(parents=True)
    (place / "summary.json").write_text(json.dumps(document))
    times = {"1": epoch_times(1), "2": epoch_times(2, checkpoint=checkpoint)}
    (place / "per_epoch_stats.json").write_text(json.dumps(times))
    if config is not None:
        (place / folder).mkdir()
        (place / folder / "config.yaml").write_text(config)
    return place


def imported(tmp_path: Path, *places: Path) -> ResultStore:
    return import_files(places, tmp_path / "result")


def only(tmp_path: Path, place: Path) -> RunRecord:
    (record,) = imported(tmp_path, place).records()
    return record


def test_a_submission_without_steps_has_the_metrics_that_dlio_states(tmp_path: Path) -> None:
    place = written(tmp_path / SYSTEM / "unet3d-h100" / "run1", summary())
    record = only(tmp_path, place)
    assert (record.kind, record.status, record.target) == (
        "training",
        "finished",
        "Acme Acme_F1_2xNDR",
    )
    assert record.metric("au_percent") == 96.5
    assert record.metric("au_threshold_percent") == pytest.approx(90)
    assert record.metric("accelerators_at_threshold") == 2
    assert record.metric("samples_s") == 35.0
    assert record.metric("nominal_mb_s") == pytest.approx(35.0 * RECORD / 1e6)
    assert record.params["profile"] == "unet3d-h100"
    assert (record.params["accelerators"], record.params["reader_threads"]) == (2, 8)
    assert (record.params["files"], record.params["epochs"]) == (1400, 2)
    assert any("as DLIO states them" in note for note in record.notes)
    assert {m.provenance for m in record.metrics if m.name == "au_percent"} == {"emulated"}


def test_bytes_follow_from_steps_if_they_agree_with_the_stated_rate(tmp_path: Path) -> None:
    record = only(tmp_path, written(tmp_path / "run1", summary()))
    assert record.totals["read"].operations == 2 * 1400
    assert record.totals["read"].bytes == 2 * 1400 * RECORD
    # two epochs of 40 s, with 20 s between them
    assert record.metric("throughput_mb_s") == pytest.approx(2800 * RECORD / 100 / 1e6)
    assert [(s.kind, s.start_ns, s.end_ns) for s in record.spans] == [
        ("epoch", 0, 40 * 10**9),
        ("epoch", 60 * 10**9, 100 * 10**9),
    ]


def test_without_an_agreeing_rate_bytes_are_unknown_rather_than_0(tmp_path: Path) -> None:
    slower = {"train_throughput_mean_samples_per_second": 20.0}
    record = only(tmp_path, written(tmp_path / "run1", summary(metric=slower)))
    assert record.metric("samples_s") == 20.0
    assert record.metric("throughput_mb_s") is None
    assert record.totals == {}


def test_a_training_that_also_wrote_a_checkpoint_is_imported(tmp_path: Path) -> None:
    record = only(tmp_path, written(tmp_path / "run1", summary(), checkpoint=True))
    assert record.metric("au_percent") == 96.5
    assert [span.kind for span in record.spans] == ["epoch", "epoch", "write"]
    assert record.spans[-1].end_ns - record.spans[-1].start_ns == 9 * 10**9
    assert record.spans[-1].bytes == 0  # unknown


def test_a_checkpoint_of_recorded_size_is_a_run_of_its_own(tmp_path: Path) -> None:
    size = {"checkpoint_size_GB": 9.0}
    store = imported(tmp_path, written(tmp_path / "run1", summary(metric=size), checkpoint=True))
    records = {record.kind: record for record in store.records()}
    assert set(records) == {"training", "checkpoint"}
    assert [span.kind for span in records["training"].spans] == ["epoch", "epoch"]
    assert records["checkpoint"].metric("write_mb_s") == pytest.approx((1 << 30) / 1e6)


def test_a_missed_utilisation_is_flagged(tmp_path: Path) -> None:
    missed = {"train_au_mean_percentage": 71.0, "train_au_meet_expectation": "fail"}
    record = only(tmp_path, written(tmp_path / "run1", summary(metric=missed)))
    assert "au-below-threshold" in {flag.kind for flag in record.flags}
    assert record.metric("accelerators_at_threshold") == 0


def test_five_runs_of_a_system_are_repeats_of_one_target(tmp_path: Path) -> None:
    for number in range(1, 6):
        document = summary(hostname=f"client{number}")
        written(tmp_path / SYSTEM / "unet3d-h100" / f"run{number}", document)
    records = imported(tmp_path, tmp_path / "Closed").records()
    assert sorted(record.repeat for record in records) == [1, 2, 3, 4, 5]
    assert {(r.target, r.point_id) for r in records} == {(records[0].target, records[0].point_id)}


@pytest.mark.parametrize(
    ("odirect", "direct", "edition", "flag"),
    [
        ("", False, "dlio-2.0", "page-cache"),
        ("\n    odirect: true", True, "dlio-2.0-odirect", "medium-unproven"),
        ("\n    odirect: False", False, "dlio-2.0", "page-cache"),
    ],
)
def test_the_configuration_states_whether_the_page_cache_is_used(
    tmp_path: Path, odirect: str, direct: bool, edition: str, flag: str
) -> None:
    config = CONFIG.replace("read_threads: 8", f"read_threads: 8{odirect}")
    store = imported(tmp_path, written(tmp_path / "run1", summary(), config=config))
    (record,) = store.records()
    assert store.study.target[0].direct is direct
    assert record.params["edition"] == edition
    assert flag in {f.kind for f in record.flags}


def test_overrides_alone_leave_the_page_cache_unknown(tmp_path: Path) -> None:
    place = written(tmp_path / "run1", summary(), config=None)
    (place / ".hydra").mkdir()
    overrides = ["workload=unet3d_h100", "++workload.reader.read_threads=6"]
    (place / ".hydra" / "overrides.yaml").write_text("".join(f"- {o}\n" for o in overrides))
    assert read_settings(place).direct is None
    record = only(tmp_path, place)
    assert (record.params["profile"], record.params["reader_threads"]) == ("unet3d-h100", 6)
    kinds = {flag.kind for flag in record.flags}
    assert "page-cache" not in kinds
    assert "medium-unproven" in kinds
    assert any("unknown whether reads bypassed" in note for note in record.notes)


def test_a_summary_without_settings_is_refused_with_the_setting(tmp_path: Path) -> None:
    place = written(tmp_path / "run1", summary(), config=None)
    with pytest.raises(ResultError) as caught:
        imported(tmp_path, place)
    assert "reader.batch_size" in str(caught.value)
    assert "config.yaml" in str(caught.value)


def test_a_model_without_a_profile_keeps_its_settings(tmp_path: Path) -> None:
    config = (
        CONFIG.replace("model: unet3d", "model: {name: mine, type: cnn}")
        .replace("record_length", "record_length_bytes")
        .replace("computation_time: 0.323", "computation_time: {mean: 0.5, stdev: 0.1}")
        .replace("au: 0.9", "au: 0.8")
    )
    record = only(tmp_path, written(tmp_path / "run1", summary(), config=config))
    profile = record.params["profile_data"]
    assert record.params["profile"] == "mine.toml"
    assert profile["dataset"]["record_length_bytes_stdev"] == 68341808
    assert profile["dataset"]["format"] == "npz"
    assert (profile["reader"]["batch_size"], profile["train"]["computation_time"]) == (
        7,
        "0.500000s",
    )
    assert record.metric("au_threshold_percent") == pytest.approx(80)


def test_step_times_of_some_ranks_give_way_to_the_summary(tmp_path: Path) -> None:
    place = written(tmp_path / "run1", summary())
    lists = {name: {"block1": [1.0, 1.0]} for name in ("load", "proc", "compute")}
    (place / "0_output.json").write_text(json.dumps({"1": lists}))
    record = only(tmp_path, place)
    assert record.metric("samples_s") == 35.0
    assert any("only 1 of 2 accelerators" in note for note in record.notes)


def test_settings_of_mlpstorage_are_read_from_its_metadata(tmp_path: Path) -> None:
    """MLPerf Storage since v2.0 writes all settings as parameters, overrides as strings."""
    stamp = "20260704_050040"
    tree = tmp_path / "closed" / "Acme" / "results" / "rack-1" / "training" / "unet3d"
    place = written(tree / "run" / stamp, summary(), config=None)
    parameters = {
        "model": {"name": "unet3d"},
        "dataset": {"format": "npz", "record_length_bytes": RECORD, "num_files_train": "1400"},
        "reader": {"batch_size": 7, "read_threads": "24", "odirect": "True"},
        "train": {"epochs": 2, "computation_time": 0.162},
        "metric": {"au": 0.9},
    }
    (place / f"training_{stamp}_metadata.json").write_text(json.dumps({"parameters": parameters}))
    for unmeasured in ("datagen", "datasize"):
        other = tree / unmeasured / "20260703_050040"
        written(other, {"start": AT(0), "metric": {}}, config=None)
    store = imported(tmp_path, tmp_path / "closed")
    (record,) = store.records()
    assert (record.target, record.params["profile"]) == ("Acme rack-1", "unet3d-b200")
    assert (record.params["reader_threads"], record.params["edition"]) == (24, "dlio-2.0-odirect")
    assert store.study.target[0].direct is True


def test_hosts_of_version_0_5_are_one_run(tmp_path: Path) -> None:
    """In v0.5, each host ran a DLIO of its own, and the result is the sum of their samples/s."""
    run = tmp_path / "closed" / "Acme" / "results" / "two-hosts" / "unet3d" / "run0"
    other = {"train_au_mean_percentage": 90.5, "train_au_percentage": [90.0, 91.0]}
    written(run / "host-a", summary(), folder=".hydra")
    written(run / "host-b", summary(hostname="host-b", metric=other), folder=".hydra")
    record = only(tmp_path, tmp_path / "closed")
    assert record.target == "Acme two-hosts"
    assert (record.params["accelerators"], record.params["files"]) == (4, 2800)
    assert record.metric("samples_s") == 70.0
    assert record.metric("nominal_mb_s") == pytest.approx(70.0 * RECORD / 1e6)
    assert record.metric("au_percent") == pytest.approx((96.5 + 90.5) / 2)
    assert record.totals["read"].operations == 2 * 2800
    raw = DlioImport().files(run)
    assert {"host-a/summary.json", "host-b/summary.json", "summary.json"} <= set(raw)


@pytest.mark.parametrize(
    ("path", "model", "name"),
    [
        ("/w/Closed/Acme/results/rack-1/unet3d-h100/run1", "unet3d", "Acme rack-1"),
        ("/w/closed/Acme/results/rack-1/bert/run0/host-a", "bert", "Acme rack-1"),
        ("/w/Acme/closed/results/rack-1/training/unet3d/run/20260704_050040", None, "Acme rack-1"),
        ("/w/rack-1/training/unet3d/run/20260704_050040", None, "rack-1"),
        ("/w/results/checkpointing/llama3-8b/20260704_050040", None, "imported"),
        ("/w/rack-1/unet3d-h100/runs/run_3", "unet3d", "rack-1"),
        ("/w/rack-1/hydra_log/unet3d/2023-08-04-11-46-30", "unet3d", "rack-1"),
        ("/w/rack-1/resnet50_h100_run_2", "resnet50", "rack-1"),
        ("/w/my-disk", "unet3d", "my-disk"),
    ],
)
def test_targets_are_named_after_the_system(path: str, model: str | None, name: str) -> None:
    assert layout.target_name(Path(path), model) == name


def test_one_damaged_run_is_refused_alone(tmp_path: Path) -> None:
    good = written(tmp_path / "run1", summary())
    bad = written(tmp_path / "run2", summary(), config="workload: [")
    importer = DlioImport()
    assert importer.directories(tmp_path) == [good, bad]
    assert len(importer.read(good, importer.files(good))) == 1
    with pytest.raises(ResultError, match=r"configs/config\.yaml"):
        importer.read(bad, importer.files(bad))


def test_data_in_an_object_store_is_not_read_through_the_page_cache(tmp_path: Path) -> None:
    config = CONFIG + "  storage: {storage_type: s3, storage_root: my-bucket}\n"
    record = only(tmp_path, written(tmp_path / "run1", summary(), config=config))
    assert "page-cache" not in {flag.kind for flag in record.flags}
    assert any("s3 my-bucket" in note for note in record.notes)


def test_the_first_of_six_runs_is_noted_as_a_warm_up(tmp_path: Path) -> None:
    """MLPerf Storage v3.0 asks for six runs and leaves out the first."""
    runs = tmp_path / "rack-1" / "training" / "unet3d" / "run"
    for hour in range(6):
        written(runs / f"20260704_0{hour}0040", summary(hostname=f"client{hour}"))
    records = imported(tmp_path, tmp_path / "rack-1").records()
    noted = [any("first of six runs" in note for note in record.notes) for record in records]
    assert noted == [True, False, False, False, False, False]
