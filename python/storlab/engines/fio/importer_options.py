"""Translation of fio's job options into fields of a ``block`` workload."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from storlab.base.units import NS_PER_S

Options = Mapping[str, str]
_ALIASES = {
    "readwrite": "rw", "blocksize": "bs", "blocksize_range": "bsrange", "blockalign": "ba",
    "blocksize_unaligned": "bs_unaligned", "iodepth_batch_submit": "iodepth_batch",
    "iodepth_batch_complete": "iodepth_batch_complete_min", "io_limit": "io_size",
    "fill_fs": "fill_device", "fileoffset": "offset", "nr_files": "nrfiles", "timeout": "runtime",
    "iomem": "mem", "mem_align": "iomem_align", "ratemin": "rate_min", "ratecycle": "rate_cycle",
    "wait_for_previous": "stonewall", "ss": "steadystate", "ss_dur": "steadystate_duration",
    "ss_ramp": "steadystate_ramp_time",
}  # fmt: skip
# Options that are represented by fields of the workload or target, or by the run's length.
_EXPRESSED = {
    "rw", "rwmixread", "bs", "bsrange", "bssplit", "ioengine", "iodepth", "iodepth_batch",
    "numjobs", "norandommap", "random_distribution", "rate_iops", "rate_process", "fsync",
    "fdatasync", "end_fsync", "buffer_compress_percentage", "dedupe_percentage", "filename",
    "directory", "size", "direct", "runtime", "time_based", "io_size", "ramp_time",
}  # fmt: skip
# Options that do not affect the load: names, reporting, clocks, start and end of jobs.
_NO_LOAD = {
    "name", "description", "thread", "wait_for", "stonewall", "new_group", "group_reporting",
    "exitall", "exit_what", "exitall_on_error", "rate_min", "rate_iops_min", "rate_cycle",
    "max_latency", "allow_file_create", "allow_mounted_write", "unlink", "randseed", "randrepeat",
    "allrandrepeat", "clocksource", "kb_base", "unit_base", "lat_percentiles", "clat_percentiles",
    "slat_percentiles", "percentile_list", "significant_figures", "disk_util", "gtod_reduce",
    "gtod_cpu", "unified_rw_reporting", "block_error_percentiles", "stats", "error_dump",
    "bwavgtime", "iopsavgtime", "per_job_logs", "startdelay",
    # These only end a run, like runtime; fio's verdict is kept in the run's details.
    "steadystate", "ss", "steadystate_duration", "ss_dur", "steadystate_ramp_time", "ss_ramp",
    "steadystate_check_interval", "ss_interval",
}  # fmt: skip
_REPORTING = ("log_", "write_bw_", "write_lat_", "write_iops_", "write_hist_", "disable_")
_DEFAULTS = {  # default values other than 0
    "sync": ("none", "0"),
    "zonemode": ("none", "0"),
    "nrfiles": ("1",),
    "loops": ("1",),
    "percentage_random": ("100",),
    "iodepth_batch_complete_min": ("1",),
    "io_submit_mode": ("inline",),
    "mem": ("malloc",),
    "invalidate": ("1", ""),
    "scramble_buffers": ("1", ""),
}
# The usual engines of fio for synchronous I/O, asynchronous I/O, io_uring and no I/O. Any other
# engine is an option that no field expresses.
_USUAL_ENGINES = ("psync", "libaio", "io_uring", "null")
_SYNCHRONOUS = ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap")
_NUMBER = re.compile(r"[+-]?\d+")
_HEXADECIMAL = re.compile(r"[+-]?(?:0x)?[0-9a-f]+")
_TIME_NS = {"s": NS_PER_S, "m": 60 * NS_PER_S, "h": 3600 * NS_PER_S, "d": 86_400 * NS_PER_S}
_MOST_SIZES = 128  # limit of the block sizes listed for bsrange, to keep a study readable


def merged(document: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, str]:
    """Return a job's options: the global ones, overridden by its own, without aliases.

    Equivalent options get one name, so that they override each other: ``buffered`` becomes
    ``direct``, and ``rwmixwrite`` becomes ``rwmixread``.
    """
    options: dict[str, str] = {}
    for table in (_globals(document, job), job.get("job options")):
        if isinstance(table, dict):
            options.update(plain(str(name), str(value)) for name, value in table.items())
    return options


def _globals(document: Mapping[str, Any], job: Mapping[str, Any]) -> Any:
    """Return the global options of a job; with several servers, those of the job's server."""
    tables = document.get("global options")
    if not isinstance(tables, list):
        return tables
    hosts = list(dict.fromkeys(map(host_of, document.get("client_stats") or [])))
    place = hosts.index(host_of(job)) if host_of(job) in hosts else 0
    return tables[place] if place < len(tables) else tables[0] if tables else None


