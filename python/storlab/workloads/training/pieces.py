"""Epochs, one after the other: their values, and their table in the brief."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from storlab.base.units import MB, NS_PER_S
from storlab.contracts.page import PieceColumn, PieceKind, PieceValues
from storlab.workloads.common.pieces import device_values


def read_epoch(entry: Mapping[str, Any], _params: Mapping[str, Any]) -> PieceValues:
    """An epoch's values, and how long each accelerator stood still."""
    length_s = (entry["end_ns"] - entry["start_ns"]) / NS_PER_S
    waits = {each["accelerator"]: each["wait_ns"] / NS_PER_S for each in entry["accelerators"]}
    values = {"time_s": length_s, "read_mb": entry["bytes"] / MB}
    if length_s > 0:
        values |= {"samples_s": entry["samples"] / length_s, "mb_s": values["read_mb"] / length_s}
    if waits:
        values["stall_s"] = math.fsum(waits.values()) / len(waits)
    return values | device_values(entry, "device_read_bytes"), waits


TRAINING_PIECES = (
    PieceKind(
        kind="epoch",
        details="epochs",
        read=read_epoch,
        word="epoch",
        caption="Epoch by epoch",
        columns=(
            PieceColumn("time_s", "time", "s"),
            PieceColumn("samples_s", "samples/s", ""),
            PieceColumn("mb_s", "moved", "MB/s"),
            PieceColumn("read_mb", "read of files", "MB"),
            PieceColumn("device_mb", "read by the device", "MB"),
            PieceColumn("device_percent", "device / files", "%"),
            PieceColumn("stall_s", "stall of an accelerator", "s"),
            PieceColumn("energy_j", "energy", "J"),
        ),
    ),
)
