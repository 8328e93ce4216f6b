"""Keys that storlab owns: the prefix of a target in a campaign, and valid keys below it."""

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
# Object next to the campaigns' prefixes: the campaign that measures there.
CLAIM = f"{OWNER}-claim.json"
PROBE = "probe"  # small object, written and deleted to test permissions
_CAMPAIGN = re.compile(r"[0-9a-f]{12}")
_DATA = r"[0-9a-f]{8}"
_RUN = r"[0-9a-f]{12}-r[1-9][0-9]*"  # as in storlab.model.point


def own_prefix(options_prefix: str, campaign: str, target: str) -> str:
    """Return the prefix of one target of a campaign: ``<options_prefix>storlab-<12 hex>/``.

    The digits are a hash of campaign and target, so that two targets of a study may share a bucket.
    """
    if not _CAMPAIGN.fullmatch(campaign):
        raise ValueError(f"{campaign!r} is not a campaign: 12 hexadecimal digits")
    digits = hashlib.sha256(f"{campaign}\n{target}".encode()).hexdigest()[:12]
    return f"{options_prefix}{OWNER}-{digits}/"


def prefix_problem(options_prefix: str) -> str | None:
    """Return why stores may lose objects below this prefix, or None.

    Many stores collapse ``a//b``, drop a leading slash, or interpret ``.`` and ``..`` as
    directories, and then list objects under other names than requested.
    """
    *folders, last = options_prefix.split("/")
    for part in folders:
        if part == "":
            return "has nothing between two slashes, or before the first"
        if part in (".", ".."):
            return f'has "{part}", which stores take for a directory'
    return (
        f'ends with "{last}", which storlab makes part of a name' if last in (".", "..") else None
    )


def is_own_key(key: str, prefix: str) -> bool:
    """Return whether a key, or the first part of one up to a slash, is one that storlab creates."""
    if not key.startswith(prefix):
        return False
    below = key.removeprefix(prefix)
    return below in (MARKER, PROBE) or bool(_grammar(*kept_in_buckets()).fullmatch(below))


@cache
def _grammar(data: frozenset[str], runs: frozenset[str]) -> re.Pattern[str]:
    """Return the pattern of keys below a prefix.

    Args:
        data: First words of keys of data sets.
        runs: First words of keys of runs.
    """
    kinds = ((data, _DATA), (runs, _RUN))
    tops = [f"{re.escape(top)}-{digits}" for names, digits in kinds for top in sorted(names)]
    tops.append(rf"{CLIENT}-[A-Za-z0-9._-]+")
    return re.compile(f"(?:{'|'.join(tops)})/(?s:.*)")


def foreign_keys(keys: Iterable[str], prefix: str) -> list[str]:
    """Return the keys that storlab does not create."""
    return [key for key in keys if not is_own_key(key, prefix)]


def marker_content(campaign: str, target: str, made_bucket: bool) -> bytes:
    """Return the content of ``storlab.json``, which identifies the owner of the prefix."""
    fields = {
        "schema_version": 1,
        "campaign": campaign,
        "target": target,
        "made_bucket": made_bucket,
    }
    return (json.dumps(fields, indent=2) + "\n").encode()


def read_marker(content: bytes) -> dict[str, Any] | None:
    """Parse a marker; return None if it is no marker of this version."""
    try:
        document = json.loads(content)
    except ValueError:
        return None
    if not isinstance(document, dict) or document.get("schema_version") != 1:
        return None
    return document
