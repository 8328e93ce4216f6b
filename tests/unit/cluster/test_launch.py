"""The launcher, with fake mpiexec programs that misbehave like real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from storlab.base.clock import monotonic_ns, sleep_s
from storlab.base.errors import EngineError
from storlab.cluster.launch import KEPT_BYTES, MpiJob, start
from storlab.cluster.mpiexec import Launcher, Ranks, Vendor
from storlab.process.session_cpu import account


def job(
    tmp_path: Path, script: str, order: bytes = b"", vendor: Vendor = "mpich", clients: int = 2
) -> MpiJob:
    """Start a fake mpiexec written in Python, with mpiexec's arguments."""
    program = tmp_path / "mpiexec"
    program.write_text(f"#!{sys.executable}\n{script}")
    program.chmod(0o755)
    return start(Launcher(program, vendor, "5.0"), Ranks(["localhost"], clients), ["rank"], order)


def wait_for(done: object) -> None:
    assert callable(done)
    deadline_ns = monotonic_ns() + 60_000_000_000
    while not done():
        assert monotonic_ns() < deadline_ns
        sleep_s(0.01)


def test_the_order_comes_by_standard_input_and_nowhere_else(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "order = sys.stdin.buffer.read()\n"
        "held = [open(f'/proc/self/{name}', 'rb').read() for name in ('cmdline', 'environ')]\n"
        "print(len(order), order[20:30], any(b'top-secret' in text for text in held))\n"
        "print(os.readlink('/proc/self/fd/0'))\n"
    )
    running = job(tmp_path, script, b"top-secret" * 1_000_000)
    assert running.wait(60) == 0
    running.end(5)
    assert running.printed.splitlines()[0] == "10000020 b'top-secret' False"
    assert "memfd:" in running.printed
    assert not [p for p in tmp_path.iterdir() if p.name != "mpiexec"]


def test_srun_reads_the_node_of_each_rank_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_JOB_NODELIST", "SLURM_JOB_ID", "SLURMD_NODENAME"):
        monkeypatch.setenv(name, "n1")
    script = "import os; print(open(os.environ['SLURM_HOSTFILE']).read().split())"
    running = job(tmp_path, script, vendor="slurm")
    assert running.wait(60) == 0
    running.end(5)
    nodes = running.printed.strip()
    assert nodes.count("'") == 6


def test_the_last_of_what_is_printed_is_kept(tmp_path: Path) -> None:
    script = (
        "import sys\nsys.stdout.write('first' + 'x' * 300_000)\nsys.stdout.flush()\n"
        "sys.stderr.write('the end')\n"
    )
    running = job(tmp_path, script)
    assert running.wait(60) == 0
    running.end(5)
    assert len(running.printed) == KEPT_BYTES
    assert running.printed.endswith("xxxthe end")


def test_it_runs_in_a_session_of_its_own_and_tells_its_end(tmp_path: Path) -> None:
    running = job(tmp_path, "import sys; sys.stdin.read(); sys.exit(7)")
    assert running.size == 3
    assert running.wait(60) == 7
    assert running.poll() == 7


def test_one_that_ignores_sigterm_is_killed_with_its_ranks_within_the_grace(
    tmp_path: Path,
) -> None:
    script = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "rank = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "print(rank.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    running = job(tmp_path, script)
    wait_for(lambda: running.printed.endswith("\n"))
    rank = int(running.printed)
    assert running.poll() is None
    assert running.end(1.0) == -signal.SIGKILL
    wait_for(lambda: not account(rank))


def test_ranks_that_outlive_their_mpiexec_are_killed(tmp_path: Path) -> None:
    script = (
        "import subprocess\n"
        "rank = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "print(rank.pid, flush=True)\n"
    )
    running = job(tmp_path, script)
    assert running.wait(60) == 0
    wait_for(lambda: running.printed.endswith("\n"))
    rank = int(running.printed)
    assert account(rank)
    assert running.end(1.0) == 0
    wait_for(lambda: not account(rank))


def test_processes_of_others_are_left_alone(tmp_path: Path) -> None:
    other = job(tmp_path, "import time; print('up', flush=True); time.sleep(600)")
    wait_for(lambda: "up" in other.printed)
    running = job(tmp_path, "import time; time.sleep(600)")
    running.end(1.0)
    assert running.poll() is not None
    assert other.poll() is None

    other.end(1.0)
    assert other.poll() is not None


def test_an_mpiexec_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    program = tmp_path / "mpiexec"
    program.write_text("no program")
    with pytest.raises(EngineError, match="mpiexec: cannot be run: Permission denied"):
        start(Launcher(program, "mpich", "5"), Ranks(["localhost"], 1), ["rank"], b"")


def test_mpiexec_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    program = tmp_path / "mpiexec"
    program.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
    program.chmod(0o755)
    code = (
        "from pathlib import Path\n"
        "from storlab.cluster.launch import start\n"
        "from storlab.cluster.mpiexec import Launcher, Ranks\n"
        f"job = start(Launcher(Path({str(program)!r}), 'mpich', '5'), "
        "Ranks(['localhost'], 1), ['rank'], b'')\n"
        "print(job.pid, flush=True)\n"
        "import time; time.sleep(600)\n"
    )
    lab = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert lab.stdout is not None
    pid = int(lab.stdout.readline())
    assert account(pid)
    os.kill(lab.pid, signal.SIGKILL)
    lab.communicate()
    wait_for(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
