"""Settings that cuFile uses, from the library's report, its configuration file and defaults."""

from __future__ import annotations

from dataclasses import dataclass

from storlab.workloads.gpudirect.details import CuFileTold, DirectStorage
from storlab.workloads.gpudirect.machine.configuration import CuFileConfiguration
from storlab.workloads.gpudirect.machine.probe import Probe

P2PDMA, NVIDIA_FS = "p2pdma", "nvfs"
ALLOW_FIX = (
    "set use_pci_p2pdma to true in cufile.json, under properties and, if it is also "
    "there, under block.nvme (or set CUFILE_USE_PCIP2PDMA=true)"
)
_WAYS = {
    P2PDMA: "the kernel's P2PDMA",
    NVIDIA_FS: "nvidia-fs",
    "dmabuf": "DMA-BUF",
    "c2c": "the link of processor and GPU (C2C)",
}
_NVME = frozenset({"nvme", "nvme_p2p"})


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """Settings that cuFile uses; None if unknown."""

    compat_allowed: bool | None
    compat_forced: bool
    p2pdma: bool
    nvme_p2pdma: bool | None  # as p2pdma, for NVMe drives only
    is_told: bool  # whether p2pdma is configured or reported
    ways: tuple[str, ...] | None  # ways by which cuFile reports to reach NVMe drives directly
    storage: tuple[str, ...]  # other kinds of storage that cuFile reports to reach directly

    @property
    def has_p2pdma(self) -> bool:
        """Whether cuFile itself reports that it can use P2PDMA for NVMe drives."""
        return self.ways is not None and P2PDMA in self.ways

    @property
    def way_names(self) -> list[str]:
        """Names for messages of the ways by which cuFile can reach NVMe drives."""
        return [_WAYS.get(way, way) for way in self.ways or ()]

    def finds(self, nvidia_fs: str | None) -> bool:
        """Return whether cuFile can use nvidia-fs: it is loaded, and cuFile's report allows it."""
        if nvidia_fs is None:
            return False
        return self.ways is None or NVIDIA_FS in self.ways

    def refusals(self) -> list[tuple[str, str]]:
        """Return the settings of cuFile that prevent P2PDMA, each with a fix."""
        if self.has_p2pdma:
            return []
        if not self.p2pdma:
            unset = "" if self.is_told else " by default"
            return [(f"use_pci_p2pdma is false{unset}", ALLOW_FIX)]
        if self.nvme_p2pdma is False:
            fix = "set use_pci_p2pdma to true under block.nvme in cufile.json"
            return [("block.nvme.use_pci_p2pdma is false", fix)]
        return []


def effective_settings(configuration: CuFileConfiguration, probe: Probe) -> EffectiveSettings:
    """Combine settings; the library's report overrides its file, and the file the defaults."""
    library, direct = probe.cufile or CuFileTold(), probe.direct or DirectStorage()
    forced = first_known(library.compat_forced, configuration.force_compat)
    p2pdma = first_known(library.p2pdma, configuration.p2pdma)
    return EffectiveSettings(
        compat_allowed=first_known(library.compat_allowed, configuration.allow_compat),
        compat_forced=bool(forced),
        p2pdma=bool(p2pdma),  # cuFile's default is false
        nvme_p2pdma=configuration.nvme_p2pdma,
        is_told=p2pdma is not None,
        ways=direct.nvme,
        storage=tuple(kind for kind in direct.storage if kind not in _NVME),
    )


def first_known(library: bool | None, configuration: bool | None) -> bool | None:
    """Return the setting that the library reports, or the configured one if it reports none."""
    return configuration if library is None else library
