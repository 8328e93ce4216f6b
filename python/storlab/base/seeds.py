"""Seeds derived from several values, so that seeds like n and n + 1 give unrelated sequences."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def derive_seed(*parts: Any) -> int:
    """Return a seed in [0, 2^63) derived by SHA-256 from all arguments (JSON-compatible)."""
    text = json.dumps(list(parts), sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
