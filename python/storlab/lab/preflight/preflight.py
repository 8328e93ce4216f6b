"""Preflight checks (``storlab doctor``): whether this machine can run a study undistorted.

Checks never write data. A check with status ``error`` stops ``storlab run``; a ``warning`` is only
printed.
"""

from __future__ import annotations

import json
import os
import platform
import re
import resource
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from storlab import _native
from storlab.base.errors import PreflightError, StorlabError
from storlab.base.units import format_bytes_si
from storlab.contracts.check import Check
from storlab.contracts.registry import FAMILIES, get_engine, get_meter
from storlab.lab.plan.home_space import HomeNeed, home_need
from storlab.lab.plan.memory import memory_of
from storlab.lab.preflight.attachment import attachment_checks, state_check
from storlab.lab.preflight.directories import directory_checks
from storlab.lab.preflight.families import family_machine_checks, family_target_checks
from storlab.lab.preflight.health import health_checks
from storlab.lab.preflight.limits import io_limit_checks, limit_checks
from storlab.lab.preflight.machine import SPIN_NS, core_checks, spin_ns
from storlab.lab.preflight.power import power_checks
from storlab.lab.preflight.s3 import store_checks
from storlab.lab.watch.limits import limit_facts
from storlab.model.point import Plan, Point
from storlab.model.study import StudyBase, Target
from storlab.process.host_memory import host_memory_bytes, host_memory_text
from storlab.process.open_files import most_open_files
from storlab.results.environment import governor, scheduler
from storlab.stores.data_file import is_kernel_place
from storlab.stores.devices import Device, device_number, read_fact
from storlab.stores.filesystems import (
    FileSystem,
    existing_parent,
    file_system_of,
    free_bytes,
    supports_direct,
)
from storlab.stores.home import home_of
from storlab.stores.s3.target import S3Hold
from storlab.stores.sidecar import is_complete, made_by_storlab
from storlab.stores.zones import Zones

_ROOMY_MEMLOCK = 64 << 20
OWN_FILES = 128  # files of storlab itself: results, meters, libraries


def check_machine(
    length_ns: int = SPIN_NS,
    kinds: Collection[str] | None = None,
    points: Sequence[Point] = (),
    memory_bytes: int = 0,
) -> list[Check]:
    """Check this machine in general, or for given workload families and points.

    Args:
        length_ns: Time for which all cores are kept busy to find lost CPU time.
        kinds: Workload families to check for; None for all.
        points: Points of a study.
        memory_bytes: Memory that a run needs.
    """
    return [
        *core_checks(length_ns),
        *limit_checks(
            limit_facts(), len(os.sched_getaffinity(0)), _most_workers(points), memory_bytes
        ),
        _build(),
        _uring(),
        _clock(),
        _governor(),
        state_check(),
        _memlock(),
        _engine_check("fio", needed=False),
        _meters_here(),
        *family_machine_checks(FAMILIES if kinds is None else kinds, points),
    ]


def _most_workers(points: Sequence[Point]) -> int:
    own = [point for point in points if point.clients is None]
    return max((FAMILIES[p.kind].page.load.workers_of(p.params) for p in own), default=0)


def _meters_here() -> Check:
    """Report the power sensors of this machine that can be read without network access."""
    local = [sensor for kind in ("rapl", "hwmon") for sensor in get_meter(kind).discover()]
    usable = sorted(sensor.sensor for sensor in local if sensor.available)
    if usable:
        return _ok("power", f"{', '.join(usable)}; `storlab meters` lists all")
    return _ok("power", "this machine has no power sensor of its own; see `storlab meters`")


