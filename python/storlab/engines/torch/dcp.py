"""Engine ``torch_dcp``: PyTorch ranks that write one distributed checkpoint together."""

from __future__ import annotations

from storlab.engines.torch.engine import TorchEngine


class TorchDcpEngine(TorchEngine):
    """Engine that runs checkpoint jobs with ``torch.distributed.checkpoint``."""

    name = "torch_dcp"
    kinds: tuple[str, ...] = ("checkpoint",)
    format = "dcp"
