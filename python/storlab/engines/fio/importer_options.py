"""fio's job options in storlab's words: the fields of a ``block`` workload."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from storlab.base.units import NS_PER_S

Options = Mapping[str, str]
_ALIASES = {"blocksize": "bs", "readwrite": "rw"}
_SYNCHRONOUS = ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap")
_SIZE = re.compile(r"(\d+)\s*([kmgtp]?)(i?)b?", re.IGNORECASE)
_TIME = re.compile(r"(\d+)\s*([a-z]*)", re.IGNORECASE)
_TIME_NS = {
    "": NS_PER_S,
    "s": NS_PER_S,
    "sec": NS_PER_S,
    "us": 1_000,
    "usec": 1_000,
    "ms": 1_000_000,
    "msec": 1_000_000,
    "m": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
    "d": 86_400 * NS_PER_S,
}


def merged(document: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, str]:
    """The job's options over the global ones, under fio's main names."""
    options: dict[str, str] = {}
    for table in (document.get("global options"), job.get("job options")):
        if isinstance(table, dict):
            options.update({_ALIASES.get(str(k), str(k)): str(v) for k, v in table.items()})
    return options


def size_of(text: str, kb_base: int = 1024) -> int | None:
    """Bytes of a fio size. With fio's default ``kb_base``, ``4k`` is 4096 and ``4ki`` 4000."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    number, prefix, binary = match.groups()
    base = 2024 - kb_base if binary else kb_base  # the other of 1000 and 1024
    return int(number) * int(base ** (" kmgtp".index(prefix.lower() or " ")))


def time_ns(text: str) -> int | None:
    """Nanoseconds of a fio time; a bare number is seconds."""
    match = _TIME.fullmatch(text.strip())
    if match is None or match.group(2).lower() not in _TIME_NS:
        return None
    return int(match.group(1)) * _TIME_NS[match.group(2).lower()]


def is_on(options: Options, name: str) -> bool:
    """A fio bool or flag: present and not 0."""
    return name in options and options[name].strip() not in ("0", "false")


def number(options: Options, name: str, default: float) -> float:
    """A number, or the default where it is missing or has another form."""
    try:
        return float(options.get(name, default))
    except ValueError:
        return default


def whole(options: Options, name: str, default: int) -> int:
    """A whole number of at least 1, else the default."""
    value = int(number(options, name, default))
    return value if value >= 1 else default


def engine_of(options: Options) -> str:
    """fio's I/O engine; Linux's default where the options do not say."""
    return options.get("ioengine", "psync").partition(":")[0]


def fields(
    options: Options, done: Mapping[str, int], entries: int
) -> tuple[dict[str, Any], list[str]]:
    """Fields of a ``block`` workload, and notes on what they cannot say.

    ``done`` counts operations by kind; ``entries`` is how many equal jobs the file lists.
    """
    notes: list[str] = []
    result: dict[str, Any] = {
        "access": "random" if "rand" in options.get("rw", "read") else "sequential",
        "read_percent": _read_percent(options, done),
        "queue_depth": 1 if engine_of(options) in _SYNCHRONOUS else whole(options, "iodepth", 1),
        "jobs": max(whole(options, "numjobs", 1), entries),
    }
    if done.get("trim"):
        result["trim_percent"] = round(100 * done["trim"] / max(1, sum(done.values())), 6)
        result["read_percent"] = min(result["read_percent"], 100 - result["trim_percent"])
    result["block_size"] = _block_size(options, notes)
    if result["access"] == "random":
        result.update(_offsets(options, notes))
    batch = whole(options, "iodepth_batch_submit", whole(options, "iodepth_batch", 1))
    if batch > 1:
        result["batch"] = batch
    if engine_of(options) == "null":
        result["backend"] = "null"
    elif engine_of(options) == "io_uring":
        result["backend"] = "uring"
    elif engine_of(options) in _SYNCHRONOUS:
        result["backend"] = "posix"
    result.update(_rate(options, result["jobs"]))
    if done.get("write"):
        result.update(_writing(options))
    return result, notes