def check_study(
    study: StudyBase,
    plan: Plan,
    base: Path,
    stores: Mapping[str, S3Hold] | None = None,
    left: Collection[str] = (),
) -> list[Check]:
    """Check this machine, and the engines and targets that a plan uses.

    Args:
        study: Study to check.
        plan: Plan of the study.
        base: Directory that relative paths of the study start from.
        stores: S3 targets that a guard has already locked, by name; others are only read.
        left: Ids of interrupted runs, whose remaining files count as free space.
    """
    kinds = {point.kind for point in plan.points.values()}
    points = list(plan.points.values())
    needed = max((memory_of(study, point) for point in points if point.clients is None), default=0)
    machine = check_machine(spin_ns(plan.estimated_ns), kinds, points, needed)
    checks = [check for check in machine if check.name not in ("fio", "power")]
    checks.append(_open_files(study, plan))
    engines = sorted({point.engine for point in plan.points.values()})
    checks += [_engine_check(engine, needed=True) for engine in engines]
    used = {point.target for point in plan.points.values()}
    for target in study.target:
        if target.name in used and target.s3 is not None:
            hold = (stores or {}).get(target.name)
            checks += [_under(target, c) for c in store_checks(target, plan, base, hold)]
        elif target.name in used and not target.is_null:
            inside = {} if target.directory is None else {"directory": str(base / target.directory)}
            place = target.model_copy(update=inside)
            need = home_need(_points_on(target, plan), study.study, place, left)
            checks += [_under(target, check) for check in _target_checks(target, plan, base, need)]
            places = [base / location for location in target.locations]
            attached = attachment_checks(places, numa_local=study.study.numa_local)
            checks += [_under(target, check) for check in attached]
        if target.name in used:
            known = family_target_checks(target, _points_on(target, plan), base)
            checks += [_under(target, check) for check in (*known, *power_checks(target, base))]
    checks += health_checks([t for t in study.target if t.name in used], base)
    checks += _cautions(study, plan)
    metered = any(meter.kind != "declared" for t in study.target for meter in t.meters)
    if metered and study.study.settle == 0:
        what = "settle = 0 leaves no pause between runs, so idle power cannot be measured"
        checks.append(_warn("power", what, 'set settle = "30s" in [study]'))
    return checks


def refuse_errors(checks: Sequence[Check]) -> None:
    """Raise an error if any check has status ``error``.

    Raises:
        PreflightError: At least one check has status ``error``; all such checks are named.
    """
    errors = [check for check in checks if check.status == "error"]
    if not errors:
        return
    first, *rest = errors
    what = "; ".join([first.what, *(f"{check.name}: {check.what}" for check in rest)])
    raise PreflightError(first.name, what, "; ".join(dict.fromkeys(c.fix for c in errors if c.fix)))


def _ok(name: str, what: str) -> Check:
    return Check(name=name, status="ok", what=what)


def _warn(name: str, what: str, fix: str = "") -> Check:
    return Check(name=name, status="warning", what=what, fix=fix)


def _error(name: str, what: str, fix: str) -> Check:
    return Check(name=name, status="error", what=what, fix=fix)


def _under(target: Target, check: Check) -> Check:
    return check.model_copy(update={"name": f"{target.name}: {check.name}"})


def _build() -> Check:
    if json.loads(_native.probe())["optimised"]:
        return _ok("build", "optimised")
    return _warn(
        "build",
        "the native engine was built for tests, not optimised: it uses several times as much CPU, "
        "so it reaches lower rates if CPU is scarce",
        "rebuild it with `make build`",
    )


def _uring() -> Check:
    uring = json.loads(_native.probe())["uring"]
    if uring["available"]:
        return _ok("io_uring", f"available ({', '.join(uring['features']) or 'no extra features'})")
    return _warn(
        "io_uring",
        f"not available ({uring['reason']}): with backend = auto, threads (posix) do the I/O, "
        "which costs more CPU; runs with backend = uring fail",
        "allow io_uring: kernel.io_uring_disabled = 0, and a container profile that permits it",
    )


