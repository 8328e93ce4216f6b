"""State of processors and memory that affects latencies: sleep, turbo, frequency, NUMA, pressure.

Each function reads sysfs or /proc below ``root``, and returns None or an empty result for what the
machine does not report, as virtual machines and containers often do. Sources: the kernel's
``Documentation/admin-guide/pm/cpuidle.rst``, ``cpufreq.rst`` and ``intel_pstate.rst``, and
``Documentation/accounting/psi.rst``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from storlab.base.processor import cpus_of

ROOT = Path("/")
_CPUS = "sys/devices/system/cpu"
_TOTAL = re.compile(r"^some .*\btotal=(\d+)", re.MULTILINE)
_PRESSURES = ("cpu", "memory", "io")


class IdleState(NamedTuple):
    """State in which an idle core waits for work."""

    key: str  # name of its directory, such as state3
    name: str  # such as C6
    latency_us: int  # time to wake up


def idle_states(cpu: int, root: Path = ROOT) -> list[IdleState]:
    """Return the idle states of a core that are not switched off; empty if not reported."""
    states = []
    for place in sorted((root / _CPUS / f"cpu{cpu}/cpuidle").glob("state*")):
        latency_us = _number(place / "latency")
        if latency_us is not None and _number(place / "disable") != 1:
            states.append(IdleState(place.name, _text(place / "name") or place.name, latency_us))
    return states


def idle_entries(cpu: int, keys: Collection[str], root: Path = ROOT) -> dict[str, int]:
    """Return how often a core has entered idle states since boot, by ``IdleState.key``."""
    counted = {key: _number(root / _CPUS / f"cpu{cpu}/cpuidle/{key}/usage") for key in keys}
    return {key: count for key, count in counted.items() if count is not None}


def turbo(root: Path = ROOT) -> bool | None:
    """Return whether cores may exceed their base frequency; None if not reported."""
    off = _number(root / _CPUS / "intel_pstate/no_turbo")
    if off is not None:
        return off == 0
    boost = _number(root / _CPUS / "cpufreq/boost")
    return None if boost is None else boost == 1


def frequency_khz(cpu: int, root: Path = ROOT) -> int | None:
    """Return the current frequency of a core in kHz; None if not reported."""
    return _number(root / _CPUS / f"cpu{cpu}/cpufreq/scaling_cur_freq")


def base_frequency_khz(cpu: int, root: Path = ROOT) -> int | None:
    """Return the frequency of a core in kHz that it sustains without turbo; None if not reported.

    The driver acpi-cpufreq reports it as the maximum, others in files of their own.
    """
    place = root / _CPUS / f"cpu{cpu}"
    known = _number(place / "cpufreq/base_frequency")
    if known is None and (mhz := _number(place / "acpi_cppc/nominal_freq")):
        known = 1000 * mhz
    if known is None and _text(place / "cpufreq/scaling_driver") == "acpi-cpufreq":
        known = _number(place / "cpufreq/cpuinfo_max_freq")
    return known


def numa_nodes(root: Path = ROOT) -> dict[int, set[int]]:
    """Return the CPUs of each NUMA node that has any; empty if not reported."""
    nodes: dict[int, set[int]] = {}
    for place in (root / "sys/devices/system/node").glob("node[0-9]*"):
        if cpus := cpus_of(_text(place / "cpulist") or ""):
            nodes[int(place.name.removeprefix("node"))] = cpus
    return nodes


def cpus_near(nodes: Collection[int], root: Path = ROOT) -> set[int]:
    """Return the CPUs of some NUMA nodes; empty if the machine has only one node with CPUs."""
    known = numa_nodes(root)
    return set().union(*(known.get(node, set()) for node in nodes)) if len(known) > 1 else set()


def stalled_us(root: Path = ROOT) -> dict[str, int]:
    """Return for how long any task of the machine has waited for a resource since boot, in us.

    Keys are cpu, memory and io. This is the kernel's pressure stall information (PSI); resources
    that it does not report are missing.
    """
    texts = {name: _text(root / "proc/pressure" / name) or "" for name in _PRESSURES}
    found = {name: _TOTAL.search(text) for name, text in texts.items()}
    return {name: int(match[1]) for name, match in found.items() if match}


def last_cpus(tasks: Iterator[Path]) -> Iterator[int]:
    """Yield the CPU on which each task last ran, by the tasks' directories in /proc."""
    for task in tasks:
        try:
            # The name before the last bracket may contain any character; field 39 is the CPU.
            yield int((task / "stat").read_text(errors="replace").rpartition(")")[2].split()[36])
        except (OSError, IndexError, ValueError):
            continue  # the task has ended


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