def _read_percent(options: Options, done: Mapping[str, int]) -> float:
    """As configured; where the options do not say, as done."""
    rw = options.get("rw", "")
    if "rw" in rw.replace("readwrite", "rw"):
        if "rwmixwrite" in options and "rwmixread" not in options:
            return 100 - number(options, "rwmixwrite", 50)
        return number(options, "rwmixread", 50)
    if "trim" in rw:
        return 0.0
    if rw:
        return 100.0 if "read" in rw else 0.0
    total = sum(done.values())
    return round(100 * done.get("read", 0) / total, 3) if total else 100.0


def _block_size(options: Options, notes: list[str]) -> int | dict[str, float]:
    kb_base = whole(options, "kb_base", 1024)
    if "bssplit" in options:
        weights: dict[str, float] = {}
        for part in options["bssplit"].split(",")[0].split(":"):
            text, _, percent = part.partition("/")
            size = size_of(text, kb_base)
            if size and percent.strip().isdigit() and int(percent):
                weights[f"{size}B"] = float(percent)
        if weights:
            return weights
        notes.append(f"bssplit={options['bssplit']} cannot be told as weights")
    text = options.get("bs", "4k")
    size = size_of(text.split(",")[0], kb_base)
    if size is None or len(set(text.split(","))) > 1:
        notes.append(f"fio's block sizes were bs={text}; block_size holds the first, or 4 KiB")
    return size or 4096


def _offsets(options: Options, notes: list[str]) -> dict[str, Any]:
    distribution = options.get("random_distribution", "random")
    kind, _, rest = distribution.partition(":")
    if kind == "zipf":
        theta = number({"theta": rest}, "theta", 1.1)
        return {"offsets": "zipf", "zipf_theta": theta}
    zones = re.fullmatch(r"zoned:(\d+)/(\d+):(\d+)/(\d+)", distribution)
    if zones and int(zones[1]) + int(zones[3]) == 100 and int(zones[2]) + int(zones[4]) == 100:
        return {
            "offsets": "hot_cold",
            "hot_access_percent": float(zones[1]),
            "hot_space_percent": float(zones[2]),
        }
    if kind != "random":
        notes.append(
            f"fio drew offsets by random_distribution={distribution}, told as uniform here"
        )
        return {"offsets": "uniform"}
    if is_on(options, "norandommap"):
        return {"offsets": "uniform"}
    notes.append(
        "norandommap is not among the options in the file, so offsets are told as a permutation "
        "(fio before 3.34 leaves out flags that a command line gives without a value)"
    )
    return {"offsets": "permutation"}


def _rate(options: Options, jobs: int) -> dict[str, Any]:
    given = [
        number({"r": part}, "r", 0) for part in options.get("rate_iops", "").split(",") if part
    ]
    if not given or sum(given) <= 0:
        return {}
    mixed = "rw" in options.get("rw", "") and len(given) == 1
    poisson = options.get("rate_process") == "poisson"
    return {
        "rate_iops": sum(given) * jobs * (2 if mixed else 1),
        "arrival": "poisson" if poisson else "constant",
    }


def _writing(options: Options) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name in ("fsync", "fdatasync"):
        if number(options, name, 0) > 0:
            result.update({"sync": name, "sync_every": int(number(options, name, 0))})
    if is_on(options, "end_fsync"):
        result["final_sync"] = True
    for name, field in (
        ("buffer_compress_percentage", "compress_percent"),
        ("dedupe_percentage", "dedupe_percent"),
    ):
        if 0 < number(options, name, 0) <= 100:
            result[field] = number(options, name, 0)
    return result


def locations(options: Options) -> list[str]:
    """The files or devices that the options name."""
    filename = options.get("filename")
    if not filename:
        return [options["directory"]] if options.get("directory") else []
    parts = re.split(r"(?<!\\):", filename)
    return [part.replace("\\:", ":").replace("\\\\", "\\") for part in parts if part]