def host_of(job: Any) -> tuple[str, int] | None:
    """Return host name and port of the fio server that ran a job; None if no server did."""
    if not isinstance(job, dict) or "hostname" not in job:
        return None
    port = job.get("port", 0)
    return str(job["hostname"]), port if isinstance(port, int) else 0


def plain(name: str, value: str) -> tuple[str, str]:
    """Return an option under its main name, with its value.

    ``buffered`` becomes ``direct``, and ``rwmixwrite`` becomes ``rwmixread``.
    """
    if name == "buffered":
        return "direct", str(int(not is_on({name: value}, name)))
    if name == "rwmixwrite":
        return "rwmixread", f"{100 - number({name: value}, name, 50):g}"
    return _ALIASES.get(name, name), value


def size_of(text: str, kb_base: int = 1024) -> int | None:
    """Convert a size in fio's notation to bytes; None for percentages, zones, ranges and lists.

    With fio's default ``kb_base`` of 1024, ``4k``, ``4Ki`` and ``4kB`` are 4096, and only ``4KiB``
    is 4000. As in fio, fractions and unknown units are ignored: ``1.5k`` is 1.
    """
    text = text.strip().lower()
    number, unit = _leading_number(text), _unit(text)
    if number is None or number < 0 or re.search("[-:,/]", text[1:]):
        return None
    if unit.startswith(("%", "z")):  # percentages of the device's size; zones
        return None
    power = "kmgtp".find(unit[:1]) + 1 if unit else 0
    # "4kib" has the other base: fio treats the two prefixes the wrong way round by default.
    base = 2024 - kb_base if power and unit[1:3] == "ib" else kb_base
    return number * int(base**power)


def time_ns(text: str) -> int | None:
    """Convert a time in fio's notation to ns, or return None if it is malformed.

    A number without a unit is in seconds, one with a unit that fio does not know (``sec``, ``min``)
    in microseconds.
    """
    text = text.strip().lower()
    number, unit = _leading_number(text), _unit(text)
    if number is None:
        return None
    if not unit[:1].isalpha():
        return number * NS_PER_S
    return number * (1_000_000 if unit.startswith("ms") else _TIME_NS.get(unit, 1_000))


def _leading_number(text: str) -> int | None:
    """Return the integer at the start of a text, which is hexadecimal if the text has ``0x``."""
    base = 16 if "0x" in text else 10
    match = (_HEXADECIMAL if base == 16 else _NUMBER).match(text)
    return None if match is None else int(match.group(), base)


def _unit(text: str) -> str:
    """Return the unit of a number: the letters or % after its leading decimal digits."""
    unit = text.lstrip("+-0123456789")
    return unit if unit[:1].isalpha() or unit[:1] == "%" else ""


def is_on(options: Options, name: str) -> bool:
    """Return whether a boolean option of fio is present and not 0."""
    return name in options and options[name].strip() not in ("0", "false")


def number(options: Options, name: str, default: float) -> float:
    """Return a numeric option, such as ``10k``; the default if it is missing or malformed."""
    text = options.get(name, "").strip()
    if re.fullmatch(r"[+-]?\d*\.\d*", text) and any(map(str.isdigit, text)):
        return float(text)
    size = size_of(text, _kb_base(options))
    return default if size is None else size


def _kb_base(options: Options) -> int:
    return 1000 if options.get("kb_base", "").strip() == "1000" else 1024


def whole(options: Options, name: str, default: int) -> int:
    """Return an integer option; the default if it is missing, malformed or below 1."""
    value = int(number(options, name, default))
    return value if value >= 1 else default


def engine_of(options: Options) -> str:
    """Return the name of fio's I/O engine; the default is that of Linux, psync."""
    return options.get("ioengine", "psync").partition(":")[0]


