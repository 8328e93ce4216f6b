"""Runs not served by the medium are flagged or fail; runs served by a drive are not.

The devices are loop devices with direct I/O over a file fully written with direct I/O; each fault
removes one of these properties.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from conftest import need_fio, need_root
from storlab.analysis.compare import compare
from storlab.analysis.dataset import load_dataset
from storlab.base.errors import ExitCode
from storlab.brief.fact_tables import target_card
from storlab.cli.main import main
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore
from support.mounts import loop_device, mounted, sh

pytestmark = pytest.mark.root

MIB = 1 << 20
SIZE = 32 * MIB
STUDY = """\
[study]
name = "proof"
repeats = 1
ramp = "50ms"
runtime = "{runtime}"
interval = "100ms"
engine = "{engine}"
[[target]]
name = "t"
{place}
[[workload]]
kind = "block"
block_size = "64KiB"
queue_depth = 1
{work}
"""
MARKS = {"page-cache", "device-bytes", "never-written", "medium-unproven"}
READS, WRITES = "read_percent = 100", "read_percent = 0"
# Counters cover the window to its ends; a rate any disk sustains leaves no burst there.
STEADY = "rate_iops = 50"


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    """Return a directory on a disk: memory has no device below it."""
    return disk_path


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    need_root("losetup", "mkfs.ext4")
    with ExitStack() as entered:
        yield entered


def written(path: Path, size: int = SIZE) -> Path:
    with path.open("wb") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(MIB))
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


@contextmanager
def direct_loop(image: Path) -> Iterator[Path]:
    with loop_device(image, "--direct-io=on") as device:
        if Path(f"/sys/block/{device.name}/loop/dio").read_text().strip() != "1":
            pytest.skip(f"no direct I/O from a loop device to {image}")
        yield device


@contextmanager
def file_system(image: Path, where: Path) -> Iterator[Path]:
    with direct_loop(image) as device:
        sh("mkfs.ext4", "-q", "-b", "4096", "-m", "0", "-E", "nodiscard", device)
        with mounted(where, device) as mount:
            yield mount


def write_study(
    folder: Path, place: str, work: str, *, engine: str = "native", runtime: str = "1s"
) -> Path:
    path = folder / "study.toml"
    path.write_text(STUDY.format(place=place, work=work, engine=engine, runtime=runtime))
    return path


def run(
    folder: Path, place: str, work: str, *, engine: str = "native", runtime: str = "1s"
) -> RunRecord:
    study = write_study(folder, place, work, engine=engine, runtime=runtime)
    out = folder / "out"
    main(["run", str(study), "--out", str(out), "--no-report", "--quiet"])
    (record,) = ResultStore.open(out).records()
    return record


def marks(record: RunRecord) -> set[str]:
    assert record.status == "finished", record.failure
    return {flag.kind for flag in record.flags} & MARKS


def state(record: RunRecord) -> str | None:
    return None if record.proof is None else record.proof.state


@pytest.mark.parametrize("engine", ["native", pytest.param("fio", marks=pytest.mark.fio)])
@pytest.mark.parametrize("place", ["device", "file", "laid out"])
def test_a_written_device_with_direct_io_is_proven_and_unmarked(
    place: str, engine: str, tmp_path: Path, stack: ExitStack
) -> None:
    if engine == "fio":
        need_fio()
    image = written(tmp_path / "image", 2 * SIZE)
    if place == "device":
        path = stack.enter_context(direct_loop(image))
    else:
        path = stack.enter_context(file_system(image, tmp_path / "mount")) / "data"
    if place == "file":
        written(path)
    size = 'size = "16MiB"' if place == "laid out" else ""
    place = f'path = "{path}"\n{size}'
    record = run(tmp_path, place, f"{READS}\n{STEADY}", engine=engine, runtime="2s")
    assert (marks(record), state(record)) == (set(), "proven"), record


def test_writes_with_direct_io_are_proven_and_unmarked(tmp_path: Path, stack: ExitStack) -> None:
    image = written(tmp_path / "image", 2 * SIZE)
    path = stack.enter_context(file_system(image, tmp_path / "mount")) / "data"
    place = f'path = "{path}"\nsize = "16MiB"'
    record = run(tmp_path, place, f"read_percent = 50\n{STEADY}", runtime="2s")
    assert (marks(record), state(record)) == (set(), "proven"), record


FAMILIES = {
    "training": """profile = "unet3d-small"
