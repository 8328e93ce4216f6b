"""Publisher's ``[brief]`` table of a study, and the components of its targets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, field_validator

from storlab.base.errors import FieldProblems, Problem
from storlab.model.types import StudyTable

Text = Annotated[str, Field(min_length=1)]
Section = Literal[
    "ratios",
    "implementations",
    "clients",
    "capacity",
    "bottleneck",
    "power",
    "density",
    "published",
    "dips",
    "components",
    "configuration",
]
ALWAYS = ("findings", "numbers", "runs", "method", "flags", "audit")
"""Sections that cannot be left out, because the brief could not be verified without them."""


class BriefTable(StudyTable):
    """``[brief]``: the publisher of the brief, and texts next to the numbers."""

    author: str = Field(default="", description="author of the brief")
    organisation: str = Field(default="", description="publisher of the brief")
    logo: str | None = Field(
        default=None,
        min_length=1,
        description="PNG, JPEG, GIF, WebP or SVG file, embedded; a relative path starts at the "
        "folder of the file with this table",
    )
    introduction: str = Field(
        default="", description="text before the figures; an empty line starts a paragraph"
    )
    conclusion: str = Field(default="", description="text after the figures")
    footnotes: list[Text] = Field(default_factory=list, description="numbered notes at the end")
    legal: str = Field(default="", description="legal text, at the end")
    leave_out: list[Section] = Field(
        default_factory=list,
        description="sections to leave out; findings, numbers, runs, method, flags and audit "
        "always stay",
    )

    @field_validator("leave_out", mode="before")
    @classmethod
    def _may_go(cls, names: object) -> object:
        problems = [
            Problem(
                (place,),
                f"the section {name} cannot be left out",
                "remove it from the list: without it the brief could not be verified",
            )
            for place, name in enumerate(names if isinstance(names, list) else ())
            if name in ALWAYS
        ]
        if problems:
            raise FieldProblems(problems)
        # Studies stored before December 2026 may name the table of workloads, which is gone.
        return [n for n in names if n != "workloads"] if isinstance(names, list) else names


class BriefFile(StudyTable):
    """File with a ``[brief]`` table; its other tables are ignored."""

    model_config = ConfigDict(extra="ignore")

    brief: BriefTable = Field(description="publisher of the brief, and texts next to the numbers")


class Components(StudyTable):
    """``[target.components]``: hardware and software of a target, for the table of components."""

    server: str = Field(default="", description="model of the server or enclosure")
    cpu: str = Field(default="", description="processors")
    memory: str = Field(default="", description="memory")
    drives: str = Field(default="", description="drives, as a data sheet names them")
    nic: str = Field(default="", description="network adapters")
    switch: str = Field(default="", description="switches")
    firmware: str = Field(default="", description="firmware of drives, adapters, server")
    software: str = Field(default="", description="operating system, file system, storage software")
