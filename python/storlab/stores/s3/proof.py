"""Test that storlab can clean up in an S3 store, below the campaign's own prefix, before its runs.

The test removes what it writes. Its results determine how objects are cleaned up later.
"""

from __future__ import annotations

from typing import Literal

from storlab.base.clock import sleep_s
from storlab.base.errors import PreflightError
from storlab.model.types import Table
from storlab.stores.s3.control import S3Control

_PAUSES_S = (0.2, 0.5, 1.0)  # some stores list new objects with a delay


class Proof(Table):
    """Behaviour of an S3 store, as observed by a test.

    ``uploads`` tells how open multipart uploads can be listed: by ``prefix``, only for the whole
    ``bucket`` (MinIO, until its server restarts), not at all (``hidden``), or ``none`` if the store
    has no multipart uploads. ``keeps_versions`` tells whether a deleted object leaves a version or
    a delete marker; None if the store does not report it.
    """

    uploads: Literal["prefix", "bucket", "hidden", "none"]
    keeps_versions: bool | None


def prove(control: S3Control, prefix: str, marker: str, probe: str) -> Proof:
    """Test the operations of the store that a clean-up needs.

    Args:
        control: Client for the bucket.
        prefix: Prefix of the campaign.
        marker: Key of an object that exists below the prefix.
        probe: Key that may be written and deleted.

    Raises:
        PreflightError: The store does not list a written object, or cannot abort an upload.
    """
    _find(control, prefix, marker)
    control.put(probe, b"may be deleted\n")
    control.delete([probe])
    versions = control.has_versions(probe)
    if versions is None and control.is_versioned():
        versions = True
    return Proof(uploads=_try_upload(control, probe, prefix), keeps_versions=versions)


def _find(control: S3Control, prefix: str, marker: str) -> None:
    for pause_s in (*_PAUSES_S, None):
        # List only the marker, because a resumed campaign may have a million keys below the prefix.
        if marker in control.list_keys(marker, 1) and marker in control.list_top(prefix):
            return
        if pause_s is not None:
            sleep_s(pause_s)
    raise PreflightError(
        f"{control.where}/{prefix}",
        f"{marker} was written, but the store does not list it below the prefix, so storlab could "
        "not find its objects to delete them",
        "use a prefix of plain names in s3_options.prefix, such as bench/; if that does not help, "
        "do not measure this store",
    )


def _try_upload(
    control: S3Control, key: str, prefix: str
) -> Literal["prefix", "bucket", "hidden", "none"]:
    upload = control.begin_upload(key)
    if upload is None:
        return "none"
    ways: tuple[tuple[Literal["prefix", "bucket"], str], ...]
    ways = (("prefix", prefix), ("bucket", ""))
    seen = (way for way, asked in ways if (key, upload) in control.uploads(asked, prefix))
    created = next(seen, None)
    control.abort_upload(key, upload)
    if created is None:
        return "hidden"
    asked = dict(ways)[created]
    for pause_s in (*_PAUSES_S, None):
        if (key, upload) not in control.uploads(asked, prefix):
            return created
        if pause_s is not None:
            sleep_s(pause_s)
    raise PreflightError(
        f"{control.where}/{prefix}",
        "a multipart upload was aborted but is still open, so storlab could not clean up after an "
        "interrupted run",
        "look at the store's log; open uploads occupy space",
    )
