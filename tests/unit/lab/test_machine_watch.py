"""State of the machine around a run: each flag appears when it should, and only then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from storlab.contracts.details import Details
from storlab.lab.preflight.attachment import drive_checks, state_check
from storlab.lab.watch import machine_watch
from storlab.lab.watch.machine_watch import (
    MachineWatch,
    changed_flag,
    changes,
    described,
    near_cpus,
    pinned_near,
)
from storlab.model.result import EngineInfo, RunOutcome
from storlab.model.study import Target
from storlab.process.counters import CounterReading
from storlab.results import environment
from storlab.stores.drives import Drive, stack
from support.pci_trees import PciTree
from support.sysfs_trees import put

HERE = min(os.sched_getaffinity(0))
ELSEWHERE = 4095  # no machine of a test has this CPU
PORT = ("pci0000:40", "0000:40:01.1")
CHAIN = (*PORT, "0000:41:00.0")
S = 1_000_000_000
CPU = f"sys/devices/system/cpu/cpu{HERE}"


@pytest.fixture
def tree(tmp_path: Path) -> PciTree:
    return PciTree(tmp_path)


def drive_of(tree: PciTree, number: str = "259:0") -> Drive:
    (drive,) = stack(tree.root, number)[1]
    return drive


def nvme(
    tree: PciTree, *, node: int = 0, link: tuple[float, int, float, int] | None = None
) -> Drive:
    """Return a drive in a slot that can do 16 GT/s x4."""
    tree.device(PORT, link=(16.0, 4, 16.0, 4))
    tree.nvme(CHAIN, "259:0", node=node, link=link or (16.0, 4, 32.0, 4))
    return drive_of(tree)


def nodes(tree: PciTree, *lists: str) -> None:
    for number, cpus in enumerate(lists):
        tree.text(f"sys/devices/system/node/node{number}/cpulist", cpus)


def outcome() -> RunOutcome:
    return RunOutcome(
        status="finished",
        engine=EngineInfo(name="native", version="1"),
        window_start_ns=1 * S,
        window_end_ns=4 * S,
        samples=[],
        totals={},
        cpu=None,
    )


class Readings:
    """Stands for the thread that looks where workers run."""

    def __init__(self, *values: tuple[int, ...]) -> None:
        self.readings = [CounterReading(n * S, value) for n, value in enumerate(values)]


def judged(
    tree: PciTree, *drives: Drive, workers: tuple[tuple[int, ...], ...] = (), **more: Any
) -> RunOutcome:
    """Judge a run during which workers were on these pairs of CPU and kHz, once per second."""
    made = outcome()
    with MachineWatch(drives, tree.root) as watch:
        if "meanwhile" in more:
            more["meanwhile"]()
        if workers:
            watch._watch = Readings(*workers)  # type: ignore[assignment]
    watch.judge(made, more.get("changed", ()))
    json.dumps(made.details)  # what a record stores
    return made


def flags(made: RunOutcome) -> dict[str, str]:
    return {flag.kind: flag.message for flag in made.flags}


def test_a_machine_that_reports_nothing_has_no_flags_and_no_thread(tree: PciTree) -> None:
    virtual = tree.root / "sys/devices/pci0000:00/0000:00:05.0/virtio2/block/vda"
    tree.block("254:0", virtual)
    drive = drive_of(tree, "254:0")
    assert (drive.transport, drive.links, drive.paths, drive.node) == ("virtio", [], [], None)
    with MachineWatch([drive], tree.root) as watch:
        assert watch._watch is None
    made = outcome()
    watch.judge(made)
    assert made.flags == []
    found = Details.of(made).machine
    assert found is not None
    assert (found.links, found.paths, found.cores, found.stalled_percent) == ((), {}, None, {})
    assert "not reported: idle states, turbo, frequency" in state_check(tree.root).what
    (check,) = drive_checks([drive], numa_local=False, root=tree.root)
    assert (check.name, check.status) == ("attachment", "ok")
    assert check.what == "vda by virtio; not reported: NUMA node, IOMMU"


@pytest.mark.parametrize(
    ("link", "flagged", "by_slot"),
    [
        ((16.0, 4, 16.0, 4), False, False),
        ((16.0, 4, 32.0, 4), False, True),  # all that the slot can do
        ((16.0, 2, 32.0, 4), True, True),
        ((8.0, 4, 16.0, 4), True, False),
        ((8.0, 2, 8.0, 2), False, False),  # all that the drive can do
    ],
)
def test_a_link_is_judged_by_what_drive_and_slot_can_do(
    tree: PciTree, link: tuple[float, int, float, int], flagged: bool, by_slot: bool
) -> None:
    drive = nvme(tree, link=link)
    made = judged(tree, drive)
    assert flags(made).keys() == ({"link-degraded"} if flagged else set())
    found = Details.of(made).machine
    assert found is not None
    (told,) = found.links
    assert (told.degraded, told.limited_by_slot) == (flagged, by_slot)
    assert told.link == f"{link[0]:g} GT/s x{link[1]}"
    *slow, check = drive_checks([drive], numa_local=False, root=tree.root)
    assert [warned.name for warned in slow] == ["PCIe link"] * flagged
    assert ("limited by the slot" in check.what) == by_slot


def test_a_degraded_link_is_named_with_what_is_possible(tree: PciTree) -> None:
    made = judged(tree, nvme(tree, link=(8.0, 2, 32.0, 4)))
    text = "PCIe links below what drive and slot can do: nvme0n1 at 8 GT/s x2, 16 GT/s x4 possible"
    assert flags(made) == {"link-degraded": text}


def test_a_link_that_is_slow_only_while_the_drive_idles_is_not_flagged(tree: PciTree) -> None:
    drive = nvme(tree, link=(2.5, 4, 16.0, 4))
    place = tree.root / "sys/bus/pci/devices/0000:41:00.0/current_link_speed"
    made = judged(tree, drive, meanwhile=lambda: put(place.resolve(), "16.0 GT/s PCIe"))
    assert flags(made) == {}


@pytest.mark.parametrize("file", ["current_link_speed", "current_link_width"])
def test_a_link_that_cannot_be_read_is_absent(tree: PciTree, file: str) -> None:
    drive = nvme(tree)
    # What a device in D3cold answers, and what older kernels write.
    text = {"current_link_speed": "Unknown", "current_link_width": "63"}[file]
    put((tree.root / "sys/bus/pci/devices/0000:41:00.0").resolve() / file, text)
    assert drive.links == []
    assert judged(tree, drive).flags == []


def two_paths(tree: PciTree, states: tuple[str, str], access: tuple[str, str] | None) -> Drive:
    """Return a namespace with two NVMe/TCP paths, as the kernel's multipath shows it."""
    subsystem = tree.root / "sys/devices/virtual/nvme-subsystem/nvme-subsys0"
    tree.block("259:0", subsystem / "nvme0n1")
    for number, state in enumerate(states):
        controller = tree.root / f"sys/devices/virtual/nvme-fabrics/ctl/nvme{number}"
        put(controller / "transport", "tcp")
        put(controller / "state", state)
        if access is not None:
            put(controller / f"nvme0c{number}n1/ana_state", access[number])
        (subsystem / f"nvme{number}").symlink_to(controller)
    return drive_of(tree)


