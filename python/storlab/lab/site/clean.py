"""Clean-up of an S3 store, which removes only what this campaign created."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from storlab.base.errors import RunError, StorlabError
from storlab.base.files import shell_word
from storlab.contracts.registry import get_engine
from storlab.contracts.reporter import Reporter
from storlab.contracts.services import clears_buckets
from storlab.model.result import RunOutcome
from storlab.process.execution import Interrupted, StopRequest, finish
from storlab.stores.s3.keys import MARKER, PROBE
from storlab.stores.s3.target import S3Hold


def clean_store(hold: S3Hold, stop: StopRequest, reporter: Reporter) -> list[str]:
    """Delete the campaign's objects, unfinished uploads and marker object from an S3 store.

    If storlab created the bucket and no other campaign uses it, the bucket is deleted, too, as are
    directories that storlab created for its embedded server. The marker is deleted last, so that an
    interrupted clean-up can be repeated.

    Returns:
        Names of what was removed.

    Raises:
        GuardError: Objects of others are below the prefix; nothing is deleted.
        RunError: The store does not delete objects.
        PreflightError: The store cannot be reached.
        Interrupted: A stop was requested.
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
    # List again in two ways: only if no listing shows an object is it certain that all are deleted.
    left = [top for top in hold.own_tops() if top != marker]
    left += [key for key in hold.control.list_keys(hold.access.prefix, 2) if key != marker]
    if left:
        raise RunError(
            hold.where,
            f"objects below {left[0]} still exist after deletion",
            "repeat the clean-up: `storlab clean RESULTS`",
        )
    removed = [*([hold.where] if tops else []), *hold.forget()]
    if tops and hold.server is None:  # storlab's own server has ended and keeps nothing
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
    """Clean up one target at the end of a campaign; report errors as notes.

    Errors are not raised, so that the campaign's results are still completed.

    Args:
        name: Name of the target.
        clean: Function that cleans up and returns the names of what was removed.
        results: Result directory, for messages.
        stop: Stop request to watch.
        reporter: Receiver of notes.

    Returns:
        Names of what was removed.
    """
    stop = StopRequest() if stop.requested else stop  # clean-up was requested after the stop
    later = f"to continue, run `storlab clean {shell_word(results)}`"
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
    """Yield notes on data that storlab cannot remove from the store."""
    if hold.control.has_versions(hold.access.prefix):
        bucket = ""
        if hold.made_bucket and hold.bucket_exists:
            bucket = ", and storlab cannot remove the bucket that it created"
        yield (
            f"{hold.control.where} keeps old versions and delete markers of the deleted objects; "
            f"they remain until a lifecycle rule removes them{bucket}"
        )
    if hold.proof is not None and hold.proof.uploads == "hidden":
        yield (
            f"{hold.control.where} does not list unfinished multipart uploads, so storlab cannot "
            "remove those of an interrupted run; let a lifecycle rule abort old uploads"
        )


def _clean_below(hold: S3Hold, top: str, stop: StopRequest, reporter: Reporter) -> None:
    reporter.step(f"{hold.target.name}: deleting objects below {top}")
    handle = get_engine("native").start(clears_buckets().clear(hold.access, top), Path())
    outcome = finish(handle, stop, lambda snapshot: reporter.step_progress(0.0, snapshot))
    why = _failure(outcome)
    if why:
        raise RunError(
            hold.where,
            f"cannot delete objects below {top}: {why}",
            "check that these credentials may delete objects, then clean up again",
        )


def _failure(outcome: RunOutcome) -> str:
    if outcome.failure is not None:
        return outcome.failure.message
    if outcome.status != "finished":
        return "the engine ended the deletion without giving a reason"
    return ""