def fields(
    options: Options, done: Mapping[str, int], entries: int
) -> tuple[dict[str, Any], list[str]]:
    """Convert fio's options to fields of a ``block`` workload, and notes on options without field.

    Args:
        options: The job's options.
        done: The number of completed operations by kind.
        entries: The number of identical jobs in the file.
    """
    result, by_option = load_fields(options, done, max(whole(options, "numjobs", 1), entries))
    notes = list(by_option.values())
    if result.get("offsets") == "permutation":
        notes.append(
            "norandommap is not among the options in the file, so offsets are recorded as a "
            "permutation (fio before 3.34 omits command-line flags that have no value)"
        )
    shaping = ", ".join(f"{name}={value}" for name, value in unexpressed(options).items())
    if shaping:
        notes.append(f"fio options that affect the load and have no field in storlab: {shaping}")
    return result, notes


def load_fields(
    options: Options, done: Mapping[str, float], jobs: int
) -> tuple[dict[str, Any], dict[str, str]]:
    """Convert fio's options to fields of a ``block`` workload.

    Args:
        options: The job's options.
        done: Numbers or shares of operations by kind.
        jobs: Number of identical jobs.

    Returns:
        The fields, and a note for each option whose field only approximates it.
    """
    notes: dict[str, str] = {}
    result: dict[str, Any] = {
        "access": "random" if "rand" in options.get("rw", "read") else "sequential",
        "read_percent": _read_percent(options, done),
        "queue_depth": 1 if engine_of(options) in _SYNCHRONOUS else whole(options, "iodepth", 1),
        "jobs": jobs,
    }
    if done.get("trim"):
        result["trim_percent"] = round(100 * done["trim"] / max(1, sum(done.values())), 6)
        result["read_percent"] = min(result["read_percent"], 100 - result["trim_percent"])
    result["block_size"] = _block_size(options, notes)
    if result["access"] == "random":
        result.update(_offsets(options, notes))
    batch = whole(options, "iodepth_batch", 1)
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


def estimated_fields(
    done: Mapping[str, int],
    size: float | None,
    depths: Mapping[str, Any],
    in_flight: float,
    jobs: int | None,
) -> tuple[dict[str, Any], list[str]]:
    """Estimate fields of a ``block`` workload from results, for a file without job options.

    Args:
        done: The number of completed operations by kind.
        size: Mean size of a read or write in bytes; None if there was none.
        depths: Share of I/Os in percent by queue depth, as fio prints it: ``{"32": 99.9}``.
        in_flight: Mean number of I/Os in flight over all jobs, by Little's law.
        jobs: Number of jobs; None if it is not in the file.

    Returns:
        The fields, and a note that lists them as estimates.
    """
    total = sum(done.values())
    shares = {int(k.lstrip(">=")): float(v) for k, v in depths.items() if k.lstrip(">=").isdigit()}
    depth = max(shares, key=lambda at: shares[at], default=1) if any(shares.values()) else 1
    result: dict[str, Any] = {
        # Coarse shares, because measured ones differ between repeats.
        "read_percent": float(5 * round(20 * done.get("read", 0) / total)) if total else 100.0,
        "queue_depth": max(1, depth),
        "jobs": jobs or max(1, round(in_flight / max(1, depth))),
    }
    if size:
        result["block_size"] = max(512, 512 * round(size / 512))
    named = ", ".join(f"{name} {value:g}" for name, value in result.items())
    return result, [
        "the file has no job options (terse output and fio before 2.3 print none), so the access "
        f"pattern is unknown, and these are estimates from the results: {named}"
    ]


def unexpressed(options: Options) -> dict[str, str]:
    """Return the options that affect the load and that no field fully expresses, sorted by name.

    Runs that differ in such an option are not repeats of each other. Unknown options, such as those
    of newer fio versions, are assumed to affect the load.
    """
    shaping = {
        name
        for name, value in options.items()
        if name not in _EXPRESSED
        and not is_reporting(name)
        and value.strip() not in _DEFAULTS.get(name, ("0", "false"))
    }
    return {name: options[name] for name in sorted(shaping | set(_partly_expressed(options)))}


