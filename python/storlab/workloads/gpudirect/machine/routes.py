"""Check which routes data can take to a GPU: nvidia-fs, the kernel's P2PDMA, host memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from storlab.base.units import format_bytes_si, format_size
from storlab.contracts.check import Check
from storlab.process.host_memory import host_memory_bytes
from storlab.stores.devices import read_fact
from storlab.stores.pci import PciDevice
from storlab.workloads.gpudirect.flags import SWITCH_ON_COUNTING
from storlab.workloads.gpudirect.machine.check_rows import ok, warning
from storlab.workloads.gpudirect.machine.configuration import CuFileConfiguration
from storlab.workloads.gpudirect.machine.effective_settings import EffectiveSettings, first_known
from storlab.workloads.gpudirect.machine.kernel import (
    Driver,
    Kernel,
    can_be_locked_bytes,
    has_iommu,
    iommu_words,
    nvidia_fs_counts,
)
from storlab.workloads.gpudirect.machine.probe import Probe

KVIKIO_VARIABLE = "KVIKIO_GDS_THRESHOLD"
KVIKIO_USUAL = 16 * 1024
LOG_FIX = "see cufile.log for the reason, with CUFILE_LOGGING_LEVEL=DEBUG"
NVIDIA_FS_FIX = (
    "give the container access to /dev/nvidia-fs*, or install an NVMe driver that supports "
    "nvidia-fs (DOCA-OFED)"
)
COUNTING = (1, 15)  # first version of cuFile with counters per route
STATIC_BAR1 = (
    "options nvidia NVreg_RegistryDwords="
    '"RMForceStaticBar1=1;ForceP2P=0;RmForceDisableIomapWC=1" in /etc/modprobe.d, and reboot'
)


def driver_row(driver: Driver | None) -> Check:
    """Check whether an NVIDIA driver is loaded; report its version and kind of modules."""
    if driver is None:
        return warning(
            "GPU driver", "no NVIDIA driver is loaded", "install it with the open kernel modules"
        )
    kind = "open" if driver.is_open else "proprietary"
    return ok("GPU driver", f"NVIDIA {driver.version}, {kind} kernel modules")


def p2pdma_obstacles(
    kernel: Kernel,
    driver: Driver | None,
    cards: Sequence[PciDevice],
    probe: Probe,
    processor: str = "x86_64",
) -> list[tuple[str, str]]:
    """Return what prevents P2PDMA, each with a fix; unknown facts are assumed to be fine."""
    lacks = []
    if processor == "aarch64":
        lacks.append(("an Arm processor, such as Grace", "use nvidia-fs"))
    if not kernel.is_new_enough:
        lacks.append((f"kernel {kernel.release or 'unknown'}", "run Linux 6.2 or newer"))
    if kernel.has_p2pdma is False:
        lacks.append(("a kernel without CONFIG_PCI_P2PDMA", "run one that has it"))
    if kernel.nvme_multipath:
        fix = "set nvme_core.multipath=N on the kernel's command line, and restart the machine"
        lacks.append(("nvme_core multipath=Y", fix))
    if driver is not None and not driver.is_open:
        lacks.append(("proprietary kernel modules", "install the open ones of the NVIDIA driver"))
    old = [gpu for gpu in probe.gpus if not gpu.is_ampere_or_newer]
    if old:
        names = ", ".join(f"GPU {gpu.number} ({gpu.compute})" for gpu in old)
        lacks.append((f"{names} is older than Ampere", "use nvidia-fs"))
    if cards and not any(card.gives_peer_memory for card in cards) and not kernel.static_bar1:
        lacks.append(("GPU memory is not mapped permanently (static BAR1)", STATIC_BAR1))
    return lacks


def route_rows(
    nvidia_fs: str | None, lacks: Sequence[tuple[str, str]], held: EffectiveSettings
) -> Iterator[Check]:
    """Check which route data will take; what cuFile reports overrides ``lacks``.

    Args:
        nvidia_fs: Version of nvidia-fs; None if it is not loaded.
        lacks: What prevents P2PDMA, each with a fix.
        held: Settings that cuFile uses.
    """
    serves = held.finds(nvidia_fs)
    against = [*lacks, *held.refusals()]
    if held.ways is not None and not held.has_p2pdma and not against:
        against = [("cuFile cannot reach NVMe drives by it", LOG_FIX)]
    possible = held.has_p2pdma or not against
    yield _nvidia_fs_row(nvidia_fs, serves, possible)
    yield _p2pdma_row(against, possible, serves or bool(held.ways))
    if held.compat_forced:
        fix = "set force_compat_mode to false in cufile.json, or CUFILE_FORCE_COMPAT_MODE=0"
        yield warning("GPU path", "host memory: compatibility mode is forced", fix)
    elif held.ways:
        words = " and ".join(held.way_names)
        yield ok("GPU path", f"direct, by {words}, for local NVMe drives, as cuFile reports")
    elif serves:
        yield ok("GPU path", "direct, by nvidia-fs, if file system and drive allow it")
    elif possible:
        yield ok("GPU path", "direct, by the kernel's P2PDMA, for local NVMe drives")
    else:
        yield _no_route(against, nvidia_fs, held)


def _nvidia_fs_row(version: str | None, serves: bool, possible: bool) -> Check:
    if version is None:
        return ok("nvidia-fs", "not loaded")
    if serves:
        return ok("nvidia-fs", f"loaded, version {version}")
    what = f"loaded, version {version}; cuFile cannot reach NVMe drives by it"
    return ok("nvidia-fs", what) if possible else warning("nvidia-fs", what, NVIDIA_FS_FIX)


def _p2pdma_row(against: Sequence[tuple[str, str]], possible: bool, needless: bool) -> Check:
    """Check P2PDMA, which ``against`` may prevent; ``needless``: another direct route exists."""
    if not against:
        return ok("P2PDMA", "no known obstacle")
    whats = ", ".join(what for what, _ in against)
    if possible:
        return ok("P2PDMA", f"possible, as cuFile reports, despite known obstacles: {whats}")
    if needless:
        return ok("P2PDMA", f"not possible, and not needed: {whats}")
    return warning("P2PDMA", f"not possible: {whats}", "; ".join(fix for _, fix in against))


def _no_route(
    against: Sequence[tuple[str, str]], nvidia_fs: str | None, held: EffectiveSettings
) -> Check:
    then = {
        True: "cuFile moves all data through host memory (compatibility mode)",
        False: "cuFile cannot be opened (5001), as compatibility mode is not allowed",
        None: "cuFile uses host memory if its configuration allows that, or else fails",
    }[held.compat_allowed]
    known = f" (cuFile can access {', '.join(held.storage)} directly)" if held.storage else ""
    load = "load nvidia-fs (package nvidia-gds)" if nvidia_fs is None else NVIDIA_FS_FIX
    return warning(
        "GPU path",
        f"not direct for local drives{known}: neither nvidia-fs nor P2PDMA is available, so {then}",
        f"{load}, or for P2PDMA: {'; '.join(fix for _, fix in against)}",
    )


def configuration_row(
    configured: CuFileConfiguration, held: EffectiveSettings, probe: Probe
) -> Check:
    """Check cuFile's configuration file, and report the settings that cuFile uses."""
    allowed = held.compat_allowed
    polling = None if probe.cufile is None else probe.cufile.poll_mode
    told = {
        "compatibility mode": allowed,
        "P2PDMA": held.p2pdma,
        "polling": first_known(polling, configured.poll_mode),
    }
    words = {True: "on", False: "off", None: "by default"}
    parts = [f"{name} {words[value]}" for name, value in told.items() if value in words]
    if allowed is not None:
        parts[0] = f"compatibility mode {'allowed' if allowed else 'not allowed'}"
    if configured.direct_io_kb is not None:
        parts.append(f"at most {configured.direct_io_kb} KiB at once")
    where = "no file, the library's defaults" if configured.path is None else str(configured.path)
    if configured.problem:
        fix = "correct the file; until then, storlab and cuFile use the defaults"
        return warning("cuFile configuration", configured.problem, fix)
    return ok("cuFile configuration", f"{where}: {', '.join(parts)}")


