"""Translation of fio's jobs into tables of a study, for ``storlab init --from-fio``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from storlab.base.errors import UsageError
from storlab.base.units import exact_duration, exact_number, format_size, parse_size
from storlab.contracts.translation import Remark, TranslatedTable, Translation
from storlab.engines.fio import importer_options as fio
from storlab.engines.fio import translation_remarks as remarks
from storlab.engines.fio.job_files import JobSection, Setting, read_jobs
from storlab.workloads.common.random_choice import mean_size

_PLACEHOLDER = "/fill/in/a/path"
_DEFAULT_SIZE = "1GiB"
_PERCENT = re.compile(r"\d+(\.\d+)?%")
# fio's options by the field of a workload that they become, for comments.
_SOURCES = {
    "access": ("rw",),
    "read_percent": ("rwmixread", "rwmixwrite"),
    "block_size": ("bssplit", "bsrange", "bs"),
    "queue_depth": ("iodepth",),
    "jobs": ("numjobs",),
    "batch": ("iodepth_batch",),
    "offsets": ("random_distribution", "norandommap"),
    "backend": ("ioengine",),
    "rate_iops": ("rate_iops", "rate"),
    "sync": ("fsync", "fdatasync", "sync"),
    "compress_percent": ("buffer_compress_percentage", "zero_buffers"),
    "dedupe_percent": ("dedupe_percentage",),
    "verify": ("verify",),
    "cpus": ("cpus_allowed",),
    "total_bytes": ("number_ios", "io_size", "size"),
    "region_start": ("offset",),
    "region_size": ("size",),
}
# Options that this module translates, besides those of importer_options.
_TRANSLATED = {
    "name", "description", "stonewall", "wait_for", "offset", "filesize", "number_ios",
    "refill_buffers", "scramble_buffers", "kb_base",
}  # fmt: skip
_SIZES = ("size", "io_size", "offset", "filesize", "bs", "rate", "rate_iops", "offset_increment")
_RANGES = ("startdelay", "filesize")  # options whose value may be two bounds: 1m-10m
_TIMES = ("runtime", "ramp_time", "startdelay")
_COUNTS = (
    "iodepth", "iodepth_batch", "numjobs", "nrfiles", "loops", "fsync", "fdatasync", "rwmixread",
    "number_ios",
)  # fmt: skip
# Options without which a job cannot be translated.
_NEEDED = (*_SIZES, *_TIMES, *_COUNTS, "rw", "bssplit", "bsrange", "random_distribution")
_KINDS = {
    "read": (100.0, 0.0, 0.0),
    "write": (0.0, 100.0, 0.0),
    "trim": (0.0, 0.0, 100.0),
    "trimwrite": (0.0, 50.0, 50.0),
}


def translate(values: list[str]) -> Translation:
    """Translate job files and command lines of fio.

    Jobs that fio runs at the same time with equal options become one workload, on several files if
    they differ in their files. Jobs that run at the same time with different options become groups
    of one workload if possible. All other jobs become workloads that run one after the other.

    Raises:
        UsageError: A job cannot be read, or none can be translated; the error names file and line.
    """
    notes = _Remarks()
    phases: list[list[_Load]] = []
    count = reported = 0
    for section in (section for value in values for section in read_jobs(value)):
        count += 1
        job = _Job(section, notes)
        load = job.load()
        starts = section.first or job.is_on("stonewall") or job.waits()
        if starts or not phases:
            phases.append([])
        if load is not None:
            reported += job.is_on("new_group")
            load.reported = reported
            phases[-1].append(load)
    for phase in phases:
        _end_together(phase)
    workloads = [groups for phase in phases for groups in _side_by_side(phase, notes)]
    if not workloads:
        raise _nothing(values, count, notes)
    return _tables(workloads, notes)


def _nothing(values: Sequence[str], count: int, notes: _Remarks) -> UsageError:
    where = ", ".join(value if len(value) < 60 else f"{value[:57]}..." for value in values)
    if not count:
        fix = "add a section such as [job] to the file, or --name=job to the command line"
        return UsageError(where, "has no job", fix)
    reasons = [remark.text for remark in notes.all()]
    what = "\n  ".join(["has no job that a study can express:", *reasons])
    return UsageError(where, what, "give a job that reads and writes files or block devices")


class _Remarks:
    """Collection of remarks on options, which lists the places of equal remarks together."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], list[str]] = {}

    def add(self, where: str, option: str, meaning: str) -> None:
        places = self._places.setdefault((option, meaning), [])
        if where not in places:
            places.append(where)

    def all(self) -> list[Remark]:
        """Return the remarks, of which each meaning occurs only once."""
        joined: dict[str, tuple[list[str], list[str]]] = {}
        for (option, meaning), places in self._places.items():
            all_places, options = joined.setdefault(meaning, ([], []))
            all_places += places
            options.append(option)
        return [
            Remark(_lines(places), ", ".join(dict.fromkeys(options)), meaning)
            for meaning, (places, options) in joined.items()
        ]


