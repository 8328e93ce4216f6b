"""Training reads from study file to metrics, through the command, on real files.

The files are read with NumPy, with independent parsers of their formats, and with TensorFlow's own
reader if installed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import shutil
import statistics
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.engines.native.engine import NativeEngine
from storlab.model.place import DataPlace
from storlab.model.result import RunOutcome, RunRecord
from storlab.results.store import ResultStore
from storlab.workloads.training.job import Records, TrainingJob

PROFILE = """\
source = "made up for a test"
[dataset]
format = "{format}"
num_files_train = {files}
num_samples_per_file = {samples}
record_length_bytes = {length}
record_length_bytes_stdev = {stdev}
file_prefix = "part"
[reader]
batch_size = 4
read_threads = 2
[train]
epochs = 2
computation_time = "1ms"
"""
SHAPES = {
    "npz": (13, 3, 20_000, 4_000),
    "tfrecord": (7, 5, 9_000, 1_000),
    "jpeg": (24, 1, 30_000, 0),
}
STUDY = """\
[study]
name = "every format"
repeats = 1
interval = "20ms"

[[target]]
name = "buffered"
directory = "one"
direct = false
keep_data = true

[[target]]
name = "other"
directory = "two"
direct = false
keep_data = true

[[workload]]
kind = "training"
name = "own profiles"
profile = ["npz.toml", "tfrecord.toml", "jpeg.toml"]
accelerators = [1, 2]
check = ["bytes", "header", "crc"]
targets = ["buffered"]

[[workload]]
kind = "training"
name = "editions"
profile = "npz.toml"
edition = ["storlab", "dlio-2.0", "dlio-3.0"]

[[workload]]
kind = "training"
name = "computing"
profile = "npz.toml"
epochs = 3
max_steps = 3
computation_time = "50ms"
targets = ["buffered"]

