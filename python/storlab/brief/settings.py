"""Settings with which a brief reads stored results, instead of those of the study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storlab.analysis.dataset import Dataset, load_dataset
from storlab.base.errors import UsageError
from storlab.base.nearest import suggest
from storlab.contracts.registry import FAMILIES
from storlab.lab.plan.crosscheck import chosen
from storlab.results.store import ResultStore
from storlab.words import caveats as words


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings to use instead of the study's; empty ones are not changed."""

    questions: Sequence[str] = ()
    baseline: str | None = None
    accept_unequal_boundaries: bool | None = None
    points: Sequence[str] = ()  # selections as for crosscheck, such as jobs=4,target=disk


def load_with(stores: Sequence[ResultStore], settings: Settings) -> tuple[Dataset, list[str]]:
    """Read the runs of result directories under other settings than those of the study.

    The directories are not changed, only ``study`` of the open stores.

    Returns:
        The runs, and a phrase for each setting that differs from the studies'.

    Raises:
        UsageError: No family of the results has a question, no target the name of the baseline, or
            no point matches a selection.
    """
    changes: list[str] = []
    if settings.questions:
        _check_questions(stores, settings.questions)
        stated = [name for store in stores for name in store.study.study.question]
        before = list(dict.fromkeys(stated))
        if list(settings.questions) != before:
            changes.append(words.other_questions(settings.questions, before))
    accepted = settings.accept_unequal_boundaries
    if accepted is not None and any(
        store.study.study.accept_unequal_boundaries != accepted for store in stores
    ):
        changes.append(words.other_boundaries(accepted=accepted))
    for store in stores:
        own = store.study.study
        questions = list(settings.questions) or own.question
        accept = own.accept_unequal_boundaries if accepted is None else accepted
        update = {"question": questions, "accept_unequal_boundaries": accept}
        store.study = store.study.model_copy(update={"study": own.model_copy(update=update)})
    every = [point for store in stores for point in store.plan.points.values()]
    kept = {point.point_id for point in chosen(every, settings.points)}
    data = load_dataset(stores, kept)
    if settings.points:
        changes.append(words.only_points(settings.points, len(data.points)))
    if settings.baseline is not None:
        label = _label_of(data, settings.baseline)
        if label != data.baseline:
            changes.append(words.other_baseline(label, data.baseline))
            data.baseline = label
    return data, changes


def _check_questions(stores: Sequence[ResultStore], questions: Sequence[str]) -> None:
    kinds = {point.kind for store in stores for point in store.plan.points.values()}
    known = {q.name for kind in kinds for q in FAMILIES[kind].page.metrics.questions}
    for name in questions:
        if name not in known:
            what = f'no workload of the results answers "{name}"'
            raise UsageError("--question", what, suggest(name, sorted(known)))


def _label_of(data: Dataset, name: str) -> str:
    """Return the label of a target, given as label or name.

    Raises:
        UsageError: No target, or more than one, has this name.
    """
    labels = [column.label for column in data.targets]
    named = [column.label for column in data.targets if column.target.name == name]
    if name in labels:
        return name
    if len(named) == 1:
        return named[0]
    what = f'no target is named "{name}"' if not named else f'several targets are named "{name}"'
    raise UsageError("--baseline", what, suggest(name, labels))