def is_reporting(name: str) -> bool:
    """Return whether an option affects only names, output, or the start and end of jobs."""
    return name in _NO_LOAD or name.startswith(_REPORTING)


def _partly_expressed(options: Options) -> Iterator[str]:
    """Yield the options whose field cannot fully express their value."""
    rw = options.get("rw", "")
    if ":" in rw or "trimwrite" in rw:  # repeated offsets, or trim followed by write
        yield "rw"
    if engine_of(options) not in _USUAL_ENGINES:
        yield "ioengine"
    if not _rate(options, 1):
        yield from (
            name
            for name, nothing in (("rate_iops", "0"), ("rate_process", "linear"))
            if options.get(name, nothing).strip() != nothing
        )
    for name in ("bs", "bsrange", "bssplit"):
        if name in options and len(set(_own(options, name))) > 1:
            yield name
    if "bssplit" in options and not _weights(options):
        yield "bssplit"
    if "bsrange" in options and not _range_weights(options):
        yield "bsrange"
    if "rand" in rw and not _is_expressible(options.get("random_distribution", "")):
        yield "random_distribution"
    # A size in bytes becomes the target's size. Another one, such as a percentage, has no field.
    if "size" in options and size_of(options["size"]) is None:
        yield "size"
    if number(options, "fsync", 0) > 0 and number(options, "fdatasync", 0) > 0:
        yield from ("fsync", "fdatasync")


def data_size(options: Options, files: int) -> int | None:
    """Return the bytes that a job uses of each file or device; None if ``size`` is not in bytes."""
    size = size_of(options.get("size", ""), _kb_base(options))
    return size // max(1, files) or None if size else None


def _own(options: Options, name: str) -> list[str]:
    """Return an option's values for the kinds of I/O that the job does.

    fio lists values as ``reads,writes,trims``; if some are missing, the last one is used for them.
    """
    order = {"read": 0, "write": 1, "trim": 2}
    parts = [part.strip() for part in options[name].split(",")]
    return [parts[min(order[kind], len(parts) - 1)] for kind in kinds_of(options) or ["read"]]


def kinds_of(options: Options) -> list[str]:
    """Return the kinds of I/O of a job: read, write, trim; empty if its ``rw`` is not known."""
    rw = options.get("rw", "").partition(":")[0].replace("readwrite", "rw")
    if "rw" in rw:
        return ["read", "write"]
    if rw.endswith("trimwrite"):
        return ["trim", "write"]
    return [kind for kind in ("read", "write", "trim") if kind in rw]


def _read_percent(options: Options, done: Mapping[str, float]) -> float:
    """Return the configured percentage of reads, or the measured one if it is not configured."""
    rw = options.get("rw", "")
    if "rw" in rw.replace("readwrite", "rw"):
        return number(options, "rwmixread", 50)
    if "trim" in rw:
        return 0.0
    if rw:
        return 100.0 if "read" in rw else 0.0
    total = sum(done.values())
    return round(100 * done.get("read", 0) / total, 3) if total else 100.0


def _block_size(options: Options, notes: dict[str, str]) -> int | dict[str, float]:
    if "bssplit" in options:
        weights = _weights(options)
        if weights:
            return weights
        notes["bssplit"] = f"bssplit={options['bssplit']} cannot be expressed as weights"
    if "bsrange" in options:
        weights = _range_weights(options)
        if weights:
            return weights
        smallest = _size(options, _own(options, "bsrange")[0].partition("-")[0])
        text = f"fio draws block sizes of {options['bsrange']}; block_size is the smallest"
        notes["bsrange"] = text
        return smallest or 4096
    own = _own({"bs": "4k", **options}, "bs")
    size = _size(options, own[0] or "4k")
    if size is None or len(set(own)) > 1:
        text = options["bs"]
        notes["bs"] = f"fio's block sizes are bs={text}; block_size is the first, or 4 KiB"
    return size or 4096


def _size(options: Options, text: str) -> int | None:
    return size_of(text, _kb_base(options))