accelerators = 1""",
    "checkpoint": """profile = "llama3-405b-8gpu-415gb"
scale = 0.0001
writes = 1
restores = 1""",
    "preprocess": """rows = 100_000
workers = 1
part_size = "4MiB"
memory = "1GiB\"""",
}


def run_in(folder: Path, directory: Path, kind: str) -> RunRecord:
    """Run a workload of a family other than block on a directory."""
    header = STUDY.partition("[[workload]]")[0].replace('runtime = "{runtime}"\n', "")
    text = header.format(place=f'directory = "{directory}"', engine="native")
    study, out = folder / f"{kind}.toml", folder / "out"
    study.write_text(f'{text}[[workload]]\nkind = "{kind}"\n{FAMILIES[kind]}\n')
    main(["run", str(study), "--out", str(out), "--no-report", "--quiet"])
    (record,) = ResultStore.open(out).records()
    return record


@pytest.mark.parametrize("kind", FAMILIES)
def test_families_that_read_files_are_proven_on_a_written_device(
    kind: str, tmp_path: Path, stack: ExitStack
) -> None:
    image = written(tmp_path / "image", 12 * SIZE)
    mount = stack.enter_context(file_system(image, tmp_path / "mount"))
    record = run_in(tmp_path, mount, kind)
    assert (marks(record), state(record)) == (set(), "proven"), record.proof


@pytest.mark.parametrize("kind", FAMILIES)
def test_families_that_read_files_are_marked_in_memory(
    kind: str, tmp_path: Path, stack: ExitStack
) -> None:
    mount = stack.enter_context(mounted(tmp_path / "memory", "-t", "tmpfs", "none"))
    record = run_in(tmp_path, mount, kind)
    assert ("page-cache" in marks(record), state(record)) == (True, "contradicted"), record.proof


@pytest.mark.parametrize("kind", FAMILIES)
def test_families_that_read_files_are_marked_on_a_loop_device_over_the_page_cache(
    kind: str, tmp_path: Path, stack: ExitStack
) -> None:
    image = written(tmp_path / "image", 12 * SIZE)
    device = stack.enter_context(loop_device(image))
    sh("mkfs.ext4", "-q", "-E", "nodiscard", device)
    mount = stack.enter_context(mounted(tmp_path / "mount", device))
    record = run_in(tmp_path, mount, kind)
    assert (marks(record), state(record)) == ({"page-cache"}, "unproven"), record.proof


def test_a_loop_device_over_the_page_cache_is_marked(tmp_path: Path, stack: ExitStack) -> None:
    path = stack.enter_context(loop_device(written(tmp_path / "image")))
    record = run(tmp_path, f'path = "{path}"', READS)
    assert (marks(record), state(record)) == ({"page-cache"}, "unproven")


def test_a_device_that_was_never_written_is_marked(tmp_path: Path, stack: ExitStack) -> None:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(SIZE)
    path = stack.enter_context(direct_loop(image))
    record = run(tmp_path, f'path = "{path}"', READS)
    assert (marks(record), state(record)) == ({"never-written"}, "unproven")


@pytest.mark.parametrize("kind", ["hole", "unwritten extents"])
def test_the_share_of_a_users_file_that_was_never_written_is_marked(
    kind: str, tmp_path: Path, stack: ExitStack
) -> None:
    mount = stack.enter_context(file_system(written(tmp_path / "i", 2 * SIZE), tmp_path / "mount"))
    path = written(mount / "data", 10 * MIB)
    with path.open("rb+") as file:
        if kind == "hole":
            file.truncate(16 * MIB)
        else:
            os.posix_fallocate(file.fileno(), 0, 16 * MIB)
        os.fsync(file.fileno())
    record = run(tmp_path, f'path = "{path}"', READS)
    assert "never-written" in marks(record)
    assert state(record) == "contradicted"
    assert "37.5 %" in " ".join(flag.message for flag in record.flags)


