"""Build and recognise the object keys that storlab creates: a prefix per target, and keys below."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from storlab.contracts.services import kept_in_buckets

OWNER = "storlab"
MARKER = f"{OWNER}.json"
CLIENT = "client"  # each client of a cluster has a prefix ``client-<name>/``
# Object beside the campaigns' prefixes that names the campaign that is running.
CLAIM = f"{OWNER}-claim.json"
PROBE = "probe"  # small object, written and deleted to test permissions
_CAMPAIGN = re.compile(r"[0-9a-f]{12}")
_DATA = r"[0-9a-f]{8}"
_RUN = r"[0-9a-f]{12}-r[1-9][0-9]*"  # as in storlab.model.point


def own_prefix(options_prefix: str, campaign: str, target: str) -> str:
    """Return the key prefix of one target in a campaign: ``<options_prefix>storlab-<12 hex>/``.

    The digits are a hash of campaign and target, so two targets of a study may share a bucket.
    """
    if not _CAMPAIGN.fullmatch(campaign):
        raise ValueError(f"campaign {campaign!r} is not 12 hexadecimal digits")
    digits = hashlib.sha256(f"{campaign}\n{target}".encode()).hexdigest()[:12]
    return f"{options_prefix}{OWNER}-{digits}/"


def prefix_problem(options_prefix: str) -> str | None:
    """Return why some stores might list objects below a prefix under other names, or None.

    Many stores replace ``a//b`` by ``a/b``, drop a leading slash, or interpret ``.`` and ``..`` as
    directories. storlab could then not find its objects.
    """
    *folders, last = options_prefix.split("/")
    for part in folders:
        if part == "":
            return "has two slashes in a row, or begins with one"
        if part in (".", ".."):
            return f'contains "{part}", which stores may interpret as a directory'
    return f'ends with "{last}", which would become part of a name' if last in (".", "..") else None


def is_own_key(key: str, prefix: str) -> bool:
    """Return whether storlab creates keys like ``key``, which may be a "directory" (end with /)."""
    if not key.startswith(prefix):
        return False
    below = key.removeprefix(prefix)
    return below in (MARKER, PROBE) or bool(_grammar(*kept_in_buckets()).fullmatch(below))


@cache
def _grammar(data: frozenset[str], runs: frozenset[str]) -> re.Pattern[str]:
    """Return the pattern of the keys of data sets, runs and clients below a target's prefix.

    Args:
        data: Words with which the keys of data sets begin.
        runs: Words with which the keys of runs begin.
    """
    kinds = ((data, _DATA), (runs, _RUN))
    tops = [f"{re.escape(top)}-{digits}" for names, digits in kinds for top in sorted(names)]
    tops.append(rf"{CLIENT}-[A-Za-z0-9._-]+")
    return re.compile(f"(?:{'|'.join(tops)})/(?s:.*)")


def foreign_keys(keys: Iterable[str], prefix: str) -> list[str]:
    """Return those of the keys below a prefix that storlab does not create."""
    return [key for key in keys if not is_own_key(key, prefix)]


def marker_content(campaign: str, target: str, made_bucket: bool) -> bytes:
    """Return the content of ``storlab.json``, the object that names the owner of a prefix."""
    fields = {
        "schema_version": 1,
        "campaign": campaign,
        "target": target,
        "made_bucket": made_bucket,
    }
    return (json.dumps(fields, indent=2) + "\n").encode()


def read_marker(content: bytes) -> dict[str, Any] | None:
    """Parse the content of ``storlab.json``; return None if its format is not this version's."""
    try:
        document = json.loads(content)
    except ValueError:
        return None
    if not isinstance(document, dict) or document.get("schema_version") != 1:
        return None
    return document