[[workload]]
kind = "training"
name = "not computing"
profile = "npz.toml"
epochs = 3
computation_time = 0
targets = ["buffered"]
"""


class Ran:
    """A campaign's records, and its data directory."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.records = ResultStore.open(place / "results").records()

    def of(self, workload: str) -> list[RunRecord]:
        found = [record for record in self.records if record.workload == workload]
        assert found
        return found

    def files(self, suffix: str, home: str = "one") -> list[Path]:
        found = sorted((self.place / home / "storlab-data").glob(f"*/train/*.{suffix}"))
        assert len(found) == SHAPES[suffix][0]
        return found


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Return the runs of the study, executed once."""
    place = tmp_path_factory.mktemp("training")
    for name in ("one", "two"):
        (place / name).mkdir()
    for kind, (files, samples, length, stdev) in SHAPES.items():
        text = PROFILE.format(format=kind, files=files, samples=samples, length=length, stdev=stdev)
        (place / f"{kind}.toml").write_text(text)
    (place / "study.toml").write_text(STUDY)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        code = main(["run", "study.toml", "--out", "results", "--no-report", "--quiet"])
    assert code == ExitCode.OK
    return Ran(place)


def value(record: RunRecord, name: str, operation: str = "all") -> float:
    found = record.metric(name, operation)
    assert found is not None, name
    return found


def test_every_run_finished_and_read_what_an_epoch_has(ran: Ran) -> None:
    assert len(ran.records) == 3 * 2 * 3 + 3 * 2 + 2
    for record in ran.records:
        assert record.status == "finished", record.failure
        files, samples, _, _ = SHAPES[record.params["profile"].removesuffix(".toml")]
        accelerators = record.params["accelerators"]
        steps = files * samples // accelerators // 4
        steps = min(steps, record.params["max_steps"] or steps)
        epochs = record.params["epochs"] or 2
        assert record.totals["step"].operations == steps * accelerators * epochs
        assert [span.name for span in record.spans] == [f"epoch {n + 1}" for n in range(epochs)]
        assert sum(span.bytes for span in record.spans) == record.totals["read"].bytes
        assert value(record, "span_time_s", "epoch") > 0


def test_metrics_agree_with_the_times_they_come_from(ran: Ran) -> None:
    for record in ran.records:
        window_s = (record.window_end_ns - record.window_start_ns) / 1e9
        moved = record.totals["read"].bytes
        assert value(record, "throughput_mb_s") == pytest.approx(moved / window_s / 1e6)
        epochs = record.details["epochs"]
        seconds = sum(e["end_ns"] - e["start_ns"] for e in epochs) / 1e9
        samples = record.totals["step"].operations * 4
        assert value(record, "samples_s") == pytest.approx(samples / seconds)
        waited = sum(a["wait_ns"] for e in epochs for a in e["accelerators"])
        stall_s = waited / record.params["accelerators"] / 1e9
        assert value(record, "stall_s") == pytest.approx(stall_s)
        step = record.totals["step"].latency
        assert step is not None
        assert value(record, "step_wait_mean_ns") == pytest.approx(step.mean_ns, rel=2e-3)
        assert step.count * step.mean_ns == pytest.approx(waited, rel=2e-3)
        assert value(record, "latency_mean_ns") == value(record, "latency_mean_ns", "read")


def test_utilisation_is_that_of_the_definition(ran: Ran) -> None:
    for record in ran.records:
        shares, whole = [], []
        for epoch in record.details["epochs"]:
            each = epoch["accelerators"]
            shares.append(
                statistics.mean(
                    (a["compute_ns"] - a["first_compute_ns"]) / (a["end_ns"] - a["first_end_ns"])
                    for a in each
                )
            )
            whole.append(
                statistics.mean(a["compute_ns"] / (a["end_ns"] - a["start_ns"]) for a in each)
            )
        assert value(record, "au_percent") == pytest.approx(100 * statistics.mean(shares))
        assert value(record, "au_with_first_percent") == pytest.approx(100 * statistics.mean(whole))
        emulated = [m for m in record.metrics if m.name.startswith("au_") and "thr" not in m.name]
        assert {m.provenance for m in emulated} == {"emulated"}


def test_long_computing_is_kept_busy_and_none_is_not(ran: Ran) -> None:
    (busy,), (idle,) = ran.of("computing"), ran.of("not computing")
    assert value(busy, "au_percent") > 90
    assert value(busy, "accelerators_at_threshold") == 1
    assert value(idle, "au_percent") < 90
    assert value(idle, "accelerators_at_threshold") == 0
    kinds = {flag.kind for flag in idle.flags}
    assert {"au-below-threshold", "emulated-accelerators", "data-set-small", "few-steps"} <= kinds
    assert "au-below-threshold" not in {flag.kind for flag in busy.flags}


def test_reads_that_never_reached_a_device_are_flagged(ran: Ran) -> None:
    """Check the flag for reads from the page cache, which writing the data had filled."""
    for record in ran.records:
        share = record.metric("device_read_ratio")
        flagged = "page-cache" in {flag.kind for flag in record.flags}
        assert flagged == (share is None or share < 0.9)
    again = [r for r in ran.of("own profiles") if r.params["accelerators"] == 2]
    assert any("page-cache" in {flag.kind for flag in r.flags} for r in again)


def test_npz_files_are_what_numpy_expects(ran: Ran) -> None:
    for path in ran.files("npz"):
        with np.load(path) as arrays:
            x, y = arrays["x"], arrays["y"]
        assert x.dtype == np.uint8
        assert x.shape[1:] == (1, 3)
        assert y.shape == (3,)
        assert 0 < x.shape[0] <= 20_000 + 3 * 4_000
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None  # CRC-32 of both arrays
            assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}


def test_tfrecords_are_framed_as_tensorflow_expects(ran: Ran) -> None:
    for path in ran.files("tfrecord"):
        examples = list(tfrecords(path.read_bytes()))
        assert len(examples) == 5
        for example in examples:
            features = dict(example_features(example))
            assert set(features) == {"image", "size"}
            assert 6_000 <= len(features["image"]) <= 12_000
            assert features["size"] == varint_bytes(len(features["image"]))


def test_tensorflow_reads_its_records(ran: Ran) -> None:
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed; an independent parser has read the records")
    script = (
        "import sys, json, tensorflow as tf\n"
        "data = tf.data.TFRecordDataset(sys.argv[1:])\n"
        "spec = {'image': tf.io.FixedLenFeature([], tf.string),"
        " 'size': tf.io.FixedLenFeature([], tf.int64)}\n"
        "examples = [tf.io.parse_single_example(d, spec) for d in data]\n"
        "print(json.dumps([[len(s['image'].numpy()), int(s['size'])] for s in examples]))\n"
    )
    names = [str(path) for path in ran.files("tfrecord")]
    done = subprocess.run(
        [sys.executable, "-c", script, *names], capture_output=True, text=True, check=True
    )
    sizes = json.loads(done.stdout.splitlines()[-1])
    assert len(sizes) == 7 * 5
    assert all(len_ == size for len_, size in sizes)


def test_contents_are_incompressible_and_alike_on_every_target(ran: Ran) -> None:
    first, two = ran.files("npz"), ran.files("npz", "two")
    assert [digest(p) for p in first] == [digest(p) for p in two]
    whole = b"".join(path.read_bytes() for path in first)
    blocks = [whole[at : at + 4096] for at in range(0, len(whole) - 4096, 4096)]
    assert len(set(blocks)) == len(blocks)
    squeezed = io.BytesIO()
    with zipfile.ZipFile(squeezed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("all", whole)
    assert len(squeezed.getvalue()) > 0.95 * len(whole)


def test_jpegs_have_the_nominal_size(ran: Ran) -> None:
    assert {path.stat().st_size for path in ran.files("jpeg")} == {30_000}


def test_a_second_campaign_takes_the_data_that_is_there_and_notices_damage(ran: Ran) -> None:
    path = ran.files("tfrecord")[3]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    text = STUDY.partition("[[workload]]")[0].replace("every format", "again")
    text += (
        '[[workload]]\nkind = "training"\nprofile = "tfrecord.toml"\ncheck = ["crc", "header"]\n'
    )
    (ran.place / "again.toml").write_text(text + 'targets = ["buffered"]\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ran.place)
        code = main(["run", "again.toml", "--out", "again", "--no-report", "--quiet"])
    assert code == ExitCode.RUN_FAILED
    checked, unchecked = ResultStore.open(ran.place / "again").records()
    assert unchecked.status == "finished"
    assert checked.failure is not None
    assert checked.failure.operation == "parse"
    assert path.name in (checked.failure.path or "")
    assert "checksum" in checked.failure.message
    assert checked.metrics == []


def test_a_resumed_campaign_makes_its_data_anew(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "s"\nrepeats = 2\ninterval = "20ms"\n'
        '[[target]]\nname = "t"\ndirectory = "data"\ndirect = false\n'
        '[[workload]]\nkind = "training"\nprofile = "unet3d-small"\nscale = 0.1\nepochs = 1\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        arguments = ["--no-report", "--quiet"]
        assert main(["run", "study.toml", "--out", "results", *arguments]) == ExitCode.OK
        assert list((tmp_path / "data").iterdir()) == []
        records = ResultStore.open(tmp_path / "results").records()
        shutil.rmtree(tmp_path / "results" / "runs" / records[1].run_id)
        assert main(["resume", "results", *arguments]) == ExitCode.OK
    again = ResultStore.open(tmp_path / "results").records()
    assert [r.run_id for r in again] == [r.run_id for r in records]
    assert all(r.status == "finished" for r in again)
    assert list((tmp_path / "data").iterdir()) == []


def test_a_bucket_gives_what_a_directory_gives(tmp_path: Path) -> None:
    for kind, (files, samples, length, stdev) in SHAPES.items():
        text = PROFILE.format(format=kind, files=files, samples=samples, length=length, stdev=stdev)
        (tmp_path / f"{kind}.toml").write_text(text)
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "s"\nrepeats = 1\ninterval = "20ms"\n'
        '[[target]]\nname = "store"\ns3 = "embedded:objects"\n'
        '[[target]]\nname = "files"\ndirectory = "."\ndirect = false\n'
        '[[workload]]\nkind = "training"\naccelerators = 2\ncheck = "crc"\n'
        'profile = ["npz.toml", "tfrecord.toml", "jpeg.toml"]\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        code = main(["run", "study.toml", "--out", "results", "--no-report", "--quiet"])
    assert code == ExitCode.OK
    by_key = {
        (r.target, r.params["profile"]): r for r in ResultStore.open(tmp_path / "results").records()
    }
    for kind in SHAPES:
        store, files_ = by_key["store", f"{kind}.toml"], by_key["files", f"{kind}.toml"]
        assert store.status == files_.status == "finished", store.failure
        assert store.totals["step"].operations == files_.totals["step"].operations
        assert store.totals["read"].operations == files_.totals["read"].operations
        if kind != "tfrecord":  # whole files; for records, direct I/O may read slightly more
            assert store.totals["read"].bytes == files_.totals["read"].bytes
        assert "embedded-server" in {flag.kind for flag in store.flags}
    left = {p.name for p in tmp_path.iterdir()} - {f"{kind}.toml" for kind in SHAPES}
    assert left <= {"study.toml", "results", "objects"}
    assert not any(path.is_file() for path in (tmp_path / "objects").rglob("*"))


def test_making_goes_on_where_it_was(tmp_path: Path) -> None:
    made = generate(tmp_path, files=30)
    assert made.spans[0].bytes > 0
    files = sorted((tmp_path / "train").iterdir())
    assert len(files) == 30
    sums = {path: digest(path) for path in files}
    changed = {path: path.stat().st_mtime_ns for path in files}
    lost = files[7].stat().st_size + files[21].stat().st_size
    files[7].unlink()
    with files[21].open("r+b") as file:
        file.truncate(100)
    assert generate(tmp_path, files=30).spans[0].bytes == lost
    assert {path: digest(path) for path in files} == sums
    kept = [path for path in files if path not in (files[7], files[21])]
    assert all(path.stat().st_mtime_ns == changed[path] for path in kept)


def test_sizes_have_the_profiles_spread_and_come_from_the_seed(tmp_path: Path) -> None:
    sizes = {}
    for seed in (1, 2):
        home = tmp_path / str(seed)
        home.mkdir()
        generate(home, files=400, seed=seed)
        sizes[seed] = [path.stat().st_size for path in sorted((home / "train").iterdir())]
    assert sizes[1] != sizes[2]
    for drawn in sizes.values():
        overhead = 600  # of an NPZ file, at most 768
        error = 600 / 400**0.5
        assert statistics.mean(drawn) == pytest.approx(4000 + overhead, abs=5 * error + 200)
        assert statistics.stdev(drawn) == pytest.approx(600, rel=0.25)


def generate(home: Path, files: int, seed: int = 1) -> RunOutcome:
    job = TrainingJob(
        task="generate",
        place=DataPlace(directory=str(home), direct=False),
        records=Records(
            format="npz", files=files, record_bytes=4000, record_stdev_bytes=600, seed=seed
        ),
    )
    outcome = NativeEngine().start(job, home).wait(60)
    assert outcome is not None
    assert outcome.status == "finished", outcome.failure
    return outcome


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def crc32c(data: bytes) -> int:
    """Compute Castagnoli's CRC, reflected, bit by bit: RFC 3720, B.4."""
    table = [0] * 256
    for number in range(256):
        crc = number
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table[number] = crc
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    """Mask a CRC as in TFRecord: rotate right by 15 bits, add a constant."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def tfrecords(data: bytes) -> Iterator[bytes]:
    """Yield the payloads of a TFRecord file after checking their checksums."""
    at = 0
    while at < len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        assert masked(data[at : at + 8]) == crc
        payload = data[at + 12 : at + 12 + length]
        assert len(payload) == length
        (crc,) = struct.unpack_from("<I", data, at + 12 + length)
        assert masked(payload) == crc
        yield payload
        at += 16 + length


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of a protocol buffer's fields, all length-delimited."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        assert tag & 7 == 2
        length, at = varint(message, at)
        yield tag >> 3, message[at : at + length]
        at += length
    assert at == len(message)


def varint(data: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return number, at


def varint_bytes(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def example_features(example: bytes) -> Iterator[tuple[str, bytes]]:
    """Return key and single value of each feature of a ``tf.train.Example``."""
    ((number, features),) = fields(example)
    assert number == 1
    for number, entry in fields(features):
        assert number == 1
        (key_number, key), (feature_number, feature) = fields(entry)
        assert (key_number, feature_number) == (1, 2)
        ((kind, values),) = fields(feature)
        ((inner, content),) = fields(values)
        assert inner == 1
        assert kind == (1 if key == b"image" else 3)  # bytes_list, int64_list (packed)
        yield key.decode(), content