@pytest.mark.parametrize(
    ("states", "access", "flagged"),
    [
        (("live", "live"), ("optimized", "optimized"), ""),
        (("live", "live"), ("optimized", "non-optimized"), ""),  # usual: active and standby
        (("live", "live"), None, ""),
        (("live", "connecting"), ("optimized", "optimized"), "nvme1 connecting, optimized"),
        (("live", "live"), ("non-optimized", "inaccessible"), "no path of nvme0n1 is optimized"),
        (("connecting", "live"), ("optimized", "non-optimized"), "no path of nvme0n1 is optimized"),
    ],
)
def test_paths_of_a_namespace(
    tree: PciTree, states: tuple[str, str], access: tuple[str, str] | None, flagged: str
) -> None:
    drive = two_paths(tree, states, access)
    assert drive.transport == "tcp"
    made = judged(tree, drive)
    assert ("path-degraded" in flags(made)) == bool(flagged)
    assert flagged in flags(made).get("path-degraded", "")
    found = Details.of(made).machine
    assert found is not None
    assert len(found.paths["nvme0n1"]) == 2


@pytest.mark.parametrize(
    ("state", "access", "flagged"),
    [
        ("running", "active/optimized", False),
        ("transport-offline", "active/optimized", True),
        ("running", "active/non-optimized", True),
    ],
)
def test_paths_of_a_scsi_disk(tree: PciTree, state: str, access: str, flagged: bool) -> None:
    session = tree.root / "sys/devices/platform/host3/session1/target3:0:0/3:0:0:0"
    disk = session / "block/sda"
    put(disk / "device/state", state)
    put(disk / "device/access_state", access)
    tree.block("8:0", disk)
    drive = drive_of(tree, "8:0")
    assert drive.transport == "iscsi"
    assert ("path-degraded" in flags(judged(tree, drive))) == flagged


