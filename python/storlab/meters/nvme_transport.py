"""Send NVMe admin commands by the kernel's pass-through ioctl, and find a device's controller.

Sources: ``linux/nvme_ioctl.h`` (NVME_IOCTL_ADMIN_CMD); status codes of the NVMe base specification.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import struct
from pathlib import Path
from typing import Protocol

from storlab.base.errors import MeterError

# _IOWR('N', 0x41, struct nvme_passthru_cmd); the structure has 72 bytes.
IOCTL_ADMIN_COMMAND = 0xC0484E41
_COMMAND = struct.Struct("<BBHIIIQQIIIIIIIIII")
_RESULT = struct.Struct("<I")
_RESULT_OFFSET = 68

_CONTROLLER = re.compile(r"nvme\d+")
_BLOCK = re.compile(r"(nvme\d+)(?:c\d+)?n\d+(?:p\d+)?")
_GENERIC = re.compile(r"ng(\d+)n\d+")

_GONE = {errno.ENODEV, errno.ENXIO, errno.EIO, errno.ESHUTDOWN}
_DENIED = {errno.EACCES, errno.EPERM}
_NOT_NVME = {errno.ENOTTY, errno.EINVAL, errno.EOPNOTSUPP}

# Meaning by status code type and status code, from "Status Code" in the base specification.
STATUS_TEXT: dict[tuple[int, int], str] = {
    (0, 0x01): "invalid opcode: the controller does not know the command",
    (0, 0x02): "invalid field: the controller does not support what was asked",
    (0, 0x04): "data transfer error",
    (0, 0x06): "internal error of the controller",
    (0, 0x07): "the command was aborted",
    (0, 0x0B): "invalid namespace or format",
    (0, 0x0C): "command sequence error",
    (0, 0x15): "operation denied",
    (0, 0x1D): "a sanitize operation is under way",
    (0, 0x23): "prohibited by the command and feature lockdown",
    (1, 0x09): "the controller has no such log page",
    (1, 0x0D): "the feature cannot be saved",
    (1, 0x0E): "the feature cannot be changed",
    (1, 0x0F): "the feature is not namespace specific",
}


class Transport(Protocol):
    """Channel for admin commands to a controller; tests replace it to replay recorded pages."""

    def admin(
        self, opcode: int, *, nsid: int = 0, cdw10: int = 0, cdw11: int = 0, data_len: int = 0
    ) -> tuple[bytes, int]:
        """Execute an admin command; the arguments are fields of the NVMe command.

        Returns:
            The data that the controller returned (``data_len`` bytes), and dword 0 of the
            completion.

        Raises:
            MeterError: The command could not be sent or was not answered.
            NvmeStatusError: The controller rejected the command.
        """
        ...

    def close(self) -> None:
        """Close the controller's device."""
        ...


class NvmeStatusError(MeterError):
    """Error for a command that the controller completed with a status other than success."""

    def __init__(self, where: str, status: int) -> None:
        self.code_type = status >> 8 & 0x7
        self.code = status & 0xFF
        text = STATUS_TEXT.get((self.code_type, self.code), "see the base specification's table")
        what = f"the controller rejected a command: status {self.code_type:x}h/{self.code:02x}h, "
        super().__init__(where, what + text, "check whether the drive's firmware supports it")

    @property
    def unsupported(self) -> bool:
        """Whether the status means that the controller lacks the command, log page or field."""
        return (self.code_type, self.code) in {(0, 0x01), (0, 0x02), (1, 0x09)}


