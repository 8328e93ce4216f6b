"""Guard rules for block devices: stable identity, consent to overwrite, and no existing data."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storlab.base.errors import GuardError, PreflightError
from storlab.model.job import Member
from storlab.model.study import Target
from storlab.stores.devices import Device, is_stable_path, uses_of_device
from storlab.stores.signatures import find_signatures

_GRAIN = 4096  # devices are used in whole pages, the largest logical block size


@dataclass(frozen=True)
class DeviceHold:
    """Open block device of a campaign; closing it releases the device."""

    name: str  # path as written in the study
    target: str
    device: Device
    fd: int
    size_bytes: int
    exclusive: bool

    def identity(self) -> dict[str, Any]:
        """Return the identity of the device: its serial numbers and ids, and its size in bytes."""
        return {"size": self.size_bytes, "identities": self.device.identities()}

    def check_planned(self, planned: Mapping[str, str | int], *, resumed: bool) -> None:
        """Compare the device with the one that the plan was made for.

        Args:
            planned: ``Device.facts`` of the planned device.
            resumed: Whether the campaign is resumed; ``diskseq`` is then ignored, because the
                kernel counts disks from the start again after a reboot.

        Raises:
            GuardError: The device differs.
        """
        left_out = {"diskseq"} if resumed else set()
        now = self.device.facts()
        for fact in sorted((planned.keys() | now.keys()) - left_out):
            if planned.get(fact) != now.get(fact):
                raise GuardError(
                    self.name,
                    f"is another device than in the plan: its {fact} is {now.get(fact)}, and was "
                    f"{planned.get(fact)}",
                    "put the planned device back, or review `storlab plan` again",
                )

    def member(self, target: Target) -> Member:
        """Return the part of the device that a target uses.

        Raises:
            PreflightError: The device is smaller than offset + size.
        """
        size = target.size or (self.size_bytes - target.offset) // _GRAIN * _GRAIN
        if size <= 0 or target.offset + size > self.size_bytes:
            raise PreflightError(
                self.name,
                f"offset + size is {target.offset + size} bytes, and it has {self.size_bytes}",
                "make size or offset smaller",
            )
        # by pid, not "self", because a reference engine is another process
        path = f"/proc/{os.getpid()}/fd/{self.fd}"
        return Member(
            path=path, name=self.name, kind="block_device", size=size, offset=target.offset
        )

    def close(self) -> None:
        """Close and so release the device."""
        os.close(self.fd)


def hold_device(
    target: Target,
    name: str,
    path: Path,
    *,
    writes: bool,
    consent: str | None,
    held: Mapping[int, int],
) -> DeviceHold:
    """Open a device for the campaign and check it; exclusively if the study writes to it.

    Args:
        target: Target that the device belongs to.
        name: Path of the device as written in the study.
        path: Absolute path of the device.
        writes: Whether the study writes to the device.
        consent: Hash of the reviewed plan, already compared with the plan; None if not given.
        held: Open file descriptors of devices that this campaign holds exclusively, by device
            number.

    Raises:
        GuardError: The device is refused; it is then closed and unchanged.
        PreflightError: This user may not open the device.
    """
    device = _device(name, path)
    if writes:
        _check_identity_and_consent(target, name, device, consent)
        _check_writable(name, device)
    fd = _open(name, path, device, writes, held)
    try:
        if os.fstat(fd).st_rdev != device.rdev:
            raise GuardError(name, "changed while storlab examined it", _AGAIN)
        size = os.lseek(fd, 0, os.SEEK_END)
        if size == 0:
            raise GuardError(name, "has no medium or no capacity", "check the device")
        if writes:
            _check_unused(name, device)
            _check_blank(name, fd, size)
    except BaseException:
        os.close(fd)
        raise
    return DeviceHold(
        name=name,
        target=target.name,
        device=device,
        fd=fd,
        size_bytes=size,
        exclusive=writes,
    )


_AGAIN = "run it again; if it persists, look at the kernel log"


def _open(name: str, path: Path, device: Device, writes: bool, held: Mapping[int, int]) -> int:
    if writes and device.rdev in held:
        return os.dup(held[device.rdev])  # two targets may use parts of one device
    flags = (os.O_RDWR | os.O_EXCL) if writes else os.O_RDONLY
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError as error:
        raise _cannot_open(name, device, error) from error


def _device(name: str, path: Path) -> Device:
    device = Device(path.stat().st_rdev)
    try:
        device.name  # noqa: B018  (reads sysfs: is there a device behind the node?)
    except OSError as error:
        raise GuardError(
            name, f"is a node ({device.number}) without a device behind it", "check the device"
        ) from error
    return device


def _check_writable(name: str, device: Device) -> None:
    if device.is_read_only:
        raise GuardError(
            name,
            "is read-only: the kernel refuses all writes",
            "to have its data overwritten: blockdev --setrw DEVICE (a write-protect switch and "
            "a worn-out drive stay read-only)",
        )


def _check_identity_and_consent(
    target: Target, name: str, device: Device, consent: str | None
) -> None:
    by_serial = _serial_fits(target, name, device)
    if not by_serial and not is_stable_path(name):
        raise GuardError(
            name,
            "is a name that can belong to another device after the next boot",
            "name it by /dev/disk/by-id/... or /dev/disk/by-path/..., or type its serial number "
            'into the target: serial = "..." (`lsblk -o NAME,SERIAL` shows it)',
        )
    if not by_serial and consent is None:
        raise GuardError(
            name,
            "would be overwritten, which needs your consent",
            "review `storlab plan`, and give the hash that it prints: run --plan-hash HASH",
        )


def _serial_fits(target: Target, name: str, device: Device) -> bool:
    if target.serial is None:
        return False
    if len(target.locations) > 1:
        raise GuardError(
            f"target {target.name}: serial",
            "names one device, and the target has several",
            "name them by /dev/disk/by-id paths, and give --plan-hash",
        )
    identities = device.identities()
    if target.serial not in identities:
        known = ", ".join(identities) or "it has none that the kernel knows"
        raise GuardError(
            f"target {target.name}: serial",
            f'"{target.serial}" is not that of {name} ({known})',
            "check which device you mean; `lsblk -o NAME,SERIAL,SIZE` shows them",
        )
    _check_one_device(target, name, device)
    return True


def _check_one_device(target: Target, name: str, device: Device) -> None:
    """Refuse a serial number that other devices share.

    Namespaces of an NVMe drive share its serial number, and consent to one does not cover the
    others.

    Raises:
        GuardError: The serial number does not identify one device.
    """
    serial = target.serial or ""
    facts = device.facts()
    if serial in (facts.get("wwid"), facts.get("uuid"), facts.get("backing_file")):
        return
    others = device.others_with(serial)
    later = device.namespace if device.namespace != "1" else None
    if others or later:
        rivals = f"{', '.join(others)}, too" if others else f"any namespace; this is number {later}"
        better = facts.get("wwid") or "its name in /dev/disk/by-id"
        raise GuardError(
            f"target {target.name}: serial",
            f'"{serial}" is that of {name}, and of {rivals}',
            f"type what only this one has: {better}",
        )


def _cannot_open(name: str, device: Device, error: OSError) -> GuardError | PreflightError:
    if error.errno in (errno.EACCES, errno.EPERM):
        return PreflightError(
            name,
            f"may not be opened by this user ({error.strerror})",
            "run storlab as root, or as a user who may open the device (often: group disk)",
        )
    if error.errno == errno.EBUSY:
        uses = uses_of_device(device)
        why = "; ".join(uses) or "another process or the kernel holds it"
        return GuardError(name, f"is in use: {why}", _FREE_IT)
    if error.errno in (errno.ENOENT, errno.ENXIO, errno.ENODEV, errno.ENOMEDIUM):
        return GuardError(name, f"has vanished ({error.strerror})", "check that it is connected")
    return GuardError(name, f"cannot be opened: {error.strerror}", "check the device")


_FREE_IT = "if its data may really go: unmount it, stop what uses it, and try again"


def _check_unused(name: str, device: Device) -> None:
    uses = uses_of_device(device)
    if uses:
        raise GuardError(name, f"is in use: {'; '.join(uses)}", _FREE_IT)


def _check_blank(name: str, fd: int, size_bytes: int) -> None:
    try:
        signatures = find_signatures(fd, size_bytes)
    except OSError as error:
        raise GuardError(
            name, f"cannot be read ({error.strerror}), so it might hold data", "check the device"
        ) from error
    if signatures:
        raise GuardError(
            name,
            f"holds something: {', '.join(signatures)}",
            f"if that may really go, erase it yourself first: wipefs --all {name}",
        )
