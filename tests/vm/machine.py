"""A virtual machine with emulated drives: QEMU with emulated processors, so it needs no KVM.

The guest's root is the host's own file system, read-only below a layer of memory, so that storlab
runs in it as it was built here. Its kernel, and programs that must not start services on the host,
come from the folder that ``.ci/guest`` makes.
"""

from __future__ import annotations

import json
import shlex
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from conftest import missing, need_program
from storlab.base.clock import monotonic_ns, sleep_s

REPOSITORY = Path(__file__).parent.parent.parent
UNPACKED = REPOSITORY / "target" / "ci-guest"
# Without these modules the guest finds neither its root nor the host.
MODULES = ("virtio_pci", "virtio_console", "9p", "9pnet_virtio", "overlay")
DRIVERS = ("nvme",)
DRIVE_MIB = 256
PLAIN = "nvme,id=plain,serial=PLAIN,drive=plain"
MEMORY_MIB = 1536
# Emulated processors are slow and the host may be busy, so this only ends what hangs.
TIMEOUT_S = 600.0


def need_guest() -> None:
    """Require QEMU and the unpacked folder of the guest."""
    need_program("qemu-system-x86_64")
    if not UNPACKED.is_dir():
        missing(
            f"the guest of tests/vm is not unpacked: .ci/guest {UNPACKED.relative_to(REPOSITORY)}"
        )


class GuestError(Exception):
    """The guest did not start, ended, or raised an exception in a call."""


