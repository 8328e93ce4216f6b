"""Explanation of failed warp runs from exit status, output and record of requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from storlab.base.units import format_duration
from storlab.model.result import Failure, Operation, OperationTotals

_PREFIX = re.compile(r"^\S*:? ?<(ERROR|FATAL)> ")
_FIXES: tuple[tuple[str, str], ...] = (
    (r"connection refused|no route|no such host", "check the endpoint and that its server runs"),
    (r"x509|tls:|certificate", "set s3_options.ca_file to the certificate of the authority"),
    (
        r"access denied|signature|access key id|403 forbidden",
        "check the keys and the region, and that the keys may read and write the bucket",
    ),
    (r"bucket does not exist", "create the bucket, or set s3_options.create_bucket = true"),
    (r"no objects found", "run the study again, which creates the missing objects"),
)
_LONGEST = 500
_LEAST_SHARE = 0.95  # share of the window in which warp must have sent requests


@dataclass(frozen=True, slots=True)
class Ended:
    """Exit status and output of an ended warp process, without secrets."""

    exit_code: int
    stdout: str
    stderr: str
    has_record: bool
    damage: str | None  # why the record cannot be read


def explain(
    ended: Ended, totals: Mapping[Operation, OperationTotals], missing_ns: int, window_ns: int
) -> Failure | None:
    """Return why a warp run failed, or None if its result is valid.

    Args:
        ended: The exit status and output of warp.
        totals: The results in the measure window; the run failed if no request succeeded.
        missing_ns: How long before the end of the measure window the load ended.
        window_ns: The length of the measure window.
    """
    if ended.exit_code:
        return _own_message(ended)
    if ended.damage is not None:
        message = f"warp's record of requests cannot be read: {ended.damage}"
        return Failure(message=message, fix="read raw/stdout.txt and raw/stderr.txt")
    if not ended.has_record:
        return _own_message(ended)
    if not any(total.operations for total in totals.values()):
        return _nothing_succeeded(totals)
    if missing_ns > (1 - _LEAST_SHARE) * window_ns:
        return Failure(
            message=f"warp's load ended {format_duration(missing_ns)} before the window's end",
            fix="read raw/stdout.txt and raw/stderr.txt",
        )
    return None


def _own_message(ended: Ended) -> Failure:
    lines = [*ended.stderr.splitlines(), *ended.stdout.splitlines()]
    words = [_PREFIX.sub("", line.strip()) for line in lines if line.strip()]
    text = next((word for word in words if word.strip("- ")), "")
    sentence = text[:_LONGEST] or f"exit code {ended.exit_code} without a record of its requests"
    fix = next(
        (cure for pattern, cure in _FIXES if re.search(pattern, sentence, re.IGNORECASE)),
        "read raw/stderr.txt and raw/stdout.txt",
    )
    return Failure(message=f"warp: {sentence}", fix=fix)


def _nothing_succeeded(totals: Mapping[Operation, OperationTotals]) -> Failure:
    counted: dict[str, int] = {}
    for total in totals.values():
        for kind, count in total.errors.items():
            counted[kind] = counted.get(kind, 0) + count
    if not counted:
        return Failure(
            message="warp completed no request in the measure window",
            fix="lengthen the window, or use smaller objects",
        )
    worst = max(counted, key=lambda kind: counted[kind])
    return Failure(
        message=f"all {sum(counted.values()):,} requests in the window failed, most of them with "
        f"{worst}",
        fix="read the S3 server's log; raw/requests.csv.zst lists all requests",
    )