def _range_weights(options: Options) -> dict[str, float]:
    """Return the block sizes of ``bsrange``, with equal weights.

    fio draws multiples of the smallest size up to the largest, each with the same probability. The
    result is empty if there are too many sizes, the largest is not a multiple of the smallest, or
    reads and writes have different ranges.
    """
    own = _own(options, "bsrange")
    least, most = (_size(options, text) for text in (f"{own[0]}-".split("-")[:2]))
    if len(set(own)) > 1 or not least or not most or most % least:
        return {}
    if most // least > _MOST_SIZES or is_on(options, "bs_unaligned"):
        return {}
    return {f"{least * factor}B": 1.0 for factor in range(1, most // least + 1)}


def _weights(options: Options) -> dict[str, float]:
    """Return the percentages of ``bssplit`` by block size; an empty dict if it is malformed."""
    percents: list[tuple[int, float | None]] = []
    for part in _own(options, "bssplit")[0].split(":"):
        text, _, share = (word.strip() for word in part.partition("/"))
        size = size_of(text, _kb_base(options))
        if not size or not (share.isdigit() or not share):
            return {}
        percents.append((size, float(share) if share else None))
    given = sum(percent or 0 for _, percent in percents)
    open_ones = sum(percent is None for _, percent in percents)  # they share the remainder equally
    weights: dict[str, float] = {}
    for size, percent in percents:
        weight = max(0.0, 100 - given) / open_ones if percent is None else percent
        weights[f"{size}B"] = weights.get(f"{size}B", 0.0) + weight
    return {name: weight for name, weight in weights.items() if weight}


def _is_expressible(distribution: str) -> bool:
    """Return whether a workload's fields can express an offset distribution of fio.

    They cannot express zipf with a centre, for instance.
    """
    kind, _, rest = distribution.partition(":")
    plain = kind in ("", "random") or (kind == "zipf" and re.fullmatch(r"[\d.]*", rest) is not None)
    return plain or _hot_cold(distribution) is not None


def _hot_cold(distribution: str) -> dict[str, Any] | None:
    zones = re.fullmatch(r"zoned:(\d+)/(\d+):(\d+)/(\d+)", distribution)
    if zones and int(zones[1]) + int(zones[3]) == 100 and int(zones[2]) + int(zones[4]) == 100:
        return {
            "offsets": "hot_cold",
            "hot_access_percent": float(zones[1]),
            "hot_space_percent": float(zones[2]),
        }
    return None


def _offsets(options: Options, notes: dict[str, str]) -> dict[str, Any]:
    distribution = options.get("random_distribution", "random")
    kind, _, rest = distribution.partition(":")
    if kind == "zipf":
        theta = number({"theta": rest.partition(":")[0]}, "theta", 1.1)
        return {"offsets": "zipf", "zipf_theta": theta}
    hot_cold = _hot_cold(distribution)
    if hot_cold is not None:
        return hot_cold
    if kind != "random":
        text = f"fio draws offsets by {distribution}; storlab treats them as uniform"
        notes["random_distribution"] = text
        return {"offsets": "uniform"}
    if is_on(options, "norandommap"):
        return {"offsets": "uniform"}
    return {"offsets": "permutation"}


def rates_of(options: Options, name: str) -> list[float]:
    """Return a job's limits by ``rate_iops`` or ``rate`` for each kind of operation it does.

    The list is empty unless all kinds of operations are limited.
    """
    own = _own(options, name) if name in options else []
    rates = [number({**options, name: text}, name, 0) for text in own]
    return rates if rates and min(rates) > 0 else []


def _rate(options: Options, jobs: int) -> dict[str, Any]:
    """Return the fields for a rate limit; empty unless fio limited all kinds of operations."""
    rates = rates_of(options, "rate_iops")
    if not rates:
        return {}
    poisson = options.get("rate_process") == "poisson"
    return {
        "rate_iops": sum(rates) * jobs,
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
    """Return the paths of files, devices or directories that fio's options name.

    If there are directories, fio appends file names, even absolute paths, to the first one.
    """
    directories, names = (_paths(options.get(name, "")) for name in ("directory", "filename"))
    if not directories or not names:
        return directories or names
    return [str(Path(f"{directories[0]}/{name}")) for name in names]


def _paths(text: str) -> list[str]:
    """Split fio's list of paths at colons that are not escaped by a backslash.

    Backslashes that do not precede a colon are part of a path.
    """
    parts = re.split(r"(?<!\\):", text)
    return [part.replace("\\:", ":") for part in parts if part]