def _lines(places: Sequence[str]) -> str:
    """Join the line numbers of each file: ``a.fio:3`` and ``a.fio:9`` become ``a.fio:3,9``."""
    by_file: dict[str, list[str]] = {}
    for place in dict.fromkeys(places):
        file, _, line = place.rpartition(":")
        by_file.setdefault(file or line, []).append(line)
    return ", ".join(
        f"{file}:{','.join(lines)}" if lines != [file] else file for file, lines in by_file.items()
    )


@dataclass(slots=True)
class _Place:
    """Files, devices or directory that a job of fio uses."""

    paths: tuple[str, ...]
    direct: bool
    is_directory: bool = False
    is_filled: bool = True  # False if the user must fill in the path

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.paths, self.direct, self.is_directory)

    @property
    def is_device(self) -> bool:
        memory = "/dev/shm/"  # noqa: S108 - the tmpfs itself, not a temporary file
        return all(p.startswith("/dev/") and not p.startswith(memory) for p in self.paths)

    @property
    def is_null(self) -> bool:
        return self.paths == ("null:",)

    @property
    def needs_size(self) -> bool:
        return not self.is_device and not self.is_null


@dataclass(slots=True)
class _Load:
    """Load of one job of fio, or of several joined ones, as fields of a workload."""

    names: list[str]
    origins: list[str]
    fields: dict[str, Any]
    comments: dict[str, str]
    place: _Place
    offset: int | str = 0  # bytes, or a percentage such as "25%"
    size: int | str | None = None  # of each file; None if all of it is used
    job_bytes: int | None = None  # bytes that each job transfers; None if a runtime ends it
    rate: float | None = None  # operations per second of each job
    cpu: int | None = None
    ramp_ns: int | None = None
    runtime_ns: int | None = None
    reported: int = 0  # number of the group whose results fio reports together
    where: str = ""
    settings: dict[str, Setting] = field(default_factory=dict)

    @property
    def jobs(self) -> int:
        return int(self.fields["jobs"])

    @property
    def has_parts(self) -> bool:
        """Whether storlab divides the region among the jobs."""
        return self.fields.get("offsets", "sequential") in ("sequential", "permutation")


