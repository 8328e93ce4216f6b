"""Preflight checks of power: takes a reading of each meter, and checks the power state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from storlab.base.errors import PreflightError, StorlabError, StudyError
from storlab.contracts.check import Check
from storlab.model.power import Boundary, Reading, SensorInfo
from storlab.model.study import MeterSpec, Target
from storlab.power.metering import check_boundaries, open_thread
from storlab.power.states import check_power_state


def power_checks(target: Target, base: Path) -> Iterator[Check]:
    """Check that a target's meters can be read, and that its power state can be set.

    Nothing is changed. A meter that cannot be reached gives a check with status ``error``.

    Args:
        target: Target with meters.
        base: Directory that relative paths of the study start from.

    Raises:
        StudyError: The study describes a meter wrongly.
    """
    boundaries: list[Boundary] = []
    complete = True
    for spec in target.meters:
        name = f"meter {spec.kind}"
        try:
            infos, readings = _try(spec, target, base)
        except StudyError:
            raise
        except StorlabError as error:
            complete = False
            yield Check(name=name, status="error", what=error.what, fix=error.fix)
            continue
        boundaries += [info.boundary for info in infos]
        yield Check(name=name, status="ok", what=_summary(infos, readings))
    if complete:
        check_boundaries(target, boundaries)
    if target.power_state is not None:
        yield _power_state(target, base)


def _try(spec: MeterSpec, target: Target, base: Path) -> tuple[list[SensorInfo], list[Reading]]:
    thread = open_thread(spec, target, base)
    try:
        infos = thread.open()
        thread.read_now()
        if thread.ended is not None:
            raise PreflightError(thread.name, thread.ended.why, "check the sensor")
        return infos, thread.take(0)
    finally:
        thread.close()


def _summary(infos: list[SensorInfo], readings: list[Reading]) -> str:
    last = {reading.sensor: reading.value for reading in readings}
    parts = []
    for info in infos:
        value = last.get(info.sensor)
        shown = "" if value is None else f" {value:.4g} {info.unit}"
        parts.append(f"{info.sensor}{shown} ({info.boundary}, {info.provenance})")
    return "; ".join(parts) or "opened, but it has no sensor"


def _power_state(target: Target, base: Path) -> Check:
    name = "power state"
    try:
        return Check(name=name, status="ok", what=check_power_state(target, base))
    except StorlabError as error:
        return Check(name=name, status="error", what=error.what, fix=error.fix)
