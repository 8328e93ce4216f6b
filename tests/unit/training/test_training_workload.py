"""The training workload: parameters to points, points to jobs, outcomes to metrics."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import PreflightError, StudyError
from storlab.base.units import NS_PER_S
from storlab.contracts.family import Access, JobContext
from storlab.contracts.registry import FAMILIES
from storlab.lab.plan.plan import make_plan
from storlab.lab.study.file import load_study, loaded_study, parse_study
from storlab.lab.study.templates import template_text
from storlab.model.point import Point
from storlab.model.s3 import Credentials, S3Access, S3Store
from storlab.model.study import Header, Target
from storlab.stores.s3.keys import is_own_key
from storlab.workloads.training.job import TrainingJob
from storlab.workloads.training.page import TRAINING_PAGE
from storlab.workloads.training.params import TrainingParams
from storlab.workloads.training.rules import EDITIONS, least_samples, settings_of
from support.refusals import refusal

TRAINING = FAMILIES["training"]
HEADER = Header(name="s", interval="250ms", settle="1s")  # type: ignore[arg-type]
TARGET = Target(name="t", directory="d")
STORE = Target(name="s", s3="http://127.0.0.1:9000/bucket")
ACCESS = Access(home=Path("/d/storlab-data"))
MS = NS_PER_S // 1000
HEAD = '[study]\nname = "s"\n[[target]]\nname = "t"\ndirectory = "."\n'
OWN = """\
source = "made up"
[dataset]
format = "tfrecord"
num_files_train = 4
num_samples_per_file = 30
record_length_bytes = 2000
file_prefix = "part"
[reader]
batch_size = 6
read_threads = 3
prefetch_size = 9
file_shuffle = "off"
[train]
epochs = 2
computation_time = "5ms"
[metric]
au = 0.7
"""


def points(lines: str = "") -> list[Point]:
    study = parse_study(f'{HEAD}[[workload]]\nkind = "training"\n{lines}')
    return [
        Point(target="t", workload="w", workload_index=0, kind="training", engine="e", params=v)
        for v in study.workload[0].values()
    ]


def point(lines: str = "") -> Point:
    (single,) = points(lines)
    return single


def refused(lines: str) -> str:
    with pytest.raises(StudyError) as caught:
        points(lines)
    return "; ".join(f"{p['where'].split()[-1]}: {p['what']}" for p in caught.value.problems)


def context(target: Target = TARGET, access: Access = ACCESS) -> JobContext:
    return JobContext(HEADER, target, access, seed=7, work_dir=Path("w"), run_id="p-r1")


def job(lines: str = "", target: Target = TARGET) -> TrainingJob:
    made = TRAINING.job(point(lines), context(target))
    assert isinstance(made, TrainingJob)
    return made


def own_profile(tmp_path: Path, text: str = OWN) -> str:
    path = tmp_path / "own.toml"
    path.write_text(text)
    return f'profile = "{path}"\n'


def test_the_smallest_job_is_the_profile() -> None:
    made = job()
    assert (made.task, made.kind, made.accelerators, made.batch) == ("run", "training", 1, 7)
    assert (made.computation_ns, made.reader_threads, made.prefetch) == (323 * MS, 4, 2)
    assert (made.epochs, made.max_steps, made.barrier) == (5, None, True)
    assert (made.shuffle, made.reshard, made.check) == ("epoch", True, "header")
    assert (made.read_bytes, made.queue_depth, made.drop_caches) == (1 << 20, 16, False)
    assert (made.interval_ns, made.seed, made.ramp_ns) == (250 * MS, 7, 0)
    records = made.records
    assert (records.format, records.files, records.samples_per_file) == ("npz", 168, 1)
    assert (records.record_bytes, records.record_stdev_bytes) == (146_600_628, 68_341_808)
    assert (records.resize_bytes, records.folder, records.prefix) == (2 << 20, "train", "img")
    assert made.place.direct
    assert made.place.directory is not None
    assert made.place.directory.startswith("/d/storlab-data/training-")
    assert TrainingJob.model_validate_json(made.model_dump_json()) == made


def test_every_field_of_a_study_reaches_the_job() -> None:
    made = job(
        "\n".join(
            [
                'profile = "cosmoflow-a100"',
                "accelerators = 3",
                "reader_threads = 2",
                'check = "crc"',
                'shuffle = "same"',
                "barrier = false",
                "epochs = 4",
                "max_steps = 9",
                "batch_size = 5",
                'computation_time = "7ms"',
                "files = 1000",
                'read_size = "64KiB"',
                "io_depth = 3",
                "data_seed = 42",
            ]
        )
    )
    assert (made.accelerators, made.reader_threads, made.batch) == (3, 2, 5)
    assert (made.check, made.shuffle, made.barrier) == ("crc", "same", False)
    assert (made.epochs, made.max_steps, made.computation_ns) == (4, 9, 7 * MS)
    assert (made.records.files, made.records.format, made.records.seed) == (1000, "tfrecord", 42)
    assert (made.read_bytes, made.queue_depth) == (64 << 10, 3)


@pytest.mark.parametrize(
    ("edition", "reading"),
    [
        ("storlab", ("epoch", True, "header", True, False)),
        ("dlio-2.0", ("none", False, "crc", False, False)),
        ("dlio-2.0-odirect", ("none", False, "header", True, False)),
        ("dlio-3.0", ("epoch", True, "bytes", False, True)),
    ],
)
def test_an_edition_reads_as_that_version_did(edition: str, reading: tuple[Any, ...]) -> None:
    made = job(f'edition = "{edition}"')
    assert (made.shuffle, made.reshard, made.check, made.place.direct, made.drop_caches) == reading
    assert made.barrier
    assert edition in EDITIONS


def test_only_our_own_edition_follows_the_target() -> None:
    buffered = Target(name="t", directory="d", direct=False)
    assert not job(target=buffered).place.direct
    assert refusal(TRAINING.check(point().params, buffered)) is None
    reason = refusal(TRAINING.check(point('edition = "dlio-2.0-odirect"').params, buffered))
    assert reason is not None
    assert reason.startswith("edition: ")


def test_an_edition_of_dlio_leaves_nothing_open() -> None:
    assert "check: has no effect" in refused('edition = "dlio-3.0"\ncheck = "crc"')
    assert "shuffle: has no effect" in refused('edition = "dlio-3.0"\nshuffle = "none"')
    swept = points('edition = ["storlab", "dlio-3.0"]\ncheck = ["crc", "bytes"]')
    assert [(p.params["edition"], p.params["check"]) for p in swept] == [
        ("storlab", "crc"),
        ("storlab", "bytes"),
        ("dlio-3.0", None),
    ]


def test_sweeps_are_products() -> None:
    lines = 'profile = ["unet3d-h100", "resnet50-a100"]\naccelerators = [1, 2]\n'
    swept = points(lines + "reader_threads = [4, 8]")
    assert len(swept) == 8
    assert len({p.point_id for p in swept}) == 8


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('profile = "unet3d-h10"', 'did you mean "unet3d-h100"?'),
        ('profile = "dir/mine"', "ends with .toml"),
        ("files = 3\nscale = 0.5", "multiplies"),
        ('read_size = "1000B"', "multiple of 4KiB"),
        ("accelerators = 0", "accelerators"),
        ('edition = "mlperf"', "edition"),
        ('engine = "native"\nloader = "pytorch"', "selects the engine"),
    ],
)
def test_what_contradicts_itself_is_refused(lines: str, message: str) -> None:
    with pytest.raises(StudyError) as caught:
        points(lines)
    assert message in str(caught.value)


def test_a_profile_of_ones_own_is_part_of_the_point(tmp_path: Path) -> None:
    lines = own_profile(tmp_path)
    planned = point(lines)
    (tmp_path / "own.toml").unlink()
    settings = settings_of(TrainingParams.of(planned.params))
    assert (settings.files, settings.batch, settings.reader_threads) == (4, 6, 3)
    assert (settings.epochs, settings.computation_ns) == (2, 5 * MS)
    assert (settings.shuffle, settings.threshold_percent) == ("none", pytest.approx(70))
    made = TRAINING.job(planned, context())
    assert isinstance(made, TrainingJob)
    assert (made.prefetch, made.records.prefix) == (9, "part")
    changed = point(own_profile(tmp_path, OWN.replace("5ms", "6ms")))
    assert changed.point_id != planned.point_id
    assert point("profile = 'unet3d-h100'").params["profile_data"] is None


def test_a_profile_that_is_not_there_is_refused_by_the_plan(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    lines = f'[[workload]]\nkind = "training"\nprofile = "{tmp_path}/absent.toml"\n'
    study.write_text(HEAD + lines)
    loaded = load_study(study)  # its results must remain readable
    with pytest.raises(StudyError) as caught:
        make_plan(loaded)
    assert "absent.toml cannot be read" in str(caught.value)
    assert "profile" in str(caught.value)


def test_a_data_set_that_gives_no_batch_is_refused() -> None:
    planned = point("files = 20\naccelerators = 3")
    reason = refusal(TRAINING.check(planned.params, TARGET))
    assert reason is not None
    assert reason.startswith(
        "files: 20 samples are too few for 3 accelerators with a batch of 7 each"
    )
    assert refusal(TRAINING.check(point("files = 21\naccelerators = 3").params, TARGET)) is None
    scaled = refusal(TRAINING.check(point("scale = 0.01").params, TARGET))
    assert scaled is not None
    assert scaled.startswith("scale: ")


def test_the_estimate_is_computing_or_reading() -> None:
    computing = TRAINING.estimate(point("epochs = 2"), HEADER, TARGET)
    assert computing.duration_ns == pytest.approx(2 * 24 * 323 * MS + NS_PER_S, rel=0.7)
    reading = TRAINING.estimate(point("epochs = 1\ncomputation_time = 0"), HEADER, TARGET)
    assert reading.duration_ns - NS_PER_S == pytest.approx(reading.data_bytes / 2, rel=0.01)
    assert reading.data_bytes == pytest.approx(168 * 146.6e6, rel=0.01)
    assert (reading.writes, reading.bytes_written, reading.layout_files) == (False, 0, 0)
    assert reading.data_sets == computing.data_sets


@pytest.mark.parametrize(
    ("record", "buffers"), [(100_000, 100_000), (3_000_000, 3 << 20), (1 << 30, 18 << 20)]
)
def test_buffers_are_those_that_a_file_fills(record: int, buffers: int) -> None:
    """Check buffer sizes against crates/families/training/src/reader.rs; buckets have none."""
    profile = OWN.replace("= 2000", f"= {record}").replace("file = 30", "file = 1")
    given = {"profile_data": tomllib.loads(profile), "accelerators": 2}
    own = point().model_copy(update={"engine": "native", "params": {**point().params, **given}})
    assert TRAINING.estimate(own, HEADER, TARGET).buffer_bytes == 2 * 3 * buffers
    assert TRAINING.estimate(own, HEADER, STORE).buffer_bytes == 0
    by_another = own.model_copy(update={"engine": "torch"})
    assert TRAINING.estimate(by_another, HEADER, TARGET).buffer_bytes == 0


def test_buffers_beyond_memory_are_refused_by_the_plan(tmp_path: Path) -> None:
    lines = "accelerators = 4096\nreader_threads = 1024\nscale = 1000.0\n"
    (tmp_path / "s.toml").write_text(f'{HEAD}[[workload]]\nkind = "training"\n{lines}')
    with pytest.raises(
        PreflightError, match=r"79.2 TB.*: accelerators x reader_threads x"
    ) as error:
        make_plan(load_study(tmp_path / "s.toml"))
    assert error.value.fix.startswith("make accelerators, reader_threads, io_depth or read_size")


def test_equal_files_are_one_data_set() -> None:
    def name(lines: str) -> str:
        return TRAINING.estimate(point(lines), HEADER, TARGET).data_sets[0].name

    same = ["", 'profile = "unet3d-a100"', "accelerators = 3", 'edition = "dlio-3.0"', "epochs = 1"]
    assert len({name(lines) for lines in same}) == 1
    others = ["", "files = 100", "data_seed = 2", 'profile = "unet3d-b200"', "scale = 2.0"]
    assert len({name(lines) for lines in others}) == len(others)


def test_each_data_set_is_made_once() -> None:
    lines = 'profile = ["unet3d-h100", "unet3d-small"]\naccelerators = [1, 2, 3]'
    steps = TRAINING.prepare(points(lines), context())
    made = [step.job for step in steps]
    assert len(made) == 2
    assert all(isinstance(each, TrainingJob) and each.task == "generate" for each in made)
    assert steps[1].text.startswith("making 224 files (8")
    runs = {TRAINING.job(p, context()).place.directory for p in points(lines)}  # type: ignore[attr-defined]
    assert runs == {each.place.directory for each in made if isinstance(each, TrainingJob)}
    assert TRAINING.after(point(), context()) == []


def test_files_are_made_past_the_page_cache_even_for_buffered_reads() -> None:
    (step,) = TRAINING.prepare([point('edition = "dlio-2.0"')], context())
    assert isinstance(step.job, TrainingJob)
    assert step.job.place.direct


def test_a_run_without_a_directory_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="needs a directory or an S3 bucket"):
        TRAINING.job(point(), context(access=Access()))


def test_a_bucket_is_a_place_too() -> None:
    keys = Credentials("AKIDEXAMPLE", "a-secret-key")
    store = S3Store(endpoints=["http://127.0.0.1:9000"], bucket="bucket", credentials=keys)
    access = Access(s3=S3Access(store=store, prefix="in/storlab-abc/"))
    made = TRAINING.job(point(), context(STORE, access))
    assert isinstance(made, TrainingJob)
    assert made.place.directory is None
    name = TRAINING.estimate(point(), HEADER, STORE).data_sets[0].name
    assert made.place.prefix == f"in/storlab-abc/{name}/"
    assert (made.place.retries, made.place.backoff_ns) == (5, 200_000_000)
    assert is_own_key(f"{made.place.prefix}train/img_000_of_168.npz", "in/storlab-abc/")
    assert "a-secret-key" not in made.model_dump_json()
    assert "a-secret-key" in made.secrets().values()
    (step,) = TRAINING.prepare([point()], context(STORE, access))
    assert isinstance(step.job, TrainingJob)
    assert step.job.place == made.place


def test_what_a_bucket_does_not_have_is_refused(tmp_path: Path) -> None:
    reason = refusal(TRAINING.check(point('edition = "dlio-2.0-odirect"').params, STORE))
    assert reason is not None
    assert reason.startswith("edition: ")
    many = OWN.replace("num_samples_per_file = 30", "num_samples_per_file = 3_000_000")
    huge = refusal(TRAINING.check(point(own_profile(tmp_path, many)).params, STORE))
    assert huge is not None
    assert "more than S3 accepts in one request" in huge
    assert refusal(TRAINING.check(point('edition = "dlio-3.0"').params, STORE)) is None


def test_a_loader_is_an_engine() -> None:
    study = parse_study(
        f'{HEAD}[[workload]]\nkind = "training"\nloader = ["native", "pytorch"]\n'
        '[[workload]]\nkind = "training"\nname = "other"\n'
    )
    engines = [[w.engine_of(v) for v in w.values()] for w in study.workload]
    assert engines == [["native", "torch"], [None]]


def test_the_rule_of_mlperf_storage_for_the_size_of_a_data_set() -> None:
    settings = settings_of(TrainingParams.of(point("accelerators = 3").params))
    assert least_samples(settings, 0) == 500 * 7 * 3
    memory = 512 << 30
    assert least_samples(settings, memory) == -(-5 * memory // 146_600_628)


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        ("batch_size = 28", True),  # of 7: four times the demand
        ("batch_size = 7", False),
        ('batch_size = 28\ncomputation_time = "1.3s"', False),
        ('computation_time = "1.3s"', False),
    ],
)
def test_a_batch_of_another_size_needs_its_own_compute_time(lines: str, refused: bool) -> None:
    problems = TRAINING.check(point(f'profile = "unet3d-h100"\n{lines}').params, TARGET)
    assert [problem.field for problem in problems] == [("batch_size",)] * refused


def test_a_profile_whose_demand_is_changed_says_so_wherever_it_is_named() -> None:
    usual = point('profile = "unet3d-h100"').params
    slower = point('profile = "unet3d-h100"\ncomputation_time = "1.3s"').params
    tuned = point('profile = "unet3d-h100"\nreader_threads = 2\nepochs = 1').params
    words = [
        TRAINING_PAGE.parameters.phrase("profile", params) for params in (usual, slower, tuned)
    ]
    assert words[0] == words[2] != words[1]


def test_words_of_the_page() -> None:
    lines = 'profile = "unet3d-small"\nbatch_size = 3\ncomputation_time = "9ms"\naccelerators = 2'
    params = point(lines).params
    usual = {**params, "batch_size": None, "computation_time": None}
    assert (
        TRAINING_PAGE.parameters.phrase("profile", usual)
        == "unet3d-small (not a published profile)"
    )
    assert TRAINING_PAGE.parameters.phrase("accelerators", params) == "2\u00a0accelerators"
    assert TRAINING_PAGE.parameters.phrase("epochs", params) == ""  # as in the profile
    assert TRAINING_PAGE.parameters.titles["batch_size"].endswith("(overrides the profile)")
    assert not TRAINING_PAGE.parameters.is_relevant("scale", params)
    assert TRAINING_PAGE.parameters.is_relevant("scale", {**params, "scale": 0.5})
    gone = {**params, "profile": "absent.toml"}
    assert TRAINING_PAGE.parameters.phrase("profile", gone) == "absent.toml"


@pytest.mark.parametrize(("quick", "steps"), [(False, 500), (True, 8)])
def test_the_shipped_study_has_as_many_steps_as_the_rule_asks(quick: bool, steps: int) -> None:
    text = template_text("micron-6550-ion-unet3d", quick=quick)
    (workload,) = loaded_study(text, Path("study.toml")).study.workload
    (params,) = workload.values()
    settings = settings_of(TrainingParams.of(params))
    assert settings.samples // (settings.batch * settings.accelerators) == steps
