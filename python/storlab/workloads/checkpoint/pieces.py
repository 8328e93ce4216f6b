"""Checkpoints and restores, one after the other: their values, and their tables in the brief."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storlab.base.units import MB, NS_PER_S
from storlab.contracts.page import PieceColumn, PieceKind, PieceValues
from storlab.workloads.common.pieces import device_values


def read_write(entry: Mapping[str, Any], params: Mapping[str, Any]) -> PieceValues:
    """A checkpoint's values, and the time of each rank."""
    stopped_s = (entry["durable_ns"] - entry["start_ns"]) / NS_PER_S
    values = {"stop_s": stopped_s}
    if params.get("sync") != "none":  # else nothing was flushed
        values["durable_s"] = stopped_s
    if entry.get("written_ns") is not None:
        values["written_s"] = (entry["written_ns"] - entry["start_ns"]) / NS_PER_S
    if stopped_s > 0:
        values["mb_s"] = entry["bytes"] / MB / stopped_s
    ranks = _ranks(entry)
    return values | _slowest(ranks) | device_values(entry, "device_written_bytes"), ranks


def read_restore(entry: Mapping[str, Any], _params: Mapping[str, Any]) -> PieceValues:
    """A restore's values, and the time of each rank."""
    values = {"time_s": (entry["end_ns"] - entry["start_ns"]) / NS_PER_S}
    if values["time_s"] > 0:
        values["mb_s"] = entry["bytes"] / MB / values["time_s"]
    resident = entry.get("resident_before_bytes")
    if resident is not None and entry["bytes"]:
        values["resident_percent"] = 100 * resident / entry["bytes"]
    if entry.get("verified") is not None:
        values["verified"] = float(bool(entry["verified"]))
    ranks = _ranks(entry)
    return values | _slowest(ranks) | device_values(entry, "device_read_bytes"), ranks


def _ranks(entry: Mapping[str, Any]) -> dict[int, float]:
    ranks = entry.get("ranks") or ()
    return {each["rank"]: (each["end_ns"] - each["start_ns"]) / NS_PER_S for each in ranks}


def rank_clients(entry: Mapping[str, Any]) -> dict[int, str]:
    """Which client of a cluster each rank was on."""
    ranks = entry.get("ranks") or ()
    return {each["rank"]: each["client"] for each in ranks if each.get("client")}


def _slowest(ranks: Mapping[int, float]) -> dict[str, float]:
    if not ranks:
        return {}
    slowest = max(ranks, key=lambda number: ranks[number])
    return {"slowest_rank": float(slowest), "slowest_s": ranks[slowest]}


CHECKPOINT_PIECES = (
    PieceKind(
        kind="write",
        details="writes",
        read=read_write,
        word="checkpoint",
        caption="Checkpoint by checkpoint",
        columns=(
            PieceColumn("written_s", "to written", "s", "write_time_s"),
            PieceColumn("durable_s", "to durable", "s", "durable_time_s"),
            PieceColumn("mb_s", "throughput", "MB/s", "durable_mb_s"),
            PieceColumn("slowest_rank", "slowest rank", "", shown="usual"),
            PieceColumn("slowest_s", "its time", "s", "write_time_s"),
            PieceColumn("device_percent", "device / files", "%", "write_device_ratio"),
            PieceColumn("energy_wh", "energy", "Wh"),
        ),
        worker="rank",
        clients=rank_clients,
    ),
    PieceKind(
        kind="restore",
        details="restores",
        read=read_restore,
        word="restore",
        caption="Restore by restore, with the proof that it was cold",
        columns=(
            PieceColumn("time_s", "time", "s", "restore_time_s"),
            PieceColumn("mb_s", "throughput", "MB/s", "restore_mb_s"),
            PieceColumn("slowest_rank", "slowest rank", "", shown="usual"),
            PieceColumn("slowest_s", "its time", "s", "restore_time_s"),
            PieceColumn("resident_percent", "in memory before", "%", "restore_device_ratio"),
            PieceColumn("device_percent", "device / files", "%", "restore_device_ratio"),
            PieceColumn("verified", "every byte compared", "", shown="every"),
            PieceColumn("energy_wh", "energy", "Wh"),
        ),
        worker="rank",
        clients=rank_clients,
    ),
)
