"""A build for a newer processor is rejected with a message before any of it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from conftest import need_program
from storlab import __path__, _native
from storlab.base.errors import ExitCode, PreflightError
from storlab.base.processor import _FLAGS, CPUINFO, _flags, built_for, check_build, lacked_by_cpuid

LIBRARY = Path(str(getattr(PathFinder.find_spec("storlab._native", __path__), "origin", "")))


def test_what_the_library_was_built_for_is_read_from_its_file() -> None:
    assert "sse2" in _native.built_for()
    assert list(built_for(LIBRARY)) == _native.built_for()


def other_build(tmp_path: Path, *features: str) -> Path:
    """Provide the head of an ELF file whose feature note says so, in place of the library."""
    library = tmp_path / LIBRARY.name
    text = ",".join(features).encode()
    names = b"\0.strtab\0.storlab.cpu\0"

    def row(name: int, offset: int, size: int) -> bytes:
        fields = [name.to_bytes(4, "little"), bytes(20), offset.to_bytes(8, "little")]
        return b"".join([*fields, size.to_bytes(8, "little"), bytes(24)])

    table = 64 + len(names) + len(text)
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    head[40:48] = table.to_bytes(8, "little")
    for at, value in ((58, 64), (60, 3), (62, 1)):
        head[at : at + 2] = value.to_bytes(2, "little")
    rows = [row(0, 0, 0), row(1, 64, len(names)), row(9, 64 + len(names), len(text))]
    library.write_bytes(bytes(head) + names + text + b"".join(rows))
    return tmp_path


def older(tmp_path: Path) -> Path:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu sse sse2 pni cx16 avx abm\nbugs\t: x\n")
    return cpuinfo


def test_what_the_processor_lacks_is_named_with_the_way_out(tmp_path: Path) -> None:
    build = other_build(tmp_path, "fxsr", "sse2", "sse3", "lzcnt", "avx", "avx2", "avx512f")
    with pytest.raises(PreflightError, match=r"lacks avx2, avx512f") as refused:
        check_build([str(build)], older(tmp_path))
    assert "TARGET_CPU=x86-64-v2" in refused.value.fix


def test_a_build_that_fits_is_let_through(tmp_path: Path) -> None:
    # Compiler names that the kernel spells differently, and an unknown one.
    build = other_build(tmp_path, "sse2", "sse3", "cmpxchg16b", "lzcnt", "avx", "unheard-of")
    check_build([str(build)], older(tmp_path))
    check_build([str(build)], tmp_path / "absent")
    check_build([str(tmp_path / "absent")])


def test_random_numbers_that_the_kernel_hides_refuse_nobody(tmp_path: Path) -> None:
    build = other_build(tmp_path, "sse2", "avx", "rdrand", "rdseed")
    check_build([str(build)], older(tmp_path))


def test_cpuid_denies_nothing_that_the_kernel_reports() -> None:
    reported = {name for name, flag in _FLAGS.items() if flag in _flags(CPUINFO)}
    assert not reported & lacked_by_cpuid()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="instructions of x86-64")
def test_an_emulated_processor_is_asked_and_not_its_host(tmp_path: Path) -> None:
    """Check that an AVX build under qemu-user ends with exit code 4, not a signal."""
    emulator = str(need_program("qemu-x86_64"))
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("flags\t\t: fpu sse sse2 avx avx2 avx512f\n")
    script = (
        "import sys, pathlib, storlab.base.processor as p\n"
        "from storlab.base.errors import PreflightError\n"
        "try: p.check_build(sys.argv[1:], pathlib.Path(sys.argv.pop()))\n"
        "except PreflightError as error: print(error); sys.exit(error.exit_code)\n"
    )
    build = other_build(tmp_path, "sse2", "avx", "avx512f")
    words = [emulator, "-cpu", "Westmere", sys.executable, "-c", script, str(build), str(cpuinfo)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.PREFLIGHT, done.stderr
    assert "lacks avx, avx512f" in done.stdout


def test_importing_the_library_asks_first(tmp_path: Path) -> None:
    script = (
        "import sys, storlab, storlab.base.processor as p, pathlib\n"
        f"p.CPUINFO = pathlib.Path({str(older(tmp_path))!r})\n"
        f"storlab.__path__[:] = [{str(other_build(tmp_path, 'avx512f'))!r}]\n"
        "from storlab import _native\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert "PreflightError" in done.stderr and "avx512f" in done.stderr, done.stderr