class Guest:
    """``with Guest(folder) as guest``: a running machine, ready for calls.

    Args:
        folder: Folder for the images of drives, sockets and the log of the console.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._calls = 0
        self._replies: dict[int, dict[str, Any]] = {}

    def __enter__(self) -> Self:
        agent = shlex.join([sys.executable, str(Path(__file__).with_name("agent.py"))])
        command = [
            *machine(self.folder, agent),
            *("-serial", f"file:{self.folder}/console"),
            *("-chardev", f"socket,id=agent,path={self.folder}/agent,server=on,wait=off"),
            *("-device", "virtio-serial", "-device", "virtserialport,chardev=agent"),
            *("-qmp", f"unix:{self.folder}/monitor,server=on,wait=off"),
        ]
        with ExitStack() as stack:
            log = stack.enter_context((self.folder / "qemu").open("wb"))
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self._process = stack.enter_context(process)
            stack.callback(process.kill)
            self._open = stack
            self._agent = self._connect("agent")
            self._monitor = self._connect("monitor")
            self._reply(0)
            self.monitor("qmp_capabilities")
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of ``vm.inside`` in the guest and return its result.

        Raises:
            GuestError: The function raised an exception, or the guest ended.
        """
        return self.start(function, *arguments)()

    def start(self, function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
        """Start a call, and return a function that waits for its result."""
        self._calls += 1
        number = self._calls
        request = {"call": number, "function": function.__name__, "arguments": arguments}
        self._agent.write(json.dumps(request).encode() + b"\n")
        return lambda: self._reply(number)

    def monitor(self, command: str, **arguments: Any) -> Any:
        """Execute a command of QEMU's monitor (QMP) and return its result."""
        request = {"execute": command, "arguments": arguments}
        self._monitor.write(json.dumps(request).encode() + b"\n")
        while True:
            reply = self._read(self._monitor)
            if "error" in reply:
                raise GuestError(f"{command}: {reply['error']['desc']}")
            if "return" in reply:
                return reply["return"]

    def _reply(self, number: int) -> Any:
        while number not in self._replies:
            reply = self._read(self._agent)
            self._replies[reply["call"]] = reply
        reply = self._replies.pop(number)
        if "error" in reply:
            raise GuestError(reply["error"])
        return reply["result"]

    def _read(self, stream: Any) -> dict[str, Any]:
        line = stream.readline()
        if not line.endswith(b"\n"):
            raise GuestError(f"the guest ended: {self._logs()}")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _connect(self, name: str) -> Any:
        end = monotonic_ns() + int(TIMEOUT_S * 1e9)
        while self._process.poll() is None and monotonic_ns() < end:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(TIMEOUT_S)
                try:
                    connection.connect(str(self.folder / name))
                except OSError:
                    sleep_s(0.02)
                else:
                    return self._open.enter_context(connection.makefile("rwb", buffering=0))
        raise GuestError(f"QEMU does not listen on {name}: {self._logs()}")

    def _logs(self) -> str:
        logs = [self.folder / "qemu", self.folder / "console"]
        return "\n".join(log.read_text(errors="replace")[-4000:] for log in logs if log.exists())


def machine(folder: Path, command: str) -> list[str]:
    """Return QEMU's command for a guest that executes a command as root and powers off.

    Args:
        folder: Folder for the initial file system and the images of drives.
        command: Command for the shell of the guest.
    """
    (kernel,) = (UNPACKED / "boot").glob("vmlinuz-*")
    initramfs = folder / "initramfs"
    initramfs.write_bytes(initial_files(command))
    # What Debian's kernel does for safety takes a third of an emulated processor's time.
    options = "console=ttyS0 loglevel=3 panic=-1 mitigations=off init_on_alloc=0 apparmor=0"
    options += " no_timer_check"  # on a busy host the check fails, and the kernel panics
    return [
        "qemu-system-x86_64",
        *("-accel", "tcg,thread=multi", "-cpu", "Nehalem", "-smp", "1", "-m", str(MEMORY_MIB)),
        *("-nodefaults", "-display", "none", "-no-reboot"),
        *("-kernel", str(kernel), "-initrd", str(initramfs), "-append", options),
        *share("host", Path("/")),
        *share("unpacked", UNPACKED),
        *drives(folder),
    ]


def drives(folder: Path) -> list[str]:
    """Create blank images and return the arguments of QEMU for the drives."""
    arguments = ["-device", "nvme-subsys,id=shared,nqn=shared"]
    for name in ("plain", "zoned", "large", "second", "protected", "shared"):
        with (folder / name).open("wb") as image:
            image.truncate(DRIVE_MIB << 20)
        options = "format=raw,cache=unsafe,discard=unmap"
        options += ",readonly=on" if name == "protected" else ""
        arguments += ["-drive", f"file={folder / name},id={name},if=none,{options}"]
    for device in (
        PLAIN,
        "nvme,id=zones,serial=ZONED",
        "nvme-ns,drive=zoned,bus=zones,zoned=on,zoned.zone_size=16M,zoned.zone_capacity=12M"
        ",zoned.max_open=4,zoned.max_active=5",
        "nvme,id=spaces,serial=LARGE",
        "nvme-ns,drive=large,bus=spaces,logical_block_size=4096,physical_block_size=4096",
        "nvme-ns,drive=second,bus=spaces",
        "nvme,id=switch,serial=PROTECTED",
        "nvme-ns,drive=protected,bus=switch",
        "nvme,id=path1,serial=SHARED,subsys=shared",
        "nvme,id=path2,serial=SHARED,subsys=shared",
        "nvme-ns,drive=shared,bus=path1",
    ):
        arguments += ["-device", device]
    return arguments


def share(name: str, folder: Path) -> list[str]:
    """Return arguments of QEMU that share a folder, read-only."""
    options = "security_model=none,readonly=on,multidevs=remap"
    return [
        *("-fsdev", f"local,id={name},path={folder},{options}"),
        *("-device", f"virtio-9p-pci,fsdev={name},mount_tag={name}"),
    ]


def initial_files(command: str) -> bytes:
    """Return the initial file system: busybox, ``init`` with its settings, and modules."""
    settings = {
        "MODULES": " ".join(MODULES),
        "DRIVERS": " ".join(DRIVERS),
        "FOLDER": REPOSITORY,
        "COMMAND": command,
    }
    lines = (f"{name}={shlex.quote(str(value))}\n" for name, value in settings.items())
    (modules,) = (UNPACKED / "usr/lib/modules").iterdir()
    files = {
        "init": Path(__file__).with_name("init").read_bytes(),
        "settings": "".join(lines).encode(),
        "bin/busybox": (UNPACKED / "usr/bin/busybox").read_bytes(),
    }
    needed = modules_needed(modules)
    for name in needed:
        files[f"lib/modules/{modules.name}/{name}"] = (modules / name).read_bytes()
    files[f"lib/modules/{modules.name}/modules.dep"] = "".join(
        f"{name}: {' '.join(below)}\n" for name, below in needed.items()
    ).encode()
    folders = ["bin", "dev", "host", "memory", "new", "proc", "sys", "unpacked"]
    folders += [f"lib/modules/{modules.name}/{name}".rpartition("/")[0] for name in needed]
    return archive(files, folders)


def modules_needed(folder: Path) -> dict[str, list[str]]:
    """Return the files of MODULES, and of the modules that they need, by ``modules.dep``."""
    needs = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        name, _, below = line.partition(":")
        needs[name] = below.split()
    by_name = {name.rpartition("/")[2].partition(".")[0]: name for name in needs}
    chosen = [by_name[name] for name in MODULES if name in by_name]  # others are built in
    return {name: needs[name] for name in [*chosen, *(n for c in chosen for n in needs[c])]}


def archive(files: dict[str, bytes], folders: Iterable[str]) -> bytes:
    """Pack files and folders as a cpio archive of the format newc, which the kernel unpacks."""
    members: dict[str, tuple[int, bytes]] = {}
    for folder in folders:
        parts = folder.split("/")
        for depth in range(len(parts)):
            members["/".join(parts[: depth + 1])] = (stat.S_IFDIR | 0o755, b"")
    members |= {name: (stat.S_IFREG | 0o755, content) for name, content in files.items()}
    members["TRAILER!!!"] = (0, b"")
    packed = bytearray()
    for number, (name, (mode, content)) in enumerate(members.items(), 1):
        fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
        packed += b"070701" + "".join(f"{field:08x}" for field in fields).encode()
        for part in (name.encode() + b"\0", content):
            packed += part
            packed += bytes(-len(packed) % 4)
    return bytes(packed)


def main() -> int:
    """Boot the guest with a shell on this terminal. `exit` powers it off."""
    with tempfile.TemporaryDirectory(prefix="storlab-guest-") as folder:
        command = machine(Path(folder), "busybox setsid -c bash")
        return subprocess.run([*command, "-serial", "mon:stdio"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