class _Job:
    """Translator of one section of a job file, or one job of a command line."""

    def __init__(self, section: JobSection, notes: _Remarks) -> None:
        self.section = section
        self.notes = notes
        self.options: dict[str, str] = {}
        self.settings: dict[str, Setting] = {}
        self.translated = set(_TRANSLATED)
        for setting in section.settings:
            value = _bare(setting) if setting.value is None else setting.value
            name, value = fio.plain(setting.name, value)
            self.options.pop(name, None)
            self.options[name] = value
            self.settings[name] = setting

    def is_on(self, name: str) -> bool:
        return fio.is_on(self.options, name)

    def waits(self) -> bool:
        if "wait_for" in self.options:
            self.note("wait_for", remarks.WAIT_FOR)
        return "wait_for" in self.options

    def note(self, name: str, meaning: str) -> None:
        """Add a remark on an option, or on the section if it lacks the option."""
        setting = self.settings.get(name)
        where = self.section.where if setting is None else setting.where
        option = f"[{self.section.name}]" if setting is None else setting.text
        self.notes.add(where, option, meaning)

    def _check(self) -> None:
        """Raise UsageError if a variable is not set, or if a number, size or time is malformed."""
        for name, value in self.options.items():
            setting = self.settings[name]
            if setting.missing and name in _NEEDED:
                variables = ", ".join(setting.missing)
                what = f"{setting.name} needs {variables}, which is not set in the environment"
                fix = f"{setting.missing[0]}=VALUE storlab init --from-fio ..."
                raise UsageError(setting.where, what, fix)
            separator = "[,-]" if name in _RANGES else ","
            parts = [part.strip() for part in re.split(separator, value) if part.strip()]
            if name in _SIZES:
                bad = [p for p in parts if not _PERCENT.fullmatch(p) and fio.size_of(p) is None]
                wanted = "a size such as 4k"
            elif name in _TIMES:
                bad = [p for p in parts if fio.time_ns(p) is None]
                wanted = "a time such as 30s"
            elif name in _COUNTS:
                bad = [p for p in parts if not _is_number(p)]
                wanted = "a number"
            else:
                continue
            if bad or not parts:
                what = f'"{setting.text}": "{value}" is not {wanted}'
                raise UsageError(setting.where, what, f"write {setting.name}=... with {wanted}")
        if self._kind() not in _KINDS and self._kind() != "rw":
            setting = self.settings["rw"]
            fix = "use read, write, rw, randread, randwrite, randrw, trim, or another mode of fio"
            raise UsageError(setting.where, f'"{setting.text}" is not a mode of fio', fix)

    def load(self) -> _Load | None:
        """Translate the job to a workload; add a remark and return None if that is impossible."""
        refusal = self._refusal()
        if refusal is not None:
            self.note(*refusal)
            return None
        self._check()
        self._rewrite()
        options = self.options
        jobs = fio.whole(options, "numjobs", 1)
        read, write, trim = self._shares()
        done = {"read": read, "write": write, "trim": trim}
        fields, approximations = fio.load_fields(options, done, jobs)
        for name, meaning in approximations.items():
            self.note(name, meaning)
        load = _Load(
            names=[self._name()],
            origins=[f"[{self.section.name}], {self.section.where}"],
            fields=fields,
            comments=self._comments(),
            place=self._place(),
            where=self.section.where,
            settings=self.settings,
        )
        self._measure(load)
        self._verify(load)
        self._rates(load)
        self._cpus(load)
        self._remark_rest(trim)
        return load

    def _name(self) -> str:
        """Return the job's name: the section's option ``name``, or the name of the section."""
        own = self.section.settings[self.section.shared :]
        names = [setting.value for setting in own if setting.name == "name" and setting.value]
        return names[-1] if names else self.section.name

    def _refusal(self) -> tuple[str, str] | None:
        reason = remarks.unrunnable_engine(fio.engine_of(self.options))
        if reason is not None:
            return "ioengine", reason
        mode = self.options.get("rw", "read")
        if self.options.get("zonemode") == "zbd" and mode.startswith(("randw", "randrw")):
            return "zonemode", "left out: storlab writes zoned drives zone by zone, not at random"
        if "read_iolog" in self.options:
            return "read_iolog", "left out: storlab does not replay traces"
        if "profile" in self.options:
            return "profile", "left out: storlab has none of fio's profiles"
        if self.is_on("create_only"):
            return "create_only", "left out: storlab lays out files itself before the runs"
        if self.is_on("verify_only"):
            return "verify_only", "left out: `storlab verify` reads back what a run wrote"
        return None

    def _kind(self) -> str:
        mode = self.options.get("rw", "read").partition(":")[0].strip()
        return mode.replace("readwrite", "rw").removeprefix("rand")

    def _shares(self) -> tuple[float, float, float]:
        """Return the percentages of reads, writes and trims."""
        if self._kind() == "rw":
            read = fio.number(self.options, "rwmixread", 50)
            return read, 100 - read, 0.0
        return _KINDS[self._kind()]

    def _rewrite(self) -> None:
        """Replace ``zero_buffers`` and ``sync`` by equivalent options that have a field."""
        options = self.options
        if self.is_on("zero_buffers"):
            options["buffer_compress_percentage"] = "100"
        options.pop("zero_buffers", None)
        sync = options.get("sync", "0").strip()
        if sync not in ("0", "none") and not self.is_on("fsync") and not self.is_on("fdatasync"):
            options["fdatasync" if sync == "dsync" else "fsync"] = "1"
            options.pop("sync")
            self.note("sync", remarks.SYNC_WRITES)

    def _comments(self) -> dict[str, str]:
        comments = {}
        for field_name, sources in _SOURCES.items():
            given = [self.settings[name] for name in sources if name in self.settings]
            if given:
                comments[field_name] = ", ".join(setting.text for setting in given[:2])
        return comments

    def _remark_rest(self, trim: float) -> None:
        """Add remarks on the options that no field expresses, and on those for fio's output."""
        rest = fio.unexpressed(self.options)
        for name, setting in self.settings.items():
            if name in self.translated or name in ("rate", "cpus_allowed", "verify", "sync"):
                continue
            if name == "rw" and name in rest:
                self.note("rw", remarks.TRIM_WRITE if trim == 50 else remarks.REPEATED_OFFSETS)
            elif name == "ioengine":
                meaning = remarks.other_engine(fio.engine_of(self.options))
                if meaning is not None:
                    self.note("ioengine", meaning)
            elif name in ("size", "bs", "bsrange", "bssplit", "random_distribution"):
                continue  # see load_fields and _measure
            elif name in rest:
                self.note(name, remarks.untranslated(name))
            elif fio.is_reporting(name) and setting.value != "0":
                known = remarks.untranslated(name)
                self.note(name, remarks.OUTPUT if known == remarks.UNKNOWN else known)

    def _place(self) -> _Place:
        options = self.options
        direct = self.is_on("direct")
        if fio.engine_of(options) == "null":
            return _Place(("null:",), direct=True)
        if set(fio.locations(options)) & {"/dev/null", "/dev/zero"}:
            self.note("filename", remarks.NULL_DEVICE)
            return _Place(("null:",), direct=True)
        for name in ("filename", "directory"):
            if name in options and self.settings[name].missing:
                self.note(name, remarks.undefined(self.settings[name].missing))
                return _Place((_PLACEHOLDER,), direct, name == "directory", is_filled=False)
        paths = tuple(dict.fromkeys(fio.locations(options)))
        if not paths:
            self.note("filename", remarks.NO_PLACE)
            return _Place((_PLACEHOLDER,), direct, is_directory=True, is_filled=False)
        if "filename" in options:
            return _Place(paths, direct)
        shared = self._shared_names(paths[0])
        if shared:
            return _Place(shared, direct)
        if len(paths) > 1:
            self.note("directory", remarks.ONE_DIRECTORY)
        return _Place(paths[:1], direct, is_directory=True)

    def _shared_names(self, directory: str) -> tuple[str, ...]:
        """Return the files that all jobs of a section share; empty if each job has its own files.

        fio's ``filename_format`` is ``$jobname.$jobnum.$filenum`` by default.
        """
        form = self.options.get("filename_format", "").strip()
        if not form or "$jobnum" in form:
            return ()
        self.translated.add("filename_format")
        names = (
            form.replace("$jobname", self.section.name).replace("$filenum", str(number))
            for number in range(fio.whole(self.options, "nrfiles", 1))
        )
        return tuple(dict.fromkeys(str(Path(directory) / name) for name in names))

    def _measure(self, load: _Load) -> None:
        """Set which region of its files the load uses, and after which time or size it ends."""
        options, place = self.options, load.place
        files = 1 if place.is_directory else len(place.paths)
        load.size = self._region("size", files)
        load.offset = self._region("offset", 1) or 0
        if "filesize" in options:
            bounds = [fio.size_of(part) or 0 for part in options["filesize"].split("-")]
            if len(bounds) > 1:
                self.note("filesize", remarks.MEAN_SIZE)
            mean = sum(bounds) // len(bounds)
            load.size = mean * fio.whole(options, "nrfiles", 1) or load.size
        load.ramp_ns = fio.time_ns(options["ramp_time"]) if "ramp_time" in options else None
        runtime = fio.time_ns(options["runtime"]) if "runtime" in options else None
        total = fio.data_size({"size": options.get("io_size", options.get("size", ""))}, 1)
        if self.is_on("number_ios"):
            size = load.fields["block_size"]
            total = int(fio.number(options, "number_ios", 0) * mean_size(size))
        if runtime:
            load.runtime_ns = runtime
            if total is not None and not self.is_on("time_based") and place.needs_size:
                self.note("runtime", remarks.SHORTER)
        elif total is not None:
            load.job_bytes = total * fio.whole(options, "loops", 1)
            self.translated.add("loops")
        else:
            self.note("filename", remarks.NO_LENGTH)
        if place.needs_size and not isinstance(load.size, int):
            self.note("size", remarks.NO_SIZE)
        if len(place.paths) > 1 and load.jobs > 1:
            self.note("filename", remarks.ALL_FILES)
        self._parts(load)

    def _region(self, name: str, files: int) -> int | str | None:
        value = self.options.get(name, "").strip()
        if value.endswith("%"):
            return f"{float(value[:-1]):g}%" if value != "100%" else None
        return fio.data_size({"size": value, "kb_base": self.options.get("kb_base", "")}, files)

    def _parts(self, load: _Load) -> None:
        """Set the size for parts of a region by ``offset_increment``, else add a remark.

        The remark is for jobs of fio that access the same offsets, because storlab's do not.
        """
        step = fio.data_size({"size": self.options.get("offset_increment", "")}, 1)
        if load.jobs == 1 or load.place.is_directory or not load.has_parts:
            return
        if step is not None and step == load.size:
            load.size = step * load.jobs
            self.translated.add("offset_increment")
        elif step is None:
            self.note("numjobs", remarks.SAME_OFFSETS)

    def _verify(self, load: _Load) -> None:
        name = self.options.get("verify", "0").strip()
        if name in ("0", "", "null"):
            return
        fields = load.fields
        writes = 100 - fields["read_percent"] - fields.get("trim_percent", 0)
        if writes <= 0 or fields.get("trim_percent") or fields.get("dedupe_percent"):
            self.note("verify", remarks.untranslated("verify"))
        else:
            fields["verify"] = True
            self.note("verify", remarks.OTHER_VERIFY)

    def _rates(self, load: _Load) -> None:
        fields, options = load.fields, self.options
        rates = fio.rates_of(options, "rate_iops")
        if not rates and self.is_on("rate"):
            size = mean_size(fields["block_size"])
            rates = [rate / size for rate in fio.rates_of(options, "rate")]
            if rates:
                load.fields["arrival"] = (
                    "poisson" if options.get("rate_process") == "poisson" else "constant"
                )
                self.note("rate", remarks.MEAN_RATE)
            else:
                self.note("rate", remarks.untranslated("rate"))
        fields.pop("rate_iops", None)
        if not rates:
            return
        load.rate = sum(rates)
        reads = fields["read_percent"]
        if len(rates) > 1 and abs(100 * rates[0] / load.rate - reads) > 1:
            name = "rate_iops" if self.is_on("rate_iops") else "rate"
            self.note(name, remarks.SKEWED_RATES)

    def _cpus(self, load: _Load) -> None:
        text = self.options.get("cpus_allowed", "").strip()
        if text.isdigit():
            load.cpu = int(text)
        elif text:
            self.note("cpus_allowed", remarks.untranslated("cpus_allowed"))


