"""Machines with something missing, forbidden or full: reported, or the campaign continues."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import need_program, need_root
from storlab.base.clock import monotonic_ns, wall_at_ns
from storlab.base.errors import ExitCode
from storlab.base.units import NS_PER_S
from storlab.cli.main import main
from storlab.results.store import ResultStore
from support.mounts import loop_device, make_image, mounted, sh

STUDY = """\
[study]
name = "t"
repeats = 1
ramp = 0
runtime = "200ms"
interval = "100ms"
[[target]]
name = "n"
{place}
[[workload]]
kind = "block"
{work}
"""


def _study(folder: Path, place: str, work: str) -> Path:
    path = folder / "study.toml"
    path.write_text(STUDY.format(place=place, work=work))
    return path


def _refusals(study: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    capsys.readouterr()
    assert main(["plan", str(study), "--json"]) == ExitCode.STUDY
    problems: list[dict[str, str]] = json.loads(capsys.readouterr().out)["error"]["problems"]
    return problems


@pytest.mark.parametrize("place", ["device", "file", "directory"])
def test_blocks_smaller_than_the_sectors_below_are_refused_by_the_plan(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_root("mkfs.ext4")
    image = make_image(tmp_path / "image", 64 << 20)
    work = "read_percent = 100\nblock_size = {}"
    with (
        loop_device(image, "--sector-size", "4096") as device,
        mounted(tmp_path / "mount", device) as mount,
    ):
        written = {
            "device": f'path = "{device}"',
            "file": f'path = "{mount}/data"\nsize = "8MiB"',
            "directory": f'directory = "{mount}"\nsize = "8MiB"',
        }[place]
        for size in ("512", '"6KiB"', '["4KiB", "512B"]'):
            problems = _refusals(_study(tmp_path, written, work.format(size)), capsys)
            assert all("block_size" in problem["where"] for problem in problems)
        assert main(["plan", str(_study(tmp_path, written, work.format('"8KiB"')))]) == 0
        buffered = _study(tmp_path, f"{written}\ndirect = false", work.format(512))
        assert main(["plan", str(buffered)]) == 0
    with loop_device(image) as device:
        assert main(["plan", str(_study(tmp_path, f'path = "{device}"', work.format(512)))]) == 0


def test_a_file_system_that_fills_in_the_window_fails_the_run_and_names_the_cause(
    tmp_path: Path,
) -> None:
    """Check the error if writing a sparse file's holes fills the disk."""
    need_root("mkfs.ext4")
    image = make_image(tmp_path / "image", 64 << 20)
    with loop_device(image) as device, mounted(tmp_path / "mount", device) as mount:
        study = _study(tmp_path, f'path = "{mount}/data"\nsize = "16MiB"', "read_percent = 0")
        text = study.read_text().replace('runtime = "200ms"', 'runtime = "3s"')
        study.write_text(text)
        out = tmp_path / "out"
        filler = (
            "import os, sys, time\n"
            "data = sys.argv[1] + '/data'\n"
            "while not (os.path.exists(data + '.storlab.json') and"
            " '\"complete\"' in open(data + '.storlab.json').read()): time.sleep(0.01)\n"
            "time.sleep(0.3)\n"
            "file = os.open(data, os.O_RDWR)\n"
            "import ctypes\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "args = [ctypes.c_int64(n) for n in (0, 16 << 20)]\n"
            "libc.fallocate(file, 3, *args)\n"  # KEEP_SIZE | PUNCH_HOLE
            "other = os.open(sys.argv[1] + '/other', os.O_RDWR | os.O_CREAT)\n"
            "try:\n"
            "    while True: os.write(other, bytes(1 << 16))\n"
            "except OSError: pass\n"
        )
        fill = subprocess.Popen([sys.executable, "-c", filler, str(mount)])
        try:
            code = main(["run", str(study), "--out", str(out), "--no-report", "--quiet"])
        finally:
            fill.kill()
            fill.wait()
        record = ResultStore.open(out).records()[0]
        assert code == ExitCode.RUN_FAILED
        assert record.status == "failed"
        assert record.failure is not None
        assert record.failure.errno_name == "ENOSPC"
    assert not list((out / "runs").glob(".new-*"))