def test_a_hole_that_was_punched_into_laid_out_data_is_marked(
    tmp_path: Path, stack: ExitStack
) -> None:
    image = written(tmp_path / "image", 2 * SIZE)
    path = stack.enter_context(file_system(image, tmp_path / "mount")) / "data"
    place = f'path = "{path}"\nsize = "16MiB"\nkeep_data = true'
    states = []
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        record = run(tmp_path / name, place, f"{READS}\n{STEADY}")
        states.append(("never-written" in marks(record), state(record)))
        sh("fallocate", "--punch-hole", "--offset", "1MiB", "--length", "5MiB", path)
    assert states == [(False, "proven"), (True, "contradicted")]


def test_files_in_memory_are_marked_with_direct_io_too(tmp_path: Path, stack: ExitStack) -> None:
    place = stack.enter_context(mounted(tmp_path / "memory", "-t", "tmpfs", "none"))
    record = run(tmp_path, f'path = "{place}/data"\nsize = "8MiB"', READS)
    if record.failure is not None:
        pytest.skip("this kernel's tmpfs takes no O_DIRECT")
    assert (marks(record), state(record)) == ({"page-cache"}, "contradicted")
    comparison = compare(load_dataset([ResultStore.open(tmp_path / "out")]))
    (column,) = comparison.dataset.targets
    card = {name: value for name, value, _ in target_card(comparison, 0, column).facts}
    assert card["Access"].startswith("in memory")


@pytest.mark.parametrize("upper", ["disk", "memory", "out of sight"])
def test_the_root_of_a_container_is_judged_by_the_device_of_its_layer(
    upper: str, tmp_path: Path, stack: ExitStack
) -> None:
    disk = stack.enter_context(file_system(written(tmp_path / "i", 2 * SIZE), tmp_path / "disk"))
    (disk / "lower").mkdir()
    place = disk
    if upper == "memory":
        place = stack.enter_context(mounted(tmp_path / "memory", "-t", "tmpfs", "none"))
    for name in ("u", "w"):
        (place / name).mkdir()
    layers = f"lowerdir={disk}/lower,upperdir={place}/u,workdir={place}/w"
    root = stack.enter_context(mounted(tmp_path / "root", "-t", "overlay", "-o", layers, "overlay"))
    if upper == "out of sight":
        stack.enter_context(mounted(disk, "-t", "tmpfs", "none"))
    direct = str(upper != "memory").lower()
    study = f'path = "{root}/data"\nsize = "8MiB"\ndirect = {direct}'
    record = run(tmp_path, study, f"{READS}\n{STEADY}", runtime="2s")
    expected = {
        "disk": (set(), "proven"),
        "memory": ({"page-cache"}, "contradicted"),
        "out of sight": ({"medium-unproven"}, "unproven"),
    }
    assert (marks(record), state(record)) == expected[upper]


def test_the_account_of_the_load_holds_no_io_of_other_programs(
    tmp_path: Path, stack: ExitStack
) -> None:
    mount = stack.enter_context(file_system(written(tmp_path / "i", 2 * SIZE), tmp_path / "mount"))
    other = written(mount / "other", 8 * MIB)
    path = mount / "data"
    spoil = (
        "import mmap, os, sys, time\n"
        "path, other = sys.argv[1:]\n"
        "card = path + '.storlab.json'\n"
        "while not (os.path.exists(card) and '\"complete\"' in open(card).read()):\n"
        "    time.sleep(0.005)\n"
        "buffer = mmap.mmap(-1, 1 << 20)\n"
        "handle = os.open(other, os.O_RDONLY | os.O_DIRECT)\n"
        "while True:\n"
        "    os.preadv(handle, [buffer], 0)\n"
    )
    helper = subprocess.Popen([sys.executable, "-c", spoil, str(path), str(other)])
    try:
        study = f'path = "{path}"\nsize = "8MiB"'
        record = run(tmp_path, study, f"{READS}\n{STEADY}", runtime="2s")
    finally:
        helper.kill()
        helper.wait()
    assert state(record) == "proven"
    process, device = record.details["process"], record.details["device"]
    assert device["read_bytes"] > 2 * record.totals["read"].bytes
    assert process["read_bytes"] < 1.5 * record.totals["read"].bytes


