"""Purge of an NVMe namespace: erase all user data by Format NVM, guarded as a raw write.

Sources: NVMe base specification 2.1 (Identify Controller: OACS, FNA; active namespace list) and NVM
command set specification 1.1 (Identify Namespace: FLBAS, DPS; Format NVM).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from storlab.base.clock import monotonic_ns
from storlab.base.errors import GuardError
from storlab.lab.guard.device import DeviceHold, hold_device
from storlab.meters.nvme_transport import IoctlTransport, Transport, controller_of
from storlab.model.study import Target
from storlab.stores.devices import device_number

TIMEOUT_MS = 4 * 3600 * 1000
"""Time for the command: some drives overwrite all their blocks. The kernel resets a controller
that takes longer."""
_IDENTIFY, _FORMAT = 0x06, 0x80
_NAMESPACE, _CONTROLLER, _ACTIVE_NAMESPACES = 0x00, 0x01, 0x02
_PAGE_BYTES = 4096
_OACS_FORMAT = 1 << 1
_FNA_ALL_NAMESPACES = 0b11  # a format, or an erasure, applies to all namespaces of the drive
_USER_DATA_ERASE = 1


@dataclass(frozen=True, slots=True)
class Purged:
    """Namespace that was erased."""

    device: str
    model: str
    firmware: str
    namespace: int
    size_bytes: int
    duration_ns: int


def purge(
    device: str,
    serial: str | None,
    *,
    connect: Callable[[Path, int], Transport] = IoctlTransport,
) -> Purged:
    """Erase all data of an NVMe namespace; its LBA format stays as it is.

    Args:
        device: Path of the namespace.
        serial: Serial number or another id of the namespace, typed by the user as consent.
        connect: Function that opens a controller with a timeout in ms.

    Raises:
        GuardError: The namespace is refused; nothing was sent to it.
        PreflightError: This user may not open the device.
        MeterError: The drive rejected a command or did not answer.
    """
    if serial is None:
        raise GuardError(
            device,
            "would lose all its data, which needs your consent",
            f"type its serial number: storlab purge {device} --serial SERIAL "
            "(`lsblk -o NAME,SERIAL,SIZE` shows it)",
        )
    if device_number(device) is None:
        fix = "name an NVMe namespace such as /dev/disk/by-id/nvme-..."
        raise GuardError(device, "is not a block device", fix)
    target = Target(name=device, path=device, serial=serial)
    hold = hold_device(target, device, Path(device), writes=True, consent=None, held={})
    with closing(hold):
        namespace = _namespace(hold)
        with closing(connect(controller_of(device), TIMEOUT_MS)) as controller:
            about = _identify(controller, _CONTROLLER)
            _check_only_this(hold, controller, about, namespace)
            began_ns = monotonic_ns()
            controller.admin(
                _FORMAT,
                nsid=namespace,
                cdw10=format_command(_identify(controller, _NAMESPACE, namespace)),
            )
            return Purged(
                device=device,
                model=about[24:64].decode("ascii", "replace").strip(" \0"),
                firmware=about[64:72].decode("ascii", "replace").strip(" \0"),
                namespace=namespace,
                size_bytes=hold.size_bytes,
                duration_ns=monotonic_ns() - began_ns,
            )


def _namespace(hold: DeviceHold) -> int:
    number = hold.device.namespace
    if number is None:
        raise GuardError(
            hold.name,
            "is not an NVMe namespace, the only devices that storlab can purge",
            "purge it with the tool of its kind, such as hdparm --security-erase or sg_format",
        )
    if hold.device.is_partition:
        what = "is a partition, but a purge erases the whole namespace"
        raise GuardError(hold.name, what, f"name the namespace: {hold.device.whole.name}")
    return int(number)


def _check_only_this(hold: DeviceHold, controller: Transport, about: bytes, namespace: int) -> None:
    """Check that the controller can format this namespace without erasing others.

    Raises:
        GuardError: It cannot.
    """
    (oacs,) = struct.unpack_from("<H", about, 256)
    if not oacs & _OACS_FORMAT:
        what = "belongs to a drive without the command Format NVM"
        raise GuardError(hold.name, what, "sanitize it: nvme sanitize DEVICE --sanact=2")
    listed = struct.unpack("<1024I", _identify(controller, _ACTIVE_NAMESPACES))
    others = [str(number) for number in listed if number not in (0, namespace)]
    if about[524] & _FNA_ALL_NAMESPACES and others:
        raise GuardError(
            hold.name,
            f"belongs to a drive that erases all its namespaces at once: also {', '.join(others)}",
            "if their data may be erased, delete the other namespaces first: nvme delete-ns",
        )


def _identify(controller: Transport, structure: int, namespace: int = 0) -> bytes:
    data, _ = controller.admin(_IDENTIFY, nsid=namespace, cdw10=structure, data_len=_PAGE_BYTES)
    return data


def format_command(namespace: bytes) -> int:
    """Return dword 10 of Format NVM that erases user data and keeps the format of the namespace.

    Args:
        namespace: Identify Namespace page.
    """
    flbas, dps = namespace[26], namespace[29]
    lower, metadata, upper = flbas & 0xF, flbas >> 4 & 1, flbas >> 5 & 0x3
    protection, first = dps & 0x7, dps >> 3 & 1
    return (
        lower | metadata << 4 | protection << 5 | first << 8 | _USER_DATA_ERASE << 9 | upper << 12
    )
