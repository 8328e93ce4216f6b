"""Rows on the ways that data can take: nvidia-fs, P2PDMA of the kernel, or host memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from storlab.base.units import format_bytes_si, format_size
from storlab.contracts.check import Check
from storlab.process.host_memory import host_memory_bytes
from storlab.stores.devices import read_fact
from storlab.workloads.gpudirect.machine.configuration import CuFileConfiguration
from storlab.workloads.gpudirect.machine.kernel import (
    Driver,
    Kernel,
    can_be_locked_bytes,
    has_iommu,
    iommu_words,
)
from storlab.workloads.gpudirect.machine.pci import PciDevice
from storlab.workloads.gpudirect.machine.probe import Probe
from storlab.workloads.gpudirect.machine.rows import ok, warning

KVIKIO_VARIABLE = "KVIKIO_GDS_THRESHOLD"
KVIKIO_USUAL = 16 * 1024
COUNTING = (1, 15)  # the version of cuFile that began to count which way I/Os go
STATIC_BAR1 = (
    "options nvidia NVreg_RegistryDwords="
    '"RMForceStaticBar1=1;ForceP2P=0;RmForceDisableIomapWC=1" in /etc/modprobe.d, and start anew'
)


def driver_row(driver: Driver | None) -> Check:
    """Version and kind."""
    if driver is None:
        return warning(
            "GPU driver", "no NVIDIA driver is loaded", "install it, the open kernel modules"
        )
    kind = "open" if driver.is_open else "proprietary"
    return ok("GPU driver", f"NVIDIA {driver.version}, {kind} kernel modules")


def p2pdma_lacks(
    kernel: Kernel,
    driver: Driver | None,
    cards: Sequence[PciDevice],
    probe: Probe,
    processor: str = "x86_64",
) -> list[tuple[str, str]]:
    """What stands against P2PDMA, each with what to do. What is not told does not."""
    lacks = []
    if processor == "aarch64":
        lacks.append(("an Arm processor, as Grace", "use nvidia-fs"))
    if not kernel.is_new_enough:
        lacks.append((f"kernel {kernel.release or 'unknown'}", "run Linux 6.2 or newer"))
    if kernel.has_p2pdma is False:
        lacks.append(("a kernel without CONFIG_PCI_P2PDMA", "run one that has it"))
    if kernel.nvme_multipath:
        fix = "set nvme_core.multipath=N on the kernel's command line, and start anew"
        lacks.append(("nvme_core multipath=Y", fix))
    if driver is not None and not driver.is_open:
        lacks.append(("proprietary kernel modules", "install the open ones of the NVIDIA driver"))
    old = [gpu for gpu in probe.gpus if not gpu.is_ampere_or_newer]
    if old:
        names = ", ".join(f"GPU {gpu.number} ({gpu.compute})" for gpu in old)
        lacks.append((f"{names} is older than Ampere", "use nvidia-fs"))
    if cards and not any(card.gives_peer_memory for card in cards) and not kernel.static_bar1:
        lacks.append(("GPU memory is not mapped for good (static BAR1)", STATIC_BAR1))
    return lacks


def route_rows(
    nvidia_fs: str | None,
    lacks: Sequence[tuple[str, str]],
    configuration: CuFileConfiguration,
    probe: Probe,
) -> Iterator[Check]:
    """Which path am I on?"""
    if nvidia_fs is not None:
        yield ok("nvidia-fs", f"loaded, version {nvidia_fs}")
    else:
        yield ok("nvidia-fs", "not loaded")
    refused = configuration.p2pdma is False
    if not lacks and not refused:
        yield ok("P2PDMA", "nothing that is known stands against it")
    else:
        against = [what for what, _ in lacks] + (["use_pci_p2pdma is false"] if refused else [])
        yield ok("P2PDMA", f"not possible: {', '.join(against)}")
    forced = configuration.force_compat
    if forced:
        fix = "set force_compat_mode to false in cufile.json, or CUFILE_FORCE_COMPAT_MODE=0"
        yield warning("GPU path", "host memory: compatibility mode is forced", fix)
    elif nvidia_fs is not None:
        yield ok("GPU path", "direct, by nvidia-fs, for what the file system and drive allow")
    elif not lacks and not refused:
        yield ok("GPU path", "direct, by the kernel's P2PDMA, for local NVMe drives")
    else:
        yield _no_route(lacks, refused, _compat_allowed(configuration, probe))


def _no_route(
    lacks: Sequence[tuple[str, str]], refused: bool, compat_allowed: bool | None
) -> Check:
    fixes = [fix for _, fix in lacks]
    if refused:
        fixes.append("set use_pci_p2pdma to true in cufile.json")
    then = {
        True: "cuFile moves every byte by way of host memory (compatibility mode)",
        False: "cuFile refuses to open (5001), since compatibility mode is not allowed",
        None: "cuFile falls back to host memory where its configuration allows that, else refuses",
    }[compat_allowed]
    return warning(
        "GPU path",
        f"not direct: neither nvidia-fs nor P2PDMA is at hand, so that {then}",
        f"load nvidia-fs (package nvidia-gds), or for P2PDMA: {'; '.join(fixes)}",
    )


def _compat_allowed(configuration: CuFileConfiguration, probe: Probe) -> bool | None:
    told = probe.cufile.get("compat_allowed")
    return told if isinstance(told, bool) else configuration.allow_compat


def configuration_row(found: CuFileConfiguration, probe: Probe) -> Check:
    """What is in force; the library itself is believed before the file."""
    allowed = _compat_allowed(found, probe)
    told = {
        "compatibility mode": allowed,
        "P2PDMA": found.p2pdma,
        "polling": probe.cufile.get("poll_mode", found.poll_mode),
    }
    words = {True: "on", False: "off", None: "by default"}
    parts = [f"{name} {words[value]}" for name, value in told.items() if value in words]
    if allowed is not None:
        parts[0] = f"compatibility mode {'allowed' if allowed else 'not allowed'}"
    if found.direct_io_kb is not None:
        parts.append(f"at most {found.direct_io_kb} KiB at once")
    where = "no file, the library's defaults" if found.path is None else str(found.path)
    if found.problem:
        fix = "correct the file: storlab and cuFile take the defaults"
        return warning("cuFile configuration", found.problem, fix)
    return ok("cuFile configuration", f"{where}: {', '.join(parts)}")


def library_rows(probe: Probe) -> Iterator[Check]:
    """As loaded; what could not be loaded is told by who needs it."""
    for name, library in (("libcuda", probe.cuda), ("libcufile", probe.cufile)):
        if library and not library.get("error"):
            what = f"version {library.get('version') or 'unknown'}, {library.get('path')}"
            yield ok(name, what)
    version = str(probe.cufile.get("version") or "")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if len(numbers) == 2 and numbers < COUNTING:
        yield warning(
            "proof of path",
            f"libcufile {version} does not count which way I/Os go",
            "pip install 'storlab[gpu]', or a cuFile of 1.15 or newer",
        )


def small_io_row(environment: Mapping[str, str]) -> Check:
    """Below which size applications silently use POSIX."""
    text = environment.get(KVIKIO_VARIABLE, "")
    least = int(text) if text.isdigit() else KVIKIO_USUAL
    return ok(
        "small GPU I/O",
        f"storlab calls cuFile at every size; applications over KvikIO read by POSIX below "
        f"{format_size(least)} ({KVIKIO_VARIABLE}); what is not aligned to 4 KiB cuFile copies "
        "once more",
    )


def iommu_rows(root: Path, cards: Sequence[PciDevice]) -> Iterator[Check]:
    """Whether data between devices are translated, and so go through the root complex."""
    told = " ".join(iommu_words(root))
    translated = [card.address for card in cards if (card.iommu_type or "").startswith("DMA")]
    if translated:
        yield warning(
            "IOMMU",
            f"translates what {', '.join(translated)} reads and writes: transfers between devices "
            "go up to the root complex, or fail",
            "iommu=pt, or intel_iommu=off or amd_iommu=off, on the kernel's command line",
        )
    elif has_iommu(root):
        yield ok("IOMMU", f"on, and passes through ({told or 'the default of this kernel'})")
    else:
        yield ok("IOMMU", f"off{f' ({told})' if told else ''}")


def memlock_row(root: Path, is_root: bool) -> Check | None:
    """Buffers are locked into memory; None where there is no limit."""
    limits = read_fact(root / "proc/self/limits") or ""
    most = can_be_locked_bytes(limits)
    if most is None or is_root or most >= host_memory_bytes() // 2:
        return None
    return warning(
        "GPU memlock",
        f"{format_bytes_si(most)} may be locked, and buffers of cuFile are locked memory",
        "ulimit -l unlimited, or memlock in /etc/security/limits.conf",
    )
