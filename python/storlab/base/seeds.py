"""Derive seeds by hashing, so that seeds such as n and n + 1 give unrelated random sequences."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def derive_seed(*parts: Any) -> int:
    """Return a seed in [0, 2^63), derived by SHA-256 from the arguments (any JSON values)."""
    text = json.dumps(list(parts), sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
