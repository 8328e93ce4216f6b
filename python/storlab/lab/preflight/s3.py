"""Preflight checks of S3 targets: whether the store can be used, and what distorts results."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from storlab.base.errors import StorlabError
from storlab.base.units import format_bytes_si
from storlab.contracts.check import Check
from storlab.lab.preflight.directories import directory_checks
from storlab.model.point import Plan
from storlab.model.s3 import EMBEDDED, S3Options
from storlab.model.study import Target
from storlab.process.host_memory import host_memory_bytes, host_memory_text
from storlab.stores.filesystems import existing_parent, file_system_of, free_bytes
from storlab.stores.s3.target import S3Hold

SKEW_WARNING_S = 60.0
SKEW_ERROR_S = 900.0  # stores refuse requests whose date differs by more
LOOKING = "0" * 12  # campaign id while no campaign has begun


def store_checks(target: Target, plan: Plan, base: Path, hold: S3Hold | None) -> Iterator[Check]:
    """Check one S3 target.

    Args:
        target: Target to check.
        plan: Plan of the study.
        base: Directory of the study file.
        hold: The lock that this campaign holds on the target's prefix; if None, the checks only
            read.
    """
    yield from _address_checks(target)
    if target.is_embedded:
        yield from _embedded_checks(target, plan, base)
    if hold is not None:
        yield from _held_checks(hold)
        return
    try:
        with S3Hold(target, LOOKING, base, None, look_only=True) as looked:
            yield from _held_checks(looked)
    except StorlabError as error:
        yield _check("error", "store", f"{error.where}: {error.what}", error.fix)


def _address_checks(target: Target) -> Iterator[Check]:
    if target.is_embedded:
        return
    options = target.s3_options or S3Options()
    for address in (target.s3 or "", *options.endpoints):
        parts = urlsplit(address)
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            yield _check(
                "warning",
                "encryption",
                f"{parts.netloc} is reached by http: objects are transferred unencrypted",
                "use https, unless you want to measure http",
            )
    if not options.verify_tls:
        yield _check(
            "warning",
            "TLS",
            "verify_tls = false: another server could answer unnoticed instead of this one",
            "set s3_options.ca_file to the certificate of the server's authority",
        )


def is_loopback(host: str) -> bool:
    """Return whether a host name is a loopback name or address; names are not resolved."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _embedded_checks(target: Target, plan: Plan, base: Path) -> Iterator[Check]:
    place = base / (target.s3 or "").removeprefix(EMBEDDED).strip()
    yield from directory_checks(place, made=True)
    needed = plan.data_bytes_by_target.get(target.name, 0)
    free = free_bytes(existing_parent(place))
    if needed > free and place.is_dir():  # maybe objects of an earlier session
        free += sum(file.stat().st_blocks * 512 for file in place.rglob("*") if file.is_file())
    what = f"{format_bytes_si(needed)} needed, {format_bytes_si(free)} free"
    fix = "use fewer or smaller objects, or another directory"
    yield _check("error" if needed > free else "ok", "free space", what, fix)
    under = file_system_of(place)
    if under.in_memory:
        yield _check("ok", "medium", f"memory ({under.kind} at {under.mount_point}), not a drive")
        return
    yield _check("ok", "medium", f"{under.kind} at {under.mount_point} ({under.options})")
    memory = host_memory_bytes()
    if 0 < needed <= memory:
        yield _check(
            "warning",
            "data set",
            f"{format_bytes_si(needed)} fit into the page cache, through which storlab's own "
            f"server reads: it may use the {host_memory_text()}",
            f"use objects of more than {format_bytes_si(2 * memory)} in total to measure a drive",
        )


def _held_checks(hold: S3Hold) -> Iterator[Check]:
    if hold.target.is_embedded:
        what = "storlab's own S3 server on this machine: it uses CPU beside the load generator"
        yield _check("ok", "store", what)
        return
    state = "" if hold.bucket_exists else ", a bucket that storlab will create"
    yield _check("ok", "store", f"{hold.where}{state}")
    if hold.bucket_exists:
        yield from _left_behind_checks(hold)
    if hold.claim_is_weak:
        yield _check(
            "warning",
            "campaigns",
            "the store does not support conditional writes: two campaigns that begin within two "
            "seconds may both use it, and disturb each other",
            "begin campaigns one after another",
        )
    yield from _clock_check(hold.skew_s)


def _left_behind_checks(hold: S3Hold) -> Iterator[Check]:
    """Warn if object versions or multipart uploads would remain in the bucket after a clean-up.

    Multipart uploads are tested only when a campaign begins.
    """
    versions = hold.control.is_versioned() if hold.proof is None else hold.proof.keeps_versions
    if versions:
        yield _check(
            "warning",
            "versions",
            "the bucket keeps old versions of objects: objects that storlab deletes still take "
            "space and cost money",
            "use a bucket without versioning, or let a lifecycle rule remove old versions and "
            "delete markers",
        )
    if hold.proof is not None and hold.proof.uploads == "hidden":
        yield _check(
            "warning",
            "uploads",
            "the store does not list unfinished multipart uploads, so storlab cannot remove those "
            "of a killed run",
            "let a lifecycle rule abort old uploads, or do not upload in parts",
        )


def _clock_check(skew_s: float | None) -> Iterator[Check]:
    if skew_s is None:
        return
    way = "ahead of" if skew_s > 0 else "behind"
    what = f"the store's clock is {abs(skew_s):.0f} s {way} that of this machine"
    if abs(skew_s) > SKEW_ERROR_S:
        yield _check("error", "clock", what, "set both clocks, for instance by NTP")
    elif abs(skew_s) > SKEW_WARNING_S:
        fix = "set the clock: stores refuse requests from 15 min on"
        yield _check("warning", "clock", what, fix)
    else:
        yield _check("ok", "clock", what)


def _check(status: str, name: str, what: str, fix: str = "") -> Check:
    return Check.model_validate({"name": name, "status": status, "what": what, "fix": fix})
