"""Differences between two result directories: machines, drives, clients, study settings."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest

from storlab.analysis.environments import between, differences, facts
from storlab.contracts.registry import study_class
from storlab.model.point import Plan
from storlab.results.store import ResultStore

STUDY = """
[study]
name = "nightly"
repeats = 5
ramp = "1s"
runtime = "90s"
{header}
[[target]]
name = "SSD 1.5"
{place}
{target}
[[target]]
name = "Other"
path = "null:"
[[workload]]
kind = "block"
{tail}
"""
FILE = 'path = "/mnt/a/data"'
CLUSTER = '[cluster]\nhosts = ["c[1-2]"]\nmount = "/mnt/a"\n'
DRIVE = {"name": "nvme0n1", "model": "M", "firmware": "1", "serial": "S0", "scheduler": "none"}


def drives(*serials: str, **more: Any) -> dict[str, Any]:
    """Return an environment with the drives of the target in that order."""
    found = [
        {**DRIVE, "name": f"nvme{n}n1", "serial": serial, **more}
        for n, serial in enumerate(serials)
    ]
    return {"targets": {"SSD 1.5": {"kind": "block_device", "drives": found}}}


class Made:
    """Result directories without runs."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._made = 0

    def __call__(self, environment: dict[str, Any] | None = None, **parts: str) -> ResultStore:
        given = {"header": "", "target": "", "tail": "", "place": FILE, **parts}
        text = STUDY.format(**given)
        study = study_class().model_validate(tomllib.loads(text))
        plan = Plan(
            study_name="nightly", study_sha256="0" * 64, points={}, runs=[], estimated_ns=0,
            bytes_written=0,
        )  # fmt: skip
        self._made += 1
        where = self._place / str(self._made)
        return ResultStore.create(where, text, study, plan, environment or {})


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def fields(here: ResultStore, there: ResultStore) -> list[str]:
    return [each.field for each in differences(here, there)]


def test_a_missing_drive_is_a_difference(made: Made) -> None:
    """Check that a missing drive is reported without shifting the drives after it."""
    all_16 = [f"S{n}" for n in range(16)]
    whole = made(drives(*all_16))
    for missing in (3, 15):
        part = made(drives(*all_16[:missing], *all_16[missing + 1 :]))
        (found,) = differences(part, whole)
        assert found.field == "targets.SSD 1.5.drives.16"
        assert (found.here, found.there) == (None, f"M S{missing}")
        (found,) = differences(whole, part)
        assert found.field == f"targets.SSD 1.5.drives.{missing + 1}"
        assert found.there is None


def test_drives_are_told_by_their_serials(made: Made) -> None:
    here = made(drives("A", "B"))
    assert fields(here, made(drives("B", "A"))) == []  # only their names and order changed
    (found,) = differences(here, made(drives("A", "C")))
    assert (found.field, found.here, found.there) == ("targets.SSD 1.5.drives.2.serial", "B", "C")
    newer = made(drives("B", "A", firmware="2"))
    assert fields(here, newer) == [f"targets.SSD 1.5.drives.{n}.firmware" for n in (1, 2)]


def test_how_drives_are_attached_is_compared_unless_a_result_is_older(made: Made) -> None:
    here, slow = (made(drives("A", pcie_link=f"16 GT/s x{lanes}")) for lanes in (4, 2))
    assert fields(here, slow) == ["targets.SSD 1.5.drives.1.pcie_link"]
    assert fields(here, made(drives("A"))) == []
    sleepy = made({"cpu": {"turbo": True, "idle_states": ["C1 2 us"]}})
    awake = made({"cpu": {"turbo": True, "idle_states": ["POLL 0 us"]}})
    assert fields(sleepy, awake) == ["cpu.idle_states"]
    assert fields(sleepy, made({"cpu": {}})) == []


def test_a_drive_without_a_serial_has_its_name(made: Made) -> None:
    here, there = drives("A"), drives("A")
    for environment, name in ((here, "vda"), (there, "vdb")):
        environment["targets"]["SSD 1.5"]["drives"][0] |= {"name": name, "serial": None}
    assert fields(made(here), made(there)) == ["targets.SSD 1.5.drives.1.name"]


def test_only_what_both_have_is_compared(made: Made) -> None:
    there = made(drives("A"))
    here = made(drives("A"), tail='[[target]]\nname = "New"\npath = "/mnt/b"\nsize = "1GiB"')
    assert fields(here, there) == []


def test_a_kernel_that_keeps_more_memory_for_itself_is_no_other_memory(made: Made) -> None:
    def has(total: int) -> ResultStore:
        return made({"memory": {"total_bytes": total, "huge_pages_bytes": 0}})

    assert fields(has(256 << 30), has(250 << 30)) == []
    assert fields(has(256 << 30), has(240 << 30)) == ["memory.total_bytes"]
    assert fields(has(256 << 30), made()) == ["memory.total_bytes", "memory.huge_pages_bytes"]


STEADY = 'precondition = { block_size = "128KiB" }'
METER = 'meters = [{{ kind = "nvme", boundary = "device"{} }}]'