def _clock() -> Check:
    source = read_fact(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource"))
    stamps = json.loads(_native.probe())["clock"]["source"]
    if source in ("hpet", "acpi_pm", "jiffies"):
        return _warn(
            "clock",
            f"the kernel's clock source is {source}: reading it is slow and adds to each latency",
            "boot with clocksource=tsc, if the processor's TSC is usable",
        )
    return _ok("clock", f"kernel {source or 'unknown'}, engine {stamps}")


def _governor() -> Check:
    current = governor()
    if current is None:
        return _ok("CPU governor", "not reported by this machine (as in most virtual machines)")
    if current == "performance":
        return _ok("CPU governor", current)
    return _warn(
        "CPU governor",
        f"{current}: the CPU's clock frequency varies, and so do latencies",
        "run: cpupower frequency-set --governor performance",
    )


def _memlock() -> Check:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if os.geteuid() == 0 or soft == resource.RLIM_INFINITY or soft >= _ROOMY_MEMLOCK:
        return _ok("memlock", "unlimited" if soft == resource.RLIM_INFINITY else f"{soft} bytes")
    return _warn(
        "memlock",
        f"the limit of locked memory is {format_bytes_si(soft)}: large queues may run without "
        "registered buffers",
        "raise the limit: ulimit -l unlimited, or memlock in /etc/security/limits.conf",
    )


def _open_files(study: StudyBase, plan: Plan) -> Check:
    """Check that the hard limit of open files is high enough for the runs of a plan.

    The soft limit does not matter: it is raised before runs.
    """
    needs = [
        (FAMILIES[p.kind].estimate(p, study.study, study.target_named(p.target)).open_files, p)
        for p in plan.points.values()
    ]
    files, point = max(needs, key=lambda need: need[0])
    need, most = files + OWN_FILES, most_open_files()
    if need <= most:
        return _ok("open files", f"the limit is {most:,}, and about {need:,} are needed")
    return _error(
        "open files",
        f"{point.workload} needs about {need:,} open files, but the hard limit is {most:,}",
        f"set LimitNOFILE={2 * need} for the service, or nofile in /etc/security/limits.conf",
    )


def _engine_check(name: str, *, needed: bool) -> Check:
    try:
        info = get_engine(name).describe()
    except StorlabError as error:
        if needed:
            return _error(name, error.what, error.fix)
        return _ok(name, f"{error.what}; only studies with this engine need it")
    return _ok(name, f"version {info.version}" + (f", {info.backend}" if info.backend else ""))


def _cautions(study: StudyBase, plan: Plan) -> list[Check]:
    """Return the warnings of the workload families about the points of a plan, each once."""
    checks: dict[str, Check] = {}
    for point in plan.points.values():
        target = study.target_named(point.target)
        estimate = FAMILIES[point.kind].estimate(point, study.study, target)
        for caution in estimate.cautions:
            checks.setdefault(caution, _warn(point.workload, caution))
    return list(checks.values())


def _points_on(target: Target, plan: Plan) -> list[Point]:
    return [point for point in plan.points.values() if point.target == target.name]


def _target_checks(target: Target, plan: Plan, base: Path, need: HomeNeed) -> Iterator[Check]:
    places = [base / location for location in target.locations]
    for place in places:
        number = device_number(place)
        if number is not None:
            yield from _device_checks(Device(number), str(place))
        elif is_kernel_place(place.resolve()):
            fix = "connect it, or correct the path"
            yield _error("device", f"{place} is not on this machine", fix)
        else:
            yield from directory_checks(place if target.directory is not None else place.parent)
            yield from _file_checks(target, place, plan, need)
    yield from _cache_check(target, plan, places)


def _device_checks(device: Device, path: str) -> Iterator[Check]:
    if not device.is_there:
        yield _error("device", f"{path} exists, but its device is not connected", "connect it")
        return
    if not os.access(path, os.R_OK):
        yield _error(
            "permissions",
            f"this user may not open {path}",
            "run as root, or as a user who may open the device (often: group disk)",
        )
    else:
        yield _ok("permissions", path)
        yield from _direct(Path(path))
    yield from _queue_checks(device)


def _queue_checks(device: Device) -> Iterator[Check]:
    try:
        disk = device.whole.sysfs
    except OSError:
        return
    yield from io_limit_checks(device)
    current, zones = scheduler(disk), Zones.of(device)
    if zones is not None:
        yield _ok("zones", f"{disk.name} is a {zones.text}")
    if zones is not None and (current != "none" or _kernel() >= (6, 10)):
        yield _ok("scheduler", f"{current or 'none'} on {disk.name}")
    elif zones is not None:
        yield _warn(
            "scheduler",
            f"before Linux 6.10 the parts of a large write of {disk.name} may be reordered, which "
            "a zone refuses",
            f"run: echo mq-deadline > /sys/block/{disk.name}/queue/scheduler",
        )
    elif current in (None, "none") or read_fact(disk / "queue" / "rotational") == "1":
        yield _ok("scheduler", f"{current or 'none'} on {disk.name}")
    else:
        yield _warn(
            "scheduler",
            f"the I/O scheduler {current} reorders and merges I/O of {disk.name}, which has no "
            "moving parts",
            f"run: echo none > /sys/block/{disk.name}/queue/scheduler",
        )


def _kernel() -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2])


