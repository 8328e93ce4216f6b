"""The table of clients, from synthetic facts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import storlab
from storlab.base.errors import StudyError
from storlab.base.units import NS_PER_S
from storlab.cluster.client_facts import code_digest
from storlab.cluster.offsets import ClockOffset
from storlab.contracts.check import Check
from storlab.lab.plan.clients import cluster_problems, counts_of
from storlab.lab.plan.plan import make_plan, prepare_ns_by_target
from storlab.lab.preflight.clients import _checks, check_clients
from storlab.lab.site import clients as clients_module
from storlab.lab.study.file import LoadedStudy, load_study
from support.made_clients import FakeClients, made_clients

STUDY = """
[study]
name = "table"
[cluster]
{cluster}
[[target]]
name = "t"
{target}
[[workload]]
kind = "{kind}"
{workload}
"""
CLUSTER = 'hosts = ["c[1-3]"]\nmount = "/mnt/s"'
LOCAL = 'hosts = ["localhost"]\nclients = 3'
TARGET = 'directory = "/mnt/s/here"\nsize = "1MiB"'
NAMES = ("c1", "c2", "c3")
MOUNT = {"point": "/mnt/s", "kind": "nfs4", "source": "srv:/x", "options": "rw"}
FACT: dict[str, Any] = {
    "host": "h",
    "boot": "0f3a",
    "storlab": "1.0",
    "build": "optimised",
    "native": "0123456789ab",
    "code": code_digest(Path(storlab.__file__).parent),
    "io_uring": "",
    "stores": {},
    "devices": {},
    "engines": {"native": ""},
    "open_files": 1024,
    "memory_bytes": 10**9,
    "missing_nics": [],
    "python": "3.11.2",
    "kernel": "6.1",
    "cpu_level": "x86-64-v3",
    "cores": 8,
    "memlock_bytes": -1,
    "load": 0.1,
    "mount": "/mnt/s",
    "mounts": {"/mnt/s/here": MOUNT},
    "nics": {"e0": 100 * 10**9},
    "problems": {},
    "sees": list(NAMES),
    "free": {"/mnt/s/here": 10**12},
}


def mounted(**changes: str) -> dict[str, Any]:
    return {"/mnt/s/here": MOUNT | changes}


CLOCKS = [{name: ClockOffset(5 * 10**9, 40_000) for name in NAMES}] * 2


def loaded(tmp_path: Path, **given: str) -> LoadedStudy:
    path = tmp_path / "study.toml"
    values = {"cluster": CLUSTER, "target": TARGET, "kind": "block", "workload": "jobs = 4"}
    path.write_text(STUDY.format_map(values | given))
    return load_study(path)


def table(
    tmp_path: Path,
    clocks: Any = CLOCKS,
    study: Mapping[str, str] | None = None,
    resumed: bool = False,
    **changes: Any,
) -> dict[str, Check]:
    """Return checks by name; ``changes`` edit one client's facts."""
    made = loaded(tmp_path, **study or {})
    facts = {name: FACT | changes.get(name, {}) for name in NAMES}
    checks = _checks(made.study, make_plan(made), facts, clocks, resumed=resumed)
    return {c.name: c for c in checks}


def test_clients_that_are_alike(tmp_path: Path) -> None:
    checks = table(tmp_path)
    assert {check.status for check in checks.values()} == {"ok"}
    assert checks["version of storlab"].what == "1.0"
    assert checks["mount server"].what == "srv:/x"
    assert checks["shared"].what == "every client sees the files of all others"
    assert checks["clocks"].what.startswith("offsets are known to 20.0 µs at worst (c")
    assert checks["network"].what == "100 Gbit/s"


@pytest.mark.parametrize(
    ("key", "value", "name", "status"),
    [
        ("storlab", "1.1", "version of storlab", "error"),
        ("build", "for tests", "build of storlab", "error"),
        ("native", "ba9876543210", "native library", "warning"),
        ("python", "3.12.0", "version of Python", "warning"),
        ("kernel", "5.4", "kernel", "warning"),
        ("cpu_level", "x86-64-v4", "instruction set level of the processor", "warning"),
        ("mounts", mounted(kind="ext4"), "mount type", "warning"),
        ("mounts", mounted(source="other:/x"), "mount server", "warning"),
        ("mounts", mounted(options="ro"), "mount options", "warning"),
        ("nics", {"e0": 10**9}, "network", "warning"),
    ],
)
def test_one_that_differs_is_named(
    tmp_path: Path, key: str, value: Any, name: str, status: str
) -> None:
    check = table(tmp_path, c2={key: value})[name]
    assert check.status == status
    assert " on 2, but " in check.what
    assert check.what.endswith(" on c2")
    assert check.fix == "make this the same on all clients"


