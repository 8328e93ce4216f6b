"""Check whether a target's file system, block device layers and drives allow the direct path."""

from __future__ import annotations

from collections.abc import Iterator

from storlab.contracts.check import Check
from storlab.workloads.gpudirect.machine.check_rows import error, ok, warning
from storlab.workloads.gpudirect.machine.storage import Under

_OWN_CLIENTS = ("lustre", "beegfs", "wekafs", "gpfs", "virtiofs", "panfs", "scatefs")
_ORDERED = "data=ordered"


def file_system_row(under: Under) -> Check:
    """Check whether the direct path supports the file system."""
    name, kind = "GPU file system", under.file_system
    if kind is None:
        return ok(name, "none, the target is a block device")
    if kind == "xfs":
        return ok(name, "xfs")
    if kind == "ext4":
        modes = sorted(option for option in under.options if option.startswith("data="))
        if _ORDERED in modes:
            return ok(name, f"ext4, {_ORDERED}")
        mode = modes[0] if modes else f"mounted without option {_ORDERED}"
        return warning(
            name,
            f"ext4, {mode}: direct only if mounted with option {_ORDERED}",
            f"mount it with -o {_ORDERED}, or use XFS",
        )
    if kind.startswith("nfs"):
        if "proto=rdma" in under.options:
            return ok(name, f"{kind} over RDMA: direct if its client supports nvidia-fs")
        fix = "mount it with -o proto=rdma, by an RDMA client that supports nvidia-fs"
        return warning(name, f"{kind} without RDMA: not direct", fix)
    if kind in _OWN_CLIENTS:
        return ok(name, f"{kind}: direct if its client supports cuFile")
    return warning(
        name, f"{kind}: cuFile reads it through host memory", "use XFS, or ext4 data=ordered"
    )


def udev_rows(under: Under, *, real: bool = True) -> Iterator[Check]:
    """Yield a warning if udev does not know which file system is on a drive.

    cuFile cannot register a file then, not even in compatibility mode (seen with 1.15 and 1.20).

    Args:
        under: Storage below the target.
        real: Whether the library is NVIDIA's; emulated ones do not use udev.
    """
    if under.unknown_to_udev is not None:
        what = (
            f"udev lists no {under.file_system} file system on the drive "
            f"({under.unknown_to_udev}), so NVIDIA's cuFile refuses its files with path = direct"
        )
        fix = "in a container, mount the host's /run/udev into it; elsewhere, run udev"
        yield (error if real else warning)("udev", what, fix)


def drive_rows(under: Under, *, nvidia_fs: bool) -> Iterator[Check]:
    """Check layers and drives below a target; yield warnings if they prevent direct transfers."""
    for layer in under.layers:
        yield _layer_row(layer.name, layer.kind, nvidia_fs)
    for drive in under.drives:
        if drive.is_local_nvme:
            yield ok("GPU drive", f"{drive.name}, NVMe on PCIe ({drive.pci or 'no address'})")
        elif drive.name.startswith("nvme") and drive.transport in ("rdma", "tcp", "fc"):
            yield _fabric_row(drive.name, drive.transport, nvidia_fs)
        else:
            what = f"{drive.name} is not an NVMe drive: not direct"
            yield warning("GPU drive", what, "use NVMe drives")


def _layer_row(name: str, kind: str, nvidia_fs: bool) -> Check:
    if kind == "raid0":
        if nvidia_fs:
            return ok("GPU layers", f"{name} is RAID 0: direct by nvidia-fs, not by P2PDMA")
        what = f"{name} is RAID 0, which P2PDMA does not support"
        return warning("GPU layers", what, "load nvidia-fs, or measure the drives one by one")
    what = f"{name} ({kind}) is a layer between file and drives: not direct"
    return warning("GPU layers", what, "use the drives themselves, or md RAID 0 with nvidia-fs")


def _fabric_row(name: str, transport: str, nvidia_fs: bool) -> Check:
    if transport == "rdma" and nvidia_fs:
        return ok("GPU drive", f"{name}, NVMe over RDMA: direct by nvidia-fs, not by P2PDMA")
    what = f"{name} is NVMe over {transport}: not direct"
    fix = "load nvidia-fs" if transport == "rdma" else "use RDMA with nvidia-fs, or local drives"
    return warning("GPU drive", what, fix)