@pytest.mark.parametrize(
    ("states", "flagged"),
    [
        (("running", "running"), False),
        (("running", "offline"), True),
        (("offline", "running"), True),
    ],
)
def test_paths_below_dm_multipath_are_judged_together(
    tree: PciTree, states: tuple[str, str], flagged: bool
) -> None:
    disks = []
    for number, (state, access) in enumerate(zip(states, ("optimized", "standby"), strict=True)):
        disk = tree.root / f"sys/devices/pci0000:00/0000:04:00.{number}/rport-1/block/sd{number}"
        put(disk / "device/state", state)
        put(disk / "device/access_state", f"active/{access}")
        tree.block(f"8:{number}", disk)
        disks.append(disk)
    above = tree.layer("dm-0", "253:0", disks, dm__uuid="mpath-36001")
    for disk in disks:
        (disk / "holders").mkdir()
        (disk / "holders/dm-0").symlink_to(above)
    made = judged(tree, *stack(tree.root, "253:0")[1])
    assert ("path-degraded" in flags(made)) == flagged
    found = Details.of(made).machine
    assert found is not None
    assert len(found.paths["dm-0"]) == 2


@pytest.mark.parametrize(
    ("place", "transport"),
    [
        ("pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0/block/sda", "sata"),
        ("pci0000:00/0000:03:00.0/host0/port-0:0/end_device-0:0/target0:0:0/block/sda", "sas"),
        ("pci0000:00/0000:04:00.0/host1/rport-1:0-2/target1:0:0/block/sda", "fc"),
        ("pci0000:00/0000:00:14.0/usb2/2-3/2-3:1.0/host4/block/sda", "usb"),
        ("virtual/block/ram0", "unknown"),
    ],
)
def test_the_transport_of_a_disk(tree: PciTree, place: str, transport: str) -> None:
    tree.block("8:0", tree.root / "sys/devices" / place)
    assert drive_of(tree, "8:0").transport == transport


@pytest.mark.parametrize(("elsewhere", "flagged"), [(0, False), (1, False), (2, True), (40, True)])
def test_workers_on_another_node_than_the_drive(
    tree: PciTree, elsewhere: int, flagged: bool
) -> None:
    nodes(tree, "0-4000", "4001-4095")
    drive = nvme(tree)
    seen = [ELSEWHERE] * elsewhere + [3] * (40 - elsewhere)
    before_the_window, inside = (ELSEWHERE, 0) * 9, tuple(n for cpu in seen for n in (cpu, 0))
    made = judged(tree, drive, workers=(before_the_window, inside))
    found = Details.of(made).machine
    assert found is not None
    assert found.cores is not None
    assert found.cores.remote_percent == 2.5 * elsewhere
    assert ("remote-node" in flags(made)) == flagged


@pytest.mark.parametrize(
    ("lists", "node"), [(("0-4095",), 0), ((), 0), (("0-4000", "4001-4095"), -1)]
)
def test_one_node_or_an_unknown_one_is_no_remote_node(
    tree: PciTree, lists: tuple[str, ...], node: int
) -> None:
    nodes(tree, *lists)
    drive = nvme(tree, node=node)
    assert near_cpus([drive], tree.root) == set()
    assert judged(tree, drive, workers=((), (ELSEWHERE, 0))).flags == []
    (_, *rest) = drive_checks([drive], numa_local=False, root=tree.root)
    assert rest == []
    (_, check) = drive_checks([drive], numa_local=True, root=tree.root)
    assert (check.name, check.status) == ("NUMA", "ok")
    assert "no effect" in check.what


@pytest.mark.parametrize(
    ("lists", "numa_local", "status"),
    [
        ((f"0-{HERE}", f"{HERE + 1}-4095"), True, "ok"),
        (("0-4000", "4001-4095"), False, "ok"),  # all usable CPUs are on the drive's node
        ((f"{HERE},4001", f"{HERE + 1}-4000"), False, "warning"),
        (("4001-4095", "0-4000"), True, "warning"),  # no usable CPU is there
    ],
)
def test_doctor_checks_the_node_of_the_drive(
    tree: PciTree,
    monkeypatch: pytest.MonkeyPatch,
    lists: tuple[str, ...],
    numa_local: bool,
    status: str,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {HERE, HERE + 1})
    nodes(tree, *lists)
    (_, check) = drive_checks([nvme(tree)], numa_local=numa_local, root=tree.root)
    assert (check.name, check.status) == ("NUMA", status)


