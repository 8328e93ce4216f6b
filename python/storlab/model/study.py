"""Study file: targets, workloads and settings of runs.

The tables of workload families are defined in ``storlab.workloads``, a higher layer that builds the
complete model with :func:`study_model`. This module has only what families have in common.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_type_hints

from pydantic import (
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)

from storlab.base.errors import FieldProblems, Problem
from storlab.base.nearest import suggest
from storlab.base.steady import EXCURSION_PERCENT, SLOPE_PERCENT, WINDOW
from storlab.base.units import LARGEST, NS_PER_MS, format_duration
from storlab.model.cluster import Cluster
from storlab.model.gate import GateRule
from storlab.model.params import Params, table_fields
from storlab.model.publisher import BriefTable
from storlab.model.rack_and_cost import Rack
from storlab.model.target import Layout, MeterSpec, Precondition, Target
from storlab.model.types import Duration, StudyTable

__all__ = [
    "Header",
    "Layout",
    "MeterSpec",
    "Precondition",
    "StudyBase",
    "Target",
    "UntilSteady",
    "UseCase",
    "WorkloadSpec",
    "study_model",
    "study_table",
]

MOST_POINTS = 20_000
"""Largest number of points of a study; planning more would take minutes."""
MOST_TABLES = 10_000
"""Largest number of targets, and of workloads, of a study."""
SHORTEST_INTERVAL = NS_PER_MS
"""Shortest sampling interval; shorter ones would be distorted by hand-over between workers."""
MOST_INTERVALS = 1_000_000
"""Largest number of intervals in a window: eleven days of seconds, or 1,000 s of milliseconds."""


class UntilSteady(StudyTable):
    """``until_steady`` of ``[study]``: repeat all points in rounds until a metric is steady.

    As in the SNIA PTS, a target has measured enough as soon as the metric at one of its points was
    steady over five rounds. Results are those of these five rounds, the measurement window.
    ``repeats`` is the largest number of rounds.
    """

    metric: str = Field(
        default="iops",
        min_length=1,
        description="metric that must be steady, such as iops, throughput or latency_mean",
    )
    workload: str | None = Field(
        default=None, description="name of the workload of the tracked point; by default any"
    )
    at: dict[str, Any] = Field(
        default_factory=dict,
        description="parameter values of the tracked point, which each target must have exactly "
        'once: { block_size = "4KiB", read_percent = 0 }',
    )
    slope_percent: float = Field(
        default=SLOPE_PERCENT,
        gt=0,
        description="largest change of the best-fit line over five rounds, in percent of their "
        "mean",
    )
    excursion_percent: float = Field(
        default=EXCURSION_PERCENT,
        gt=0,
        description="largest difference between two of five rounds, in percent of their mean",
    )


class Header(StudyTable):
    """``[study]``: settings common to all runs."""

    name: str = Field(min_length=1, description="title of the study and of its brief")
    description: str = Field(default="", description="what the study is for, in your words")
    repeats: int = Field(
        default=3, ge=1, le=10_000, description="runs of every point; intervals need at least two"
    )
    until_steady: UntilSteady | None = Field(
        default=None,
        description="end a target's runs as soon as a metric was steady over five rounds, and use "
        "only these; repeats is then the most rounds, 25 in the SNIA PTS",
    )
    ramp: Duration = Field(
        default="10s",
        description="load before the measure window; not counted. Fixed work (training, "
        "checkpoint, preprocess) has none",
    )  # type: ignore[assignment]
    runtime: Duration = Field(
        default="60s",
        gt=0,
        description="length of the measure window. Fixed work ends when it is done",
    )  # type: ignore[assignment]
    settle: Duration = Field(default=0, description="pause after every run")
    numa_local: bool = Field(
        default=False,
        description="run the workers of each run on the CPUs of the NUMA node of the target’s "
        "drives; cpus of a workload precede. Without effect if nodes are not reported",
    )
    wait_for_target: Duration = Field(
        default="10min",
        description="how long a campaign waits for a target that does not answer (client, mount, "
        "device, store or meter) before it stops with exit code 13; 0 does not wait",
    )  # type: ignore[assignment]
    interval: Duration = Field(
        default="1s",
        ge=SHORTEST_INTERVAL,
        description="length of one sample, at least 1 ms; a window has at most 1,000,000",
    )  # type: ignore[assignment]
    seed: int = Field(
        default=1,
        ge=0,
        le=LARGEST,
        description="seed of offsets, mix, keys, order and content; the same seed gives the same "
        "I/O",
    )
    engine: str = Field(default="native", description="native, or a reference engine such as fio")
    baseline: str | None = Field(
        default=None,
        description="target that ratios divide by; by default the last one",
    )
    accept_unequal_boundaries: bool = Field(
        default=False,
        description="also give ratios of power and efficiency if the meters of both sides include "
        "different equipment; such ratios are marked",
    )
    question: list[str] = Field(
        default_factory=list,
        description="questions that the brief answers, the first one first; by default the usual "
        "ones of each workload, per watt if meters are read and per money if prices "
        "are given",
    )
    published: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list,
        description="published results to show beside the measured ones: names from storlab "
        "published, or paths of CSV files",
    )

    @model_validator(mode="after")
    def _enough_rounds(self) -> Header:
        if self.until_steady is not None and self.repeats < WINDOW:
            what = f"is {self.repeats}, but until_steady judges {WINDOW} rounds"
            fix = f"set repeats = 25, or at least {WINDOW}: it is the largest number of rounds"
            raise FieldProblems([Problem(("repeats",), what, fix)])
        return self

    @model_validator(mode="after")
    def _samples(self) -> Header:
        if self.interval > self.runtime and "interval" in self.model_fields_set:
            raise FieldProblems(
                [
                    Problem(
                        ("interval",),
                        "one sample is longer than the measure window",
                        "make interval at most as long as runtime",
                    )
                ]
            )
        if self.runtime > self.interval * MOST_INTERVALS:
            longer = format_duration(-(-self.runtime // MOST_INTERVALS))
            raise FieldProblems(
                [
                    Problem(
                        ("interval",),
                        f"a window of {format_duration(self.runtime)} would have "
                        f"{self.runtime // self.interval:,} samples, more than {MOST_INTERVALS:,}",
                        f"make interval at least {longer}",
                    )
                ]
            )
        return self


class UseCase(StudyTable):
    """``[[workload.use_case]]``: name for some parameter values, such as "mail server".

    The brief lists the points that each use case stands for.
    """

    name: str = Field(min_length=1, description="name of these parameter values in the brief")
    match: dict[str, Any] = Field(
        min_length=1, description="parameter values that the name stands for: { read_percent = 30 }"
    )


class WorkloadSpec(StudyTable):
    """Fields common to the tables of all workload families; a field in ``swept`` may be a list."""

    # parameters of the family's points, from which study_table derives fields
    params: ClassVar[type[Params]] = Params
    swept: ClassVar[tuple[str, ...]] = ()
    shared: ClassVar[frozenset[str]] = frozenset({"kind", "name", "engine", "targets", "use_case"})
    # Parameters that do not change the work: those that choose the implementation, and those
    # derived from results.
    non_work_parameters: ClassVar[frozenset[str]] = frozenset()
    # Members of ``non_work_parameters`` that must still be equal for two results to be compared.
    matched: ClassVar[frozenset[str]] = frozenset()

    kind: str = Field(description="the workload family")
    name: str | None = Field(
        default=None, min_length=1, description="name in the brief; by default the kind"
    )
    engine: str | None = Field(
        default=None, description="engine of this workload; by default the study's"
    )
    targets: list[str] | None = Field(
        default=None,
        min_length=1,
        description="names of the targets that this workload runs on; by default all that fit",
    )
    use_case: list[UseCase] = Field(
        default_factory=list, description="names of parameter values in the brief"
    )

    @field_validator("use_case")
    @classmethod
    def _read_matches(cls, use_cases: list[UseCase]) -> list[UseCase]:
        """Parse a use case's values like the workload's fields: ``"4MiB"`` becomes 4194304."""
        hints = get_type_hints(cls, include_extras=True)
        problems: list[Problem] = []
        read: list[UseCase] = []
        for index, use_case in enumerate(use_cases):
            match: dict[str, Any] = {}
            for name, value in use_case.match.items():
                where = (index, "match", name)
                if name not in cls.model_fields or name in cls.shared:
                    fields = [f for f in cls.model_fields if f not in cls.shared]
                    problems.append(
                        Problem(where, f"{name} is not a parameter", suggest(name, fields))
                    )
                    continue
                try:
                    adapter: TypeAdapter[Any] = TypeAdapter(
                        hints[name], config=ConfigDict(strict=True)
                    )
                    match[name] = adapter.validate_python(value)
                except ValidationError:
                    problems.append(
                        Problem(where, f"{value!r} is not a value of {name}", "see storlab schema")
                    )
            read.append(use_case.model_copy(update={"match": match}))
        if problems:
            raise FieldProblems(problems)
        return read

    @model_validator(mode="after")
    def _finite(self) -> WorkloadSpec:
        values = self.values()
        problems = [
            Problem(
                ("use_case", index, "match"),
                f'no point has all the values of use case "{use_case.name}"',
                "use values from the workload's lists",
            )
            for index, use_case in enumerate(self.use_case)
            if not any(all(v.get(k) == w for k, w in use_case.match.items()) for v in values)
        ]
        problems += self.problems(values)
        if problems:
            raise FieldProblems(problems)
        return self

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Return problems of parameters that are only wrong in combination."""
        del values
        return []

    @classmethod
    def compared(cls, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that must be equal for two results to be compared."""
        return {n: v for n, v in params.items() if n not in cls.non_work_parameters - cls.matched}

    @property
    def label(self) -> str:
        """Return the workload's name, or its kind if it has no name."""
        return self.name or self.kind

    def engine_of(self, params: dict[str, Any]) -> str | None:
        """Return the engine of one point; None if it is the study's engine."""
        del params
        return self.engine

    def values(self) -> list[dict[str, Any]]:
        """Return the parameters of each point, in the order of the study, without duplicates."""
        points: dict[str, dict[str, Any]] = {}
        for combination in self.product():
            point = self.reduced(combination)
            points.setdefault(repr(sorted(point.items())), point)
        return list(points.values())

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters that affect a point, so that duplicate points can be found."""
        return params

    def default_of(self, name: str) -> Any:
        """Return the default value of a field."""
        return type(self).model_fields[name].get_default()

    def product(self) -> list[dict[str, Any]]:
        """Return all combinations of the swept values, in the order of the study."""
        plain = self.model_dump(mode="python", exclude=set(self.shared))
        axes = [
            value if name in self.swept and isinstance(value, list) else [value]
            for name, value in plain.items()
        ]
        return [
            dict(zip(plain, combination, strict=True)) for combination in itertools.product(*axes)
        ]


SpecT = TypeVar("SpecT", bound=WorkloadSpec)


def study_table(params: type[Params]) -> Callable[[type[SpecT]], type[SpecT]]:
    """Return a decorator that adds a family's parameters as fields to its study table."""

    def complete(table: type[SpecT]) -> type[SpecT]:
        swept, fields = table_fields(params)
        made: type[SpecT] = create_model(
            table.__name__,
            __base__=table,
            __module__=table.__module__,
            __doc__=table.__doc__,
            **fields,
        )
        made.params, made.swept = params, swept
        return made

    return complete


class StudyBase(StudyTable):
    """A storlab study: targets to measure, workloads to run on them, and settings of runs."""

    swept: ClassVar[dict[str, tuple[str, ...]]] = {}  # by kind: fields that may be lists

    study: Header = Field(description="settings common to all runs")
    target: list[Target] = Field(
        min_length=1, max_length=MOST_TABLES, description="storage to measure"
    )
    workload: list[WorkloadSpec] = Field(
        min_length=1, max_length=MOST_TABLES, description="work to do on the targets"
    )
    rack: Rack | None = Field(
        default=None, description="rack of the density table; 42 units by default"
    )

    brief: BriefTable | None = Field(
        default=None, description="publisher of the brief, and texts next to the numbers"
    )
    cluster: Cluster | None = Field(
        default=None, description="clients that generate the load; by default this machine does"
    )
    gate: list[GateRule] = Field(
        default_factory=list, description="rules that storlab gate checks the results against"
    )

    @model_validator(mode="before")
    @classmethod
    def _few_points(cls, data: Any) -> Any:
        """Refuse sweeps with too many points, before their values are validated."""
        tables = data.get("workload") if isinstance(data, dict) else None
        count = 0
        for table in tables if isinstance(tables, list) else []:
            fields = table.items() if isinstance(table, dict) else ()
            swept = cls.swept.get(str(table.get("kind")), ()) if fields else ()
            count += math.prod(len(v) for n, v in fields if n in swept and isinstance(v, list))
        if count > MOST_POINTS:
            what = f"the lists multiply to {count:,} points, more than {MOST_POINTS:,}"
            raise FieldProblems([Problem(("workload",), what, "shorten the lists")])
        return data

    @model_validator(mode="after")
    def _names(self) -> StudyBase:
        names = [t.name for t in self.target]
        problems = [
            Problem(
                ("target", index, "name"),
                f'another target is named "{name}" too',
                "give each target its own name",
            )
            for index, name in enumerate(names)
            if name in names[:index]
        ]
        wanted: list[tuple[tuple[str | int, ...], str]] = [
            (("workload", i, "targets", j), name)
            for i, workload in enumerate(self.workload)
            for j, name in enumerate(workload.targets or [])
        ]
        if self.study.baseline is not None:
            wanted.append((("study", "baseline"), self.study.baseline))
        problems += [
            Problem(
                where,
                f'there is no target named "{name}"',
                suggest(name, names) + "; or remove baseline" * (where[-1] == "baseline"),
            )
            for where, name in wanted
            if name not in names
        ]
        if problems:
            raise FieldProblems(problems)
        return self

    @property
    def baseline(self) -> str:
        """Return the name of the target that is the denominator of ratios."""
        return self.study.baseline or self.target[-1].name

    def target_named(self, name: str) -> Target:
        """Return the target of that name; raise KeyError if there is none."""
        for target in self.target:
            if target.name == name:
                return target
        raise KeyError(name)


def study_model(
    families: list[type[WorkloadSpec]], questions: Sequence[str] = ()
) -> type[StudyBase]:
    """Build the study model with the given families for ``[[workload]]``, selected by ``kind``.

    Args:
        families: Workload tables.
        questions: Names of the questions that a study may ask.
    """
    family: Any = families[0]
    if len(families) > 1:
        family = Annotated[Union[tuple(families)], Field(discriminator="kind")]  # noqa: UP007
    described = Field(min_length=1, max_length=MOST_TABLES, description="work to do on the targets")
    asked = Header.model_fields["question"]
    name: Any = Literal[tuple(questions)] if questions else str
    header = create_model(
        "Header",
        __base__=Header,
        __doc__=Header.__doc__,
        question=(list[name], Field(default_factory=list, description=asked.description)),
    )
    about = StudyBase.model_fields["study"].description
    made: type[StudyBase] = create_model(
        "Study",
        __base__=StudyBase,
        __doc__=StudyBase.__doc__,
        study=(header, Field(description=about)),
        workload=(list[family], described),
    )
    made.swept = {get_args(f.model_fields["kind"].annotation)[0]: f.swept for f in families}
    return made