def _bare(setting: Setting) -> str:
    """Return "1", the value of an option without a value; raise UsageError if it needs one."""
    if setting.name in (*_SIZES, *_TIMES, *_COUNTS, "rw", "filename", "directory", "ioengine"):
        what = f'"{setting.text}" has no value'
        raise UsageError(setting.where, what, f"write {setting.name}=VALUE")
    return "1"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return fio.size_of(text) is not None
    return True


def _end_together(phase: list[_Load]) -> None:
    """Set the shortest runtime for all jobs if ``exitall`` ends them when the first one ends."""
    runtimes = [load.runtime_ns for load in phase if load.runtime_ns is not None]
    if runtimes and any("exitall" in load.settings for load in phase):
        for load in phase:
            load.runtime_ns, load.job_bytes = min(runtimes), None


def _side_by_side(phase: list[_Load], notes: _Remarks) -> list[list[_Load]]:
    """Divide jobs that fio runs at the same time into workloads, each a list of groups.

    Jobs with equal options are joined to one group. All groups form one workload or, if that is
    impossible, each forms a workload of its own, with a remark.
    """
    alike: dict[str, list[_Load]] = {}
    for load in phase:
        alike.setdefault(repr(_likeness(load)), []).append(load)
    loads: list[_Load] = []
    for group in alike.values():
        joined = _joined(group) if len(group) > 1 else group[0]
        loads += group if joined is None else [joined]
    if len(loads) < 2:
        return [loads] if loads else []
    reason = _no_groups(loads)
    if reason is None:
        if len({load.fields.get("backend") for load in loads}) > 1:
            for load in loads:
                if load.fields.pop("backend", None):
                    notes.add(load.where, f"[{load.names[0]}]", remarks.ONE_BACKEND)
        return [loads]
    for load in loads:
        notes.add(load.where, f"[{load.names[0]}]", f"{remarks.TOGETHER} ({reason})")
    return [[load] for load in loads]


