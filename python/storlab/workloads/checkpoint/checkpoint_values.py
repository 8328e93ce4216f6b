"""Values of each checkpoint and each restore of a run, and their tables in a brief."""

from __future__ import annotations

from collections.abc import Mapping

from storlab.base.units import MB, NS_PER_S
from storlab.contracts.page import WorkItemColumn, WorkItemKind, WorkItemValues
from storlab.model.result import RunRecord
from storlab.workloads.checkpoint.details import (
    CheckpointDetails,
    CheckpointWrite,
    Moved,
    Restore,
)
from storlab.workloads.checkpoint.params import CheckpointParams
from storlab.workloads.common.device_values import device_values


def read_writes(record: RunRecord) -> list[WorkItemValues]:
    """Return the values of each checkpoint of a run, with the time that each rank took."""
    flushed = CheckpointParams.of(record.params).sync != "none"
    return [_write(write, flushed=flushed) for write in CheckpointDetails.of(record).writes]


def read_restores(record: RunRecord) -> list[WorkItemValues]:
    """Return the values of each restore of a run, with the time that each rank took."""
    return [_restore(restore) for restore in CheckpointDetails.of(record).restores]


def _write(write: CheckpointWrite, *, flushed: bool) -> WorkItemValues:
    stopped_s = (write.durable_ns - write.start_ns) / NS_PER_S
    values = {"stop_s": stopped_s}
    if flushed:
        values["durable_s"] = stopped_s
    if write.written_ns is not None:
        values["written_s"] = (write.written_ns - write.start_ns) / NS_PER_S
    if stopped_s > 0:
        values["mb_s"] = write.bytes / MB / stopped_s
    return _with_ranks(values, write)


def _restore(restore: Restore) -> WorkItemValues:
    values = {"time_s": (restore.end_ns - restore.start_ns) / NS_PER_S}
    if values["time_s"] > 0:
        values["mb_s"] = restore.bytes / MB / values["time_s"]
    if restore.resident_before_bytes is not None and restore.bytes:
        values["resident_percent"] = 100 * restore.resident_before_bytes / restore.bytes
    if restore.verified is not None:
        values["verified"] = float(restore.verified)
    return _with_ranks(values, restore)


def _with_ranks(values: Mapping[str, float], moved: Moved) -> WorkItemValues:
    times = {r.rank: (r.end_ns - r.start_ns) / NS_PER_S for r in moved.ranks}
    slowest: dict[str, float] = {}
    if times:
        number = max(times, key=lambda rank: times[rank])
        slowest = {"slowest_rank": float(number), "slowest_s": times[number]}
    return WorkItemValues(
        {**values, **slowest, **device_values(moved.device_bytes, moved.bytes)},
        times,
        {r.rank: r.client for r in moved.ranks if r.client},
    )


CHECKPOINT_WORK_ITEMS = (
    WorkItemKind(
        kind="write",
        read=read_writes,
        word="checkpoint",
        caption="Checkpoint by checkpoint",
        columns=(
            WorkItemColumn("written_s", "to written", "s", "write_time_s"),
            WorkItemColumn("durable_s", "to durable", "s", "durable_time_s"),
            WorkItemColumn("mb_s", "throughput", "MB/s", "durable_mb_s"),
            WorkItemColumn("slowest_rank", "slowest rank", "", shown="usual"),
            WorkItemColumn("slowest_s", "its time", "s", "write_time_s"),
            WorkItemColumn("device_percent", "device / files", "%", "write_device_ratio"),
            WorkItemColumn("energy_wh", "energy", "Wh"),
        ),
        worker="rank",
    ),
    WorkItemKind(
        kind="restore",
        read=read_restores,
        word="restore",
        caption="Restore by restore, with the proof that it was cold",
        columns=(
            WorkItemColumn("time_s", "time", "s", "restore_time_s"),
            WorkItemColumn("mb_s", "throughput", "MB/s", "restore_mb_s"),
            WorkItemColumn("slowest_rank", "slowest rank", "", shown="usual"),
            WorkItemColumn("slowest_s", "its time", "s", "restore_time_s"),
            WorkItemColumn("resident_percent", "in memory before", "%", "restore_device_ratio"),
            WorkItemColumn("device_percent", "device / files", "%", "restore_device_ratio"),
            WorkItemColumn("verified", "every byte compared", "", shown="every"),
            WorkItemColumn("energy_wh", "energy", "Wh"),
        ),
        worker="rank",
    ),
)
