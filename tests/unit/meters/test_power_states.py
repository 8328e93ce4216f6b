"""Power states of a campaign's drives: applied, read back, restored; also after a kill."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storlab.base.errors import MeterError, ResultError
from storlab.meters.nvme_admin import PowerState
from storlab.model.study import Target
from storlab.power.states import PowerStates, check_power_state, drives_of


class Shelf:
    """Drives by path, whose state persists after they are closed."""

    def __init__(self, *paths: str) -> None:
        self.state = dict.fromkeys(paths, 0)
        self.stubborn: set[str] = set()
        self.sets: list[tuple[str, int]] = []

    def open(self, path: str) -> DriveOnShelf:
        name = Path(path).name
        if name not in self.state:
            raise MeterError(path, "is not an NVMe device")
        return DriveOnShelf(self, name)


class DriveOnShelf:
    def __init__(self, shelf: Shelf, device: str) -> None:
        self.device = device
        self._shelf = shelf

    def power_states(self) -> list[PowerState]:
        return [
            PowerState(i, w, 10 * i, 20 * i, i == 3, None, None)
            for i, w in enumerate((25.0, 18.0, 12.0, 0.5))
        ]

    def current(self) -> int:
        if self.device not in self._shelf.state:
            raise MeterError(self.device, "is gone")
        return self._shelf.state[self.device]

    def set(self, index: int) -> None:
        self._shelf.sets.append((self.device, index))
        if self.device not in self._shelf.stubborn:
            self._shelf.state[self.device] = index

    def close(self) -> None:
        pass


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.setattr("storlab.power.states.device_number", lambda _path: 1)
    return Shelf("nvme0", "nvme1")


def target(name: str, path: str, power_state: int | None = None) -> Target:
    return Target(name=name, path=f"/dev/{path}", power_state=power_state)


def states(shelf: Shelf, directory: Path, *targets: Target) -> PowerStates:
    return PowerStates(targets, directory, directory, shelf.open)


def test_applied_read_back_recorded_and_restored(shelf: Shelf, tmp_path: Path) -> None:
    low = target("low", "nvme0", 2)
    with states(shelf, tmp_path, low) as power:
        (applied,), changed = power.apply(low)
        assert changed
        assert shelf.state["nvme0"] == 2
        assert applied.dump() == {
            "device": "/dev/nvme0",
            "index": 2,
            "max_power_w": 12.0,
            "entry_latency_us": 20,
            "exit_latency_us": 40,
            "former_index": 0,
        }
        trace = json.loads((tmp_path / "power-states.json").read_text())
        assert trace["drives"] == {"/dev/nvme0": 0}
        assert power.apply(low)[1] is False
    assert shelf.state["nvme0"] == 0
    assert shelf.sets == [("nvme0", 2), ("nvme0", 0)]
    assert list(tmp_path.iterdir()) == []


def test_a_drive_that_slept_before_gets_no_state_back_that_has_no_io(
    shelf: Shelf, tmp_path: Path
) -> None:
    low = target("low", "nvme0", 2)
    shelf.state["nvme0"] = 3
    with states(shelf, tmp_path, low) as power:
        (applied,), _ = power.apply(low)
        assert applied.former_index == 0
        shelf.state["nvme0"] = 3  # asleep again
    assert shelf.sets == [("nvme0", 2), ("nvme0", 0)]


def test_a_drive_whose_target_asks_for_no_state_is_left_as_it_is(
    shelf: Shelf, tmp_path: Path
) -> None:
    low, other = target("low", "nvme0", 2), target("other", "nvme1")
    with states(shelf, tmp_path, low, other) as power:
        power.apply(low)
        for asleep in (3, 1, 3):
            shelf.state["nvme1"] = asleep
            assert power.apply(other) == ([], False)
    assert shelf.sets == [("nvme0", 2), ("nvme0", 0)]


def test_two_targets_on_one_drive_change_it_to_and_fro(shelf: Shelf, tmp_path: Path) -> None:
    full, low = target("full", "nvme0"), target("low", "nvme0", 1)
    with states(shelf, tmp_path, full, low) as power:
        assert power.apply(full) == ([], False)
        power.apply(low)
        assert shelf.state["nvme0"] == 1
        assert power.apply(full) == ([], True)
        assert shelf.state["nvme0"] == 0
        shelf.state["nvme0"] = 2  # another program interferes
        (applied,), changed = power.apply(low)
        assert (applied.index, applied.former_index, changed) == (1, 0, True)
    assert shelf.state["nvme0"] == 0


def test_a_set_that_changes_nothing_is_a_failure(shelf: Shelf, tmp_path: Path) -> None:
    low = target("low", "nvme0", 1)
    shelf.stubborn.add("nvme0")
    with (
        states(shelf, tmp_path, low) as power,
        pytest.raises(MeterError, match="is in power state 0"),
    ):
        power.apply(low)


def test_an_error_in_the_campaign_restores_too(shelf: Shelf, tmp_path: Path) -> None:
    low = target("low", "nvme0", 1)

    def campaign() -> None:
        with states(shelf, tmp_path, low) as power:
            power.apply(low)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        campaign()
    assert shelf.state["nvme0"] == 0
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_campaign_left_is_restored_on_resume(shelf: Shelf, tmp_path: Path) -> None:
    low = target("low", "nvme0", 1)
    killed = states(shelf, tmp_path, low)
    killed.__enter__()
    killed.apply(low)
    assert (tmp_path / "power-states.json").exists()
    with states(shelf, tmp_path, low) as resumed:
        assert shelf.state["nvme0"] == 0
        assert resumed.notes == ["/dev/nvme0: power state 0 restored after a killed campaign"]
        (applied,), _ = resumed.apply(low)
        assert applied.former_index == 0
    assert shelf.state["nvme0"] == 0
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_cannot_be_restored_is_said_and_remembered(
    shelf: Shelf, tmp_path: Path
) -> None:
    low, other = target("low", "nvme0", 1), target("other", "nvme1", 2)

    def campaign() -> None:
        with states(shelf, tmp_path, low, other) as power:
            power.apply(low)
            power.apply(other)
            del shelf.state["nvme0"]

    with pytest.raises(MeterError, match="former power state could not be restored: is gone"):
        campaign()
    assert shelf.state == {"nvme1": 0}
    trace = json.loads((tmp_path / "power-states.json").read_text())
    assert trace["drives"] == {"/dev/nvme0": 0, "/dev/nvme1": 0}


def test_a_damaged_trace_stops_the_resume(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "power-states.json").write_text("{")
    with pytest.raises(ResultError, match="is damaged"):
        states(shelf, tmp_path, target("low", "nvme0", 1)).__enter__()


def test_preflight_says_what_would_be_done_and_changes_nothing(
    shelf: Shelf, tmp_path: Path
) -> None:
    check = check_power_state(target("low", "nvme0", 2), tmp_path, shelf.open)
    assert check == "/dev/nvme0 enters power state 2 from 0"
    assert shelf.sets == []
    with pytest.raises(MeterError, match="not operational"):
        check_power_state(target("low", "nvme0", 3), tmp_path, shelf.open)
    with pytest.raises(MeterError, match=r"no power state 9"):
        check_power_state(target("low", "nvme0", 9), tmp_path, shelf.open)
    with pytest.raises(MeterError, match="not an NVMe") as caught:
        check_power_state(target("low", "sda", 1), tmp_path, shelf.open)
    assert "remove power_state" in caught.value.fix


def test_studies_without_power_states_open_no_drive(tmp_path: Path) -> None:
    plain = Target(name="t", path="/dev/sda")
    with PowerStates([plain], tmp_path, tmp_path, Shelf().open) as power:
        assert power.apply(plain) == ([], False)


def test_the_drive_of_a_file_is_the_one_under_its_file_system(tmp_path: Path) -> None:
    memory = Target(name="m", path="/dev/shm/file", size=4096)
    assert drives_of(memory, tmp_path) == ["/dev/shm/file"]  # no drive: opening it reports so
    assert drives_of(Target(name="n", path="null:"), tmp_path) == []
