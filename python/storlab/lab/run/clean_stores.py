"""`storlab clean` of S3 stores: each is taken up by itself, to be cleaned and for nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from storlab.contracts.reporter import Reporter
from storlab.lab.run.cleaned import Cleaned
from storlab.lab.site.clean_store import clean_store
from storlab.model.study import StudyBase, Target
from storlab.process.execution import StopRequest
from storlab.stores.s3.target import S3Hold


def clean_stores(
    study: StudyBase,
    recorded: Mapping[str, Any],
    base: Path,
    stop: StopRequest,
    reporter: Reporter,
    cleaned: Cleaned,
) -> None:
    """What the campaign has in buckets. ``recorded`` is of its guard, ``base`` where paths start.

    A store that fails is a problem of ``cleaned``. Raises Interrupted on a stop request.
    """
    # The last first: the bucket that two targets share was made for the first.
    for target in reversed(study.target):
        before = recorded.get("s3", {}).get(target.name)
        if before is not None:
            cleaned.attempt(partial(_clean_objects, target, before, base, stop, reporter))


def _clean_objects(
    target: Target, before: Mapping[str, Any], base: Path, stop: StopRequest, reporter: Reporter
) -> list[str]:
    with S3Hold(target, before["campaign"], base, before, cleaning=True) as hold:
        return clean_store(hold, stop, reporter)
