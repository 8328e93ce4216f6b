"""Interface of translators, which turn the jobs of another tool into a study (``storlab init``).

The entry points of the group ``storlab.translators`` name a :class:`Translator` each, in a file
that imports nothing else. The name of the entry point is the tool's name in ``--from-NAME``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Translator(NamedTuple):
    """Option ``--from-NAME`` of ``storlab init``, with the function that translates its values."""

    place: str  # module and function, separated by a colon: from a list of values to a Translation
    metavar: str
    help: str


@dataclass(frozen=True, slots=True)
class Remark:
    """Option of the other tool that a study cannot fully express."""

    where: str  # file and line, as in "job.fio:12"
    option: str  # the option as it is written there
    meaning: str  # effect of the difference, as a sentence


@dataclass(slots=True)
class TranslatedTable:
    """Table of a study: its fields in order, and comments that show what they were made from."""

    origin: str  # description of the source, for a comment and for errors
    fields: dict[str, Any]
    comments: dict[str, str] = field(default_factory=dict)  # by field


@dataclass(slots=True)
class Translation:
    """Jobs of another tool as tables of a study."""

    targets: list[TranslatedTable] = field(default_factory=list)
    workloads: list[TranslatedTable] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    ramp_ns: int | None = None  # None if the jobs have none
    runtime_ns: int | None = None
    # files that the study names, such as profiles, by path from the working directory
    files: dict[str, str] = field(default_factory=dict)