def _no_groups(loads: Sequence[_Load]) -> str | None:
    """Return the reason why jobs cannot be groups of one workload, or None."""
    if len({load.place.key for load in loads}) > 1:
        return "groups of a workload share one target"
    if any(load.job_bytes is not None for load in loads):
        return "groups of a workload end after a runtime, not after a size"
    if any(load.fields.get("verify") for load in loads):
        return "groups of a workload cannot verify"
    return None


def _likeness(load: _Load) -> tuple[Any, ...]:
    """Return the values that must be equal in all jobs that are joined."""
    fields = {name: value for name, value in load.fields.items() if name != "jobs"}
    place = load.place.paths if load.place.is_directory or not load.place.is_filled else ()
    return (
        sorted(fields.items(), key=lambda item: item[0]),
        (load.place.direct, load.place.is_directory, place, load.place.is_null),
        (load.job_bytes if not load.has_parts else None, load.rate),
        (load.ramp_ns, load.runtime_ns, load.cpu is None, load.reported),
    )


def _joined(loads: Sequence[_Load]) -> _Load | None:
    """Join jobs on different files, or on adjoining parts of a file, into one load.

    Return None if one workload cannot express them.
    """
    by_paths: dict[tuple[str, ...], list[_Load]] = {}
    for load in loads:
        by_paths.setdefault(load.place.paths, []).append(load)
    sets = list(by_paths)
    if len({len(paths) for paths in sets}) > 1 or len({p for s in sets for p in s}) < sum(
        map(len, sets)
    ):
        return None
    if len(sets) > 1 and len(sets[0]) > 1 and any(load.jobs > 1 for load in loads):
        return None
    regions = {repr(_region_of(part)) for part in by_paths.values()}
    if len(regions) > 1 or "None" in regions:
        return None
    offset, size, jobs = _region_of(next(iter(by_paths.values()))) or (0, None, 0)
    first = loads[0]
    # Member number m belongs to job m modulo the number of jobs, as in job.py.
    paths = tuple(path for column in zip(*sets, strict=True) for path in column)
    cpus = [load.cpu for load in loads for _ in range(load.jobs)]
    fields = first.fields | {"jobs": jobs * len(sets)}
    if first.cpu is not None:
        fields["cpus"] = cpus
    amounts = [load.job_bytes for load in loads]
    each = (
        None
        if None in amounts
        else sum(a * x.jobs for a, x in zip(amounts, loads, strict=True) if a)
    )
    return replace(
        first,
        names=[name for load in loads for name in load.names],
        origins=[origin for load in loads for origin in load.origins],
        fields=fields,
        place=replace(first.place, paths=paths),
        offset=offset,
        size=size,
        job_bytes=None if each is None else each // (jobs * len(sets)),
        cpu=None,
    )


