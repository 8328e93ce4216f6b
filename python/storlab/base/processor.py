"""Check that this processor has all instructions that the native library was compiled for.

The check must come before the import of the library, which could crash the process.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from storlab.base.errors import PreflightError

CPUINFO = Path("/proc/cpuinfo")
_SECTION = b".storlab.cpu"
# CPU features that the compiler and the kernel (/proc/cpuinfo) name differently.
_RENAMED = {
    "sse3": "pni",
    "lzcnt": "abm",
    "cmpxchg16b": "cx16",
    "sha": "sha_ni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "avx512bf16": "avx512_bf16",
    "avx512bitalg": "avx512_bitalg",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avxvnni": "avx_vnni",
}
# Position of each checked CPU feature in CPUID: glibc's number of the leaf (enum in
# <sys/platform/x86.h>) and the register, then the bit by the compiler's name of the feature (Intel
# SDM volume 2A, CPUID). rdrand and rdseed are not checked: compilers never use them on their own,
# and kernels hide them if they are broken (rdseed of AMD's Zen 5, AMD-SB-7055).
_BITS = {
    (0, 2): {
        "sse3": 0, "pclmulqdq": 1, "ssse3": 9, "fma": 12, "cmpxchg16b": 13, "sse4.1": 19,
        "sse4.2": 20, "movbe": 22, "popcnt": 23, "aes": 25, "avx": 28, "f16c": 29,
    },
    (1, 1): {
        "bmi1": 3, "avx2": 5, "bmi2": 8, "avx512f": 16, "avx512dq": 17, "adx": 19,
        "avx512ifma": 21, "avx512cd": 28, "sha": 29, "avx512bw": 30, "avx512vl": 31,
    },
    (1, 2): {
        "avx512vbmi": 1, "avx512vbmi2": 6, "gfni": 8, "vaes": 9, "vpclmulqdq": 10,
        "avx512vnni": 11, "avx512bitalg": 12, "avx512vpopcntdq": 14,
    },
    (2, 2): {"lzcnt": 5, "sse4a": 6},
    (6, 0): {"avxvnni": 4, "avx512bf16": 5},
}  # fmt: skip
_FLAGS = {name: _RENAMED.get(name, name) for bits in _BITS.values() for name in bits}


def cpu_model() -> str | None:
    """Return the processor model from /proc/cpuinfo, or None if the kernel reports none."""
    facts: dict[str, str] = {}
    try:
        lines = CPUINFO.read_text(errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        facts[name.strip()] = value.strip()
    return facts.get("model name") or facts.get("Model") or facts.get("CPU part")


def check_build(places: Sequence[str], cpuinfo: Path | None = None) -> None:
    """Check that this processor can run the native library, if the library exists.

    Args:
        places: The directories in which the library may be.
        cpuinfo: A file to read instead of /proc/cpuinfo.

    Raises:
        PreflightError: The library was built for instructions that this processor lacks.
    """
    names = [Path(place, f"_native{suffix}") for place in places for suffix in EXTENSION_SUFFIXES]
    library = next((name for name in names if name.is_file()), None)
    if library is None:
        return
    needed = [name for name in built_for(library) if name in _FLAGS]
    if not needed:
        return
    flags = _flags(cpuinfo or CPUINFO)
    lacked = lacked_by_cpuid()
    missing = sorted(
        name for name in needed if name in lacked or (flags and _FLAGS[name] not in flags)
    )
    if missing:
        raise PreflightError(
            str(library),
            f"was built for a newer processor; this one lacks {', '.join(missing)}",
            "build storlab on this machine, or for all x86-64 processors: make clean, then "
            "make build TARGET_CPU=x86-64-v2",
        )


def _flags(cpuinfo: Path) -> frozenset[str]:
    """Return the CPU features that the kernel reports for the first processor; may be empty."""
    try:
        with cpuinfo.open(encoding="ascii", errors="replace") as lines:
            line = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        return frozenset()
    return frozenset(line.partition(":")[2].split())


def lacked_by_cpuid() -> frozenset[str]:
    """Return the CPU features that CPUID reports as missing, by the compiler's names.

    CPUID is needed because emulators such as qemu-x86_64 show the host's /proc/cpuinfo, whose
    processor may have more features. It is read through glibc 2.33 or newer; without that, or on
    another architecture, the result is empty.
    """
    if os.uname().machine != "x86_64":
        return frozenset()
    try:
        leaf_of = ctypes.CDLL(None).__x86_get_cpuid_feature_leaf
    except AttributeError:
        return frozenset()
    leaf_of.restype = ctypes.POINTER(ctypes.c_uint32)
    return frozenset(
        name
        for (leaf, register), bits in _BITS.items()
        for name, bit in bits.items()
        if not leaf_of(leaf)[register] >> bit & 1
    )


def built_for(library: Path) -> Iterable[str]:
    """Return the CPU features for which a library was compiled, from a section of its ELF file.

    The result is empty if the file is not ELF or does not have storlab's section.
    """
    with library.open("rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
            return []
        (table,) = struct.unpack_from("<Q", head, 40)
        size, count, names_at = struct.unpack_from("<HHH", head, 58)
        file.seek(table)
        rows = file.read(size * count)
        # for each section: offset of its name, and (offset, size) of its content
        sections = [
            (struct.unpack_from("<I", rows, at)[0], struct.unpack_from("<QQ", rows, at + 24))
            for at in range(0, len(rows), size)
        ]

        def content(place: tuple[int, int]) -> bytes:
            file.seek(place[0])
            return file.read(place[1])

        names = content(sections[names_at][1])
        wanted = [place for name, place in sections if names.startswith(_SECTION + b"\0", name)]
        return content(wanted[0]).decode("ascii").split(",") if wanted else []


def cpus_of(text: str) -> set[int]:
    """Parse a list of CPUs in the kernel's format, such as ``0-3,8``.

    Raises:
        ValueError: The text is not such a list.
    """
    cpus: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus
