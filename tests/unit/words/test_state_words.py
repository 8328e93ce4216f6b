"""Words of the strip on a target's card with example values, in tests/golden/words/state.txt."""

from __future__ import annotations

from storlab.words.state import (
    NEAR,
    STEADY,
    amplification_word,
    degraded_text,
    flagged_word,
    link_word,
    paths_word,
    warmth_word,
)
from support.golden import golden_text


def test_state_golden() -> None:
    words = [warmth_word(heat, limit, 10) for heat in (41.2, 65, 78) for limit in (70, None)]
    words.append(STEADY)
    words += [amplification_word(ratio) for ratio in (1.0, 1.83, 1250.4)]
    words += [link_word(["16 GT/s x4"], by_slot=by_slot) for by_slot in (False, True)]
    words += [link_word(["16 GT/s x4", "8 GT/s x4"], by_slot=False), paths_word(4), NEAR]
    words += [flagged_word("throttled", "throttled", *runs) for runs in ((1, 1), (2, 1200))]
    slow = degraded_text([("16 GT/s x2", "16 GT/s x4")])
    words.append(flagged_word("slow PCIe link", "link-degraded", 2, 3, slow))
    text = "\n".join(f"{word.text}{' (off)' if word.is_off else ''}" for word in words)
    text = text.replace("\u00a0", " ") + "\n"
    assert text == golden_text("words/state.txt", text)
