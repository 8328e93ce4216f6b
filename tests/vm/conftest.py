"""Fixture of one guest for all tests of this folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from vm.machine import Guest, need_guest


@pytest.fixture(scope="package")
def guest() -> Iterator[Guest]:
    """Boot a guest with the drives of ``vm.machine.drives``; tests leave them blank."""
    need_guest()
    # A path of pytest may be too long for the name of a socket.
    with tempfile.TemporaryDirectory(prefix="storlab-guest-") as folder, Guest(Path(folder)) as it:
        yield it