def test_clients_with_other_python_code_are_refused(tmp_path: Path) -> None:
    """Check the refusal if clients run other Python code than this machine."""
    assert table(tmp_path)["Python code of storlab"].status == "ok"
    one = table(tmp_path, c2={"code": "000000000000"})["Python code of storlab"]
    assert (one.status, one.what.startswith("c2 have ")) == (
        "error",
        True,
    )  # c1 and c3 are not named
    every = {name: {"code": "000000000000"} for name in NAMES}
    assert table(tmp_path, **every)["Python code of storlab"].status == "error"


@pytest.mark.parametrize(("cluster", "factor"), [(CLUSTER, 1), (LOCAL, 3)])
def test_clients_of_several_machines_write_their_data_at_the_same_time(
    tmp_path: Path, cluster: str, factor: int
) -> None:
    target = TARGET.replace("1MiB", "500MB")
    study = loaded(tmp_path, cluster=cluster, target=target, workload="jobs = 1")
    (prepare_ns,) = prepare_ns_by_target(study, make_plan(study)).values()
    assert prepare_ns == factor * NS_PER_S


def test_a_missing_mount_is_an_error(tmp_path: Path) -> None:
    gone = {"mounts": {"/mnt/s/here": None}}
    checks = table(tmp_path, c1=gone, c3=gone)
    assert checks["mount"].status == "error"
    assert checks["mount"].what.startswith("no file system is mounted at /mnt/s on c1, c3,")
    assert "mount type" not in checks


def test_a_missing_mount_is_that_of_the_client(tmp_path: Path) -> None:
    gone = {"mount": "/data/own", "mounts": {"/mnt/s/here": None}}
    check = table(tmp_path, c2=gone)["mount"]
    assert check.what.startswith("no file system is mounted at /data/own on c2,")


def test_without_a_mount_in_the_study_none_is_asked_for(tmp_path: Path) -> None:
    study = {"cluster": 'hosts = ["c[1-3]"]'}
    checks = table(tmp_path, study=study, c1={"mounts": {"/mnt/s/here": None}})
    assert not [name for name in checks if name.startswith("mount")]


def test_what_is_not_shared_is_an_error(tmp_path: Path) -> None:
    check = table(tmp_path, c2={"sees": ["c2"]}, c1={"sees": ["c1", "c3"]})["shared"]
    assert check.status == "error"
    assert check.what.startswith("c1 does not see files of c2,")
    assert "(2 of 3 clients " in check.what


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    checks = table(tmp_path, c2={"problems": {"/mnt/s/here": "Permission denied"}, "sees": []})
    assert checks["directory"].status == "error"
    assert checks["directory"].what == "c2: /mnt/s/here: Permission denied"
    assert checks["directory"].fix.startswith("create the target's directory")
    assert "shared" not in checks


def test_what_refuses_a_directory_says_what_to_do(tmp_path: Path) -> None:
    """Check the advice for a directory with a foreign file in it."""
    lock = {"/mnt/s/here/lock": "is not a lock of this version"}
    moved = {"problems": lock, "fixes": {"/mnt/s/here/lock": "move it away"}, "sees": []}
    check = table(tmp_path, c1=moved, c2=moved)["directory"]
    assert check.what.startswith("c1: /mnt/s/here/lock: is not a lock of this version; c2: ")
    assert check.fix == "move it away"
    missing = {"problems": {"/mnt/s/here": "Permission denied"}, "sees": []}
    both = table(tmp_path, c1=moved, c2=missing)["directory"].fix
    assert both.startswith("move it away; create the target's directory")


def test_space_is_for_all_clients_together(tmp_path: Path) -> None:
    needed = 3 * 4 * 2**20
    assert table(tmp_path, c2={"free": {"/mnt/s/here": needed}})["space"].status == "ok"
    check = table(tmp_path, c2={"free": {"/mnt/s/here": needed - 1}})["space"]
    assert check.status == "error"
    assert check.what.startswith("t needs 12.6 MB, 12.6 MB are free")


