"""Define the fields that all meters have in a study, and validate a meter's table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, TypeVar, get_args

from pydantic import Field, ValidationError, model_validator

from storlab.base.errors import FieldProblems, Problem, StudyError
from storlab.base.nearest import suggest
from storlab.base.secrets import secret_problems
from storlab.model.bounds import bound_text, schema_of
from storlab.model.power import Boundary, Sampling, SensorInfo, Supply
from storlab.model.study import MeterSpec, Target
from storlab.model.types import StudyTable


class MeterOptions(StudyTable):
    """Fields of every meter; a meter's own model derives from it and may set a default boundary."""

    kind: str
    boundary: Boundary = "device"
    rate_hz: float = Field(default=1.0, gt=0, le=1000, description="readings per second")
    share: float = Field(
        default=1.0, gt=0, le=1, description="fraction of the reading that counts for the target"
    )
    share_rule: str = Field(default="", description="explanation of the fraction, in words")
    supply: Supply | None = Field(default=None, description="ac or dc; overrides the sensor")
    accuracy_percent: float | None = Field(
        default=None, ge=0, description="error in % of the reading, by the data sheet"
    )
    accuracy_w: float | None = Field(
        default=None, ge=0, description="constant part of the error, in W, by the data sheet"
    )
    part_of: str = Field(
        default="", description="name of a group; meters of one group and boundary are added up"
    )

    @model_validator(mode="after")
    def _share_is_explained(self) -> MeterOptions:
        if self.share < 1 and not self.share_rule.strip():
            raise FieldProblems(
                [
                    Problem(
                        ("share_rule",),
                        f"share = {self.share:g} requires share_rule, which explains the share",
                        'add share_rule = "8 of the 24 drives of the enclosure"',
                    )
                ]
            )
        return self

    def info(
        self,
        *,
        sensor: str,
        description: str,
        sampling: Sampling,
        unit: Literal["W", "J"] = "W",
        supply: Supply = "unknown",
        gain_accuracy: float | None = None,
        offset_accuracy_w: float | None = None,
        whole: str = "",
        **more: Any,
    ) -> SensorInfo:
        """Return the description of a sensor; accuracy and supply set in the study take precedence.

        Args:
            sensor: Name of the sensor in results.
            description: Description for readers of the results.
            sampling: Whether values are instantaneous, means or a counter.
            unit: W for power, J for energy.
            supply: AC or DC.
            gain_accuracy: Relative error.
            offset_accuracy_w: Constant error in W.
            whole: Name of the group to which the sensor belongs, such as the outlets of a machine.
                Sensors of the same boundary and group are added up; if empty, the sensor is used
                alone.
            **more: Further fields of the description.
        """
        if self.accuracy_percent is not None:
            gain_accuracy = self.accuracy_percent / 100
        if self.accuracy_w is not None:
            offset_accuracy_w = self.accuracy_w
        return SensorInfo(
            sensor=sensor,
            kind=self.kind,
            description=description,
            boundary=self.boundary,
            supply=self.supply or supply,
            sampling=sampling,
            unit=unit,
            gain_accuracy=gain_accuracy,
            offset_accuracy_w=offset_accuracy_w,
            share=self.share,
            share_rule=self.share_rule,
            whole=self.part_of or whole,
            **more,
        )


OptionsT = TypeVar("OptionsT", bound=MeterOptions)


def read_options(model: type[OptionsT], spec: MeterSpec, target: Target) -> OptionsT:
    """Validate a meter's table in a study by the meter's model.

    Raises:
        StudyError: Fields are wrong; lists each with a fix, such as the closest valid name.
    """
    given = spec.model_dump(exclude_unset=True)
    secrets = secret_problems(given)
    if secrets:  # before validation, whose errors would quote the values
        raise _study_error(spec, target, secrets)
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise _study_error(spec, target, _problems(model, spec.kind, error)) from None


def _study_error(spec: MeterSpec, target: Target, problems: Sequence[Problem]) -> StudyError:
    place = f'target "{target.name}": {spec.kind} meter'
    listed = [
        {
            "line": None,
            "where": ": ".join([place, ".".join(map(str, problem.field))]).rstrip(": "),
            "what": problem.what,
            "fix": problem.fix,
        }
        for problem in problems
    ]
    if len(listed) == 1:
        return StudyError(f"{listed[0]['where']}", problems[0].what, problems[0].fix)
    return StudyError(place, f"{len(listed)} fields are wrong", problems=listed)


def _problems(model: type[MeterOptions], kind: str, error: ValidationError) -> list[Problem]:
    problems: list[Problem] = []
    for detail in error.errors(include_url=False):
        field = detail["loc"]
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, FieldProblems):
            problems += cause.problems
        elif detail["type"] == "extra_forbidden":
            what = f"{field[-1]} is not a field of a {kind} meter"
            problems.append(Problem(field, what, suggest(str(field[-1]), model.model_fields)))
        elif detail["type"] == "missing":
            problems.append(Problem(field, f"{field[-1]} is missing", f"add {field[-1]} = ..."))
        elif detail["type"] == "literal_error":
            choices = [str(choice) for choice in _choices(model, str(field[0]))]
            what = f"{detail['input']!r} is not one of {', '.join(choices)}"
            problems.append(Problem(field, what, suggest(str(detail["input"]), choices)))
        elif broken := bound_text(detail, partial(schema_of, model, field)):
            problems.append(Problem(field, broken))
        else:
            reason = str(cause) if cause is not None else detail["msg"]
            problems.append(Problem(field, f"{reason} (given: {detail['input']!r})"))
    return problems


def _choices(model: type[MeterOptions], name: str) -> list[object]:
    def leaves(annotation: object) -> list[object]:
        parts = get_args(annotation)
        if not parts:
            return [] if isinstance(annotation, type) else [annotation]
        return [leaf for part in parts for leaf in leaves(part)]

    return leaves(model.model_fields[name].annotation)
