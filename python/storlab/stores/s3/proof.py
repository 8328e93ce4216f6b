"""What a store really does, tried out below a campaign's own prefix before anything is measured.

What is written is taken back: cleaning up later relies on what is seen here.
"""

from __future__ import annotations

from typing import Literal

from storlab.base.clock import sleep_s
from storlab.base.errors import PreflightError
from storlab.model.types import Table
from storlab.stores.s3.control import S3Control

_PAUSES_S = (0.2, 0.5, 1.0)  # some stores list a little later what was written


class Proof(Table):
    """What was seen. ``uploads``: how open multipart uploads are found again.

    By their prefix; only among those of the whole bucket (MinIO: as long as the server runs that
    began them); not at all; or the store has none. ``keeps_versions``: a deleted object leaves a
    version or a delete marker; None: the store does not tell.
    """

    uploads: Literal["prefix", "bucket", "hidden", "none"]
    keeps_versions: bool | None


def prove(control: S3Control, prefix: str, marker: str, probe: str) -> Proof:
    """Try out what cleaning up needs. ``marker`` lies there already, and ``probe`` may be written.

    Raises PreflightError for a store that does not list what was written, or cannot give up an
    upload.
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
        # Not all keys below the prefix: a campaign that goes on may have a million.
        if marker in control.list_keys(marker, 1) and marker in control.list_top(prefix):
            return
        if pause_s is not None:
            sleep_s(pause_s)
    raise PreflightError(
        f"{control.where}/{prefix}",
        f"{marker} was written, and no listing below the prefix shows it: storlab could not find "
        "its objects again, and would leave them behind",
        "choose a prefix of plain names in s3_options.prefix, such as bench/; if that is no help, "
        "this store cannot be measured safely",
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
        "a multipart upload was given up, and is still open: storlab could not clean up what an "
        "interrupted run leaves",
        "look at the store's own log; uploads that stay take space",
    )