def test_each_directory_has_its_own_space(tmp_path: Path) -> None:
    """Check that a full second file system does not refuse the first."""
    free = {"free": {"/mnt/s/here": 10**12, "/mnt/s/small": 1}}
    assert table(tmp_path, c1=free)["space"].status == "ok"


def test_data_that_may_be_there_already_refuse_nothing(tmp_path: Path) -> None:
    """Check that existing data does not make a campaign unresumable for lack of space."""
    full = {"free": {"/mnt/s/here": 5}}
    assert table(tmp_path, c1=full)["space"].status == "error"
    check = table(tmp_path, c1=full, resumed=True)["space"]
    assert (check.status, "exist already" in check.what) == ("warning", True)
    kept = {"target": TARGET + "\nkeep_data = true"}
    assert table(tmp_path, study=kept, c1=full)["space"].status == "warning"


def test_data_that_clients_share_are_there_once(tmp_path: Path) -> None:
    study = {"target": 'directory = "/mnt/s/here"', "kind": "training"}
    study["workload"] = 'profile = "unet3d-small"\naccelerators = 3'
    made = loaded(tmp_path, **study)
    needed = make_plan(made).data_bytes_by_target["t"]
    checks = table(tmp_path, study=study, c1={"free": {"/mnt/s/here": needed}})
    assert checks["space"].status == "ok"


def test_clocks_that_are_not_known_well(tmp_path: Path) -> None:
    first = {**CLOCKS[0], "c3": ClockOffset(0, 2_000_002)}
    check = table(tmp_path, clocks=[first, CLOCKS[1]])["clocks"]
    assert check.status == "warning"
    assert "1.00 ms at worst (c3)" in check.what
    assert "interface" in check.fix
    assert (
        table(tmp_path, clocks=[{**first, "c3": ClockOffset(0, 2_000_000)}] * 2)["clocks"].status
        == "ok"
    )


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"cores": 3}, "cores"),
        ({"memlock_bytes": 65536}, "memlock"),
        ({"load": 2.1}, "load"),
        ({"io_uring": "forbidden"}, "io_uring"),
        ({"nics": {"e0": None}}, "network speed"),
    ],
)
def test_clients_that_are_short_of_something(
    tmp_path: Path, change: dict[str, Any], name: str
) -> None:
    check = table(tmp_path, c2=change)[name]
    assert check.status == "warning"
    assert "c2" in check.what
    assert "c1" not in check.what


def test_clients_of_one_machine_share_its_cores(tmp_path: Path) -> None:
    study = {"cluster": 'hosts = ["localhost"]\nclients = 3'}
    assert "cores" not in table(tmp_path)
    check = table(tmp_path, study=study)["cores"]
    assert check.what == "there are 12 jobs, but fewer cores on this machine"


@pytest.mark.parametrize(
    ("change", "name", "told"),
    [
        ({"open_files": 100}, "open files", "hard limit of c2 (100)"),
        ({"engines": {"fio": "the program fio is not installed"}}, "fio", "installed on c2"),
        (
            {"direct": {"/mnt/s/here": False}},
            "O_DIRECT",
            "/mnt/s/here does not support O_DIRECT on c2",
        ),
        ({"missing_nics": ["e7"]}, "network", "c2 has no e7"),
        ({"devices": {"/dev/disk/by-id/x": {}}}, "devices", "/dev/disk/by-id/x on c2"),
    ],
)
def test_clients_on_which_it_could_not_run(
    tmp_path: Path, change: dict[str, Any], name: str, told: str
) -> None:
    check = table(tmp_path, c2=change)[name]
    assert check.status == "error"
    assert told in check.what
    assert check.fix


LUN = "/dev/disk/by-id/scsi-lun"
NAA = "naa.600a098038314c6c6d5d4f2f55344c36"
MPATH = f"mpath-3{NAA.removeprefix('naa.')}"


