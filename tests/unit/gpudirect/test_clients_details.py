"""Merging the details of several GPUDirect clients into one run."""

from __future__ import annotations

from typing import Any

from storlab.contracts.family import ClientDetails
from storlab.contracts.registry import FAMILIES
from storlab.workloads.gpudirect.details import GpuDirectDetails

DIRECT = {"asked": "direct", "bytes": 100, "p2p_bytes": 100, "by": "cufile"}
POSIX = {"asked": "direct", "bytes": 300, "posix_bytes": 300, "by": "cufile"}
SILENT = {"asked": "direct", "bytes": 100, "by": "none"}


def merged(*clients: dict[str, Any]) -> GpuDirectDetails:
    family = FAMILIES["gpudirect"]
    parts = [ClientDetails(f"c{n}", f"h{n}", 0, details) for n, details in enumerate(clients)]
    return GpuDirectDetails.model_validate(family.merge_details(parts))


def test_the_path_is_that_of_all_clients_bytes() -> None:
    route = merged({"route": DIRECT}, {"route": POSIX}).route
    assert (route.by, route.bytes, route.percents()["posix"]) == ("cufile", 400, 75.0)


def test_one_client_without_counters_leaves_the_whole_unproven() -> None:
    assert merged({"route": DIRECT}, {"route": SILENT}).route.counted is False


def test_what_contradicts_on_any_client_stands() -> None:
    unreal = {"route": DIRECT, "stand_ins": ["no driver on h1"], "path_obstacles": ["vda"]}
    whole = merged({"route": DIRECT}, unreal)
    assert (whole.stand_ins, whole.path_obstacles) == (("no driver on h1",), ("vda",))


def test_comparisons_and_device_bytes_are_sums_and_times_the_longest() -> None:
    def one(wrong: int, ns: int, device: bool = True) -> dict[str, Any]:
        moved = {"read_bytes": 7, "over_ns": 5, "devices": ["nvme0n1"]} if device else None
        compared = {"files": 2, "bytes": 10, "ns": ns, "wrong": wrong}
        return {"first_pass": compared, "load_device": moved}

    whole = merged(one(0, 5), one(3, 9))
    assert whole.first_pass is not None
    assert (whole.first_pass.files, whole.first_pass.wrong, whole.first_pass.ns) == (4, 3, 9)
    assert whole.load_device is not None
    assert whole.load_device.read_bytes == 14
    assert merged(one(0, 5), one(0, 5, device=False)).load_device is None