def _region_of(loads: Sequence[_Load]) -> tuple[Any, Any, int] | None:
    """Return offset, size and number of jobs that use the same files; None if they do not join."""
    jobs = sum(load.jobs for load in loads)
    if len({(load.offset, load.size) for load in loads}) == 1:
        return loads[0].offset, loads[0].size, jobs
    if not loads[0].has_parts or any(load.jobs > 1 for load in loads):
        return None
    parts = []
    for load in loads:
        if not isinstance(load.offset, int) or not isinstance(load.size, int):
            return None
        parts.append((load.offset, load.size))
    parts.sort()
    for (start, size), (following, _) in pairwise(parts):
        if start + size != following:
            return None
    return parts[0][0], sum(size for _, size in parts), jobs


def _tables(groups: Sequence[Sequence[_Load]], notes: _Remarks) -> Translation:
    loads = [load for group in groups for load in group]
    ramp = _longest("ramp", [(x.ramp_ns, x) for x in loads if x.ramp_ns], notes)
    runtime = _longest("runtime", [(x.runtime_ns, x) for x in loads if x.runtime_ns], notes)
    for load in loads:
        if ramp and load.job_bytes is not None:
            notes.add(load.where, f"[{load.names[0]}]", remarks.RAMPED)
    targets = _Targets(loads)
    names: set[str] = set()
    workloads = [
        _workload(group[0], targets, names) if len(group) == 1 else _grouped(group, targets, names)
        for group in groups
    ]
    return Translation(
        targets=targets.tables(),
        workloads=workloads,
        remarks=notes.all(),
        ramp_ns=ramp or 0,
        runtime_ns=runtime or None,
    )


