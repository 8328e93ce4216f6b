"""Rules of the guard for block devices, which keep storlab from overwriting the wrong device.

A device to be overwritten needs a stable name, the user's consent, and no existing data.
"""

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
    """Block device that a campaign has opened and thus reserved."""

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
        """Check that the device is the one for which the plan was made.

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
                    f"is not the device in the plan: its {fact} is {now.get(fact)}, but was "
                    f"{planned.get(fact)}",
                    "reconnect the planned device, or review `storlab plan` again",
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
                f"has {self.size_bytes} bytes, but offset + size is {target.offset + size}",
                "reduce size or offset",
            )
        # The path contains the pid instead of "self", since a reference engine is another process.
        path = f"/proc/{os.getpid()}/fd/{self.fd}"
        return Member(
            path=path, name=self.name, kind="block_device", size=size, offset=target.offset
        )

    def close(self) -> None:
        """Close the device, which ends its reservation."""
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
    """Open a block device for the campaign and check it; exclusively if the study writes to it.

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
            raise GuardError(name, "has no medium or a capacity of 0", "check the device")
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


_AGAIN = "run it again; if the problem persists, read the kernel's log (dmesg)"


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
        what = f"exists as {device.number}, but its device is not connected"
        raise GuardError(name, what, "connect the device, or correct the path") from error
    return device


def _check_writable(name: str, device: Device) -> None:
    if device.is_read_only:
        raise GuardError(
            name,
            "is read-only: the kernel refuses all writes",
            "if its data may be overwritten, run blockdev --setrw DEVICE (a drive with a "
            "write-protect switch, or a worn-out one, stays read-only)",
        )


def _check_identity_and_consent(
    target: Target, name: str, device: Device, consent: str | None
) -> None:
    by_serial = _serial_fits(target, name, device)
    if not by_serial and not is_stable_path(name):
        raise GuardError(
            name,
            "may be the name of another device after the next boot",
            "name it by /dev/disk/by-id/... or /dev/disk/by-path/..., or add its serial number to "
            'the target: serial = "..." (`lsblk -o NAME,SERIAL` shows it)',
        )
    if not by_serial and consent is None:
        raise GuardError(
            name,
            "would be overwritten, which needs your consent",
            "review `storlab plan`, then run with the hash that it prints: --plan-hash HASH",
        )


def _serial_fits(target: Target, name: str, device: Device) -> bool:
    if target.serial is None:
        return False
    if len(target.locations) > 1:
        raise GuardError(
            f"target {target.name}: serial",
            "is for a target with one device, but this target has several",
            "name the devices by /dev/disk/by-id paths, remove serial, and use --plan-hash",
        )
    identities = device.identities()
    if target.serial not in identities:
        known = ", ".join(identities) or "the kernel knows none"
        raise GuardError(
            f"target {target.name}: serial",
            f'"{target.serial}" is not the serial number of {name} ({known})',
            "check which device you mean; `lsblk -o NAME,SERIAL,SIZE` lists all devices",
        )
    _check_one_device(target, name, device)
    return True


def _check_one_device(target: Target, name: str, device: Device) -> None:
    """Check that the target's serial number belongs to one device only.

    All namespaces of an NVMe drive have its serial number, but consent to overwrite one namespace
    does not apply to the others.

    Raises:
        GuardError: The serial number belongs to several devices.
    """
    serial = target.serial or ""
    facts = device.facts()
    if serial in (facts.get("wwid"), facts.get("uuid"), facts.get("backing_file")):
        return
    others = device.others_with(serial)
    later = device.namespace if device.namespace != "1" else None
    if others or later:
        rivals = ", ".join(others) or f"all its namespaces, of which this is number {later}"
        better = facts.get("wwid") or "its name in /dev/disk/by-id"
        raise GuardError(
            f"target {target.name}: serial",
            f'"{serial}" is the serial number of {name} and of {rivals}',
            f"use an id that only this device has: {better}",
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
        why = "; ".join(uses) or "another process or the kernel has opened it exclusively"
        return GuardError(name, f"is in use: {why}", _FREE_IT)
    if error.errno in (errno.ENOENT, errno.ENXIO, errno.ENODEV, errno.ENOMEDIUM):
        return GuardError(name, f"is gone ({error.strerror})", "check that it is connected")
    return GuardError(name, f"cannot be opened: {error.strerror}", "check the device")


_FREE_IT = "if its data may be overwritten, unmount it, end the programs that use it, and try again"


def _check_unused(name: str, device: Device) -> None:
    uses = uses_of_device(device)
    if uses:
        raise GuardError(name, f"is in use: {'; '.join(uses)}", _FREE_IT)


def _check_blank(name: str, fd: int, size_bytes: int) -> None:
    try:
        signatures = find_signatures(fd, size_bytes)
    except OSError as error:
        raise GuardError(
            name, f"cannot be read ({error.strerror}), so it may contain data", "check the device"
        ) from error
    if signatures:
        raise GuardError(
            name,
            f"contains data: {', '.join(signatures)}",
            f"if its data may be erased, erase it yourself first: wipefs --all {name}",
        )
