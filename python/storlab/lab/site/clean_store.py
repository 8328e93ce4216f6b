"""Cleaning up a store: everything of this campaign, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from storlab.base.errors import RunError, StorlabError
from storlab.contracts.offers import clears_buckets
from storlab.contracts.registry import get_engine
from storlab.contracts.reporter import Reporter
from storlab.model.result import RunOutcome
from storlab.process.execution import Interrupted, StopRequest, finish
from storlab.stores.s3.keys import MARKER, PROBE
from storlab.stores.s3.target import S3Hold


def clean_store(hold: S3Hold, stop: StopRequest, reporter: Reporter) -> list[str]:
    """Delete the campaign's objects and open uploads, its marker, and the bucket if storlab made it
    and nothing else is in it. Of the embedded server the directories, where storlab made them.

    The marker goes last, so that an interrupted clean-up can be repeated. Returns the names of what
    went. Raises GuardError, with nothing deleted, where something foreign lies below the prefix;
    RunError where the store does not delete; PreflightError; Interrupted on a stop request.
    """
    if not hold.bucket_exists:
        return []
    marker = hold.access.prefix + MARKER
    tops = hold.own_tops()
    for top in tops:
        if top == hold.access.prefix + PROBE:
            _remove_probe(hold, top)
        elif top != marker:
            _clean_below(hold, top, stop, reporter)
    # Once more, and in another way: what is not seen is not there only if no listing shows it.
    left = [top for top in hold.own_tops() if top != marker]
    left += [key for key in hold.control.list_keys(hold.access.prefix, 2) if key != marker]
    if left:
        raise RunError(
            hold.where, f"objects below {left[0]} are still there", "clean up again with storlab"
        )
    removed = [*([hold.where] if tops else []), *hold.forget()]
    if tops and hold.server is None:  # storlab's own has ended, and keeps nothing
        for text in _left_behind(hold):
            reporter.note(text)
    return removed


def clean_or_tell(
    name: str,
    clean: Callable[[StopRequest], list[str]],
    results: Path,
    stop: StopRequest,
    reporter: Reporter,
) -> list[str]:
    """Clean what a campaign has on one target when it ends. Returns the names of what went.

    Its results matter more: what goes wrong is only told.
    """
    stop = StopRequest() if stop.requested else stop  # asked for after that
    later = f"`storlab clean {results}` goes on with it"
    try:
        removed = clean(stop)
    except StorlabError as error:
        reporter.note(f"{name}: not cleaned up: {error.what}; {later}")
    except Interrupted:
        reporter.note(f"{name}: cleaning up was interrupted; {later}")
    else:
        for line in removed:
            reporter.note(f"{name}: removed {line}")
        return removed
    return []


def _remove_probe(hold: S3Hold, key: str) -> None:
    hold.control.delete([key])
    for name, upload in hold.control.uploads("", key):
        if name == key:
            hold.control.abort_upload(key, upload)


def _left_behind(hold: S3Hold) -> Iterator[str]:
    """What no request of storlab removes."""
    if hold.control.has_versions(hold.access.prefix):
        bucket = ""
        if hold.made_bucket and hold.bucket_exists:
            bucket = "; the bucket, which storlab made, stays with them"
        yield (
            f"{hold.control.where} keeps old versions and delete markers of what was deleted; they "
            f"go by its own rules{bucket}"
        )
    if hold.proof is not None and hold.proof.uploads == "hidden":
        yield (
            f"{hold.control.where} does not list open multipart uploads: whether an interrupted "
            "run left any cannot be seen; let the store's own rules remove old ones"
        )


def _clean_below(hold: S3Hold, top: str, stop: StopRequest, reporter: Reporter) -> None:
    reporter.step(f"{hold.target.name}: deleting what lies below {top}")
    handle = get_engine("native").start(clears_buckets().clear(hold.access, top), Path())
    outcome = finish(handle, stop, lambda snapshot: reporter.step_progress(0.0, snapshot))
    why = _failure(outcome)
    if why:
        raise RunError(
            hold.where,
            f"cannot delete what lies below {top}: {why}",
            "check that these credentials may delete, then clean up again",
        )


def _failure(outcome: RunOutcome) -> str:
    if outcome.failure is not None:
        return outcome.failure.message
    if outcome.status != "finished":
        return "the engine ended it and did not say why"
    return ""
