"""State of the machine around one run: links and paths of drives, workers' cores, and changes.

Whatever a machine does not report, as in most virtual machines, is missing and raises no flag.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any, Self

from storlab.analysis.environments import between, facts_by_path
from storlab.base.clock import monotonic_ns
from storlab.base.units import significant
from storlab.contracts.details import CoreFindings, LinkFindings, MachineFindings
from storlab.model.result import Flag, RunOutcome
from storlab.model.study import Target
from storlab.process.counters import CounterReading, CounterWatch
from storlab.process.other_programs import OtherPrograms
from storlab.process.processor_state import (
    ROOT,
    IdleState,
    base_frequency_khz,
    cpus_near,
    frequency_khz,
    idle_entries,
    idle_states,
    last_cpus,
    stalled_us,
)
from storlab.process.run_queue import WorkerTasks
from storlab.results.environment import cpu_facts, target_facts
from storlab.stores.devices import Device
from storlab.stores.drives import Drive, paths_of, stack_of

PERIOD_S = 1.0
REMOTE_PERCENT = 5.0  # of the readings, in which a worker ran on another node than the drive
SLOW_PERCENT = 80.0  # of the base frequency
DEEP_US = 10  # time to wake up of an idle state that counts as sleep
WAKING_PERCENT = 5.0  # of the time, spent waking up
STALLED_PERCENT = 10.0  # of the time, in which a program waited for memory
BUSY_PERCENT = 5.0  # of a core, used by another program that is named
_PROGRAMS_SHOWN = 3
_TASKS_AT_ONCE = 16  # limits the cost of a reading, about 20 us per task
_PROCESSES = 64  # of a child, whose tasks are looked at
_CHANGES_SHOWN = 5


def drives_of(devices: Sequence[Device]) -> list[Drive]:
    """Return the drives below a target's block devices, each once."""
    found: dict[str, Drive] = {}
    for device in devices:
        if device.is_there:
            for drive in stack_of(device.sysfs)[1]:
                found.setdefault(drive.name, drive)
    return list(found.values())


def near_cpus(drives: Sequence[Drive], root: Path = ROOT) -> set[int]:
    """Return the CPUs of the NUMA nodes of drives.

    Empty if the machine has a single node, or the node of a drive is not reported.
    """
    nodes = {drive.node for drive in drives}
    return set() if None in nodes else cpus_near({n for n in nodes if n is not None}, root)


@contextmanager
def pinned_near(drives: Sequence[Drive], root: Path = ROOT) -> Iterator[None]:
    """Pin this thread, and what it starts, to the CPUs near drives inside a ``with`` block.

    It is not pinned if these CPUs are unknown, or none of them may be used.
    """
    before = os.sched_getaffinity(0)
    cpus = near_cpus(drives, root) & before
    if cpus:
        os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def described(target: Target, base: Path) -> dict[str, Any]:
    """Describe the CPU and a target again, like ``environment.json``.

    Args:
        target: Target to describe.
        base: Directory to which relative paths of the study refer.
    """
    return {"cpu": cpu_facts(), "targets": {target.name: target_facts(target, base)}}


def changes(recorded: Mapping[str, Any], later: Mapping[str, Any]) -> list[str]:
    """Compare the machine's state with an earlier one.

    Args:
        recorded: Content of ``environment.json``, or an earlier result of :func:`described`.
        later: Result of :func:`described`.

    Returns:
        A clause per changed fact, such as ``scheduler of sda: none to bfq``. Facts that were not
        recorded are not compared.
    """
    known_targets = recorded.get("targets", {})
    targets = later["targets"].keys() & known_targets.keys()
    if not targets:
        return []
    before, now = (
        _flat({"CPU": state["cpu"], **{name: state["targets"][name] for name in targets}})
        for state in (recorded, later)
    )
    known = {path.rpartition(".")[2] for path in before}
    clauses = []
    for changed in between(now, before):
        above, _, name = changed.field.rpartition(".")
        if name in known or name.isdigit():
            owner = now.get(f"{above}.name") or above.partition(".")[0]
            told = (_told(value) for value in (changed.there, changed.here))
            words = name.replace("_", " ").replace("pcie", "PCIe")
            clauses.append(f"{words} of {owner}: {' to '.join(told)}")
    return clauses