def _longest(kind: str, lengths: Iterable[tuple[int, _Load]], notes: _Remarks) -> int | None:
    """Return the longest ramp or runtime; add a remark on each job with a shorter one."""
    pairs = list(lengths)
    longest = max((ns for ns, _ in pairs), default=None)
    if longest is None:
        return None
    option = "ramp_time" if kind == "ramp" else "runtime"
    for ns, load in pairs:
        if ns != longest:
            setting = load.settings[option]
            meaning = remarks.longest(kind, exact_duration(longest))
            notes.add(setting.where, setting.text, meaning)
    return longest


class _Targets:
    """Targets of all jobs: one for each set of files and each value of ``direct``."""

    def __init__(self, loads: Sequence[_Load]) -> None:
        self.loads: dict[tuple[Any, ...], list[_Load]] = {}
        for load in loads:
            self.loads.setdefault(load.place.key, []).append(load)
        self.names: dict[tuple[Any, ...], str] = {}
        for key, users in self.loads.items():
            place = users[0].place
            name = _name_of(place)
            if name in self.names.values() and not place.direct:
                name += " through the page cache"
            self.names[key] = _unique(name, set(self.names.values()))

    def size(self, place: _Place) -> int | None:
        """Return the size of each file of a target; None if no job states it."""
        ends = [
            load.size + (load.offset if isinstance(load.offset, int) else 0)
            for load in self.loads[place.key]
            if isinstance(load.size, int)
        ]
        return max(ends, default=None)

    def tables(self) -> list[TranslatedTable]:
        return [self._table(key, users) for key, users in self.loads.items()]

    def _table(self, key: tuple[Any, ...], users: Sequence[_Load]) -> TranslatedTable:
        place = users[0].place
        fields: dict[str, Any] = {"name": self.names[key]}
        comments: dict[str, str] = {}
        where = "directory" if place.is_directory else "path"
        if len(place.paths) > 1:
            where = "paths"
        fields[where] = list(place.paths) if where == "paths" else place.paths[0]
        if not place.is_filled:
            comments[where] = "FILL IN: the job names no file, device or directory"
        elif place.is_device:
            comments[where] = "to write to it, give its stable path in /dev/disk/by-id"
        if place.needs_size:
            size = self.size(place)
            fields["size"] = _DEFAULT_SIZE if size is None else format_size(size)
            if size is None:
                comments["size"] = "FILL IN: the job states no size"
        if not place.direct:
            fields["direct"] = False
            comments["direct"] = "fio's default: through the page cache; direct=1 bypasses it"
        origins = dict.fromkeys(origin for load in users for origin in load.origins)
        return TranslatedTable(f"used by {', '.join(origins)}", fields, comments)