def test_numa_local_pins_what_is_started_and_nothing_afterwards(tree: PciTree) -> None:
    before = os.sched_getaffinity(0)
    nodes(tree, f"{HERE},4001", "4002-4095")
    ask = [sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"]
    with pinned_near([nvme(tree)], tree.root):
        told = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    assert told.split() == [str(HERE)]
    assert os.sched_getaffinity(0) == before


def test_numa_local_without_a_usable_cpu_pins_nothing(tree: PciTree) -> None:
    nodes(tree, "4001-4095", "0-4000")
    before = os.sched_getaffinity(0)
    with pinned_near([nvme(tree)], tree.root):
        assert os.sched_getaffinity(0) == before


def idle_core(tree: PciTree, entries: int, disable: int = 0) -> None:
    states = (("POLL", 0, 5000), ("C1", 2, 9000), ("C6", 133, entries))
    for number, (name, latency, usage) in enumerate(states):
        place = tree.root / f"{CPU}/cpuidle/state{number}"
        put(place / "name", name)
        put(place / "latency", latency)
        put(place / "usage", usage)
        put(place / "disable", disable if name == "C6" else 0)


@pytest.mark.parametrize(("woken", "flagged"), [(3700, False), (3800, True)])
def test_cores_that_sleep_too_deeply(
    tree: PciTree, monkeypatch: pytest.MonkeyPatch, woken: int, flagged: bool
) -> None:
    """3,800 wake-ups of 133 us in 10 s are 5.05 % of the time."""
    times = iter([0, 10 * S])
    monkeypatch.setattr(machine_watch, "monotonic_ns", lambda: next(times))
    idle_core(tree, 100)
    made = judged(tree, workers=((), (HERE, 0)), meanwhile=lambda: idle_core(tree, 100 + woken))
    found = Details.of(made).machine
    assert found is not None
    assert found.cores is not None
    assert found.cores.waking_percent == pytest.approx(woken * 133e-6 / 10 * 100)
    assert found.cores.idle_state == "C6 (133 us)"
    assert ("sleeping-cores" in flags(made)) == flagged


def test_shallow_idle_states_are_no_sleep(tree: PciTree) -> None:
    """In many virtual machines the only one is haltpoll, with 1 us."""
    place = tree.root / f"{CPU}/cpuidle/state1"
    for name, value in {"name": "haltpoll idle", "latency": 9, "usage": 7, "disable": 0}.items():
        put(place / name, value)
    with MachineWatch([], tree.root) as watch:
        assert watch._watch is None
    made = judged(tree, workers=((), (HERE, 0)), meanwhile=lambda: put(place / "usage", 10**9))
    assert made.flags == []


def test_cores_whose_deep_states_are_switched_off_do_not_sleep(tree: PciTree) -> None:
    idle_core(tree, 0, disable=1)
    made = judged(
        tree, workers=((), (HERE, 0)), meanwhile=lambda: idle_core(tree, 10**9, disable=1)
    )
    found = Details.of(made).machine
    assert found is not None
    assert found.cores is not None
    assert (found.cores.waking_percent, made.flags) == (None, [])


def test_only_idle_states_in_use_are_reported(tree: PciTree) -> None:
    idle_core(tree, 0)
    assert "C1 (2 us), C6 (133 us)" in state_check(tree.root).what
    idle_core(tree, 0, disable=1)
    assert "C6" not in state_check(tree.root).what


@pytest.mark.parametrize(
    ("facts", "base_mhz"),
    [
        ({"cpufreq/base_frequency": 2_000_000}, 2000),
        ({"acpi_cppc/nominal_freq": 2_400}, 2400),
        ({"cpufreq/scaling_driver": "acpi-cpufreq", "cpufreq/cpuinfo_max_freq": 2_500_000}, 2500),
        ({"cpufreq/scaling_driver": "other", "cpufreq/cpuinfo_max_freq": 2_500_000}, None),
    ],
)
@pytest.mark.parametrize(("share", "flagged"), [(0.79, True), (0.81, False)])
def test_cores_below_their_base_frequency(
    tree: PciTree, facts: dict[str, Any], base_mhz: int | None, share: float, flagged: bool
) -> None:
    for name, value in facts.items():
        tree.text(f"{CPU}/{name}", value)
    khz = round(1000 * share * (base_mhz or 1000))
    tree.text(f"{CPU}/cpufreq/scaling_cur_freq", khz)
    made = judged(tree, workers=((), (HERE, khz), (HERE, khz)))
    found = Details.of(made).machine
    assert found is not None
    assert found.cores is not None
    assert found.cores.base_mhz == base_mhz
    assert found.cores.mhz == (pytest.approx(khz / 1000) if base_mhz else None)
    assert ("slow-cores" in flags(made)) == (flagged and base_mhz is not None)


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("intel_pstate/no_turbo", 1, "turbo off"),
        ("intel_pstate/no_turbo", 0, "turbo on"),
        ("cpufreq/boost", 0, "turbo off"),
    ],
)
def test_turbo(tree: PciTree, file: str, text: int, told: str) -> None:
    tree.text(f"sys/devices/system/cpu/{file}", text)
    assert told in state_check(tree.root).what


