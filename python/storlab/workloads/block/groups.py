"""Groups of jobs that run at the same time on one target, each with a load of its own.

In a study, ``[[workload.group]]`` has the fields of the workload that may differ between groups;
fields that a group leaves out have the workload's value. In the parameters of a point, ``group``
maps the name of each group to the fields in which the groups differ. All other parameters are
common to the groups, except ``jobs``, which is the number of jobs of all groups together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from pydantic import Field, create_model, model_validator

from storlab.base.errors import FieldProblems, Problem
from storlab.base.units import exact_number, format_size
from storlab.model.params import table_fields
from storlab.model.point import Point
from storlab.model.types import StudyTable
from storlab.workloads.block.params import BlockParams
from storlab.workloads.block.rules import combination_problems, needless_fields
from storlab.workloads.common.io_fields import mix_phrase
from storlab.workloads.common.random_choice import sequential_offsets, sizes_of

OF_THE_RUN = ("backend", "verify", "total_bytes", "drain_timeout")
"""Fields that all groups of a run have in common."""
BESIDE = "beside"
"""Parameter of a group's point: the other groups, as fields in which they differ from it."""
MOST_GROUPS = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]*")


class GroupBase(StudyTable):
    """Name and checks of ``[[workload.group]]``, without the fields of the load."""

    fields: ClassVar[tuple[str, ...]] = ()  # fields that a group may set, besides its name

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
            if isinstance(value, list) and name in cls.fields and name != "cpus"
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


TableT = TypeVar("TableT", bound="GroupBase")


