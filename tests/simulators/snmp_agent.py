"""Net-SNMP's agent (snmpd) acting as a PDU: SNMP v2c and v3, values from a file.

``Agent`` starts the daemon, which calls this file as a program for every value (``pass_persist``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

USER = "metering"
SUBTREES = (".1.3.6.1.4.1.318", ".1.3.6.1.4.1.13742", ".1.3.6.1.4.1.99999")


class Agent:
    """Agent with ``set({oid: (type, value)})``; types are gauge, integer, counter, string."""

    def __init__(
        self, program: Path, folder: Path, port: int, community: str, auth: str, priv: str
    ) -> None:
        self._values = folder / "values.json"
        self._state: dict[str, Any] = {"delay_s": 0, "objects": {}}
        self.set({})
        settings = [f"rocommunity {community} 127.0.0.1", f"rouser {USER} priv"]
        settings += [f'createUser {USER} SHA-256 "{auth}" AES "{priv}"']
        answer = f"{sys.executable} {Path(__file__).resolve()} {self._values}"
        settings += [f"pass_persist {subtree} {answer}" for subtree in SUBTREES]
        self._configuration = folder / "pdu.conf"  # snmpd writes its own snmpd.conf here
        self._configuration.write_text("\n".join(settings) + "\n")
        self._program, self._folder, self.port = program, folder, port
        self.start()

    def set(self, objects: dict[str, tuple[str, Any] | None], delay_s: float = 0) -> None:
        """Add or change objects; None removes one."""
        for name, value in objects.items():
            self._state["objects"].pop(name, None)
            if value is not None:
                self._state["objects"][name] = value
        self._state["delay_s"] = delay_s
        whole = self._values.with_suffix(".new")
        whole.write_text(json.dumps(self._state))
        whole.replace(self._values)

    def start(self) -> None:
        command = [str(self._program), "-f", "-C", "-c", str(self._configuration), "-Lo"]
        command += ["-I", "-smux"]
        environment = {**os.environ, "SNMP_PERSISTENT_DIR": str(self._folder), "MIBS": ""}
        self._process = subprocess.Popen(
            [*command, f"udp:127.0.0.1:{self.port}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        assert self._process.stdout is not None
        ready = b""
        while not ready.startswith(b"NET-SNMP version"):
            ready = self._process.stdout.readline()
            assert ready, "snmpd ended"

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def answer_gets(values: Path) -> None:
    """Answer pass_persist requests: a command per line, each followed by a line with the OID."""
    while command := sys.stdin.readline().strip():
        if command == "PING":
            say("PONG")
            continue
        name = sys.stdin.readline().strip().lstrip(".")
        state = json.loads(values.read_text())
        time.sleep(state["delay_s"])
        value = state["objects"].get(name) if command == "get" else None
        say("NONE" if value is None else f".{name}\n{value[0]}\n{value[1]}")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    answer_gets(Path(sys.argv[1]))