def _flat(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {".".join(path): value for path, value in facts_by_path(facts).items()}


def _told(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return "not reported" if value is None else str(value)


class MachineWatch:
    """Monitor of drives, worker cores and memory pressure inside a ``with`` block.

    If a child process generates the load, set ``child`` to its id.

    Args:
        drives: Drives below the target.
        root: Root of the file system with /sys and /proc/pressure.
    """

    def __init__(self, drives: Sequence[Drive], root: Path = ROOT) -> None:
        self.child: int | None = None
        self._drives = list(drives)
        self._root = root
        self._near = near_cpus(drives, root)
        self._workers = WorkerTasks()
        self._turn = 0
        self._watch: CounterWatch | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        usable = sorted(os.sched_getaffinity(0))
        states = idle_states(usable[0], self._root)
        self._deep = {state.key: state for state in states if state.latency_us >= DEEP_US}
        self._entries = self._entries_of(usable)
        self._degraded = {drive.name for drive in self._drives if _is_degraded(drive)}
        self._stalled = stalled_us(self._root)
        self._others = OtherPrograms()
        self._began_ns = monotonic_ns()
        if self._near or self._deep or frequency_khz(usable[0], self._root) is not None:
            self._watch = CounterWatch(self._read, "storlab-cores", PERIOD_S)
            self._stack.enter_context(self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._ended_ns = monotonic_ns()
        self._busiest = self._others.busiest(BUSY_PERCENT)[:_PROGRAMS_SHOWN]
        seen = {cpu for r in self._readings for cpu in r.values[::2]}
        self._entries_after = self._entries_of(seen)
        after = stalled_us(self._root)
        long_us = max(1, (self._ended_ns - self._began_ns) // 1000)
        self._stalled_percent = {
            name: min(100.0, 100 * (after[name] - before) / long_us)
            for name, before in self._stalled.items()
            if name in after
        }
        self._links = [
            LinkFindings(
                drive=drive.name,
                link=str(link),
                possible=link.most,
                degraded=link.is_degraded and drive.name in self._degraded,
                limited_by_slot=link.is_limited_by_slot,
            )
            for drive in self._drives
            for link in drive.links
        ]
        self._paths = paths_of(self._drives)

    def _read(self) -> tuple[int, ...]:
        """Return pairs of CPU and its frequency in kHz (0 if unknown), for some worker threads."""
        tasks = sorted(self._workers if self.child is None else _tasks_of(self.child))
        first = self._turn % len(tasks) if tasks else 0
        self._turn += _TASKS_AT_ONCE
        chosen = [*tasks[first:], *tasks[:first]][:_TASKS_AT_ONCE]
        cpus = list(last_cpus(iter(chosen)))
        khz = {cpu: frequency_khz(cpu, self._root) or 0 for cpu in set(cpus)}
        return tuple(number for cpu in cpus for number in (cpu, khz[cpu]))

    @property
    def _readings(self) -> list[CounterReading]:
        return [] if self._watch is None else self._watch.readings

    def _entries_of(self, cpus: Iterable[int]) -> dict[int, dict[str, int]]:
        """Return how often cores have entered each deep idle state; empty if there is none."""
        return {cpu: idle_entries(cpu, self._deep, self._root) for cpu in cpus if self._deep}

    def judge(self, outcome: RunOutcome, changed: Sequence[str] = ()) -> None:
        """Add what was found to the details of a run, and flags to its flags.

        Call it after the ``with`` block.

        Args:
            outcome: Outcome of the run.
            changed: Result of :func:`changes`.
        """
        start_ns, end_ns = outcome.window_start_ns, outcome.window_end_ns
        findings = MachineFindings(
            links=tuple(self._links),
            paths={name: tuple(map(str, paths)) for name, paths in self._paths.items()},
            cores=self._cores(start_ns, end_ns),
            stalled_percent=self._stalled_percent,
            programs=dict(self._busiest),
            changed=tuple(changed),
        )
        outcome.details["machine"] = findings.model_dump(mode="json")
        outcome.flags += [*machine_flags(findings), *self._path_flags()]

    def _cores(self, start_ns: int, end_ns: int) -> CoreFindings | None:
        """Return where and how fast workers ran in the measure window; None if not known."""
        inside = [r.values for r in self._readings if start_ns <= r.time_ns <= end_ns and r.values]
        seen: Counter[int] = Counter(cpu for values in inside for cpu in values[::2])
        if not seen:
            return None
        base_khz = {cpu: base_frequency_khz(cpu, self._root) for cpu in seen}
        rates = [
            (khz / 1000, base / 1000)
            for values in inside
            for cpu, khz in zip(values[::2], values[1::2], strict=True)
            if khz and (base := base_khz[cpu])
        ]
        mhz, base_mhz = map(fmean, zip(*rates, strict=True)) if rates else (None, None)
        remote = sum(count for cpu, count in seen.items() if cpu not in self._near)
        waking, state = self._waking(sorted(seen))
        return CoreFindings(
            cpus=tuple(sorted(seen)),
            remote_percent=100 * remote / seen.total() if self._near else None,
            mhz=mhz,
            base_mhz=base_mhz,
            waking_percent=waking,
            idle_state=state,
        )

    def _waking(self, cpus: Sequence[int]) -> tuple[float | None, str]:
        """Return how much of the time cores took to wake up at most, and from which state.

        The time is that of the run in percent, as the mean of the cores; the state is the one that
        took most.
        """
        spent_us: Counter[str] = Counter()
        known = [cpu for cpu in cpus if self._entries.get(cpu)]
        for cpu in known:
            before, after = self._entries[cpu], self._entries_after.get(cpu, {})
            for key, state in self._deep.items():
                woken = max(0, after.get(key, 0) - before.get(key, 0))
                spent_us[_state_text(state)] += woken * state.latency_us
        if not spent_us:
            return None, ""
        long_us = (self._ended_ns - self._began_ns) / 1000 * len(known)
        return min(100.0, 100 * spent_us.total() / long_us), spent_us.most_common(1)[0][0]

    def _path_flags(self) -> Iterator[Flag]:
        clauses = []
        for name, paths in self._paths.items():
            down = [str(path) for path in paths if not path.is_usable]
            clauses += [f"of {name}: {', '.join(down)}"] if down else []
            if paths[0].access and not any(path.is_optimized for path in paths):
                clauses.append(f"no path of {name} is optimized")
        if clauses:
            what = f"paths to the drive were not all in use: {'; '.join(clauses)}"
            yield Flag(kind="path-degraded", message=what)


def _is_degraded(drive: Drive) -> bool:
    return any(link.is_degraded for link in drive.links)


def _state_text(state: IdleState) -> str:
    return f"{state.name} ({state.latency_us} us)"


def _tasks_of(pid: int) -> Iterator[Path]:
    """Yield the tasks of a process and of its descendants."""
    pids = [str(pid)]
    for own in pids:
        try:
            tasks = list(Path(f"/proc/{own}/task").iterdir())
            for task in tasks:
                pids += (task / "children").read_text().split()
        except OSError:
            continue  # the process has ended, or the kernel lists no children
        yield from tasks
        if len(pids) > _PROCESSES:
            return


def changed_flag(changed: Sequence[str], since: str = "the campaign began") -> Flag:
    """Return the flag of a run before which facts of the machine had changed."""
    shown = "; ".join(changed[:_CHANGES_SHOWN])
    rest = len(changed) - _CHANGES_SHOWN
    more = f"; and {rest} more" if rest > 0 else ""
    return Flag(kind="machine-changed", message=f"changed since {since}: {shown}{more}")


def machine_flags(found: MachineFindings) -> Iterator[Flag]:
    """Yield the flags that follow from what was found about the machine of a run."""
    slow = [f"{x.drive} at {x.link}, {x.possible} possible" for x in found.links if x.degraded]
    if slow:
        yield Flag(
            kind="link-degraded",
            message=f"PCIe links below what drive and slot can do: {'; '.join(slow)}",
        )
    cores = found.cores
    if cores is not None and (cores.remote_percent or 0.0) >= REMOTE_PERCENT:
        yield Flag(
            kind="remote-node",
            message=f"workers ran on another NUMA node than the drive for "
            f"{cores.remote_percent:.0f} % of the time",
        )
    if cores is not None and (cores.waking_percent or 0.0) >= WAKING_PERCENT:
        yield Flag(
            kind="sleeping-cores",
            message=f"the workers' cores took up to {cores.waking_percent:.0f} % of the time to "
            f"wake up, mostly from idle state {cores.idle_state}",
        )
    if cores is not None and cores.mhz is not None and cores.base_mhz:
        percent = 100 * cores.mhz / cores.base_mhz
        if percent < SLOW_PERCENT:
            yield Flag(
                kind="slow-cores",
                message=f"the workers' cores ran at {cores.mhz:,.0f} MHz, {percent:.0f} % of their "
                f"base frequency of {cores.base_mhz:,.0f} MHz",
            )
    waited = found.stalled_percent.get("memory", 0.0)
    if waited >= STALLED_PERCENT:
        yield Flag(
            kind="memory-pressure",
            message=f"programs on this machine waited for memory in {significant(waited, 2)} % of "
            "the time",
        )
    if found.changed:
        yield changed_flag(found.changed)
