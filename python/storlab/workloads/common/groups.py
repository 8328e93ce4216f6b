"""Groups of a workload: several loads at the same time on one target, each with its own results.

In a study, ``[[workload.group]]`` has the fields of the workload that may differ between groups;
fields that a group leaves out have the workload's value. In the parameters of a point, ``group``
maps the name of each group to the fields in which the groups differ. All other parameters are
common to the groups, except the amount of load (such as ``jobs``), which is the sum over all
groups.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar

from pydantic import Field, create_model, model_validator

from storlab.base.errors import FieldProblems, Problem
from storlab.base.seeds import derive_seed
from storlab.contracts.family import Estimate
from storlab.model.params import Params, table_fields
from storlab.model.point import Point
from storlab.model.study import WorkloadSpec
from storlab.model.types import StudyTable
from storlab.workloads.common.load_levels import NAME as LOAD_LEVEL
from storlab.workloads.common.load_levels import with_closed_loops

BESIDE = "beside"
"""Parameter of a group's point: the other groups, as fields in which they differ from it."""
MOST_GROUPS = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]*")


class GroupedParams(Params):
    """Parameters of a point of a family whose workloads may have groups."""

    # By name of each group: the parameters in which the groups differ. The others are the same for
    # all groups, except the amount of load, which is their sum.
    group: dict[str, dict[str, Any]] | None = None
    # Parameters of a group's point: by name of each other group, those in which it differs.
    beside: dict[str, dict[str, Any]] | None = None

    def loads(self) -> dict[str, Self]:
        """Return the parameters of each group by name; without groups, these parameters as ""."""
        if not self.group:
            return {"": self}
        values = self.model_dump(exclude={"group"}, exclude_unset=True)
        return {name: self.of({**values, **own}) for name, own in self.group.items()}


class GroupBase(StudyTable):
    """Name and checks of ``[[workload.group]]``, without the fields of the load."""

    fields: ClassVar[tuple[str, ...]] = ()  # fields that a group may set, besides its name
    swept: ClassVar[tuple[str, ...]] = ()  # those for which a workload accepts a list of values

    name: str = Field(
        max_length=60,
        description="name of the group, of letters, digits, spaces, _ and -",
        examples=["readers", "writer"],
    )

    @model_validator(mode="before")
    @classmethod
    def _no_sweeps(cls, table: Any) -> Any:
        """Refuse lists of values, because groups cannot be swept."""
        lists = [
            name
            for name, value in (table.items() if isinstance(table, dict) else ())
            if isinstance(value, list) and name in cls.swept
        ]
        if lists:
            what = "a group has one value, and cannot be swept"
            fix = (
                "sweep the field of the workload, which its groups take over, or write one "
                "workload for each value"
            )
            raise FieldProblems([Problem((name,), what, fix) for name in lists])
        return table

    @property
    def own(self) -> dict[str, Any]:
        """Return the values of the fields that the group sets."""
        return {name: getattr(self, name) for name in self.fields if name in self.model_fields_set}


TableT = TypeVar("TableT", bound=GroupBase)


def group_table(
    params: type[Params], of_the_run: Sequence[str]
) -> Callable[[type[TableT]], type[TableT]]:
    """Return a decorator that adds the parameters of a group as optional fields to its table.

    Args:
        params: Parameters of the family's points.
        of_the_run: Parameters that all groups of a run have in common, so that no group sets them.
    """

    def complete(table: type[TableT]) -> type[TableT]:
        swept, fields = table_fields(params, sweeps=False)
        chosen = {name: field for name, field in fields.items() if name not in of_the_run}
        optional: dict[str, Any] = {
            name: (
                annotation | None,
                Field(
                    default=None,
                    description=info.description.partition("; by default")[0].removesuffix(
                        "; swept"
                    ),
                    examples=info.examples,
                ),
            )
            for name, (annotation, info) in chosen.items()
        }
        made: type[TableT] = create_model(
            table.__name__,
            __base__=table,
            __module__=table.__module__,
            __doc__=table.__doc__,
            **optional,
        )
        made.fields, made.swept = tuple(chosen), tuple(name for name in swept if name in chosen)
        return made

    return complete


