"""Set the NVMe power states of targets before runs, and restore them at the end of the campaign.

``power-states.json`` in the result directory lists drives whose state was changed, with their
former state. It is written before a state is changed, and removed after all are restored. If the
campaign is killed, the file stays, and ``storlab resume`` first restores the states.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from storlab.base.errors import MeterError, ResultError
from storlab.base.files import parse_json, read_input, replace_file
from storlab.meters.nvme_admin import NvmeAdmin, PowerState
from storlab.model.power import AppliedPowerState
from storlab.model.s3 import EMBEDDED
from storlab.model.study import Target
from storlab.stores.devices import device_number
from storlab.stores.filesystems import file_system_of

_FILE = "power-states.json"


class Drive(Protocol):
    """Interface of an open NVMe controller."""

    device: str

    def power_states(self) -> list[PowerState]:
        """Return the power states that the controller supports."""
        ...

    def current(self) -> int:
        """Return the index of the current power state."""
        ...

    def set(self, index: int) -> None:
        """Set a power state and read it back.

        Raises:
            MeterError: The drive did not enter the state.
        """
        ...

    def close(self) -> None:
        """Close the controller."""
        ...


Opener = Callable[[str], Drive]


@dataclass(slots=True)
class _Held:
    path: str  # path by which it was opened
    drive: Drive
    former: int
    changed: bool = False  # whether this campaign changed the state


class PowerStates:
    """Context manager that sets power states of a campaign's drives, and restores them on exit."""

    def __init__(
        self,
        targets: Sequence[Target],
        base: Path,
        directory: Path,
        opener: Opener = NvmeAdmin.open,
    ) -> None:
        self._wanted = any(target.power_state is not None for target in targets)
        self._base = base
        self._file = directory / _FILE
        self._opener = opener
        self._held: dict[str, _Held] = {}  # drives by their controller
        self.notes: list[str] = []

    def __enter__(self) -> PowerStates:
        """Restore the power states that a killed session of this campaign left changed.

        Raises:
            ResultError: ``power-states.json`` is damaged.
            MeterError: A drive cannot be opened or set.
        """
        for path, former in _read(self._file).items():
            held = self._hold(path)
            held.former = former
            if held.drive.current() != former:
                held.drive.set(former)
                self.notes.append(f"{path}: power state {former} restored after a killed campaign")
        if self._file.exists():
            self._file.unlink()
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the power state of every drive.

        Raises:
            MeterError: A drive could not be restored; the others were still tried.
        """
        failures: list[MeterError] = []
        for held in self._held.values():
            try:
                if held.changed and held.drive.current() != held.former:
                    held.drive.set(held.former)
            except MeterError as error:
                failures.append(error)
            with suppress(MeterError):
                held.drive.close()
        self._held = {}
        if not failures:
            self._file.unlink(missing_ok=True)
            return
        raise MeterError(
            failures[0].where,
            f"its former power state could not be restored: {failures[0].what}",
            f"try again with `storlab resume`; {_FILE} in the result directory has the state",
        ) from failures[0]

    def apply(self, target: Target) -> tuple[list[AppliedPowerState], bool]:
        """Set a target's drives to the power state in the study, or back to the former one if none.

        Returns:
            The states set (empty if the study sets none), and whether any drive changed its state.

        Raises:
            MeterError: A drive is not NVMe, has no such state, or does not enter it.
        """
        if not self._wanted:
            return [], False
        applied, changed = [], False
        for path in drives_of(target, self._base):
            if target.power_state is None:
                changed |= self._bring_back(path)
                continue
            held = self._hold(path)
            changed |= self._bring(held, target.power_state)
            applied.append(_applied(held, path, target.power_state))
        return applied, changed

    def _hold(self, path: str) -> _Held:
        drive = _opened(path, self._opener)
        if drive.device in self._held:
            drive.close()
            return self._held[drive.device]
        self._held[drive.device] = _Held(path, drive, _operational(drive))
        return self._held[drive.device]

    def _bring(self, held: _Held, wanted: int) -> bool:
        if held.drive.current() == wanted:
            return False
        self._write()
        held.changed = True
        held.drive.set(wanted)
        current = held.drive.current()
        if current != wanted:
            raise MeterError(
                held.path,
                f"was set to power state {wanted} but is in power state {current}",
                "remove power_state, because this drive does not keep it",
            )
        return True

    def _bring_back(self, path: str) -> bool:
        if not self._held:
            return False  # no state was changed yet, and the drive need not be NVMe
        try:
            drive = _opened(path, self._opener)
        except MeterError:
            return False
        drive.close()
        held = self._held.get(drive.device)
        return held is not None and held.changed and self._bring(held, held.former)

    def _write(self) -> None:
        drives = {held.path: held.former for held in self._held.values()}
        replace_file(self._file, (json.dumps({"drives": drives}, indent=2) + "\n").encode())


def drives_of(target: Target, base: Path) -> list[str]:
    """Return the paths of a target's drives: block devices, or those that store its files.

    If a file system has no known block device, the path of the file or directory is returned. The
    list is empty for a remote object store.
    """
    if target.is_null:
        return []
    drives = []
    own = [target.s3.removeprefix(EMBEDDED).strip()] if target.s3 and target.is_embedded else []
    for location in own or target.locations:
        place = base / location
        if device_number(place) is not None:
            drives.append(str(place))
            continue
        under = file_system_of(place).device
        drives.append(str(place) if under is None else f"/dev/{under.name}")
    return list(dict.fromkeys(drives))


def check_power_state(target: Target, base: Path, opener: Opener = NvmeAdmin.open) -> str:
    """Describe how the study's power state would change a target's drives, without changing it.

    Raises:
        MeterError: A drive is not NVMe, or has no such state.
    """
    sentences = []
    for path in drives_of(target, base):
        drive = _opened(path, opener)
        try:
            state = _state(drive.power_states(), path, target.power_state or 0)
            sentences.append(f"{path} enters power state {state.index} from {drive.current()}")
        finally:
            drive.close()
    return "; ".join(sentences)


def _operational(drive: Drive) -> int:
    """Return the power state to restore later: the current one, or 0 if it is non-operational.

    A non-operational state, which idle drives enter by themselves (APST), cannot be restored: at
    the next I/O the drive returns to its last operational state. That would be the study's, and the
    drive does not report which one it was before (NVMe base specification, Power Management).
    """
    current = drive.current()
    asleep = any(s.non_operational for s in drive.power_states() if s.index == current)
    return 0 if asleep else current


def _opened(path: str, opener: Opener) -> Drive:
    try:
        return opener(path)
    except MeterError as error:
        fix = "use an NVMe drive that this user may open, or remove power_state"
        raise MeterError(error.where, error.what, fix) from error


def _state(states: Sequence[PowerState], path: str, index: int) -> PowerState:
    for state in states:
        if state.index == index:
            if not state.non_operational:
                return state
            raise MeterError(
                path,
                f"power state {index} is not operational: the drive processes no I/O in it",
                "choose an operational one; `storlab meters` lists them",
            )
    raise MeterError(
        path, f"the drive has no power state {index}", f"use one of 0 to {len(states) - 1}"
    )


def _applied(held: _Held, path: str, index: int) -> AppliedPowerState:
    state = _state(held.drive.power_states(), path, index)
    return AppliedPowerState(
        device=path,
        index=index,
        max_power_w=state.max_power_w,
        entry_latency_us=state.entry_latency_us,
        exit_latency_us=state.exit_latency_us,
        former_index=held.former,
    )


def _read(file: Path) -> dict[str, int]:
    try:
        drives = parse_json(read_input(file))["drives"]
        return {str(path): int(former) for path, former in drives.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultError(
            str(file),
            f"is damaged: {error}",
            "restore the drives' power states by hand (nvme set-feature -f 2), and delete the file",
        ) from error
