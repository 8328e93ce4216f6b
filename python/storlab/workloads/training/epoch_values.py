"""Values of each epoch of a run, and their table in a brief."""

from __future__ import annotations

import math

from storlab.base.units import MB, NS_PER_S
from storlab.contracts.page import WorkItemColumn, WorkItemKind, WorkItemValues
from storlab.model.result import RunRecord
from storlab.workloads.common.device_values import device_values
from storlab.workloads.training.details import EpochTimes, TrainingDetails


def read_epochs(record: RunRecord) -> list[WorkItemValues]:
    """Return the values of each epoch of a run, with the time that each accelerator waited."""
    return [_epoch(epoch) for epoch in TrainingDetails.of(record).epochs]


def _epoch(epoch: EpochTimes) -> WorkItemValues:
    length_s = (epoch.end_ns - epoch.start_ns) / NS_PER_S
    waits = {times.accelerator: times.wait_ns / NS_PER_S for times in epoch.accelerators}
    values = {"time_s": length_s, "read_mb": epoch.bytes / MB}
    if length_s > 0:
        values |= {"samples_s": epoch.samples / length_s, "mb_s": values["read_mb"] / length_s}
    if waits:
        values["stall_s"] = math.fsum(waits.values()) / len(waits)
    return WorkItemValues(values | device_values(epoch.device_read_bytes, epoch.bytes), waits)


TRAINING_WORK_ITEMS = (
    WorkItemKind(
        kind="epoch",
        read=read_epochs,
        word="epoch",
        caption="Epoch by epoch",
        columns=(
            WorkItemColumn("time_s", "time", "s"),
            WorkItemColumn("samples_s", "samples/s", ""),
            WorkItemColumn("mb_s", "moved", "MB/s"),
            WorkItemColumn("read_mb", "read of files", "MB"),
            WorkItemColumn("device_mb", "read by the device", "MB"),
            WorkItemColumn("device_percent", "device / files", "%"),
            WorkItemColumn("stall_s", "stall of an accelerator", "s"),
            WorkItemColumn("energy_j", "energy", "J"),
        ),
    ),
)
