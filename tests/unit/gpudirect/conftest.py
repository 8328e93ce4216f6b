"""What tests of the doctor's words begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.gpu_machine import machine_tree
from support.pci_trees import PciTree


@pytest.fixture
def tree(tmp_path: Path) -> PciTree:
    """On which P2PDMA is possible, and no nvidia-fs is loaded."""
    return machine_tree(tmp_path)