def test_a_window_too_short_for_the_counters_gives_no_verdict(
    tmp_path: Path, stack: ExitStack
) -> None:
    mount = stack.enter_context(file_system(written(tmp_path / "i", 2 * SIZE), tmp_path / "mount"))
    place = f'path = "{mount}/data"\nsize = "8MiB"'
    record = run(tmp_path, place, f'{READS}\ntotal_bytes = "1MiB"')
    assert (marks(record), state(record)) == ({"medium-unproven"}, "unproven")


SPOIL = """\
import os, sys, time
from pathlib import Path
path, what, work = sys.argv[1:]
number = os.stat(os.path.dirname(path)).st_dev
counter = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
def operations():
    fields = counter.read_text().split()
    return int(fields[0]) + int(fields[4])
while not list(Path(work).glob("*-r1")):
    time.sleep(0.005)
before = operations()
while operations() < before + 200:  # the load is under way
    time.sleep(0.005)
if what == "replaced":
    open(path + ".new", "wb").write(open(path, "rb").read())
    os.rename(path + ".new", path)
elif what == "removed":
    os.unlink(path)
elif what == "truncated":
    os.truncate(path, 4096)
elif what == "truncated and extended":
    size = os.stat(path).st_size
    os.truncate(path, 4096)
    os.truncate(path, size)
elif what == "overwritten":
    with open(path, "rb+") as file:
        file.write(b"x" * 4096)
"""


@pytest.mark.parametrize(
    ("what", "work", "changed"),
    [
        ("replaced", READS, "replaced"),
        ("replaced", WRITES, "replaced"),
        ("removed", READS, "removed"),
        ("truncated", READS, "resized"),
        ("truncated and extended", READS, "freed"),
        ("overwritten", READS, "written"),
    ],
)
def test_a_data_file_that_another_program_changes_fails_the_run(
    what: str, work: str, changed: str, tmp_path: Path, stack: ExitStack
) -> None:
    mount = stack.enter_context(file_system(written(tmp_path / "i", 2 * SIZE), tmp_path / "mount"))
    path = mount / "data"
    helper = subprocess.Popen(
        [sys.executable, "-c", SPOIL, str(path), what, str(tmp_path / "out" / "work")]
    )
    try:
        place = f'path = "{path}"\nsize = "8MiB"'
        record = run(tmp_path, place, work, runtime="3s")
    finally:
        helper.kill()
        helper.wait()
    assert record.status == "failed"
    assert record.failure is not None
    assert (record.failure.changed, record.failure.path) == (changed, str(path))


def test_buffered_writes_whose_writeback_fails_fail_the_run(
    tmp_path: Path, stack: ExitStack
) -> None:
    memory = stack.enter_context(mounted(tmp_path / "m", "-t", "tmpfs", "-o", "size=16m", "none"))
    image = memory / "image"
    with image.open("wb") as file:
        file.truncate(64 * MIB)
    device = stack.enter_context(loop_device(image))
    place = f'path = "{device}"\ndirect = false\nserial = "{image}"'
    study = write_study(tmp_path, place, f"{WRITES}\njobs = 2")
    out = tmp_path / "out"
    code = main(["run", str(study), "--out", str(out), "--no-report", "--quiet"])
    (record,) = ResultStore.open(out).records()
    assert code == ExitCode.RUN_FAILED
    assert record.status == "failed"
    assert record.failure is not None
    assert record.failure.errno_name in ("EIO", "ENOSPC")
