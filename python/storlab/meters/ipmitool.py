"""Persistent ``ipmitool shell``: a reading costs one request, not a process and a login.

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
# a login with ipmitool's retries, or reading the SDR, takes fewer time-outs than this
LONG_ANSWERS = 24


def program() -> str | None:
    """Return the path of ipmitool, also if PATH lacks the sbin directories."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    return shutil.which("ipmitool", path=path)


@dataclass(frozen=True, slots=True)
class Connection:
    """Parameters of ipmitool's connection to a BMC.

    If ``host`` is None, it is this machine's BMC at ``/dev/ipmi<device>``.
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
        """Return ipmitool's options. ``-v`` is needed to get the reason of a failed login."""
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
        """Return the minimal environment of ipmitool, with dates in English and UTC."""
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
        if self.host is not None:
            environment["IPMI_PASSWORD"] = self.password or ""
        return environment


class Shell:
    """Running ``ipmitool shell`` with one session. Raises MeterError if it cannot be opened."""

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
        """Send a command and return its output.

        The first may be slow, since it reads the whole SDR.

        Raises:
            MeterError: ipmitool has ended, or does not answer in time.
        """
        assert self._process.stdin is not None  # noqa: S101 - Popen was given a pipe
        try:
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise MeterError(self._connection.where, f"ipmitool is gone: {error}") from error
        answer = self._read(self._long_s if self._is_new else self._connection.timeout_s + 2)
        self._is_new = False
        return answer.replace(text, "", 1).strip()  # readline echoes the command

    def _read(self, limit_s: float) -> str:
        """Return the output up to the next prompt.

        Raises:
            MeterError: The program ends, or no prompt comes within ``limit_s`` seconds.
        """
        assert self._process.stdout is not None  # noqa: S101 - Popen was given a pipe
        descriptor = self._process.stdout.fileno()
        # select() cannot handle descriptors above 1,023, and loads may use more
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
                    "is the BMC up? raise timeout if it is slow",
                )
            chunk = os.read(descriptor, 65536)
            if not chunk:
                raise login_error(self._connection, seen.decode(errors="replace"))
            seen += chunk
        return seen[: -len(PROMPT)].decode(errors="replace")

    def close(self) -> None:
        """Log out and wait briefly: a BMC has few sessions."""
        try:
            self._process.communicate(b"exit\n", timeout=2)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            self.kill()

    def kill(self) -> None:
        """Kill ipmitool without logging out."""
        self._process.kill()
        with suppress(OSError, ValueError):
            self._process.communicate()


# ipmitool's messages (or their beginnings), their meanings and fixes.
_MEANINGS: Sequence[tuple[str, str, str]] = (
    ("RAKP 2 HMAC is invalid", "the password is wrong", "check the secret that password_env names"),
    ("unauthorized name", "the BMC does not know this user", "check user"),
    ("no response from RAKP 1", "the BMC does not let this user in", "check user and cipher_suite"),
    (
        "no response from RAKP 3",
        "the password is wrong",
        "check the secret that password_env names",
    ),
    ("Set Session Privilege", "the user may not read", "give the user the privilege, or set it"),
    ("Get Auth Capabilities error", "it does not answer", "check host, port and the network"),
    ("Could not open device", "there is no such device", "modprobe ipmi_si ipmi_devintf; be root"),
    ("Address lookup for", "the name has no address", "check host"),
    ("Unable to establish", "no session could be opened", "check host, user and password_env"),
)


def login_error(connection: Connection, output: str) -> MeterError:
    """Return an error that explains ipmitool's last message."""
    for words, what, fix in _MEANINGS:
        if words in output:
            return MeterError(connection.where, what, fix)
    lines = [line for line in output.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else "nothing"
    last_message = hide(last, [connection.password or ""])
    return MeterError(connection.where, f'ipmitool ended with the message "{last_message}"')
