"""``storlab clean`` of S3 stores: opens each store only to remove the campaign's objects."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from storlab.contracts.reporter import Reporter
from storlab.lab.run.clean_summary import Cleaned
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
    """Remove the campaign's objects from buckets; failures become problems of ``cleaned``.

    Args:
        study: Study of the campaign.
        recorded: Record of the campaign's guard.
        base: Directory that relative paths start from.
        stop: Stop request to watch.
        reporter: Receiver of progress.
        cleaned: Summary to add to.

    Raises:
        Interrupted: A stop was requested.
    """
    # In reverse: a bucket that targets share was created for the first of them.
    for target in reversed(study.target):
        before = recorded.get("s3", {}).get(target.name)
        if before is not None:
            cleaned.attempt(partial(_clean_objects, target, before, base, stop, reporter))


def _clean_objects(
    target: Target, before: Mapping[str, Any], base: Path, stop: StopRequest, reporter: Reporter
) -> list[str]:
    with S3Hold(target, before["campaign"], base, before, cleaning=True) as hold:
        return clean_store(hold, stop, reporter)
