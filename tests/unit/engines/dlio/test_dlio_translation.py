"""Translation of DLIO's workload files into a study, from the settings in DLIO's documentation."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import UsageError
from storlab.cli.main import main
from storlab.contracts.translation import Remark, Translation
from storlab.engines.dlio.translation import translate
from storlab.lab.study.translated import study_text
from storlab.workloads.checkpoint.profiles import make_profile as checkpoint_profile
from storlab.workloads.training.profiles import make_profile

UNET3D = """model:
  name: unet3d
  type: cnn
framework: pytorch
workflow:
  generate_data: False
  train: True
  checkpoint: False
dataset:
  data_folder: /data/unet3d
  format: npz
  num_files_train: 1000
  num_samples_per_file: 1
  record_length_bytes: 146600628
  record_length_bytes_stdev: 68341808
  record_length_bytes_resize: 2097152
reader:
  data_loader: pytorch
  batch_size: 7
  read_threads: 8
  file_shuffle: seed
  sample_shuffle: seed
  odirect: true
  pin_memory: false
train:
  epochs: 5
  computation_time: 0.323
  seed_change_epoch: false
metric:
  au: 0.90
"""
LLAMA = """model:
  name: llama_8b
  type: transformer
  num_layers: 32
  parallelism: {pipeline: 1, tensor: 1, zero_stage: 3}
  transformer:
    vocab_size: 128256
    hidden_size: 4096
    ffn_hidden_size: 14336
    num_attention_heads: 32
    num_kv_heads: 8
workflow:
  train: False
  checkpoint: True
checkpoint:
  checkpoint_folder: /data/checkpoints
  time_between_checkpoints: 5
  num_checkpoints_write: 10
  num_checkpoints_read: 3
  fsync: True
  rank_sync: true
"""


def translated(tmp_path: Path, *texts: str) -> Translation:
    paths = []
    for number, text in enumerate(texts, 1):
        paths.append(tmp_path / f"work{number}.yaml")
        paths[-1].write_text(text)
    return translate([str(path) for path in paths])


def only(tmp_path: Path, text: str) -> dict[str, Any]:
    (table,) = translated(tmp_path, text).workloads
    return table.fields


def remark(translation: Translation, option: str) -> Remark:
    (found,) = [one for one in translation.remarks if one.option.startswith(option)]
    return found


def test_a_workload_like_a_profile_of_storlab_uses_it(tmp_path: Path) -> None:
    whole = translated(tmp_path, UNET3D)
    (target,), (table,) = whole.targets, whole.workloads
    assert target.fields == {"name": "dlio", "directory": "/data/unet3d", "direct": True}
    assert table.fields == {
        "kind": "training",
        "name": "unet3d",
        "targets": ["dlio"],
        "profile": "unet3d-h100",
        "accelerators": 1,
        "files": 1000,
        "reader_threads": 8,
        "shuffle": "same",
    }
    assert not whole.files
    study = tomllib.loads(study_text(whole, "unet3d.yaml"))
    assert study["workload"][0]["profile"] == "unet3d-h100"


def test_every_setting_without_a_counterpart_is_named_with_its_line(tmp_path: Path) -> None:
    whole = translated(tmp_path, UNET3D)
    assert remark(whole, "reader.pin_memory: False").where == "work1.yaml:24"
    assert remark(whole, "framework").where == "work1.yaml:4"
    assert remark(whole, "mpirun -n")
    assert not [one for one in whole.remarks if "sample_shuffle" in one.option]
    several = UNET3D.replace("num_samples_per_file: 1", "num_samples_per_file: 4")
    assert remark(translated(tmp_path, several), "reader.sample_shuffle")


def test_other_data_become_a_profile_of_its_own(tmp_path: Path) -> None:
    text = (
        UNET3D.replace("record_length_bytes", "record_length")  # the name until DLIO 2.0
        .replace("146600628", "114660.07")
        .replace("stdev: 68341808", "stdev: 0")
        .replace("resize: 2097152", "resize: 0")
        .replace("computation_time: 0.323", "computation_time: {mean: 0.25, stdev: 0.1}")
    )
    whole = translated(tmp_path, text)
    assert whole.workloads[0].fields["profile"] == "unet3d.toml"
    profile = make_profile(tomllib.loads(whole.files["unet3d.toml"]), "unet3d.toml")
    assert profile.dataset.record_length_bytes == 114_660
    assert (profile.reader.batch_size, profile.train.computation_time) == (7, 250_000_000)
    assert (profile.dataset.num_files_train, profile.train.epochs) == (1000, 5)
    assert "114,660" in remark(whole, "dataset.record_length: 114660.07").meaning
    assert remark(whole, "train.computation_time.stdev")


def test_settings_that_are_missing_have_the_defaults_of_dlio(tmp_path: Path) -> None:
    whole = translated(tmp_path, "model: {name: bare}\n")
    profile = make_profile(tomllib.loads(whole.files["bare.toml"]), "bare.toml")
    assert (profile.dataset.format, profile.dataset.record_length_bytes) == ("tfrecord", 65536)
    assert (profile.reader.batch_size, profile.reader.prefetch_size) == (1, 2)
    assert profile.train.computation_time == 0
    assert whole.workloads[0].fields["shuffle"] == "none"
    assert whole.targets[0].fields["direct"] is False


@pytest.mark.parametrize(
    ("text", "shuffle"),
    [
        ("file_shuffle: off", "none"),
        ("file_shuffle: seed", "epoch"),
        ("sample_shuffle: random", "epoch"),
        ("file_shuffle: off\n  sample_shuffle: 'off'", "none"),
    ],
)
def test_the_order_of_files(tmp_path: Path, text: str, shuffle: str) -> None:
    fields = only(tmp_path, f"model: {{name: m}}\nreader:\n  {text}\n")
    assert fields["shuffle"] == shuffle


def test_a_limit_of_steps_is_kept(tmp_path: Path) -> None:
    text = UNET3D.replace("  epochs: 5", "  epochs: 5\n  total_training_steps: 20")
    assert only(tmp_path, text)["max_steps"] == 20


def test_checkpoints_of_a_transformer(tmp_path: Path) -> None:
    whole = translated(tmp_path, LLAMA)
    (table,) = whole.workloads
    assert table.fields == {
        "kind": "checkpoint",
        "name": "llama_8b",
        "targets": ["dlio"],
        "profile": "llama3-8b",
        "writes": 10,
        "restores": 3,
        "sync": "fsync",
        "pause": "5s",
    }
    assert whole.targets[0].fields["directory"] == "/data/checkpoints"
    assert remark(whole, "checkpoint.rank_sync").where == "work1.yaml:21"
    study_text(whole, "llama.yaml")


def test_another_transformer_has_a_profile_of_its_own(tmp_path: Path) -> None:
    text = LLAMA.replace("num_layers: 32", "num_layers: 16").replace(
        "zero_stage: 3", "zero_stage: 3, data: 4"
    )
    whole = translated(tmp_path, text)
    tables = tomllib.loads(whole.files["llama_8b.toml"])
    profile = checkpoint_profile(tables, "llama_8b.toml")
    assert (tables["model"]["layers"], profile.ranks) == (16, 4)


def test_several_files_are_one_study(tmp_path: Path) -> None:
    odd = UNET3D.replace("batch_size: 7", "batch_size: 5")
    whole = translated(tmp_path, odd, odd.replace("0.323", "0.5"), LLAMA)
    names = [table.fields["name"] for table in whole.workloads]
    assert names == ["unet3d", "unet3d-2", "llama_8b"]
    assert set(whole.files) == {"unet3d.toml", "unet3d-2.toml"}
    assert [table.fields["name"] for table in whole.targets] == ["dlio", "dlio-2"]


def test_an_object_store_is_a_target_without_its_keys(tmp_path: Path) -> None:
    storage = """storage:
  storage_type: s3
  storage_root: my-bucket
  storage_options:
    endpoint_url: http://localhost:9000
    secret_access_key: not-for-a-study