def one_name(
    tmp_path: Path, first: dict[str, Any], other: dict[str, Any], read_percent: int = 0
) -> Check:
    """Return the message about c1 and c3 with these device facts; c2 has its own."""
    study = {"target": f'path = "{LUN}"\nsize = "1MiB"'}
    study |= {"workload": f"read_percent = {read_percent}", "cluster": 'hosts = ["c[1-3]"]'}
    size = {"size": 1 << 30}
    alone = size | {"wwid": "naa.5000000000000001", "serial": "alone"}
    facts = {"c1": size | first, "c2": alone, "c3": size | other}
    told = {n: {"devices": {LUN: f}, "boot": f"boot of {n}"} for n, f in facts.items()}
    return table(tmp_path, study=study, **told)["devices"]


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ({"wwid": NAA}, {"wwid": NAA}),
        ({"wwid": NAA, "serial": "A"}, {"uuid": MPATH}),
        ({"uuid": MPATH}, {"uuid": MPATH, "partition": "1"}),
        ({"wwid": "uuid.12ab", "partition": "1"}, {"wwid": "uuid.12ab", "partition": "1"}),
    ],
)
def test_a_device_that_two_clients_write_to_is_refused(
    tmp_path: Path, first: dict[str, Any], other: dict[str, Any]
) -> None:
    check = one_name(tmp_path, first, other)
    assert check.status == "error"
    assert f"{LUN} on c1 and {LUN} on c3 are the same device" in check.what
    assert "c2" not in check.what
    assert "cluster.host" in check.fix
    assert one_name(tmp_path, first, other, read_percent=100).status == "ok"


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ({"wwid": NAA}, {"wwid": NAA.replace("6", "7")}),
        ({"wwid": NAA, "partition": "1"}, {"wwid": NAA, "partition": "2"}),
        ({"wwid": NAA, "serial": "array"}, {"wwid": "naa.6", "serial": "array"}),
        ({"backing_file": "/var/tmp/disk"}, {"backing_file": "/var/tmp/disk"}),
        ({"diskseq": "9"}, {"diskseq": "9"}),
        ({}, {}),
    ],
)
def test_devices_of_two_clients_are_their_own(
    tmp_path: Path, first: dict[str, Any], other: dict[str, Any]
) -> None:
    assert one_name(tmp_path, first, other).status == "ok"


@pytest.mark.parametrize(
    "facts", [{"wwid": "nvme.1ae0-6e76-1"}, {"serial": "nvme_card", "nsid": "1"}, {"udev": "x"}]
)
def test_a_name_that_virtual_drives_repeat_is_a_warning(
    tmp_path: Path, facts: dict[str, Any]
) -> None:
    check = one_name(tmp_path, facts, facts)
    assert check.status == "warning"
    assert f"{LUN} on c1 and {LUN} on c3 have the same name" in check.what


def test_clients_of_this_machine_do_not_write_to_one_device(tmp_path: Path) -> None:
    study = {"cluster": LOCAL, "target": f'path = "{LUN}"\nsize = "1MiB"'}
    make_plan(loaded(tmp_path, **study, workload="read_percent = 100"))
    with pytest.raises(StudyError) as caught:
        make_plan(loaded(tmp_path, **study, workload="read_percent = 0"))
    (problem,) = caught.value.problems
    assert problem["where"].endswith("[[target]] #1 path")
    assert "3 clients of this machine would write" in problem["what"]


def test_reads_that_fit_into_the_memory_of_a_client(tmp_path: Path) -> None:
    study = {"target": TARGET + "\ndirect = false"}
    check = table(tmp_path, study=study, c1={"memory_bytes": 1}, c3={"memory_bytes": 1})["data set"]
    assert check.status == "warning"
    assert check.what.endswith("fits into the page cache of c2")
    memory = {name: {"mounts": mounted(kind="tmpfs")} for name in NAMES}
    assert "data set" not in table(tmp_path, study=study, **memory)
    assert "data set" not in table(tmp_path)


def test_power_meters_are_tried_here_too(tmp_path: Path) -> None:
    meter = 'meters = [{ kind = "hwmon", chip = "nowhere" }]'
    checks = table(tmp_path, study={"target": f"{TARGET}\n{meter}"})
    assert [check.status for name, check in checks.items() if "meter hwmon" in name] == ["error"]


def asked(
    tmp_path: Path, gone: set[str], monkeypatch: pytest.MonkeyPatch, **more: Any
) -> tuple[dict[str, Check], dict[str, Any], FakeClients]:
    monkeypatch.setattr(clients_module, "ANSWER_NS", 0)
    made = loaded(tmp_path)
    assert made.study.cluster is not None
    clients = made_clients(made.study.cluster, NAMES, gone, fact=FACT, **more)
    checks, facts = check_clients(made.study, make_plan(made), clients, tmp_path)
    return {check.name: check for check in checks}, facts, clients