@pytest.mark.parametrize(
    ("part", "here", "there", "field"),
    [
        ("header", "seed = 2", "", "settings.seed"),
        ("header", 'settle = "5s"', "", "settings.settle"),
        ("header", "numa_local = true", "", "settings.numa_local"),
        ("target", 'size = "1GiB"', 'size = "2GiB"', "targets.SSD 1.5.size"),
        ("target", "direct = false", "", "targets.SSD 1.5.direct"),
        ("target", 'offset = "1MiB"', "", "targets.SSD 1.5.offset"),
        ("target", "power_state = 2", "", "targets.SSD 1.5.power_state"),
        ("target", 'power_boundary = "wall"', "", "targets.SSD 1.5.power_boundary"),
        ("target", 'capacity = "4TB"', 'capacity = "8TB"', "targets.SSD 1.5.capacity"),
        ("target", "drives = 16", "drives = 15", "targets.SSD 1.5.drives"),
        (
            "target", STEADY, STEADY.replace("128", "64"),
            "targets.SSD 1.5.precondition.block_size",
        ),
        (
            "target", METER.format(""), METER.format("").replace('"device"', '"wall"'),
            "targets.SSD 1.5.meters.1.boundary",
        ),
        (
            "target", METER.format(", share = 0.5"), METER.format(""),
            "targets.SSD 1.5.meters.1.share",
        ),
        (
            "place", 'paths = ["/a", "/b"]\nlayout = "jbod"',
            'paths = ["/a", "/b"]\nlayout = "stripe"\nstripe_chunk = "1MiB"',
            "targets.SSD 1.5.layout; targets.SSD 1.5.stripe_chunk",
        ),
        ("place", 'paths = ["/a", "/b"]', FILE, "targets.SSD 1.5.places"),
        ("tail", CLUSTER + 'mpi_args = ["--bind-to", "core"]', CLUSTER, "cluster.mpi_args"),
    ],
)  # fmt: skip
def test_a_setting_of_a_study_is_compared(
    part: str, here: str, there: str, field: str, made: Made
) -> None:
    found = fields(made(**{part: here}), made(**{part: there}))
    assert "; ".join(sorted(found)) == field


@pytest.mark.parametrize(
    ("part", "here", "there"),
    [
        ("place", FILE, 'path = "build/417/data"'),
        ("header", 'description = "another"', ""),
        ("header", 'question = ["throughput"]', ""),
        ("target", "keep_data = true", ""),
        ("target", "price = 100", "price = 90"),
        ("target", METER.format(', path = "/ci/1/log.csv"'), METER.format(', path = "/ci/2/l"')),
        ("target", METER.format(', token_env = "A"'), METER.format(', timeout = "9s"')),
        ("tail", CLUSTER, CLUSTER.replace("/mnt/a", "/mnt/b") + 'python = "/ci/417/bin/python"'),
    ],
)
def test_what_does_not_change_the_measured_thing_is_not(
    part: str, here: str, there: str, made: Made
) -> None:
    assert fields(made(**{part: here}), made(**{part: there})) == []


def clients(**more: Any) -> dict[str, Any]:
    each = {
        "host": "c1", "storlab": "1", "build": "optimised", "kernel": "6.8", "cpu_model": "M",
        "cpu_level": "x86-64-v3", "cores": 8, "memory_bytes": 64 << 30, "memlock_bytes": 1,
        "open_files": 1, "load": 0.5,
        "mount": {
            "kind": "nfs4", "source": "nas:/a", "options": "rw,clientaddr=10.0.0.1",
            "total_bytes": 9, "free_bytes": 5, "network": True,
        },
        "nics": {"ens1": 100_000_000_000}, "problems": {}, "fixes": {}, "claimed": {}, "free": {},
    }  # fmt: skip
    return {"cluster": {"c1": each, "c2": {**copy.deepcopy(each), "host": "c2", **more}}}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"kernel": "6.9"}, {"cluster.kernel": ["6.8", "6.9"]}),
        ({"host": "c3"}, {"cluster.host": ["c1", "c3"]}),
        ({"cpu_model": "N"}, {"cluster.cpu_model": ["M", "N"]}),
        ({"cores": 4}, {"cluster.cores": [4, 8]}),
        ({"memory_bytes": 32 << 30}, {"cluster.memory_bytes": [32 << 30, 64 << 30]}),
        ({"nics": {"ens1": 25_000_000_000}}, {"cluster.nics.ens1": [25_000_000_000, 10**11]}),
        ({"load": 7.5, "memory_bytes": 63 << 30, "open_files": 9}, {}),
        ({"mount": {"kind": "nfs4", "source": "nas:/a", "options": "rw,clientaddr=9"}}, {}),
    ],
)
def test_clients_are_compared(more: dict[str, Any], expected: dict[str, Any], made: Made) -> None:
    found = differences(made(clients(**more), tail=CLUSTER), made(clients(), tail=CLUSTER))
    assert {each.field: each.here for each in found} == expected


def test_settings_read_as_a_study_has_them(made: Made) -> None:
    found = facts(made(target='size = "1GiB"'))
    assert (found["settings.runtime"], found["targets.SSD 1.5.size"]) == ("90s", "1GiB")


def test_folders_of_a_container_are_others_each_time(made: Made) -> None:
    def lies_on(options: str) -> ResultStore:
        return made({"targets": {"SSD 1.5": {"kind": "file", "mount_options": options}}})

    here, there = (f"rw,{{}},lowerdir=/x/{n},upperdir=/y/{n}" for n in (1, 2))
    assert fields(lies_on(here.format("relatime")), lies_on(there.format("relatime"))) == []
    assert fields(lies_on(here.format("relatime")), lies_on(there.format("sync"))) == [
        "targets.SSD 1.5.mount_options"
    ]


def test_facts_of_one_target_are_compared_likewise() -> None:
    """Check comparison of facts without the target's prefix, as in a history."""
    old = {"drives.1.serial": "A", "drives.1.name": "sda", "drives.2.serial": "B"}
    new = {"drives.1.serial": "B", "drives.2.serial": "A", "drives.2.name": "sdb"}
    assert between(new, old) == []
