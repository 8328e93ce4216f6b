"""What tests of whole campaigns share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def hangups_end_programs() -> Iterator[None]:
    """Also where the tests run under nohup: what they start would ignore SIGHUP as they do."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