def test_all_are_asked_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks, facts, clients = asked(tmp_path, set(), monkeypatch)
    assert (checks["cluster"].status, checks["cluster"].what) == ("ok", "3 clients answer")
    assert {check.status for check in checks.values()} == {"ok"}
    assert facts["c2"]["clock"]["offset_ns"] == 5 * 10**9
    ((_, where, question),) = clients.begun
    assert where == ["c1@c1", "c2@c2", "c3@c3"]
    assert (question["engines"], question["direct"]) == (["native"], ["/mnt/s/here"])


@pytest.mark.parametrize("mute", [False, True])
def test_one_that_does_not_answer_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mute: bool
) -> None:
    checks, facts, clients = asked(tmp_path, {"c2"}, monkeypatch, mute=mute)
    assert checks["cluster"].status == "error"
    assert checks["cluster"].what.startswith("2 of 3 clients answer; c2 does not answer: ")
    assert "ssh" in checks["cluster"].fix
    assert checks["shared"].what == "every client sees the files of all others"
    assert sorted(facts) == ["c1", "c3"]
    assert clients.begun[-1][1] == ["c1@c1", "c3@c3"]


def test_of_many_that_do_not_answer_all_are_named() -> None:
    silent = {f"c{number}": "no route" for number in range(1, 8)}
    told = clients_module.Answers(silent=silent).told
    assert told.startswith("c1 does not answer: no route; c2 does not answer: no route; ")
    assert told.endswith("c5 does not answer: no route; c6, c7 do not answer")


def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks, facts, _ = asked(tmp_path, set(NAMES), monkeypatch)
    assert list(checks) == ["cluster"]
    assert "c3 does not answer: " in checks["cluster"].what
    assert facts == {}


def test_those_that_answer_alone_only_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check clients that answer only alone, as with a firewall between them."""
    checks, facts, _ = asked(tmp_path, set(), monkeypatch, apart=True)
    assert checks["cluster"].status == "error"
    assert checks["cluster"].what.startswith(
        "each client answers separately, but not all together: "
    )
    assert checks["kernel"].what == "6.1"
    assert "shared" not in checks
    assert sorted(facts) == list(NAMES)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"target": TARGET + "\npower_state = 1"}, "former state"),
        ({"target": 's3 = "embedded:/x"', "kind": "object"}, "can be reached only from"),
        (
            {"cluster": LOCAL, "target": 'path = "x.dat"\nsize = "1MiB"'},
            "3 clients of this machine would use",
        ),
        ({"target": 'directory = "here"\nsize = "1MiB"'}, "is a relative path"),
        ({"target": 'directory = "/mnt/other"\nsize = "1MiB"'}, "is not below the mount point"),
        ({"target": 'directory = "/mnt/s/../../tmp"\nsize = "1MiB"'}, 'contains ".."'),
        ({"target": 'directory = "/mnt/shared"\nsize = "1MiB"'}, "is not below the mount point"),
    ],
)
def test_what_cannot_be_spread(tmp_path: Path, given: dict[str, str], what: str) -> None:
    problems = cluster_problems(loaded(tmp_path, **{"workload": "", **given}).study)
    assert [what in problem.what for problem in problems] == [True]
    assert problems[0].fix


@pytest.mark.parametrize(
    ("cluster", "target"),
    [
        ('hosts = ["localhost"]\nclients = 1', 'path = "x.dat"\nsize = "1MiB"'),
        ('hosts = ["c[1-3]"]', 'path = "/mnt/own.dat"\nsize = "1MiB"'),
        (LOCAL, 'path = "null:"\nsize = "1MiB"'),
        (LOCAL, 'directory = "here"\nsize = "1MiB"'),
    ],
)
def test_files_that_each_client_has_for_itself(tmp_path: Path, cluster: str, target: str) -> None:
    assert cluster_problems(loaded(tmp_path, cluster=cluster, target=target).study) == []


def test_how_many_clients_points_have(tmp_path: Path) -> None:
    more = CLUSTER + "\nclients = [1, 3]"
    made = loaded(tmp_path, cluster=more)
    assert counts_of(made.study) == [1, 3]
    plan = make_plan(made)
    assert sorted(point.clients or 0 for point in plan.points.values()) == [1, 3]
    assert counts_of(loaded(tmp_path).study) == [3]
