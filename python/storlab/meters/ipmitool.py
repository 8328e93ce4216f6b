"""Run ``ipmitool shell`` permanently, so that a reading needs no new process and no login.

The password is passed in the environment (``-E``), never on the command line.
"""

from __future__ import annotations

import math
import os
import select
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from storlab.base.clock import monotonic_ns
from storlab.base.errors import MeterError
from storlab.base.secrets import hide
from storlab.base.units import NS_PER_S
from storlab.process.parent_death import start_child

PROMPT = b"ipmitool> "
# Time limit of a login with retries, or of reading the SDR, as a multiple of the time-out.
LONG_ANSWERS = 24


def program() -> str | None:
    """Return the path of ipmitool, searched in PATH and the sbin directories; None if missing."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    return shutil.which("ipmitool", path=path)


@dataclass(frozen=True, slots=True)
class Connection:
    """Parameters of ipmitool's connection to a BMC.

    If ``host`` is None, the BMC is that of this machine at ``/dev/ipmi<device>``.
    """

    host: str | None = None
    port: int = 623
    interface: str = "lanplus"
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    privilege: str = "user"
    cipher_suite: int | None = None
    device: int = 0
    timeout_s: float = 4.0  # for one answer

    @property
    def where(self) -> str:
        """Location of the BMC for messages."""
        return f"/dev/ipmi{self.device}" if self.host is None else f"BMC {self.host}:{self.port}"

    def arguments(self) -> list[str]:
        """Return ipmitool's options; with ``-v`` it prints why a login fails."""
        if self.host is None:
            return ["-v", "-I", "open", "-d", str(self.device)]
        wait_s = max(1, math.ceil(self.timeout_s))
        options = ["-v", "-I", self.interface, "-H", self.host, "-p", str(self.port), "-E"]
        options += ["-N", str(wait_s), "-R", "1", "-L", self.privilege.upper()]
        if self.user is not None:
            options += ["-U", self.user]
        if self.cipher_suite is not None:
            options += ["-C", str(self.cipher_suite)]
        return options

    def environment(self) -> dict[str, str]:
        """Return the minimal environment for ipmitool, in which dates are in English and UTC."""
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
        if self.host is not None:
            environment["IPMI_PASSWORD"] = self.password or ""
        return environment


class Shell:
    """Handle of a running ``ipmitool shell`` with one session.

    The constructor raises MeterError if no session can be opened.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._long_s = connection.timeout_s * LONG_ANSWERS
        self._is_new = True
        ipmitool = program()
        if ipmitool is None:
            raise MeterError("ipmitool", "is not installed", "install the package ipmitool")
        self._process = start_child(
            [ipmitool, *connection.arguments(), "shell"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=connection.environment(),
            start_new_session=True,  # Ctrl-C stops the campaign, which then stops the meters
        )
        try:
            self._read(self._long_s)
        except BaseException:
            self.kill()
            raise

    def command(self, text: str) -> str:
        """Send a command to the shell and return its output.

        The first command may be slow, because ipmitool then reads the whole SDR.

        Raises:
            MeterError: ipmitool has ended, or does not answer in time.
        """
        assert self._process.stdin is not None  # noqa: S101 - Popen was given a pipe
        try:
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise MeterError(self._connection.where, f"ipmitool has ended: {error}") from error
        answer = self._read(self._long_s if self._is_new else self._connection.timeout_s + 2)
        self._is_new = False
        return answer.replace(text, "", 1).strip()  # readline echoes the command

    def _read(self, limit_s: float) -> str:
        """Return the shell's output up to the next prompt.

        Raises:
            MeterError: The program ends, or no prompt comes within ``limit_s`` seconds.
        """
        assert self._process.stdout is not None  # noqa: S101 - Popen was given a pipe
        descriptor = self._process.stdout.fileno()
        # select() cannot handle descriptors above 1,023, which exist during loads with many files.
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        deadline = monotonic_ns() + round(limit_s * NS_PER_S)
        seen = b""
        while not seen.endswith(PROMPT):
            left_s = (deadline - monotonic_ns()) / NS_PER_S
            if left_s <= 0 or not poll.poll(1000 * left_s):
                raise MeterError(
                    self._connection.where,
                    f"no answer within {limit_s:g} s",
                    "check that the BMC is up; raise timeout if it is slow",
                )
            chunk = os.read(descriptor, 65536)
            if not chunk:
                raise login_error(self._connection, seen.decode(errors="replace"))
            seen += chunk
        return seen[: -len(PROMPT)].decode(errors="replace")

    def close(self) -> None:
        """Log out, because a BMC has few sessions; kill ipmitool if it does not end within 2 s."""
        try:
            self._process.communicate(b"exit\n", timeout=2)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            self.kill()

    def kill(self) -> None:
        """Kill ipmitool without logging out."""
        self._process.kill()
        with suppress(OSError, ValueError):
            self._process.communicate()


# Parts of ipmitool's messages, with the problem and the fix.
_MEANINGS: Sequence[tuple[str, str, str]] = (
    ("RAKP 2 HMAC is invalid", "the password is wrong", "check the secret that password_env names"),
    ("unauthorized name", "the BMC does not know this user", "check user"),
    ("no response from RAKP 1", "the BMC rejects this user", "check user and cipher_suite"),
    (
        "no response from RAKP 3",
        "the password is wrong",
        "check the secret that password_env names",
    ),
    (
        "Set Session Privilege",
        "the user lacks the privilege of the session",
        "give the user that privilege, or set privilege to one that the user has",
    ),
    ("Get Auth Capabilities error", "the BMC does not answer", "check host, port and the network"),
    (
        "Could not open device",
        "there is no such device",
        "load its driver (modprobe ipmi_si ipmi_devintf), and run as root",
    ),
    ("Address lookup for", "the host name cannot be resolved", "check host"),
    ("Unable to establish", "no session could be opened", "check host, user and password_env"),
)


def login_error(connection: Connection, output: str) -> MeterError:
    """Build the error for a failed login, which explains ipmitool's last message."""
    for words, what, fix in _MEANINGS:
        if words in output:
            return MeterError(connection.where, what, fix)
    lines = [line for line in output.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else "nothing"
    last_message = hide(last, [connection.password or ""])
    return MeterError(connection.where, f'ipmitool ended with the message "{last_message}"')
