"""Tables for density and cost figures: the rack that holds targets, and what targets cost."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from storlab.base.errors import FieldProblems, Problem
from storlab.base.units import parse_power
from storlab.model.types import StudyTable

POWER_PATTERN = r"^\s*[0-9][0-9_]*(\.[0-9]+)?\s*(mW|W|kW|MW)?\s*$"

Power = Annotated[
    float,
    BeforeValidator(parse_power),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": POWER_PATTERN, "examples": ["15kW", "800W"]},
                {"type": "number", "minimum": 0},
            ],
            "description": "watts, or a number with mW, W, kW or MW",
        }
    ),
]
"""Power in watts, from ``"15kW"`` or a number."""


class Rack(StudyTable):
    """``[rack]``: rack for the density table, which shows how many of each target fit into it."""

    units: float = Field(
        default=42,
        gt=0,
        description="rack units that targets can fill; the density table fills one rack with each "
        "target",
    )
    power_budget: Power | None = Field(
        default=None, gt=0, description="largest power of the rack; without it only height limits"
    )


class Cost(StudyTable):
    """``cost`` of a target: prices of its servers, network and storage, in its currency."""

    servers: float | None = Field(default=None, ge=0, description="servers and enclosures")
    network: float | None = Field(default=None, ge=0, description="adapters, switches, cables")
    storage: float | None = Field(
        default=None, ge=0, description="drives; by default the target's price"
    )

    @model_validator(mode="after")
    def _any(self) -> Cost:
        if self.servers is None and self.network is None and self.storage is None:
            raise FieldProblems(
                [
                    Problem(
                        (), "the table is empty", "give servers, network or storage, or remove it"
                    )
                ]
            )
        return self