def os_failure(where: str, failure: OSError) -> MeterError:
    """Build the error for a device that could not be opened or accessed, with a fix."""
    number = failure.errno or 0
    reason = f"{os.strerror(number)} ({errno.errorcode.get(number, number)})"
    if number == errno.ENOENT:
        return MeterError(
            where, f"no such device: {reason}", "list the drives with `ls -l /dev/disk/by-id`"
        )
    if number in _DENIED:
        return MeterError(
            where,
            f"this user may not send NVMe admin commands: {reason}",
            "run as root, or with CAP_SYS_ADMIN and read access to the controller's /dev node",
        )
    if number in _NOT_NVME:
        return MeterError(
            where,
            f"not an NVMe controller, or its driver does not support admin commands: {reason}",
            "use an NVMe drive such as /dev/disk/by-id/nvme-...",
        )
    if number in _GONE:
        return MeterError(
            where,
            f"the controller was removed, was reset, or has failed: {reason}",
            "see `dmesg`",
        )
    if number in (errno.ETIMEDOUT, errno.EINTR):
        return MeterError(where, f"the controller did not answer in time: {reason}", "try again")
    return MeterError(where, reason, "see `dmesg`")


class IoctlTransport:
    """Transport through a controller's character device, such as ``/dev/nvme0``."""

    def __init__(self, device: Path, timeout_ms: int = 5_000) -> None:
        self._where = str(device)
        self._timeout_ms = timeout_ms
        try:
            self._fd = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as failure:
            raise os_failure(self._where, failure) from failure

    def admin(
        self, opcode: int, *, nsid: int = 0, cdw10: int = 0, cdw11: int = 0, data_len: int = 0
    ) -> tuple[bytes, int]:
        """Execute an admin command as described in ``Transport.admin``."""
        data = ctypes.create_string_buffer(data_len or 1)
        address = ctypes.addressof(data) if data_len else 0
        fields = (opcode, 0, 0, nsid, 0, 0, 0, address, 0, data_len, cdw10, cdw11)
        command = bytearray(_COMMAND.pack(*fields, 0, 0, 0, 0, self._timeout_ms, 0))
        try:
            status = fcntl.ioctl(self._fd, IOCTL_ADMIN_COMMAND, command, True)
        except OSError as failure:
            raise os_failure(self._where, failure) from failure
        if status:
            raise NvmeStatusError(self._where, status)
        (result,) = _RESULT.unpack_from(command, _RESULT_OFFSET)
        return data.raw[:data_len], result

    def close(self) -> None:
        """Close the device; further calls have no effect."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def controller_of(path: str | Path, sys_root: Path = Path("/sys")) -> Path:
    """Return the path of the NVMe controller of a namespace, a partition, or a link to one.

    It is looked up in sysfs, because the number in a namespace's name is that of its subsystem and
    may differ from its controller's. If a drive has several controllers, the first is returned,
    because power is that of the whole drive.

    Raises:
        MeterError: The path does not exist or is not an NVMe device.
    """
    try:
        node = Path(path).resolve(strict=True)
    except OSError as failure:
        raise os_failure(str(path), failure) from failure
    if _CONTROLLER.fullmatch(node.name):
        return node
    generic = _GENERIC.fullmatch(node.name)
    block = _BLOCK.fullmatch(node.name)
    if generic is None and block is None:
        raise MeterError(
            str(path),
            f"{node} is not an NVMe device",
            "use an NVMe drive such as /dev/disk/by-id/nvme-..., or another meter",
        )
    controllers = _sysfs_controllers(node.name, sys_root)
    if controllers:
        return node.with_name(controllers[0])
    return node.with_name(block.group(1) if block else f"nvme{generic.group(1) if generic else 0}")


def _sysfs_controllers(name: str, sys_root: Path) -> list[str]:
    for listing in ("class/block", "class/nvme-generic"):
        link = sys_root / listing / name
        if not link.exists():
            continue
        for above in link.resolve().parents:
            if _CONTROLLER.fullmatch(above.name):
                return [above.name]
            if above.name.startswith("nvme-subsys"):
                children = [c.name for c in above.iterdir() if _CONTROLLER.fullmatch(c.name)]
                return sorted(children, key=lambda child: int(child.removeprefix("nvme")))
    return []
