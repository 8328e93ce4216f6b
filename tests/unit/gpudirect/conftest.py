"""Fixtures of doctor tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.gpu_machine import machine_tree
from support.pci_trees import PciTree


@pytest.fixture
def tree(tmp_path: Path) -> PciTree:
    """Provide a tree that allows P2PDMA and has no nvidia-fs loaded."""
    return machine_tree(tmp_path)