"""
    whole = translated(tmp_path, UNET3D + storage)
    assert whole.targets[0].fields["s3"] == "http://localhost:9000/my-bucket"
    assert "not-for-a-study" not in study_text(whole, "unet3d.yaml")


def test_the_configuration_of_a_run_is_read_like_a_workload(tmp_path: Path) -> None:
    indented = "".join(f"  {line}\n" for line in UNET3D.splitlines())
    fields = only(tmp_path, f"workload:\n{indented}")
    assert fields["profile"] == "unet3d-h100"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (UNET3D.replace("format: npz", "format: hdf5"), "work1.yaml:11: dataset.format"),
        (UNET3D.replace("batch_size: 7", "batch_size: many"), "work1.yaml:19"),
        (UNET3D.replace("train: True", "train: False"), "neither trains"),
        (LLAMA.replace("transformer:", "other:"), "model.transformer"),
        ("a: [", "is not YAML"),
        ("a: 1\n", "workflow"),
    ],
)
def test_what_cannot_be_translated_is_refused_with_its_place(
    tmp_path: Path, text: str, named: str
) -> None:
    with pytest.raises(UsageError) as caught:
        translated(tmp_path, text)
    assert named in str(caught.value)


def test_the_verb_writes_study_and_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(UNET3D.replace("batch_size: 7", "batch_size: 5"))
    assert main(["init", "mine.toml", "--from-dlio", "mine.yaml"]) == 0
    assert "wrote unet3d.toml" in capsys.readouterr().out
    assert Path("mine.toml").is_file()
    assert tomllib.loads(Path("unet3d.toml").read_text())["reader"]["batch_size"] == 5
    assert main(["init", "other.toml", "--from-dlio", "mine.yaml"]) != 0  # the profile exists
    assert not Path("other.toml").exists()
