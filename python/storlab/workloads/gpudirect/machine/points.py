"""Run the checks of ``storlab doctor`` with the libraries and resources that points need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from storlab.contracts.check import Check
from storlab.model.point import Point
from storlab.workloads.common.random_choice import sizes_of
from storlab.workloads.gpudirect.libraries import cuda_places, cufile_places
from storlab.workloads.gpudirect.machine.doctor import Machine, examine_machine, examine_target
from storlab.workloads.gpudirect.machine.memory import Demand
from storlab.workloads.gpudirect.machine.probe import Libraries
from storlab.workloads.gpudirect.params import GpuDirectParams
from storlab.workloads.gpudirect.resource_needs import pool_bytes, worker_gpu_bytes
from storlab.workloads.gpudirect.rules import longest


def examine_here(points: Sequence[Point] = (), machine: Machine | None = None) -> list[Check]:
    """Check this machine with all libraries that points name, or else with the usual ones.

    A result that is equal for several sets of libraries is returned once.
    """
    every = [GpuDirectParams.of(point.params) for point in points]
    named = [_libraries(values.cuda_library, values.cufile_library) for values in every]
    rows: dict[Check, None] = {}
    for libraries in dict.fromkeys(named or [_libraries(None, None)]):
        rows |= dict.fromkeys(examine_machine(libraries, machine))
    return list(rows)


def examine_points(
    points: Sequence[Point], places: Sequence[Path], machine: Machine | None = None
) -> list[Check]:
    """Check one target with all libraries that points name; return each distinct result once."""
    asked: dict[Libraries, list[Demand]] = {}
    for point in points:
        params = GpuDirectParams.of(point.params)
        libraries = _libraries(params.cuda_library, params.cufile_library)
        asked.setdefault(libraries, []).append(_demand(point.workload, params))
    others = not all(demand.needs_cufile for demands in asked.values() for demand in demands)
    rows: dict[Check, None] = {}
    for libraries, demands in asked.items():
        checks = examine_target(places, demands, libraries, machine, others=others)
        rows |= dict.fromkeys(checks)
    return list(rows)


def _libraries(cuda: str | None, cufile: str | None) -> Libraries:
    return Libraries(cuda=tuple(cuda_places(cuda)), cufile=tuple(cufile_places(cufile)))


def _demand(label: str, params: GpuDirectParams) -> Demand:
    return Demand(
        label=label,
        path=params.path,
        gpus=tuple(params.gpu),
        workers=params.workers,
        block_size=longest(params),
        least_block=min(sizes_of(params.block_size)),
        worker_bytes=worker_gpu_bytes(params),
        pool_bytes=pool_bytes(params),
    )
