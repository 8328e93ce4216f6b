"""Training profiles: shipped ones match publications, and users' are validated."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab.base.errors import StudyError
from storlab.base.units import NS_PER_S
from storlab.workloads.training.profiles import SHIPPED, data_set_bytes, load_profile, profile_names

MS = NS_PER_S // 1000
PUBLISHED = {
    # name: format, files, samples, bytes, stdev, batch, compute ns, threads, AU, epochs
    "unet3d-a100": ("npz", 168, 1, 146_600_628, 68_341_808, 7, 636 * MS, 4, 0.90, 5),
    "unet3d-h100": ("npz", 168, 1, 146_600_628, 68_341_808, 7, 323 * MS, 4, 0.90, 5),
    "unet3d-b200": ("npz", 7_200, 1, 146_600_628, 68_341_808, 7, 162 * MS, 4, 0.90, 5),
    "resnet50-a100": ("tfrecord", 1_024, 1_251, 114_660, 0, 400, 435 * MS, 8, 0.90, 5),
    "resnet50-h100": ("tfrecord", 1_024, 1_251, 114_660, 0, 400, 224 * MS, 8, 0.90, 5),
    "cosmoflow-a100": ("tfrecord", 524_288, 1, 2_828_486, 71_311, 1, 5_510_000, 4, 0.70, 5),
    "cosmoflow-h100": ("tfrecord", 524_288, 1, 2_828_486, 71_311, 1, 3_500_000, 4, 0.70, 5),
    "retinanet-b200": ("jpeg", 1_170_301, 1, 322_957, 0, 24, 47_550_000, 8, 0.85, 8),
}
OWN = """\
source = "made up"
[dataset]
format = "tfrecord"
num_files_train = 4
num_samples_per_file = 3
record_length_bytes = "2KiB"
[reader]
batch_size = 2
[train]
computation_time = "5ms"
"""


def own(tmp_path: Path, text: str = OWN) -> str:
    path = tmp_path / "own.toml"
    path.write_text(text)
    return str(path)


def test_there_are_these_profiles() -> None:
    assert profile_names() == sorted([*PUBLISHED, "unet3d-small"])


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_profile_says_what_was_published(name: str) -> None:
    profile = load_profile(name)
    data, reader = profile.dataset, profile.reader
    assert (
        data.format,
        data.num_files_train,
        data.num_samples_per_file,
        data.record_length_bytes,
        data.record_length_bytes_stdev,
        reader.batch_size,
        profile.train.computation_time,
        reader.read_threads,
        profile.metric.au,
        profile.train.epochs,
    ) == PUBLISHED[name]
    assert profile.published
    assert reader.prefetch_size == 2
    assert "MLPerf Storage" in profile.source
    assert data.record_length_bytes_resize == (2 << 20 if "unet3d" in name else 0) or (
        "resnet50" in name and data.record_length_bytes_resize == 150_528
    )


def test_demands_are_the_published_ones() -> None:
    """Check the GB/s that one accelerator needs for unet3d against workloads.md."""
    for name, gb_s in (("unet3d-h100", 3.18), ("unet3d-a100", 1.61), ("unet3d-b200", 6.33)):
        demand = load_profile(name).demand_bytes_s
        assert demand is not None
        assert demand / 1e9 == pytest.approx(gb_s, abs=0.005)


def test_the_small_profile_is_small_and_says_that_nobody_published_it() -> None:
    profile = load_profile("unet3d-small")
    assert not profile.published
    assert data_set_bytes(profile, profile.dataset.num_files_train) < 100_000_000
    assert "not published" in profile.source
    assert (SHIPPED / "unet3d-small.toml").read_text().startswith("# Not a published profile.")


def test_a_profile_of_ones_own(tmp_path: Path) -> None:
    profile = load_profile(own(tmp_path))
    assert profile.dataset.record_length_bytes == 2048
    assert profile.train.computation_time == 5 * MS
    assert (profile.reader.read_threads, profile.reader.prefetch_size) == (1, 2)
    assert (profile.dataset.file_prefix, profile.metric.au) == ("img", 0.9)


def test_a_bare_number_of_computing_means_seconds(tmp_path: Path) -> None:
    text = OWN.replace('"5ms"', "0.005")
    assert load_profile(own(tmp_path, text)).train.computation_time == 5 * MS


def test_no_computing_is_no_demand(tmp_path: Path) -> None:
    assert load_profile(own(tmp_path, OWN.replace('"5ms"', "0"))).demand_bytes_s is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("num_files_train", "number_of_files"), "number_of_files is not a field"),
        (("num_files_train = 4", ""), "num_files_train"),
        (('source = "made up"', ""), "source"),
        (('format = "tfrecord"', 'format = "hdf5"'), "dataset.format"),
        (('format = "tfrecord"', 'format = "jpeg"'), "a JPEG file has only one sample"),
        (('"2KiB"', '"2K"'), "ambiguous"),
        (('"2KiB"', '"0KiB"'), "record_length_bytes must be more than 0B"),
        (("[train]", "[train"), "is not TOML"),
        (("batch_size = 2", "batch_size = 0"), "reader.batch_size"),
        (("[dataset]\n", '[dataset]\nfile_prefix = "../img"\n'), "dataset.file_prefix"),
    ],
)
def test_what_is_wrong_with_a_profile_is_named(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    path = own(tmp_path, OWN.replace(*change))
    with pytest.raises(StudyError) as caught:
        load_profile(path)
    assert caught.value.where == path
    assert message in caught.value.what
    assert caught.value.fix


def test_an_npz_that_a_zip_cannot_hold_is_refused(tmp_path: Path) -> None:
    text = OWN.replace("tfrecord", "npz").replace('"2KiB"', '"2GiB"')
    with pytest.raises(StudyError, match="smaller than 4 GiB"):
        load_profile(own(tmp_path, text))


def test_what_is_no_profile_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="did you mean"):
        load_profile("unet3d-h10")
    with pytest.raises(StudyError, match="No such file"):
        load_profile(str(tmp_path / "absent.toml"))
