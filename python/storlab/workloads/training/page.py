"""How reports present training workloads: axes, sections, titles and phrases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storlab.base.errors import StudyError
from storlab.base.units import format_duration
from storlab.contracts.page import (
    Load,
    Metrics,
    Operations,
    Page,
    Parameters,
    Publications,
    Search,
    Text,
    margins,
    rate,
)
from storlab.model.result import Operation
from storlab.workloads.training.definitions import TRAINING_DEFINITIONS
from storlab.workloads.training.epoch_values import TRAINING_WORK_ITEMS
from storlab.workloads.training.flags import TRAINING_FLAGS
from storlab.workloads.training.params import TrainingParams
from storlab.workloads.training.quantities import (
    TRAINING_FINDINGS,
    TRAINING_QUANTITIES,
    TRAINING_QUESTIONS,
    TRAINING_TIMES,
)
from storlab.workloads.training.rules import OWN, profile_of, settings_of

NBSP = "\u00a0"
READS: tuple[Operation, ...] = ("read",)
OVERRIDES = {
    "batch_size": "batch size",
    "computation_time": "compute time of a step",
    "reader_threads": "reader threads of an accelerator",
    "epochs": "epochs",
    "files": "files",
}
"""Parameters that override values of the profile."""
UNSAID_AT = {"scale": 1.0, "edition": OWN, "data_seed": 1, "profile_data": None}


def phrase(name: str, params: Mapping[str, Any]) -> str | None:
    """Return a parameter as a phrase, such as ``3 accelerators``.

    None means that reports print its name and value. "" means that the phrase for another
    parameter includes it.
    """
    value = params[name]
    if name == "profile":
        return profile_text(params)
    if name == "profile_data":
        return _facts(params) if value is not None else ""
    if name == "accelerators":
        return f"{value}{NBSP}accelerator" if value == 1 else f"{value}{NBSP}accelerators"
    if value is None:
        return ""
    if name == "reader_threads":
        return f"{value}{NBSP}readers each"
    if name == "loader":
        return "PyTorch DataLoader" if value == "pytorch" else "native reader"
    if name == "computation_time" and isinstance(value, int):
        return f"{format_duration(value)} of computing"
    return None


def profile_text(params: Mapping[str, Any]) -> str:
    """Return a profile's name, with a remark if results are not comparable to published ones.

    Remarks say that the profile is not a published one, or that the study changes its batch size or
    compute time.
    """
    point = TrainingParams.of(params)
    try:
        profile = profile_of(point)
    except StudyError:  # the profile's file may have been deleted since the runs
        return point.profile
    remarks = [] if profile.published else ["not a published profile"]
    batch = _or(point.batch_size, profile.reader.batch_size)
    compute_ns = _or(point.computation_time, profile.train.computation_time)
    if (batch, compute_ns) != (profile.reader.batch_size, profile.train.computation_time):
        remarks.append(f"changed to {batch:,} samples in {format_duration(compute_ns)} of a step")
    return f"{point.profile} ({', '.join(remarks)})" if remarks else point.profile


def _or(given: int | None, usual: int) -> int:
    return usual if given is None else given


def _facts(params: Mapping[str, Any]) -> str:
    try:
        return profile_of(TrainingParams.of(params)).text
    except StudyError:
        return ""


def _threads(params: Mapping[str, Any]) -> int:
    try:
        return settings_of(TrainingParams.of(params)).threads
    except StudyError:
        return 0


def is_relevant(name: str, params: Mapping[str, Any]) -> bool:
    """Return whether reports print a parameter: whether it differs from its usual value."""
    return not (name in UNSAID_AT and params.get(name) == UNSAID_AT[name])


TRAINING_PAGE = Page(
    operations=Operations(
        main=READS,
        moved=READS,
        rate=rate("reads_s", "reads/s"),
        names={"read": "read", "step": "wait of a step", "wake": "wake-up of a step"},
    ),
    parameters=Parameters(
        axes=("accelerators", "reader_threads"),
        model=TrainingParams,
        facet="profile",
        titles={
            "profile": "profile",
            "profile_data": "what the profile says",
            "accelerators": "emulated accelerators",
            "edition": "edition",
            "loader": "loader",
            "max_steps": "steps of an epoch, at most",
            "scale": "share of the profile's files",
            "read_size": "size of a read",
            "io_depth": "reads in flight of a reader",
            "check": "what is done with what was read",
            "shuffle": "order of files",
            "barrier": "accelerators wait for one another",
            "data_seed": "seed of the data set",
            **{name: f"{title} (overrides the profile)" for name, title in OVERRIDES.items()},
        },
        phrase=phrase,
        is_relevant=is_relevant,
    ),
    load=Load(threads=_threads),
    metrics=Metrics(
        quantities=TRAINING_QUANTITIES,
        times=TRAINING_TIMES,
        questions=TRAINING_QUESTIONS,
        findings=TRAINING_FINDINGS,
        run_line=("samples_s.all", "au_percent.all"),
        per_watt={"accelerators_at_threshold": "accelerators_per_watt"},
        margins=margins(rates={"au_percent": 0.05}),
    ),
    text=Text(
        work="training reads (DLIO-equivalent)",
        stated=("profile", "accelerators"),
        last_point="the largest number of accelerators",
        definitions=TRAINING_DEFINITIONS,
    ),
    published=Publications(names=("dlio", "training")),
    search=Search(parameter="accelerators", noun="accelerator", metric="au_percent"),
    work_items=TRAINING_WORK_ITEMS,
    additions="storlab.workloads.training.findings:Findings",
    flags=TRAINING_FLAGS,
)