def _file_checks(target: Target, place: Path, plan: Plan, need: HomeNeed) -> Iterator[Check]:
    chosen = any(not FAMILIES[point.kind].page.load.buffered for point in _points_on(target, plan))
    parent = existing_parent(place if target.directory is not None else place.parent)
    if place.exists() and target.directory is None and not os.access(place, os.R_OK):
        fix = "change its permissions, or run as another user"
        yield _error("permissions", f"this user may not read {place}", fix)
    elif not _is_somebodys(target, place) and not os.access(parent, os.W_OK | os.X_OK):
        yield _error(
            "permissions", f"this user may not create files in {parent}", "use another directory"
        )
    else:
        yield _ok("permissions", str(place if place.parent.is_dir() else parent))
        if target.direct and chosen:
            yield from _direct(place)
    under = file_system_of(place)
    yield from _space_check(target, place, plan, need)
    yield from _medium_checks(under, warn=chosen and not target.direct)


def _is_somebodys(target: Target, place: Path) -> bool:
    """Return whether a target is an existing file of the user, which is only read."""
    return target.directory is None and place.exists() and not made_by_storlab(place)


def _space_check(target: Target, place: Path, plan: Plan, need: HomeNeed) -> Iterator[Check]:
    needed = target.size or 0
    if target.directory is not None:
        laid_out = plan.data_bytes_by_target.get(target.name, 0) - need.data_bytes
        needed = laid_out + need.missing_bytes(home_of(place)) + need.run_bytes
    elif is_complete(place, needed) or _is_somebodys(target, place):
        yield _ok("free space", "the data set exists already")
        return
    free = free_bytes(place) + _allocated(place) + need.left_bytes(home_of(place))
    what = f"{format_bytes_si(needed)} needed, {format_bytes_si(free)} free"
    if needed > free:
        words = "size" if target.directory is None else _size_fields(target, plan)
        yield _error("free space", what, f"reduce {words}, or use another directory")
    else:
        yield _ok("free space", what)


def _size_fields(target: Target, plan: Plan) -> str:
    """Return the names of the study fields that set the amount of data on a target."""
    specs = [FAMILIES[point.kind].spec for point in _points_on(target, plan)]
    known = [spec.model_fields.keys() - spec.shared for spec in specs]
    names = [name for name in ("scale", "rows") if any(name in fields for fields in known)]
    return f"{' or '.join(names)} of the workload" if names else "size"


def _allocated(place: Path) -> int:
    files = place.glob("storlab.*.dat") if place.is_dir() else [place] if place.exists() else []
    return sum(file.stat().st_blocks * 512 for file in files)


def _medium_checks(under: FileSystem, *, warn: bool) -> Iterator[Check]:
    if under.in_memory:
        yield _ok("medium", f"memory ({under.kind} at {under.mount_point}), not a drive")
        return
    yield _ok("medium", f"{under.kind} at {under.mount_point} ({under.options})")
    if warn:
        yield _warn(
            "page cache",
            "direct = false: reads may be served by memory, and writes may stay in memory",
            "set direct = true, unless you want to measure the page cache",
        )
    if under.device is not None:
        yield from _queue_checks(under.device)


def _direct(path: Path) -> Iterator[Check]:
    try:
        works = supports_direct(path)
    except OSError as error:
        fix = "check that this user may read and write it"
        yield _error("O_DIRECT", f"{path} cannot be opened: {error.strerror}", fix)
        return
    if works:
        yield _ok("O_DIRECT", "works")
    else:
        yield _error(
            "O_DIRECT",
            f"the file system of {path} does not support O_DIRECT",
            "use another file system, or set direct = false to measure with the page cache",
        )


def _cache_check(target: Target, plan: Plan, places: Sequence[Path]) -> Iterator[Check]:
    size = plan.data_bytes_by_target.get(target.name, 0)
    if target.direct or not size or file_system_of(places[0]).in_memory:
        return
    memory = host_memory_bytes()
    if size <= memory:
        yield _warn(
            "data set",
            f"{format_bytes_si(size)} fit into the page cache, which may use the "
            f"{host_memory_text()}",
            f"increase size to more than {format_bytes_si(2 * memory)}, or set direct = true",
        )
    else:
        yield _ok("data set", f"{format_bytes_si(size)}, larger than RAM")
