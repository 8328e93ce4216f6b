"""Interface of translators, which convert the jobs of another tool to a study (``storlab init``).

Each entry point of the group ``storlab.translators`` names a :class:`Translator`, in a file that
imports nothing else. The name of the entry point is the tool's name in ``--from-NAME``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Translator(NamedTuple):
    """Function that translates the values of an option ``--from-NAME``, and the option's help."""

    place: str  # module and function, separated by a colon: from a list of values to a Translation
    metavar: str  # placeholder of the value in the help
    help: str


@dataclass(frozen=True, slots=True)
class Remark:
    """Remark on an option of the other tool that a study cannot fully express."""

    where: str  # file and line, as in "job.fio:12"
    option: str  # the option as written in that file
    meaning: str  # effect of the difference, as a sentence

    @property
    def text(self) -> str:
        """Remark as one line: place, option and meaning."""
        return f"{self.where}: {self.option}: {self.meaning}"


@dataclass(slots=True)
class TranslatedTable:
    """Table of a study: its fields in order, and comments with the other tool's options."""

    origin: str  # description of the source, for a comment and for errors
    fields: dict[str, Any]
    comments: dict[str, str] = field(default_factory=dict)  # by field


@dataclass(slots=True)
class Translation:
    """Translated jobs of another tool: tables of a study, and remarks."""

    targets: list[TranslatedTable] = field(default_factory=list)
    workloads: list[TranslatedTable] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    ramp_ns: int | None = None  # None if the jobs have none
    runtime_ns: int | None = None
    # files that the study names, such as profiles, by path from the working directory
    files: dict[str, str] = field(default_factory=dict)
