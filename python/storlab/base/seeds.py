"""One seed from many words: neighbours, such as seed and seed + 1, must not share a sequence."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def derive_seed(*parts: Any) -> int:
    """A seed in [0, 2^63) for what was said: JSON-ready values, the study's seed among them."""
    text = json.dumps(list(parts), sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
