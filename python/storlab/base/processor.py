"""Can this processor run the native library? Looked up before anything of it runs."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from storlab.base.errors import PreflightError

CPUINFO = Path("/proc/cpuinfo")
_SECTION = b".storlab.cpu"
# The kernel's names of what the compiler calls otherwise.
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
_ALIKE = """
ssse3 sse4a popcnt movbe aes pclmulqdq avx avx2 fma f16c bmi1 bmi2 adx gfni vaes vpclmulqdq
avx512f avx512bw avx512cd avx512dq avx512vl avx512ifma avx512vbmi
"""
# Others are not judged. A name that the kernel has in another form must refuse nobody; nor must
# rdrand and rdseed, which a compiler sees and never uses by itself, where the kernel hides them
# because they are broken (rdseed of AMD's Zen 5, AMD-SB-7055).
_FLAGS = _RENAMED | {name: name for name in _ALIKE.split()}


def cpu_model() -> str | None:
    """What the processor is called, as the kernel has it; None where it does not tell."""
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
    """Look at the native library in one of these directories, if there is one.

    Raises PreflightError where it was built for instructions that this processor does not have.
    """
    names = [Path(place, f"_native{suffix}") for place in places for suffix in EXTENSION_SUFFIXES]
    library = next((name for name in names if name.is_file()), None)
    if library is None:
        return
    needed = [name for name in built_for(library) if name in _FLAGS]
    if not needed:
        return
    flags = _flags(cpuinfo or CPUINFO)
    missing = sorted(name for name in needed if flags and _FLAGS[name] not in flags)
    if missing:
        raise PreflightError(
            str(library),
            f"this build of storlab is for a newer processor: this one lacks {', '.join(missing)}",
            "build it on this machine, or for all of them: make clean, then make build "
            "TARGET_CPU=x86-64-v2",
        )


def _flags(cpuinfo: Path) -> frozenset[str]:
    """Of the first processor; empty where the kernel does not tell."""
    try:
        with cpuinfo.open(encoding="ascii", errors="replace") as lines:
            line = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        return frozenset()
    return frozenset(line.partition(":")[2].split())


def built_for(library: Path) -> Iterable[str]:
    """What the compiler took for granted, by its names, from a section of the ELF file.

    Empty for a file that is of another form, or has no such section.
    """
    with library.open("rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
            return []
        (table,) = struct.unpack_from("<Q", head, 40)
        size, count, names_at = struct.unpack_from("<HHH", head, 58)
        file.seek(table)
        rows = file.read(size * count)
        # Name, and where it lies: offset and bytes.
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
    """Read a list of CPUs as the kernel writes it: ``0-3,8``. Raises ValueError for other text."""
    cpus: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus
