"""Parse host lists in the formats of MPI launchers and job schedulers.

Ranges (``c[01-12]``) are expanded. An ambiguous list is an error.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from storlab.base.errors import PreflightError, StorlabError, StudyError

MOST_HOSTS = 10_000
MOST_SLOTS = 100_000
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})")
_GROUP = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_LINE = re.compile(r"(?P<pattern>(?:\[[^\]]*\]|[^\s:\[=])+)(?::(?P<slots>\S*))?(?P<rest>(?:\s.*)?)")
_SETTING = re.compile(r"\s*([A-Za-z_-]+)\s*=\s*(\S+)")
_SGE = re.compile(r"\s+(\d+)(?:\s+\S+\s+\S+)?\s*")  # slots, queue, processors
_SLOTS = {"slots", "slot", "cpu", "cpus", "count"}
_MOST = {"max_slots", "max-slots", "maxslots"}
_IGNORED = {"binding", "ifhn", "ifname"}  # placement of ranks on a host; not needed here
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")
_ONCE = "name each host once; set the number of jobs per client with jobs in the study"


@dataclass(frozen=True, slots=True)
class HostLine:
    """Host in a host file, with the number of ranks allowed on it (None if not stated)."""

    name: str
    slots: int | None = None
    max_slots: int | None = None
    line: int | None = None  # line in the file, from 1; None if not from a file


def expand(patterns: Iterable[str], where: str = "hosts") -> list[str]:
    """Expand host lists to names: ``["c[01-03]", "x1,x7"]`` gives c01, c02, c03, x1, x7.

    Leading zeros are kept.

    Args:
        patterns: Host names, which may contain ranges and commas.
        where: Name of the list in error messages.

    Raises:
        StudyError: The list is invalid, names a host twice, or has more than MOST_HOSTS hosts.
    """
    hosts: list[str] = []
    for pattern in patterns:
        for part in _split(pattern, where):
            for name in _names(part, where):
                hosts.append(name)
                if len(hosts) > MOST_HOSTS:
                    raise _too_many(part, where)
    if not hosts:
        raise StudyError(where, "lists no hosts", 'write for example hosts = ["c[01-12]"]')
    twice = [name for name, count in Counter(hosts).items() if count > 1]
    if twice:
        raise StudyError(where, f"{_some(twice)} is listed more than once", _ONCE)
    return hosts


def read_hostfile(text: str, where: str = "hostfile") -> list[HostLine]:
    """Parse a host file and return each host once, in file order.

    Lines are ``host``, ``host:4`` (MPICH), ``host slots=4 max_slots=8`` (Open MPI), ``host 4``
    (LSF, Grid Engine), lists with ranges (Slurm), or one line per slot (PBS). ``#`` starts a
    comment.

    Args:
        text: Content of the file.
        where: Name of the file in error messages.

    Raises:
        StudyError: A line is invalid (the error gives its number), or there is no host.
    """
    by_name: dict[str, list[HostLine]] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        content = raw.partition("#")[0].strip()
        for host in _host_line(content, number, where) if content else ():
            by_name.setdefault(host.name, []).append(host)
            if len(by_name) > MOST_HOSTS:
                raise _too_many(content, f"{where}, line {number}")
    if not by_name:
        raise StudyError(where, "lists no hosts", "write one host per line")
    return [_merged(lines, where) for lines in by_name.values()]


def from_slurm(environ: Mapping[str, str]) -> list[HostLine]:
    """Return the hosts of the current Slurm job, with the job's tasks per host as slots.

    Within a job step (``srun storlab``), Slurm reports the tasks of the step instead of the job, so
    slots are None.

    Raises:
        PreflightError: The process does not run in a Slurm job, or Slurm's variables are invalid.
    """
    name = "SLURM_JOB_NODELIST" if "SLURM_JOB_NODELIST" in environ else "SLURM_NODELIST"
    if not environ.get(name):
        raise PreflightError(
            "SLURM_JOB_NODELIST",
            "is not set, so storlab does not run in a Slurm job",
            "start storlab in a Slurm job (sbatch, srun in salloc), or list the hosts in the study",
        )
    try:
        hosts = expand([environ[name]], name)
    except StudyError as error:
        raise PreflightError(error.where, error.what, "start storlab in a Slurm job") from error
    tasks = environ.get("SLURM_TASKS_PER_NODE", "")
    if not tasks or "SLURM_STEP_ID" in environ:
        return [HostLine(host) for host in hosts]
    slots = _tasks(tasks, len(hosts))
    return [HostLine(host, count) for host, count in zip(hosts, slots, strict=True)]


def _split(pattern: str, where: str) -> Iterator[str]:
    """Split a host list at the commas that are not inside brackets."""
    outside = _GROUP.sub(lambda group: group[0].replace(",", ";"), pattern)
    begin = 0
    for part in outside.split(","):
        piece = pattern[begin : begin + len(part)].strip()
        begin += len(part) + 1
        if not piece:
            raise StudyError(
                where, f'"{pattern}" contains an empty host name', "remove the surplus comma"
            )
        yield piece


def _names(pattern: str, where: str) -> Iterator[str]:
    pieces = _GROUP.split(pattern)  # alternating: text, content of brackets, text, ...
    if any(set(text) & set("[]") for text in pieces):
        raise StudyError(where, f'"{pattern}" has an unmatched bracket', 'write it as "c[01-12]"')
    groups = [_numbers(inside, pattern, where) for inside in pieces[1::2]]
    count = 1
    for group in groups:
        count *= len(group)
    if count > MOST_HOSTS:
        raise _too_many(pattern, where)
    for chosen in itertools.product(*groups):
        between = itertools.chain.from_iterable(zip(chosen, pieces[2::2], strict=True))
        yield _checked("".join([pieces[0], *between]), where)


def _numbers(inside: str, pattern: str, where: str) -> list[str]:
    """Expand the content of brackets: ``01-03,7`` gives 01, 02, 03, 7."""
    numbers: list[str] = []
    for part in inside.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise StudyError(
                where,
                f'"{part}" in "{pattern}" is neither a number nor a range',
                'write it as "c[01-12]" or "c[1-3,7]"',
            )
        low, high = match[1], match[2] or match[1]
        if len(low) > 18 or len(high) > 18 or int(high) - int(low) >= MOST_HOSTS:
            raise _too_many(pattern, where)
        if int(high) < int(low):
            raise StudyError(
                where,
                f'the range {low}-{high} in "{pattern}" is empty',
                f"write {high}-{low}",
            )
        if (low.startswith("0") or high.startswith("0")) and len(low) != len(high):
            raise StudyError(
                where,
                f'the ends of {low}-{high} in "{pattern}" have different numbers of digits',
                f"write {low.zfill(len(high))}-{high.zfill(len(low))}",
            )
        numbers += [str(n).zfill(len(low)) for n in range(int(low), int(high) + 1)]
        if len(numbers) > MOST_HOSTS:
            raise _too_many(pattern, where)
    return numbers


def _checked(name: str, where: str) -> str:
    if _NAME.fullmatch(name):
        return name
    if "@" in name:
        fix = "remove the user name, and set it for this host in ~/.ssh/config"
    elif name.startswith("-"):
        fix = "start the host name with a letter or a digit"
    else:
        fix = "use letters, digits, dots, - and _; for an IPv6 address, add a name to /etc/hosts"
    raise StudyError(where, f'"{name}" is not a host name', fix)


def _too_many(pattern: str, where: str) -> StorlabError:
    return StudyError(
        where,
        f'"{pattern}" lists more than {MOST_HOSTS:,} hosts',
        "correct the ranges of host names",
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _host_line(content: str, number: int, where: str) -> list[HostLine]:
    place = f"{where}, line {number}"
    match = _LINE.fullmatch(content)
    if match is None:
        raise _unreadable(content, place)
    hosts = expand([match["pattern"]], place)
    slots, most = _settings(match["rest"], content, place)
    if match["slots"] is not None:
        if slots is not None:
            raise StudyError(
                place, f'"{content}" gives the number of slots twice', "remove one of them"
            )
        slots = _count(match["slots"], content, place)
    if slots is not None and most is not None and slots > most:
        raise StudyError(
            place, f'"{content}" has more slots than max_slots', "lower slots or raise max_slots"
        )
    return [HostLine(name, slots, most, number) for name in hosts]


def _settings(rest: str, content: str, place: str) -> tuple[int | None, int | None]:
    """Return slots and max_slots from the text after a host name."""
    sge = _SGE.fullmatch(rest)
    if sge is not None:
        return _count(sge[1], content, place), None
    slots: int | None = None
    most: int | None = None
    end = 0
    for match in _SETTING.finditer(rest):
        if rest[end : match.start()].strip():
            raise _unreadable(content, place)
        end = match.end()
        key = match[1].lower()
        if key in _SLOTS:
            slots = _count(match[2], content, place)
        elif key in _MOST:
            most = _count(match[2], content, place)
        elif key not in _IGNORED:
            raise StudyError(
                place,
                f'"{match[1]}" is not a supported setting of a host file',
                "use only slots and max_slots; set users and ports in ~/.ssh/config",
            )
    if rest[end:].strip():
        raise _unreadable(content, place)
    return slots, most


def _unreadable(content: str, place: str) -> StudyError:
    return StudyError(
        place, f'cannot parse "{content}"', "write host, host:4, host slots=4 or c[01-12]"
    )


def _count(text: str, content: str, place: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise StudyError(place, f'"{text}" in "{content}" is not a number of slots', "write host:4")
    if not 1 <= int(text) <= MOST_SLOTS:
        raise StudyError(
            place,
            f'"{content}" has {int(text):,} slots, outside 1 to {MOST_SLOTS:,}',
            "correct the number; to leave the host out, put # in front of it",
        )
    return int(text)


def _merged(lines: list[HostLine], where: str) -> HostLine:
    """Merge the lines of one host, as PBS writes one line per slot.

    Raises:
        StudyError: A host has several lines of which one states a number of slots.
    """
    first = lines[0]
    if len(lines) == 1:
        return first
    if any(line.slots or line.max_slots for line in lines):
        raise StudyError(
            f"{where}, line {lines[1].line}",
            f"{first.name} is already in line {first.line}, and one of these lines gives slots",
            "list the host once, with all its slots",
        )
    if len(lines) > MOST_SLOTS:
        raise _too_many(first.name, where)
    return replace(first, slots=len(lines))


def _tasks(text: str, hosts: int) -> list[int]:
    """Expand Slurm's list of tasks per node: ``2(x3),1`` gives 2, 2, 2, 1."""
    counts: list[int] = []
    for part in text.split(","):
        match = _TASKS.fullmatch(part.strip())
        times = int(match[2] or 1) if match else 0
        if match is None or times > MOST_HOSTS:
            counts = []
            break
        counts += [int(match[1])] * times
    if len(counts) != hosts:
        raise PreflightError(
            "SLURM_TASKS_PER_NODE",
            f'"{text}" does not describe the {hosts} nodes of SLURM_JOB_NODELIST',
            "start storlab in a Slurm job, or list the hosts in the study",
        )
    return counts
