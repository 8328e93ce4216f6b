"""Children that end when their parent does, however it ends: also by SIGKILL.

The kernel tells a child of the end of the *thread* that started it. Programs are therefore started
by one thread that lives as long as storlab does, through a small program that first asks to be
told, then looks whether storlab is still there, and only then becomes what it was to start.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_PR_SET_PDEATHSIG = 1
# Python ignores two signals, and what is ignored stays so in the program that it becomes.
_BECOME = f"""
import ctypes, os, signal, sys
parent, number, report = map(int, sys.argv[1:4])
os.set_inheritable(report, False)
ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, number)
if os.getppid() != parent:
    os._exit(1)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
try:
    os.execvp(sys.argv[4], sys.argv[4:])
except OSError as error:
    os.write(report, str(error.errno).encode())
    os._exit(127)
"""
_STARTER = ThreadPoolExecutor(1, thread_name_prefix="children")


def start_child(
    command: Sequence[str],
    death_signal: signal.Signals = signal.SIGKILL,
    pass_fds: Sequence[int] = (),
    **options: Any,
) -> subprocess.Popen[Any]:
    """A program that is running, and gets ``death_signal`` when this process ends.

    Further options are those of ``subprocess.Popen``. Raises OSError where it cannot be run.
    """
    return _STARTER.submit(_start, command, death_signal, pass_fds, options).result()


def die_with_parent() -> None:
    """From now on the kernel kills this process when its parent ends, or that has ended already.

    It counts the thread of the parent that started this process: for the last moments of it.
    """
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def run_child(
    command: Sequence[str], timeout_s: float, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """What such a program prints, once it has ended.

    Raises OSError where it cannot be run, ``subprocess.TimeoutExpired`` where it takes longer: it
    is then gone.
    """
    with start_child(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    ) as process:
        try:
            printed = process.communicate(timeout=timeout_s)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, *printed)


def _start(
    command: Sequence[str],
    death_signal: signal.Signals,
    pass_fds: Sequence[int],
    options: dict[str, Any],
) -> subprocess.Popen[Any]:
    report, report_child = os.pipe()
    with os.fdopen(report, "rb") as answer:
        words = [os.getpid(), int(death_signal), report_child, *command]
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BECOME, *map(str, words)],
                pass_fds=(*pass_fds, report_child),
                **options,
            )
        finally:
            os.close(report_child)
        number = answer.read()  # empty, and at its end, once the program has begun
    if number:
        process.communicate()
        raise OSError(int(number), os.strerror(int(number)), command[0])
    return process


def end_with(parent: int) -> None:
    """This process, forked by ``parent``'s main thread, is killed when that one ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