def library_rows(probe: Probe) -> Iterator[Check]:
    """Yield a line of ``storlab doctor`` for each loaded library, with version and path."""
    for name, library in (("libcuda", probe.cuda), ("libcufile", probe.cufile)):
        if library is not None and library.error is None:
            yield ok(name, f"version {library.version or 'unknown'}, {library.path}")


def proof_row(root: Path, probe: Probe) -> Check | None:
    """Check whether transfers are counted by route; None if cuFile itself counts them."""
    version = "" if probe.cufile is None else probe.cufile.version
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if len(numbers) < 2 or numbers >= COUNTING:
        return None
    what = f"libcufile {version} does not count transfers by route"
    newer = "pip install 'storlab[gpu]', or install cuFile 1.15 or newer"
    counts = nvidia_fs_counts(root)
    if counts:
        return ok("proof of path", f"{what}: nvidia-fs does, in whole MiB and for all processes")
    if counts is False:
        what = f"{what}, and counting in nvidia-fs is off (IO stats: Disabled)"
        return warning("proof of path", what, f"{SWITCH_ON_COUNTING}, or {newer}")
    return warning("proof of path", what, newer)


def small_io_row(environment: Mapping[str, str]) -> Check:
    """Report the transfer size below which applications with KvikIO silently use POSIX."""
    text = environment.get(KVIKIO_VARIABLE, "")
    least = int(text) if text.isdigit() else KVIKIO_USUAL
    return ok(
        "small GPU I/O",
        f"storlab uses cuFile for every size; applications with KvikIO use POSIX below "
        f"{format_size(least)} (set {KVIKIO_VARIABLE} lower for the direct path); cuFile copies "
        "data that is not aligned to 4 KiB once more",
    )