def pressure(tree: PciTree, resource: str, total_us: int) -> None:
    line = "{} avg10=0.00 avg60=0.00 avg300=0.00 total={}"
    text = f"{line.format('some', total_us)}\n{line.format('full', 7)}"
    tree.text(f"proc/pressure/{resource}", text)


@pytest.mark.parametrize(
    ("resource", "stalled_us", "kinds"),
    [("memory", 999_000, set()), ("memory", 1_000_000, {"memory-pressure"}), ("io", 9e6, set())],
)
def test_memory_pressure(
    tree: PciTree,
    monkeypatch: pytest.MonkeyPatch,
    resource: str,
    stalled_us: float,
    kinds: set[str],
) -> None:
    times = iter([0, 10 * S])
    monkeypatch.setattr(machine_watch, "monotonic_ns", lambda: next(times))
    pressure(tree, resource, 500)
    made = judged(tree, meanwhile=lambda: pressure(tree, resource, 500 + round(stalled_us)))
    found = Details.of(made).machine
    assert found is not None
    assert found.stalled_percent == {resource: pytest.approx(stalled_us / 1e5)}
    assert flags(made).keys() == kinds


def facts(**drive: Any) -> dict[str, Any]:
    known = {"name": "nvme0n1", "serial": "A1", "scheduler": "none", "pcie_link": "16 GT/s x4"}
    return {"kind": "block_device", "drives": [{**known, **drive}]}


@pytest.mark.parametrize(
    ("now", "governor", "told"),
    [
        ({}, "performance", []),
        ({"name": "nvme7n1"}, "performance", []),  # another name after a restart
        ({"new": 1}, "performance", []),  # a fact that the recorded environment does not have
        ({"scheduler": "bfq"}, "performance", ["scheduler of nvme0n1: none to bfq"]),
        ({}, "powersave", ["governor of CPU: performance to powersave"]),
        (
            {"pcie_link": "16 GT/s x2"},
            "performance",
            ["PCIe link of nvme0n1: 16 GT/s x4 to 16 GT/s x2"],
        ),
    ],
)
def test_changes_since_the_campaign_began(
    tree: PciTree,
    monkeypatch: pytest.MonkeyPatch,
    now: dict[str, Any],
    governor: str,
    told: list[str],
) -> None:
    monkeypatch.setattr(machine_watch, "cpu_facts", lambda: {"governor": governor})
    monkeypatch.setattr(machine_watch, "target_facts", lambda *_: facts(**now))
    recorded = {"cpu": {"governor": "performance"}, "targets": {"t": facts()}}
    target = Target(name="t", path="/dev/nvme0n1")
    changed = changes(recorded, described(target, tree.root))
    assert changed == told
    made = judged(tree, changed=changed)
    assert flags(made).keys() == ({"machine-changed"} if told else set())
    assert changes({}, described(target, tree.root)) == []


def test_many_changes_are_counted() -> None:
    text = "changed since the first run on c1: 0; 1; 2; 3; 4; and 2 more"
    assert changed_flag([str(n) for n in range(7)], "the first run on c1").message == text
    assert changed_flag(["a", "b"]).message == "changed since the campaign began: a; b"


def test_the_environment_of_this_machine_does_not_change_by_itself(tmp_path: Path) -> None:
    target = Target(name="t", path=str(tmp_path / "data"), size=1 << 20)
    recorded = {
        "cpu": environment.cpu_facts(),
        "targets": {"t": environment.target_facts(target, tmp_path)},
    }
    stored = json.loads(json.dumps(recorded))
    (tmp_path / "data").write_bytes(bytes(1 << 20))
    assert changes(stored, described(target, tmp_path)) == []


def test_doctor_says_how_a_drive_is_attached(tree: PciTree) -> None:
    drive = nvme(tree, node=1)
    tree.text("sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0/iommu_group/type", "DMA-FQ")
    (check,) = drive_checks([drive], numa_local=False, root=tree.root)
    slot = "PCIe 16 GT/s x4 (limited by the slot)"
    assert check.what == f"nvme0n1 by pcie, {slot}, NUMA node 1, IOMMU DMA-FQ"
