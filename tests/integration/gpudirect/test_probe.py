"""doctor has an answer even if the probe's child prints, crashes or hangs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from storlab.workloads.gpudirect.machine.doctor import Machine, examine_machine
from storlab.workloads.gpudirect.machine.probe import Libraries, Probe, ask, probe
from support.cufile_client import load_cufile
from support.gpu_simulators import Word, faults, simulators
from support.pci_trees import OPEN_DRIVER, PciTree

GIB = 1 << 30
ENDS_S = 60.0  # never reached


def _asked(program: str, limit_s: float = ENDS_S) -> Probe:
    return ask([sys.executable, "-c", program], '{"do": "probe"}', limit_s)


@pytest.mark.parametrize(
    "holds",
    [
        "json.loads(sys.argv[1])['do'] == 'probe'",
        "os.getsid(0) == os.getpid()",  # not reached by the terminal's interrupt
    ],
)
def test_the_order_goes_in_and_the_answer_comes_out(holds: str) -> None:
    answer = {"details": {"libraries": {"cuda": {"version": "13.0"}}}, "failure": None}
    told = _asked(
        f"import json, os, sys; print('noise'); assert {holds}\n"
        f"open(sys.argv[2], 'w').write({json.dumps(answer)!r})"
    )
    assert (told.trouble, told.cuda and told.cuda.version) == (None, "13.0")


def test_a_child_that_spins_is_ended(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    program = f"import os; open({str(mark)!r}, 'w').write(str(os.getpid()))\nwhile True: pass"
    told = _asked(program, limit_s=3.0)
    assert told.trouble is not None
    assert "no answer within 3 s" in told.trouble.what
    assert "/proc/modules" in told.trouble.fix
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_a_child_that_crashes_says_its_last_words() -> None:
    program = "import os, sys; print('missing cuda symbols', flush=True); os.abort()"
    told = _asked(program)
    assert told.trouble is not None
    assert told.trouble.what == "the probe ended with -6: missing cuda symbols"


def test_a_failure_of_the_engine_is_told() -> None:
    answer = {"failure": {"message": "no such job", "fix": "rebuild it"}}
    told = _asked(f"import sys; open(sys.argv[2], 'w').write({json.dumps(answer)!r})")
    assert told.trouble is not None
    assert (told.trouble.what, told.trouble.fix) == ("no such job", "rebuild it")


def _probed(
    patch: pytest.MonkeyPatch, cufile: dict[str, Word] | None = None, **cuda: Word
) -> Probe:
    for name, value in faults(cufile, cuda).items():
        patch.setenv(name, value)
    built = simulators()
    return probe(Libraries(cuda=(str(built.cuda),), cufile=(str(built.cufile),)))


def test_gpus_and_libraries_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = _probed(monkeypatch, {"max_batch": 64}, gpus=2, memory="4G", used="1G")
    assert (told.trouble, told.cuda_trouble, told.cufile_trouble) == (None, None, None)
    assert [(gpu.number, gpu.memory_bytes, gpu.free_bytes) for gpu in told.gpus] == [
        (0, 4 * GIB, 3 * GIB),
        (1, 4 * GIB, 3 * GIB),
    ]
    assert [gpu.pci for gpu in told.gpus] == ["0000:41:00.0", "0000:51:00.0"]
    assert told.cufile is not None
    assert told.direct is not None
    assert (told.cufile.version, told.cufile.max_batch) == ("1.20", 64)
    assert told.cufile.compat_allowed is True
    assert (told.cufile.p2pdma, told.direct.nvme) == (True, ("p2pdma",))


@pytest.mark.parametrize(
    ("cufile", "path"),
    [
        ({}, "direct, by the kernel's P2PDMA, for local NVMe drives"),
        ({"route": "nvfs"}, "direct, by nvidia-fs, for local NVMe drives"),
        ({"compat": 1}, "not direct for local drives"),
    ],
)
def test_doctor_believes_what_the_library_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cufile: dict[str, Word], path: str
) -> None:
    """Check doctor if the library supports P2PDMA and only a setting is against it."""
    tree = PciTree(tmp_path)
    tree.text("proc/driver/nvidia/version", OPEN_DRIVER)
    tree.text("proc/sys/kernel/osrelease", "6.8.0-60")
    probed = _probed(monkeypatch, cufile)
    machine = Machine(tmp_path, {}, lambda _: probed, is_root=True, processor="x86_64")
    rows = {row.name: row for row in examine_machine(Libraries((), ()), machine)}
    assert rows["GPU path"].what.startswith(path)


def test_a_machine_without_a_gpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = _probed(monkeypatch, no_device=1)
    assert told.trouble is None
    assert told.cuda_trouble is not None
    assert "CUDA_ERROR_NO_DEVICE" in told.cuda_trouble.what
    assert told.cuda_trouble.fix


def test_a_driver_that_does_not_open_is_told_by_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    told = _probed(monkeypatch, {"error": "DriverOpen:5001"})
    assert told.cuda_trouble is None
    assert told.cufile_trouble is not None
    assert "5001" in told.cufile_trouble.what
    assert told.cufile_trouble.fix


def test_libraries_that_are_not_there_are_told() -> None:
    told = probe(Libraries(cuda=("/nowhere/libcuda.so.1",), cufile=("/nowhere/libcufile.so.0",)))
    assert told.trouble is None
    assert told.cuda_trouble is not None
    assert told.cufile_trouble is not None
    assert "/nowhere/libcufile.so.0" in told.cufile_trouble.what


def test_the_stand_in_tells_the_version_that_it_was_ordered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import ctypes

    for name, value in faults({"version": 1150}).items():
        monkeypatch.setenv(name, value)
    version = ctypes.c_int()
    load_cufile(simulators().cufile).cuFileGetVersion(ctypes.byref(version))
    assert version.value == 1150
