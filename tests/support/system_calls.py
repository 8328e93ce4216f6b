"""System calls that fail for a process, as in a container or on a limited file system."""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Callable

IO_URING_SETUP = 425
FLOCK = {"x86_64": 73, "aarch64": 32}[platform.machine()]
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _MODE_FILTER = 22, 38, 2
_LOAD, _SKIP_UNLESS, _RETURN = 0x20, 0x15, 0x06
_ERRNO, _ALLOW = 0x00050000, 0x7FFF0000


def refuse(call: int, error: int) -> Callable[[], None]:
    """Make a system call fail with this errno permanently, by seccomp(2); for ``preexec_fn``."""
    code = [
        (_LOAD, 0, 0, 0),
        (_SKIP_UNLESS, 0, 1, call),
        (_RETURN, 0, 0, _ERRNO | error),
        (_RETURN, 0, 0, _ALLOW),
    ]
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(instructions))
    libc = ctypes.CDLL(None, use_errno=True)

    def install() -> None:
        assert instructions
        assert libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        assert libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0) == 0, ctypes.get_errno()

    return install
