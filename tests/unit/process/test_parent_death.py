"""Programs started by storlab end when it is killed, and only then."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from storlab.process.parent_death import start_child
from storlab.process.session_cpu import family, is_alive

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
STANDIN = TESTS / "simulators" / "warp.py"
RUN = "from test_child_run import FOREVER, start; start(Path.cwd(), FOREVER)"
WARP = "from test_warp_run import start; start(Path.cwd())"
RANKS = (
    "from storlab.engines.torch.ranks import RankProcesses\n"
    "def work(rank, pipe):\n"
    "    Path(f'rank-{rank}').touch()\n"
    "    while True: pass\n"
    "RankProcesses(2, work)"
)
UNITS = (
    "from storlab.engines.dataframe.units import Unit, carry_out, pool_of\n"
    "def work():\n"
    "    Path('ready').touch()\n"
    "    while True: pass\n"
    "pool = pool_of(types.SimpleNamespace(threads=False), 2)\n"
    "list(carry_out(pool, [Unit('one', work, ())], 2, print))"
)
READERS = (
    "from storlab.history import read\n"
    "def kept(place):\n"
    "    Path('ready').touch()\n"
    "    signal.pause()\n"
    "read._kept, read.os.sched_getaffinity = kept, lambda _: {0, 1}\n"
    "list(read._read([('a', 'b')] * read.ALONE))"
)
SLOW = (  # a program that prints its input and ignores everything else
    "import os\n"
    "def slow(name, text=''):\n"
    "    path = Path(name).absolute()\n"
    "    path.write_text(f'#!/bin/sh\\nprintf \"{text}\"\\ntouch ready\\nexec sleep 600\\n')\n"
    "    path.chmod(0o755)\n"
    "    return path\n"
)
ANALYSIS = (
    f"{SLOW}from storlab.engines.warp.run import WarpRun\n"
    "from storlab.process.child import Launch\n"
    "launch = Launch('warp', [str(slow('slow'))], {}, Path.cwd())\n"
    "WarpRun._compare(types.SimpleNamespace(launch=launch), None, {'requests.csv.zst': b''})"
)
IPMITOOL = (
    f"{SLOW}from storlab.meters import ipmitool\n"
    "place = slow('ipmitool', 'ipmitool> ').parent\n"
    "os.environ['PATH'] = f'{place}:' + os.environ['PATH']\n"
    "shell = ipmitool.Shell(ipmitool.Connection())"
)
EMBEDDED = (
    "from storlab.stores.s3 import embedded\n"
    "ready = str(Path('ready').absolute())\n"
    "words = 'import pathlib, time; pathlib.Path(%r).touch(); time.sleep(600)'\n"
    "embedded._BOOTSTRAP = words % ready\n"
    "embedded.EmbeddedServer(Path('store')).__enter__()"
)
PARENT = (
    "import signal, sys, types\nfrom pathlib import Path\n"
    f"sys.path += [{str(HERE)!r}, {str(TESTS / 'integration/engines/warp')!r}, {str(TESTS)!r}]\n"
    "{what}\nsignal.pause()\n"
)


@pytest.mark.parametrize(
    ("what", "signs"),
    [
        (RUN, ["ready"]),
        (WARP, ["work/ready"]),
        (RANKS, ["rank-0", "rank-1"]),
        (UNITS, ["ready"]),
        (READERS, ["ready"]),
        (ANALYSIS, ["ready"]),
        (IPMITOOL, ["ready"]),
        (EMBEDDED, ["ready"]),
    ],
)
def test_nothing_outlives_a_killed_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, signs: list[str]
) -> None:
    program = tmp_path / "warp"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STANDIN}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("STORLAB_WARP", str(program))
    monkeypatch.setenv("STANDIN_WARP", "stubborn")
    parent = subprocess.Popen([sys.executable, "-c", PARENT.format(what=what)], cwd=tmp_path)
    for sign in signs:
        until(lambda sign=sign: (tmp_path / sign).exists() or parent.poll() is not None)
    children = {pid: born for pid, (_, _, born) in family(parent.pid).items() if pid != parent.pid}
    assert children, "the parent ended of itself"
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    try:
        until(lambda: not any(is_alive(pid, born) for pid, born in children.items()))
    finally:
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def until(done: Callable[[], bool]) -> None:
    """Poll a condition; fail after a time no machine needs."""
    for _ in range(60 * 50):
        if done():
            return
        time.sleep(0.02)
    pytest.fail("waited for too long")


def test_a_program_that_does_not_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no program\n")
    (tmp_path / "text").chmod(0o755)
    for name, number in (("missing", errno.ENOENT), ("text", errno.ENOEXEC)):
        with pytest.raises(OSError, match=name) as caught:
            start_child([str(tmp_path / name)])
        assert caught.value.errno == number


def test_signals_are_as_for_any_program(tmp_path: Path) -> None:
    """Check that a started program does not inherit Python's ignored SIGPIPE."""
    command = ["sh", "-c", "grep SigIgn /proc/self/status"]
    process = start_child(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    ignored = int(process.communicate()[0].split()[1], 16)
    assert ignored >> (signal.SIGPIPE - 1) & 1 == 0


def test_descriptors_reach_the_program(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("what is in it")
    with (tmp_path / "file").open("rb") as file:
        process = start_child(
            ["cat", f"/proc/self/fd/{file.fileno()}"],
            pass_fds=[file.fileno()],
            stdout=subprocess.PIPE,
        )
        assert process.communicate()[0] == b"what is in it"
    listing = start_child(["ls", "/proc/self/fd"], stdout=subprocess.PIPE, text=True)
    assert len(listing.communicate()[0].split()) == 4  # 0 to 2, and the listing's own
