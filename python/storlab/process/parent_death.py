"""Start of child processes that end when storlab ends, even if SIGKILL ends it.

The kernel sends a child its parent-death signal when the *thread* that started it ends. So one
thread, which lives as long as storlab, starts all programs. A small launcher process requests the
signal, checks that storlab is still its parent, and then executes the program.
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
# Python ignores two signals, and programs that it executes would inherit that. So the launcher
# restores the default handling.
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
    """Start a program that receives ``death_signal`` when this process ends.

    Args:
        command: The program and its arguments.
        death_signal: The signal to send.
        pass_fds: Descriptors that the program inherits.
        **options: Further options of ``subprocess.Popen``.

    Raises:
        OSError: The program cannot be executed.
    """
    return _STARTER.submit(_start, command, death_signal, pass_fds, options).result()


def die_with_parent() -> None:
    """Make the kernel kill this process when its parent ends; exit if the parent has ended.

    The kernel kills this process when the thread that started it ends, even if the parent process
    continues. So call this only shortly before this process ends.
    """
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def run_child(
    command: Sequence[str], timeout_s: float, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run a program that ends with this process, and return its output.

    Args:
        command: The program and its arguments.
        timeout_s: The time limit.
        **options: Further options of ``subprocess.Popen``.

    Raises:
        OSError: The program cannot be executed.
        subprocess.TimeoutExpired: The program exceeded the time limit and was killed.
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
        number = answer.read()  # empty at end of file, after a successful exec
    if number:
        process.communicate()
        raise OSError(int(number), os.strerror(int(number)), command[0])
    return process


def end_with(parent: int) -> None:
    """Make the kernel kill this forked process when the main thread of ``parent`` ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