def _with_fields(table: type[TableT]) -> type[TableT]:
    """Add an optional field for each parameter of a group to the class of its table."""
    _, fields = table_fields(BlockParams, sweeps=False)
    chosen = {name: field for name, field in fields.items() if name not in OF_THE_RUN}
    optional: dict[str, Any] = {
        name: (
            annotation | None,
            Field(
                default=None,
                description=info.description.partition("; by default")[0].removesuffix("; swept"),
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
    made.fields = tuple(chosen)
    return made


@_with_fields
class Group(GroupBase):
    """``[[workload.group]]``: jobs that run at the same time as those of the other groups."""


def list_problems(groups: Sequence[Group], given: set[str], table: Any) -> list[Problem]:
    """Return the problems of a workload's groups that do not depend on the swept values.

    Args:
        groups: Groups of the workload.
        given: Names of the fields that the workload sets.
        table: Table of the workload.
    """
    problems = []
    names = [group.name.strip().replace(" ", "-") for group in groups]
    for index, name in enumerate(names):
        if not _NAME.fullmatch(groups[index].name):
            what = f'"{groups[index].name}" has other characters than letters, digits, spaces, _, -'
            problems.append(Problem(("group", index, "name"), what, 'use a name like "readers"'))
        elif name in names[:index]:
            what = f'another group is named "{groups[index].name}" too'
            fix = "give each group its own name"
            problems.append(Problem(("group", index, "name"), what, fix))
    if len(groups) > MOST_GROUPS:
        what = f"{len(groups)} groups are more than {MOST_GROUPS}"
        problems.append(Problem(("group",), what, "use jobs for identical jobs of a group"))
    if table.verify:
        what = "is not supported with groups of jobs"
        fix = "set verify = false, or verify the writes in a workload without groups"
        problems.append(Problem(("verify",), what, fix))
    if table.total_bytes is not None:
        what = "groups run at the same time, so their window cannot end after a number of bytes"
        problems.append(Problem(("total_bytes",), what, "remove it; runtime ends the window"))
    for name in Group.fields:
        if name in given and groups and all(name in group.model_fields_set for group in groups):
            what = "has no effect, because every group sets its own"
            problems.append(Problem((name,), what, "remove it here, or in the groups that use it"))
    return problems


def divided(
    combination: Mapping[str, Any], groups: Sequence[Group], swept: set[str]
) -> dict[str, Any]:
    """Return a point's parameters with the fields in which groups differ moved to ``group``.

    A swept field that a group inherits is in both places.

    Args:
        combination: Values of the workload's fields at this point.
        groups: Groups of the workload.
        swept: Fields of the workload for which it lists several values.
    """
    every = {group.name: _merged(combination, group) for group in groups}
    point = dict(combination)
    differing: dict[str, dict[str, Any]] = {name: {} for name in every}
    for field in Group.fields:
        values = [params[field] for params in every.values()]
        if all(value == values[0] for value in values) and field != "jobs":
            point[field] = values[0]
            continue
        for name, params in every.items():
            differing[name][field] = params[field]
        inherited = any(field not in group.model_fields_set for group in groups)
        if not (field in swept and inherited):
            del point[field]
    point["jobs"] = sum(params["jobs"] for params in every.values())
    return {**point, "group": differing}


def _merged(combination: Mapping[str, Any], group: Group) -> dict[str, Any]:
    """Return all parameters of a group; inherited ones that have no effect get defaults."""
    (merged,) = sequential_offsets([{**combination, **group.own}])
    unused = [
        name
        for name in needless_fields(BlockParams.combined(merged))
        if name not in group.model_fields_set
    ]
    if merged["rate_iops"] is None and "arrival" not in group.model_fields_set:
        unused.append("arrival")
    return merged | {name: BlockParams.model_fields[name].get_default() for name in unused}


def group_problems(points: Sequence[Mapping[str, Any]], groups: Sequence[Group]) -> list[Problem]:
    """Return the problems of groups whose parameters do not fit together.

    Args:
        points: Parameters of each point of the workload.
        groups: Groups of the workload.
    """
    problems = []
    for index, group in enumerate(groups):
        values = [params_by_group(params)[group.name] for params in points]
        found = combination_problems(BlockParams.every(values), group.model_fields_set)
        problems += [Problem(("group", index, *p.field), p.what, p.fix) for p in found]
    return problems


def params_by_group(params: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the parameters of each group of a point by name; empty if the point has no groups."""
    common = {name: value for name, value in params.items() if name != "group"}
    return {name: {**common, **own} for name, own in (params.get("group") or {}).items()}


def loads_of(params: BlockParams) -> list[BlockParams]:
    """Return the parameters of each group of a point; without groups, those of the point."""
    if not params.group:
        return [params]
    values = params.model_dump(exclude={"group"}, exclude_unset=True)
    return [BlockParams.of({**values, **own}) for own in params.group.values()]


def points_by_group(point: Point) -> dict[str, Point]:
    """Return a point for each group of a point, by the name of the group."""
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


def describe_groups(params: Mapping[str, Any], groups: Mapping[str, Mapping[str, Any]]) -> str:
    """Describe groups, such as ``readers: random, 4 KiB, reads only, queue depth 32, 2 jobs``.

    Args:
        params: Parameters that the groups share.
        groups: Other parameters of each group, by its name.
    """
    return "; ".join(f"{name}: {_described({**params, **own})}" for name, own in groups.items())


def _described(params: Mapping[str, Any]) -> str:
    values = BlockParams.of({k: v for k, v in params.items() if k not in ("group", BESIDE)})
    parts = [
        str(values.access),
        " or ".join(format_size(size) for size in sizes_of(values.block_size)),
        mix_phrase(values.read_percent, values.trim_percent),
        f"queue depth {values.queue_depth}",
        f"{values.jobs} job{'' if values.jobs == 1 else 's'}",
    ]
    if values.rate_iops is not None:
        parts.append(f"{exact_number(values.rate_iops)} operations/s")
    if values.region_start or values.region_size is not None:
        start, size = values.region_start, values.region_size
        texts = [
            format_size(v) if isinstance(v, int) else v for v in (start, size) if v is not None
        ]
        parts.append(
            "region from " + ", ".join(texts[:1]) + "".join(f", {t} long" for t in texts[1:])
        )
    return ", ".join(parts)
