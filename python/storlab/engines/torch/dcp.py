"""PyTorch's distributed checkpoints as an engine: all ranks write one checkpoint together."""

from __future__ import annotations

from storlab.engines.torch.engine import TorchEngine


class TorchDcpEngine(TorchEngine):
    """Runs checkpoint jobs with ``torch.distributed.checkpoint``."""

    name = "torch_dcp"
    kinds: tuple[str, ...] = ("checkpoint",)
    format = "dcp"