def _name_of(place: _Place) -> str:
    if not place.is_filled:
        return "target to fill in"
    if place.is_null:
        return "null"
    names = [Path(path).name or path for path in place.paths]
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _unique(name: str, taken: set[str]) -> str:
    number, result = 1, name
    while result in taken:
        number += 1
        result = f"{name} {number}"
    return result


def _workload(load: _Load, targets: _Targets, names: set[str]) -> TranslatedTable:
    table = _load_table(load, targets)
    name = _unique(", ".join(dict.fromkeys(load.names)), names)
    names.add(name)
    first = {"kind": "block", "name": name, "targets": [targets.names[load.place.key]]}
    return TranslatedTable(table.origin, first | table.fields, table.comments)


def _grouped(loads: Sequence[_Load], targets: _Targets, names: set[str]) -> TranslatedTable:
    """Return a workload with one group for each job that fio runs at the same time."""
    name = _unique(" beside ".join(dict.fromkeys(load.names[0] for load in loads)), names)
    names.add(name)
    groups: list[TranslatedTable] = []
    taken: set[str] = set()
    for load in loads:
        table = _load_table(load, targets)
        table.fields.pop("backend", None)
        group = _unique(_group_name(", ".join(dict.fromkeys(load.names))), taken)
        taken.add(group)
        groups.append(TranslatedTable(table.origin, {"name": group} | table.fields, table.comments))
    fields: dict[str, Any] = {
        "kind": "block",
        "name": name,
        "targets": [targets.names[loads[0].place.key]],
    }
    if "backend" in loads[0].fields:
        fields["backend"] = loads[0].fields["backend"]
    origin = "jobs that fio runs at the same time"
    return TranslatedTable(origin, fields | {"group": groups})


def _group_name(name: str) -> str:
    """Return a name with the characters that groups may have: letters, digits, spaces, _ and -."""
    return re.sub(r"[^A-Za-z0-9 _-]+", "-", name).strip("-_ ")[:50].rstrip("-_ ") or "group"


def _load_table(load: _Load, targets: _Targets) -> TranslatedTable:
    fields: dict[str, Any] = {
        **load.fields,
        "block_size": _block_size(load.fields["block_size"]),
    }
    if load.rate is not None:
        fields["rate_iops"] = float(exact_number(round(load.rate * load.jobs, 3)))
    if load.cpu is not None:
        fields["cpus"] = [load.cpu]
    if load.offset:
        fields["region_start"] = _size(load.offset)
    if load.size is not None and not _is_whole(load, targets):
        fields["region_size"] = _size(load.size)
    if load.job_bytes is not None:
        fields["total_bytes"] = format_size(load.job_bytes * load.jobs)
    comments = {key: text for key, text in load.comments.items() if key in fields}
    if "description" in load.settings:
        comments["name"] = load.settings["description"].value or ""
    return TranslatedTable(", ".join(load.origins), fields, comments)


def _is_whole(load: _Load, targets: _Targets) -> bool:
    """Return whether a job uses its files from its offset to their end."""
    if not load.place.needs_size or not isinstance(load.size, int):
        return False
    start = load.offset if isinstance(load.offset, int) else 0
    return start + load.size == targets.size(load.place)


def _size(value: int | str) -> str:
    return value if isinstance(value, str) else format_size(value)


def _block_size(value: int | dict[str, float]) -> Any:
    if isinstance(value, dict):
        return {format_size(parse_size(text)): weight for text, weight in value.items()}
    return format_size(value)
