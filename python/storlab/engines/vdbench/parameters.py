"""Parser of vdbench's parameters, from ``parmfile.html`` or ``parmscan.html``.

A parameter file defines hosts (HD), raw devices (SD) and workloads on them (WD), file systems (FSD)
and workloads on them (FWD), and runs (RD). Keywords may be abbreviated: ``xf=4k`` is
``xfersize=4k``. Names select by wildcard and range: ``sd=sd*``, ``sd=(sd1-sd8)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from storlab.base.units import binary_size
from storlab.engines.vdbench.result import lines_of

Kind = Literal["hd", "sd", "wd", "rd", "fsd", "fwd"]
_KINDS: tuple[Kind, ...] = ("hd", "sd", "wd", "rd", "fsd", "fwd")
# Keywords that can be abbreviated, in the order in which vdbench tries them.
_KEYWORDS = {
    "hd": ("system", "vdbench", "shell", "user", "jvms", "clients", "master", "mount"),
    "sd": (
        "host", "lun", "count", "size", "threads", "hitarea", "offset", "align", "openflags",
        "range", "streams",
    ),
    "wd": (
        "skew", "xfersize", "readpct", "rdpct", "writepct", "wrpct", "range", "hotband", "seekpct",
        "stride", "priority", "iorate", "rhpct", "whpct", "host", "openflags", "threads", "streams",
    ),
    "rd": (
        "iorate", "curve", "stopcurve", "elapsed", "interval", "warmup", "pause", "distribution",
        "fwdrate", "operations", "format", "openflags", "threads", "xfersize", "rdpct", "readpct",
        "rhpct", "whpct", "seekpct",
    ),
    "fsd": (
        "anchor", "host", "width", "depth", "sizes", "shared", "wss", "workingsetsize", "totalsize",
        "files", "distribution", "cleanup", "openflags", "count",
    ),
    "fwd": (
        "readpct", "rdpct", "stopafter", "operation", "fileselect", "fileio", "xfersize", "skew",
        "threads", "target", "host", "openflags",
    ),
}  # fmt: skip
_SAME = {
    "readpct": "rdpct", "writepct": "wrpct", "hd": "host", "sizes": "size",
    "operations": "operation", "workingsetsize": "wss",
}  # fmt: skip
_SCANNED = re.compile(r"^\S+ line: (.*)$", re.MULTILINE)
_RANGE = re.compile(r"(\D*)(\d+)-(?:\D*)(\d+)")


@dataclass(frozen=True, slots=True)
class Definition:
    """One definition, such as an SD, with the values of its keywords in full length."""

    kind: Kind
    name: str
    values: dict[str, list[str]] = field(default_factory=dict)

    def first(self, keyword: str, default: str = "") -> str:
        """Return the first value of a keyword."""
        return next(iter(self.values.get(keyword, ())), default)

    def whole(self, keyword: str, default: int) -> int:
        """Return the first value of a keyword as an integer; the default if it is not a number."""
        text = self.first(keyword)
        return int(text) if text.isdigit() else default


@dataclass(slots=True)
class Parameters:
    """Definitions of a parameter file, and its general parameters such as ``compratio``."""

    definitions: list[Definition] = field(default_factory=list)
    general: dict[str, list[str]] = field(default_factory=dict)

    def named(self, kind: Kind, patterns: Iterable[str]) -> list[Definition]:
        """Return the definitions of a kind that names, wildcards or ranges select."""
        wanted = list(patterns)
        return [
            definition
            for definition in self.definitions
            if definition.kind == kind and any(_selects(p, definition.name) for p in wanted)
        ]


def read_parameters(text: str) -> Parameters:
    """Parse the content of ``parmfile.html``, or the lines that ``parmscan.html`` repeats."""
    parameters = Parameters()
    defaults: dict[Kind, dict[str, list[str]]] = {}
    current: Definition | None = None
    for line in _lines(text):
        words = [word for word in _split(line) if word]
        key, name = _keyword(words[0]) if words else ("", [])
        kind = next((kind for kind in _KINDS if kind == key), None)
        if kind is not None and name:
            base = {} if name[0] == "default" else defaults.get(kind, {})
            current = Definition(kind, name[0], dict(base))
            if name[0] == "default":
                defaults[kind] = current.values
            else:
                parameters.definitions.append(current)
            words = words[1:]
        target = parameters.general if current is None else current.values
        for word in words:
            key, values = _keyword(word)
            target[_full(key, None if current is None else current.kind)] = values
    parameters.definitions = [
        each for definition in parameters.definitions for each in _counted(definition)
    ]
    return parameters


def _lines(text: str) -> list[str]:
    """Return the lines with parameters; those that end with a comma are joined with the next."""
    raw = _SCANNED.findall(text) or lines_of(text)
    joined: list[str] = []
    for line in raw:
        plain = line.strip()
        if plain.startswith("variable substitution:") and joined:
            joined[-1] = plain.partition(":")[2].strip()
            continue
        if not plain or plain[0] in "/#*" or plain.startswith(("eof", "include=")):
            continue
        if joined and joined[-1].endswith(","):
            joined[-1] += _without_comment(plain)
        else:
            joined.append(_without_comment(plain))
    return joined


def _without_comment(line: str) -> str:
    """Return a line up to its first space outside of quotes, where vdbench stops reading."""
    quoted = False
    for at, character in enumerate(line):
        quoted ^= character == '"'
        if character == " " and not quoted:
            return line[:at]
    return line


def _split(line: str) -> list[str]:
    """Split a line at commas outside of parentheses and quotes."""
    words, depth, quoted = [""], 0, False
    for character in line:
        quoted ^= character == '"'
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0 and not quoted:
            words.append("")
        else:
            words[-1] += character
    return words


def _keyword(word: str) -> tuple[str, list[str]]:
    key, _, value = word.replace('"', "").partition("=")
    inner = value.removeprefix("(").removesuffix(")")
    return key.strip().lower(), [part.strip() for part in inner.split(",")]


def _full(keyword: str, kind: Kind | None) -> str:
    names = _KEYWORDS[kind] if kind is not None else ()
    short = keyword.removeprefix("for") if kind == "rd" and keyword != "format" else keyword
    if short in _KINDS and short != "hd":
        return short
    found = next((name for name in names if name.startswith(short)), short)
    return _SAME.get(found, found)


def _selects(pattern: str, name: str) -> bool:
    if fnmatchcase(name.lower(), pattern.lower()):
        return True
    span, own = _RANGE.fullmatch(pattern), re.fullmatch(r"(\D*)(\d+)", name)
    return (
        span is not None
        and own is not None
        and span[1] == own[1]
        and int(span[2]) <= int(own[2]) <= int(span[3])
    )


def _counted(definition: Definition) -> list[Definition]:
    """Return the definitions that ``count=(first,number)`` makes of one; otherwise itself."""
    count = [int(text) for text in definition.values.get("count", ()) if text.isdigit()]
    if len(count) != 2:
        return [definition]
    place = "anchor" if definition.kind == "fsd" else "lun"
    return [
        Definition(
            definition.kind,
            _numbered(definition.name, number),
            {**definition.values, place: [_numbered(definition.first(place), number)]},
        )
        for number in range(count[0], count[0] + count[1])
    ]


def _numbered(text: str, number: int) -> str:
    return text.replace("*", str(number)) if "*" in text else f"{text}{number}"


@dataclass(frozen=True, slots=True)
class Load:
    """Load of one run definition.

    Attributes:
        locations: Devices, files or directories.
        threads: Threads over all SDs or FWDs, each with one operation in flight.
        hosts: Number of hosts that generate the load.
        xfersizes: Values of ``xfersize`` of each workload.
        read_percents: Requested percentages of reads of all workloads.
        seeks: Values of ``seekpct`` of all workloads; for file systems, 100 is random.
        direct: Whether the page cache is bypassed; None if that depends on the system.
        size: Size of all devices in bytes, if the parameters have it.
        arrival: Spacing of operations at a requested rate; None if storlab has no name for it.
        unexpressed: Keywords without a counterpart in a study, with their values.
    """

    locations: list[str]
    threads: int
    hosts: int
    xfersizes: list[list[str]]
    read_percents: set[float]
    seeks: set[float]
    direct: bool | None
    size: int | None
    arrival: Literal["constant", "poisson"] | None
    unexpressed: dict[str, str]


# Keywords that a run's fields, target or window represent, or that do not affect the load.
_EXPRESSED = {
    "sd", "wd", "fsd", "fwd", "host", "lun", "anchor", "size", "threads", "openflags", "xfersize",
    "rdpct", "wrpct", "seekpct", "iorate", "fwdrate", "elapsed", "interval", "warmup", "pause",
    "operation", "fileio", "format", "count", "distribution", "curve",
}  # fmt: skip
_FILE_SYSTEM = ("width", "depth", "files", "size")
_DIRECT = {"o_direct", "directio"}
_DISTRIBUTIONS = ("exponential", "uniform", "deterministic")
_MOST_VALUES = 4  # limit of the values of a keyword that are recorded


def load_of(parameters: Parameters, run: str, loops: Mapping[str, str]) -> Load | None:
    """Return the load of a run definition; None if the parameters do not have it.

    Args:
        parameters: Content of the parameter file.
        run: Name of the run definition.
        loops: Values of its loops, such as ``threads``, which replace those of the workloads.
    """
    found = [d for d in parameters.definitions if d.kind == "rd" and d.name == run]
    if len(found) != 1:
        return None
    rd = found[0]
    raw = "fwd" not in rd.values
    works = parameters.named("wd" if raw else "fwd", rd.values.get("wd" if raw else "fwd", ()))
    kind: Kind = "sd" if raw else "fsd"
    patterns = rd.values.get(kind) or [p for work in works for p in work.values.get(kind, ())]
    places = parameters.named(kind, patterns)
    if not works or not places:
        return None
    given = {key: [value] for key, value in loops.items()}
    threads = _whole(given.get("threads") or rd.values.get("threads"))
    if raw:
        total = sum(threads or place.whole("threads", 8) for place in places)
    else:
        total = threads or sum(work.whole("threads", 1) for work in works)
    sizes = [binary_size(place.first("size")) for place in places] if raw else [None]
    return Load(
        locations=list(dict.fromkeys(p.first("lun" if raw else "anchor") for p in places)),
        threads=total,
        hosts=_hosts(parameters, [rd, *works, *places]),
        xfersizes=_distinct(
            given.get("xfersize") or _one(rd, "xfersize") or work.values.get("xfersize", ["4k"])
            for work in works
        ),
        read_percents={_read_percent(rd, work, given) for work in works},
        seeks={_seek(rd, work, given) for work in works},
        direct=_direct(rd, works, places),
        size=sum(size for size in sizes if size) if all(sizes) else None,
        arrival=_arrival(rd),
        unexpressed=_unexpressed(parameters, [rd, *works, *places], loops),
    )


def _distinct(values: Iterable[list[str]]) -> list[list[str]]:
    return [list(value) for value in dict.fromkeys(map(tuple, values))]


def _one(rd: Definition, keyword: str) -> list[str] | None:
    """Return the value of a keyword of a run definition as a list; None if it has several or none.

    vdbench does not print loops over a single value in the line ``Starting RD=``.
    """
    values = rd.values.get(keyword)
    return values if values and len(values) == 1 else None


def _whole(values: Sequence[str] | None) -> int | None:
    return int(values[0]) if values and len(values) == 1 and values[0].isdigit() else None


def _read_percent(rd: Definition, work: Definition, given: Mapping[str, list[str]]) -> float:
    operation = rd.first("operation") or work.first("operation")
    values = given.get("rdpct") or _one(rd, "rdpct") or work.values.get("rdpct")
    if values:
        return _number(values[0], 100.0)
    if "wrpct" in work.values:
        return 100.0 - _number(work.first("wrpct"), 0.0)
    return 0.0 if operation.startswith("write") else 100.0


def _seek(rd: Definition, work: Definition, given: Mapping[str, list[str]]) -> float:
    """Return the percentage of operations at a random place."""
    if work.kind == "fwd":
        return 100.0 if "random".startswith(work.first("fileio", "sequential")) else 0.0
    values = given.get("seekpct") or _one(rd, "seekpct") or work.values.get("seekpct", ["100"])
    text = values[0].lower()
    if text == "eof" or "sequential".startswith(text):
        return 0.0
    return _number(text, 100.0)


def _number(text: str, default: float) -> float:
    return float(text) if re.fullmatch(r"\d+(?:\.\d+)?", text) else default


def _direct(
    rd: Definition, works: Sequence[Definition], places: Sequence[Definition]
) -> bool | None:
    found = set()
    for place in places:
        flags = (each.values.get("openflags", []) for each in (rd, works[0], place))
        own = {flag.lower() for flag in next(filter(None, flags), [])}
        # Raw devices of Solaris and Windows have no page cache.
        raw = place.first("lun").startswith(("/dev/rdsk/", "\\\\.\\"))
        found.add(True if own & _DIRECT else None if raw else False)
    return found.pop() if len(found) == 1 else None


def _hosts(parameters: Parameters, definitions: Sequence[Definition]) -> int:
    """Return the number of hosts that the definitions name; all hosts if they name none."""
    patterns = [p for definition in definitions for p in definition.values.get("host", ())]
    return max(1, len(parameters.named("hd", patterns or ["*"])))


def _arrival(rd: Definition) -> Literal["constant", "poisson"] | None:
    text = rd.first("distribution", "exponential").lower()
    found = next((name for name in _DISTRIBUTIONS if name.startswith(text)), "")
    return "poisson" if found == "exponential" else "constant" if found == "deterministic" else None


def _unexpressed(
    parameters: Parameters, definitions: Sequence[Definition], loops: Mapping[str, str]
) -> dict[str, str]:
    collected: dict[str, dict[str, None]] = {}
    for definition in definitions:
        extra = _FILE_SYSTEM if definition.kind == "fsd" else ()
        for keyword, values in definition.values.items():
            if keyword in extra or keyword not in _EXPRESSED:
                collected.setdefault(keyword, {})[",".join(values)] = None
            elif keyword == "openflags":
                others = [v for v in values if v.lower() not in _DIRECT]
                if others:
                    collected.setdefault(keyword, {})[",".join(others)] = None
    for keyword in ("compratio", "dedupratio", "dedupunit"):
        if keyword in parameters.general:
            collected[keyword] = {",".join(parameters.general[keyword]): None}
    for keyword, text in loops.items():
        if keyword not in _EXPRESSED:
            collected[keyword] = {text: None}
    return {keyword: _limited(list(values)) for keyword, values in collected.items()}


def _limited(values: Sequence[str]) -> str:
    more = len(values) - _MOST_VALUES
    return "; ".join(values[:_MOST_VALUES]) + (f" and {more} more" if more > 0 else "")