def _in_process(
    *words: str | Path, before: str = "", prefix: tuple[str, ...] = ()
) -> tuple[int, str]:
    program = (
        f"{before}\nimport sys\nfrom storlab.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    command = [*prefix, sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


CLOCK = """\
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
  static long first;
  int outcome = syscall(SYS_clock_gettime, clock, now);
  struct timespec elapsed;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &elapsed);
  if (!first) first = elapsed.tv_sec;
  if (clock == CLOCK_REALTIME && elapsed.tv_sec - first >= 2) now->tv_sec += atol(getenv("STEP"));
  return outcome;
}
"""


@pytest.mark.parametrize("step_s", [-86_400, 86_400])
def test_a_step_of_the_wall_clock_changes_labels_alone(step_s: int, tmp_path: Path) -> None:
    """Check that a wall clock step during the campaign changes only labels."""
    compiler = need_program("cc")
    (tmp_path / "clock.c").write_text(CLOCK)
    sh(compiler, "-shared", "-fPIC", "-o", tmp_path / "clock.so", tmp_path / "clock.c")
    study = _study(tmp_path, 'path = "null:"', "rate_iops = 1000")
    text = study.read_text().replace('"200ms"', '"1500ms"').replace("repeats = 1", "repeats = 3")
    study.write_text(text)
    out = tmp_path / "out"
    prefix = ("env", f"LD_PRELOAD={tmp_path}/clock.so", f"STEP={step_s}")
    code, told = _in_process("run", study, "--out", out, "--quiet", "--no-report", prefix=prefix)
    assert code == 0, told
    records = ResultStore.open(out).records()
    walls = [record.wall_at_start_ns or 0 for record in records]
    assert abs(walls[-1] - wall_at_ns(monotonic_ns())) > 3600 * NS_PER_S  # the clock has stepped
    assert [record.status for record in records] == ["finished"] * 3
    assert {record.window_end_ns - record.window_start_ns for record in records} == {1_500_000_000}


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
def test_without_io_uring_threads_do_the_work_and_the_run_says_so(
    error: int, tmp_path: Path
) -> None:
    study = _study(tmp_path, f'path = "{tmp_path}/data"\nsize = "4MiB"', "read_percent = 50")
    out = tmp_path / "out"
    before = f"from support.system_calls import refuse; refuse(425, {error})()"
    prefix = ("env", f"PYTHONPATH={Path(__file__).parents[2]}")
    code, told = _in_process(
        "run", study, "--out", out, "--quiet", "--no-report", before=before, prefix=prefix
    )
    assert code == 0, told
    record = ResultStore.open(out).records()[0]
    assert record.engine.backend == "posix"
    assert "posix-fallback" in {flag.kind for flag in record.flags}


def test_a_user_without_privileges_is_told_what_is_closed_to_them(tmp_path: Path) -> None:
    need_root("setpriv")
    ids = ("--reuid", "65534", "--regid", "65534", "--clear-groups")
    user = ("setpriv", *ids, "--inh-caps=-all", "--bounding-set=-all", "env", f"HOME={tmp_path}")
    tried = [*user, sys.executable, "-c", "import storlab.cli.main"]
    done = subprocess.run(tried, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this Python or storlab lies where other users may not read")
    place = tmp_path / "place"
    place.mkdir()
    for folder in (place, *tmp_path.parents):
        folder.chmod(folder.stat().st_mode | 0o005)
    place.chmod(0o777)
    (tmp_path / "closed").mkdir(mode=0o700)
    study = _study(place, f'path = "{place}/data"\nsize = "4MiB"', "read_percent = 50")
    code, told = _in_process("run", study, "--out", place / "out", "--quiet", prefix=user)
    assert code == 0, told
    closed = _study(place, f'path = "{tmp_path}/closed/data"\nsize = "4MiB"', "jobs = 1")
    for verb in ("plan", "doctor", "run"):
        code, told = _in_process(verb, closed, prefix=user)
        assert (code, "#1 path" in told) == (ExitCode.STUDY, True), told
    code, told = _in_process("status", tmp_path / "closed" / "r", prefix=user)
    assert (code, f"{tmp_path}/closed/r" in told) == (ExitCode.RESULT, True), told


def test_files_that_may_not_be_read_end_with_the_code_of_their_kind_and_a_fix(
    tmp_path: Path,
) -> None:
    need_root("setpriv")
    user = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")  # root may read everything
    study, out = _study(tmp_path, 'path = "null:"', "jobs = 1"), tmp_path / "out"
    assert main(["run", str(study), "--out", str(out), "--quiet", "--no-report"]) == 0

    def refused(code: ExitCode, path: Path, *words: object) -> None:
        given, told = _in_process(*words, prefix=user)
        assert (given, str(path) in told, "fix: " in told) == (code, True, True), (words, told)

    study.chmod(0)
    for verb in ("plan", "doctor", "run", "capacity", "crosscheck"):
        refused(ExitCode.STUDY, study, verb, study)
    for part, verbs in {
        out / "plan.json": ("status", "report"),
        out / "runs": ("status", "compare", "export", "resume"),
        out: ("status", "compare", "report", "export", "gate", "verify", "clean", "resume"),
    }.items():
        mode = part.stat().st_mode
        part.chmod(0)
        for verb in verbs:
            refused(ExitCode.RESULT, out, verb, out)
        refused(ExitCode.RESULT, out, "history", out, "--out", tmp_path / "site")
        part.chmod(mode)


def test_a_umask_of_077_changes_nothing_but_modes(tmp_path: Path) -> None:
    study = _study(tmp_path, f'path = "{tmp_path}/data"\nsize = "4MiB"', "read_percent = 50")
    out = tmp_path / "out"
    code, told = _in_process(
        "run", study, "--out", out, "--quiet", before="import os; os.umask(0o077)"
    )
    assert code == 0, told
    assert main(["compare", str(out)]) == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in out.rglob("*"))


def test_a_result_directory_that_is_read_only_can_be_read_and_says_why_not_more(
    tmp_path: Path,
) -> None:
    need_root()
    study = _study(tmp_path, 'path = "null:"', "jobs = 1")
    out = tmp_path / "out"
    assert main(["run", str(study), "--out", str(out), "--quiet", "--no-report"]) == 0
    with mounted(out, "--bind", out):
        sh("mount", "-o", "remount,ro,bind", out)
        for verb in ("status", "compare"):
            code, told = _in_process(verb, out)
            assert code == 0, told
        code, told = _in_process("report", out)
        assert (code, str(out) in told) == (ExitCode.RESULT, True)
        code, told = _in_process("report", out, "--out", tmp_path / "brief.html", "--no-pdf")
        assert code == 0, told
        code, told = _in_process("resume", out)
        assert (code, str(out) in told) == (ExitCode.RESULT, True)