class GroupedSpec(WorkloadSpec):
    """``[[workload]]`` of a family whose workloads may have groups."""

    params: ClassVar[type[GroupedParams]] = GroupedParams
    shared: ClassVar[frozenset[str]] = WorkloadSpec.shared | {"group"}
    # parameter with the amount of load: a grouped point has the sum over its groups
    amount: ClassVar[str]

    group: Sequence[GroupBase] = ()

    @abstractmethod
    def needless_fields(self, params: Any) -> list[str]:
        """Return the fields that have no effect at a point because of its other parameters."""

    @abstractmethod
    def combination_problems(self, values: list[Any], given: set[str]) -> list[Problem]:
        """Return the problems of parameters that do not fit together.

        Args:
            values: Parameters of each point of the workload, or of one of its groups.
            given: Names of the fields that the study sets.
        """

    def problems_with_groups(self) -> list[Problem]:
        """Return the problems of settings of the workload that are not supported with groups."""
        return []

    def with_implied_values(self, product: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add parameters that follow from others to combinations of values; return them."""
        return product

    @classmethod
    def compared(cls, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that must be equal for two results to be compared."""
        kept = super().compared(params)
        for name in ("group", BESIDE):
            if kept.get(name):
                kept[name] = {g: super(GroupedSpec, cls).compared(v) for g, v in kept[name].items()}
        return kept

    def problems(self, values: list[dict[str, Any]]) -> list[Problem]:
        """Return a problem for each field of the table that is contradictory or has no effect."""
        if self.group:
            found = [*self._table_problems(), *self.problems_with_groups()]
            return found or [*self._load_problems(values), *self._idle_problems()]
        del values  # values lack the fields that points do not use, so the product is built again
        return self.combination_problems(self.params.every(self.product()), self.model_fields_set)

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return a point's parameters; fields that have no effect get their defaults."""
        if self.group:
            return params
        needless = self.needless_fields(self.params.combined(params))
        if getattr(self, LOAD_LEVEL) is not None:  # the closed loop differs only in its load level
            needless = [name for name in needless if name != "arrival"]
        return params | {name: self.default_of(name) for name in needless}

    def product(self) -> list[dict[str, Any]]:
        """Return all combinations of swept values."""
        if not self.group:
            return with_closed_loops(self.with_implied_values(super().product()))
        swept = {name for name in self.swept if isinstance(getattr(self, name), list)}
        return [self._divided(values, swept) for values in super().product()]

    def _divided(self, combination: Mapping[str, Any], swept: set[str]) -> dict[str, Any]:
        """Return a point's parameters with the fields in which groups differ moved to ``group``.

        A swept field that a group inherits is in both places.

        Args:
            combination: Values of the workload's fields at this point.
            swept: Fields of the workload for which it lists several values.
        """
        every = {group.name: self._merged(combination, group) for group in self.group}
        point = {name: value for name, value in combination.items() if name != LOAD_LEVEL}
        differing: dict[str, dict[str, Any]] = {name: {} for name in every}
        for field in self.group[0].fields:
            values = [params[field] for params in every.values()]
            if all(value == values[0] for value in values) and field != self.amount:
                point[field] = values[0]
                continue
            for name, params in every.items():
                differing[name][field] = params[field]
            inherited = any(field not in group.model_fields_set for group in self.group)
            if not (field in swept and inherited):
                del point[field]
        point[self.amount] = sum(params[self.amount] for params in every.values())
        return {**point, "group": differing}

    def _merged(self, combination: Mapping[str, Any], group: GroupBase) -> dict[str, Any]:
        """Return all parameters of a group; inherited ones that have no effect get defaults."""
        (merged,) = self.with_implied_values([{**combination, **group.own}])
        needless = self.needless_fields(self.params.combined(merged))
        unused = [name for name in needless if name not in group.model_fields_set]
        return merged | {name: self.default_of(name) for name in unused}

    def _table_problems(self) -> list[Problem]:
        """Return the problems of the groups that do not depend on swept values."""
        problems = []
        if LOAD_LEVEL in self.model_fields_set:
            what = "is not supported with groups, which have a rate each"
            problems.append(Problem((LOAD_LEVEL,), what, "set the rate of each group instead"))
        names = [group.name.strip().replace(" ", "-") for group in self.group]
        for index, name in enumerate(names):
            own = self.group[index].name
            if not _NAME.fullmatch(own):
                what = f'"{own}" has other characters than letters, digits, spaces, _, -'
                problems.append(
                    Problem(("group", index, "name"), what, 'use a name like "readers"')
                )
            elif name in names[:index]:
                what = f'another group is named "{own}" too'
                fix = "give each group its own name"
                problems.append(Problem(("group", index, "name"), what, fix))
        if len(self.group) > MOST_GROUPS:
            what = f"{len(self.group)} groups are more than {MOST_GROUPS}"
            fix = f"raise {self.amount} of a group instead of repeating it"
            problems.append(Problem(("group",), what, fix))
        for name in self.group[0].fields:
            given = name in self.model_fields_set
            if given and all(name in group.model_fields_set for group in self.group):
                what = "has no effect, because every group sets its own"
                fix = "remove it here, or in the groups that use it"
                problems.append(Problem((name,), what, fix))
        return problems

    def _load_problems(self, points: Sequence[Mapping[str, Any]]) -> list[Problem]:
        """Return the problems of groups whose parameters do not fit together."""
        problems: dict[Problem, None] = {}
        for index, group in enumerate(self.group):
            values = [params_by_group(params)[group.name] for params in points]
            for p in self.combination_problems(self.params.every(values), group.model_fields_set):
                own = p.field[0] in group.fields
                field = ("group", index, *p.field) if own else p.field
                problems.setdefault(Problem(field, p.what, p.fix))
        return list(problems)

    def _idle_problems(self) -> list[Problem]:
        """Return a problem for each field of the workload that has no effect on any group."""
        used: set[str] = set()
        for combination in super().product():
            for group in self.group:
                (merged,) = self.with_implied_values([{**combination, **group.own}])
                needless = {
                    *self.needless_fields(self.params.combined(merged)),
                    *group.model_fields_set,
                }
                used |= {
                    name
                    for name in self.model_fields_set
                    if name not in needless or combination.get(name) == self.default_of(name)
                }
        what, fix = "has no effect on any group", "remove it, or add a group that uses it"
        idle = [name for name in self.model_fields_set - used if name not in self.shared]
        return [Problem((name,), what, fix) for name in sorted(idle)]


def params_by_group(params: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the parameters of each group of a point by name; empty if the point has no groups."""
    common = {name: value for name, value in params.items() if name != "group"}
    return {name: {**common, **own} for name, own in (params.get("group") or {}).items()}


def points_by_group(point: Point) -> dict[str, Point]:
    """Return the groups of a point by name, each as a point with the group's parameters."""
    every = params_by_group(point.params)
    return {
        name: point.model_copy(
            update={
                "workload": f"{point.workload}: {name}",
                "params": {
                    **params,
                    BESIDE: {
                        other: {k: v for k, v in theirs.items() if v != params.get(k)}
                        for other, theirs in every.items()
                        if other != name
                    },
                },
            }
        )
        for name, params in every.items()
    }


def seed_of_group(seed: int, index: int) -> int:
    """Return the seed of the group with this index, so that each draws its own random numbers."""
    return derive_seed(seed, "group", index) if index else seed


def estimate_together(every: Sequence[Estimate]) -> Estimate:
    """Return the estimate of a run from those of its groups, which run at the same time."""
    written = [estimate.bytes_written for estimate in every]
    data_sets = {data.name: data for estimate in every for data in estimate.data_sets}
    return replace(
        every[0],
        bytes_written=sum(w for w in written if w is not None) if None not in written else None,
        writes=any(estimate.writes for estimate in every),
        layout_files=sum(estimate.layout_files for estimate in every),
        write_share=max(estimate.write_share for estimate in every),
        reads=any(estimate.reads for estimate in every),
        frees=any(estimate.frees for estimate in every),
        data_sets=tuple(data_sets.values()),
        buffer_bytes=sum(estimate.buffer_bytes for estimate in every),
        histograms=sum(estimate.histograms for estimate in every),
        open_files=sum(estimate.open_files for estimate in every),
        cautions=tuple(dict.fromkeys(text for e in every for text in e.cautions)),
    )


def describe_groups(
    params: Mapping[str, Any],
    groups: Mapping[str, Mapping[str, Any]],
    describe: Callable[[dict[str, Any]], str],
) -> str:
    """Describe groups, such as ``readers: random, 4 KiB, reads only, queue depth 32, 2 jobs``.

    Args:
        params: Parameters that the groups share.
        groups: Other parameters of each group, by its name.
        describe: Function that returns a phrase for the parameters of one group.
    """
    common = {name: value for name, value in params.items() if name not in ("group", BESIDE)}
    return "; ".join(f"{name}: {describe({**common, **own})}" for name, own in groups.items())