def posix_row(
    kind: str | None, sizes: Sequence[int], configured: CuFileConfiguration
) -> Check | None:
    """Return a warning if cuFile would use POSIX for some of the transfer sizes; else None."""
    least = 1024 * configured.posix_below_kb.get(kind or "", 0)
    small = [size for size in sizes if size < least]
    if not small:
        return None
    field = f"fs.{kind}.posix_gds_min_kb"
    return warning(
        "small GPU I/O",
        f"cuFile silently moves transfers below {format_size(least)} on {kind} through host memory "
        f"({field}), and some have {format_size(min(small))}",
        f"set {field} to 0 in {configured.path}, or remove these transfer sizes",
    )


def iommu_rows(root: Path, cards: Sequence[PciDevice]) -> Iterator[Check]:
    """Check whether the IOMMU translates addresses, which sends transfers to the root complex.

    Nothing is yielded if this is unknown.
    """
    told = " ".join(iommu_words(root))
    translated = [card.address for card in cards if (card.iommu_type or "").startswith("DMA")]
    if translated:
        yield warning(
            "IOMMU",
            f"translates addresses for {', '.join(translated)}: transfers between devices go "
            "through the root complex, or fail",
            "add iommu=pt, or intel_iommu=off or amd_iommu=off, to the kernel's command line",
        )
    elif has_iommu(root):
        yield ok("IOMMU", f"on, and passes through ({told or 'the default of this kernel'})")
    else:
        yield ok("IOMMU", f"off{f' ({told})' if told else ''}")


def memlock_row(root: Path, is_root: bool) -> Check | None:
    """Return a warning if the limit of locked memory is low, as cuFile locks its buffers."""
    limits = read_fact(root / "proc/self/limits") or ""
    most = can_be_locked_bytes(limits)
    if most is None or is_root or most >= host_memory_bytes() // 2:
        return None
    return warning(
        "GPU memlock",
        f"only {format_bytes_si(most)} may be locked, but cuFile locks its buffers in memory",
        "set ulimit -l unlimited, or memlock in /etc/security/limits.conf",
    )
