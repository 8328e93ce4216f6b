from __future__ import annotations

import pytest

from storlab.base.errors import PreflightError, StudyError
from storlab.cluster.hosts import HostLine, expand, from_slurm, read_hostfile


@pytest.mark.parametrize(
    ("patterns", "hosts"),
    [
        (["c[01-03]", "x[1-3,7]"], ["c01", "c02", "c03", "x1", "x2", "x3", "x7"]),
        (["c[8-11]"], ["c8", "c9", "c10", "c11"]),
        (["a,b[1-2],c"], ["a", "b1", "b2", "c"]),
        (["r[1-2]n[01-02].lan"], ["r1n01.lan", "r1n02.lan", "r2n01.lan", "r2n02.lan"]),
        (["10.0.0.[1-2]"], ["10.0.0.1", "10.0.0.2"]),
        (["localhost"], ["localhost"]),
        (["c[007]"], ["c007"]),
    ],
)
def test_lists_are_written_out(patterns: list[str], hosts: list[str]) -> None:
    assert expand(patterns) == hosts


@pytest.mark.parametrize(
    ("patterns", "what", "fix"),
    [
        ([], "lists no hosts", "c[01-12]"),
        (["c[12-01]"], "range 12-01", "write 01-12"),
        (["c[1-012]"], "different numbers of digits", "write 001-012"),
        (["c[]"], "neither a number nor a range", "c[1-3,7]"),
        (["c[1-3"], "unmatched bracket", "c[01-12]"),
        (["c1]"], "unmatched bracket", "c[01-12]"),
        (["c[a-b]"], "neither a number nor a range", "c[1-3,7]"),
        (["c1,,c2"], "empty host name", "comma"),
        (["c[1-3]", "c2"], "c2 is listed more than once", "once"),
        (["c[0-99999]"], "more than 10,000 hosts", "ranges"),
        (["c[1-9999999999999999999999]"], "more than 10,000 hosts", "ranges"),
        (["r[1-200]n[1-200]"], "more than 10,000 hosts", "ranges"),
        (["-oProxyCommand=x"], "is not a host name", "start the host name"),
        (["root@c1"], "is not a host name", "~/.ssh/config"),
        (["fe80::1"], "is not a host name", "IPv6"),
        (["c 1"], "is not a host name", "letters"),
    ],
)
def test_what_is_wrong_with_a_list_is_named_with_its_fix(
    patterns: list[str], what: str, fix: str
) -> None:
    with pytest.raises(StudyError) as raised:
        expand(patterns, "cluster.hosts")
    assert raised.value.where == "cluster.hosts"
    assert what in raised.value.what
    assert fix in raised.value.fix


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("c1\n\n# all others\nc2 # the slow one\n", [("c1", None, None), ("c2", None, None)]),
        ("c1:4\nc2:8\n", [("c1", 4, None), ("c2", 8, None)]),
        ("c1:4 binding=user:0,1\n", [("c1", 4, None)]),
        ("c1 slots=4\nc2 slots = 2 max_slots=8\n", [("c1", 4, None), ("c2", 2, 8)]),
        ("c1 max-slots=3\nc2 cpu=2\n", [("c1", None, 3), ("c2", 2, None)]),
        ("c[01-02]:4\nd1,d2\n", [("c01", 4, None), ("c02", 4, None), ("d1", None, None),
                                 ("d2", None, None)]),
        ("c1\nc1\nc2\nc1\n", [("c1", 3, None), ("c2", None, None)]),
        ("c1 4 all.q@c1 UNDEFINED\nc2 2\n", [("c1", 4, None), ("c2", 2, None)]),
        ("c1\r\nc2\r\n", [("c1", None, None), ("c2", None, None)]),
    ],
    ids=["plain", "mpich", "binding", "openmpi", "max", "slurm", "pbs", "sge", "crlf"],
)  # fmt: skip
def test_host_files_of_every_form_are_read(
    text: str, hosts: list[tuple[str, int | None, int | None]]
) -> None:
    found = [(host.name, host.slots, host.max_slots) for host in read_hostfile(text)]
    assert found == hosts


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("", "hosts.txt", "lists no hosts"),
        ("# nothing\n", "hosts.txt", "lists no hosts"),
        ("c1\nc2:\n", "hosts.txt, line 2", "not a number of slots"),
        ("c1:0\n", "hosts.txt, line 1", "outside 1 to"),
        ("c1 slots=1000000\n", "hosts.txt, line 1", "1,000,000 slots"),
        ("c1:2 slots=4\n", "hosts.txt, line 1", "twice"),
        ("c1 slots=4 max_slots=2\n", "hosts.txt, line 1", "more slots than max_slots"),
        ("c1 port=2222\n", "hosts.txt, line 1", "port"),
        ("c1 slots\n", "hosts.txt, line 1", "cannot parse"),
        ("c1 and c2\n", "hosts.txt, line 1", "cannot parse"),
        ("c1:2\nc2\nc1:2\n", "hosts.txt, line 3", "is already in line 1"),
        ("c1\nc1 slots=2\n", "hosts.txt, line 2", "is already in line 1"),
        ("c[3-1]\n", "hosts.txt, line 1", "is empty"),
        ("rank 0=c1 slot=0\n", "hosts.txt, line 1", "cannot parse"),
    ],
)
def test_what_is_wrong_with_a_host_file_is_named_with_its_line(
    text: str, where: str, what: str
) -> None:
    with pytest.raises(StudyError) as raised:
        read_hostfile(text, "hosts.txt")
    assert raised.value.where == where
    assert what in raised.value.what
    assert raised.value.fix


def test_the_hosts_of_a_slurm_job_come_with_their_tasks() -> None:
    environ = {"SLURM_JOB_NODELIST": "n[1-3],m7", "SLURM_TASKS_PER_NODE": "2(x3),1"}
    assert from_slurm(environ) == [
        HostLine("n1", 2), HostLine("n2", 2), HostLine("n3", 2), HostLine("m7", 1)
    ]  # fmt: skip
    assert from_slurm({"SLURM_NODELIST": "n1"}) == [HostLine("n1")]


def test_tasks_of_a_step_are_not_those_of_its_job() -> None:
    environ = {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "1", "SLURM_STEP_ID": "0"}
    assert from_slurm(environ) == [HostLine("n1"), HostLine("n2")]


@pytest.mark.parametrize(
    ("environ", "where"),
    [
        ({}, "SLURM_JOB_NODELIST"),
        ({"SLURM_JOB_NODELIST": "n[1"}, "SLURM_JOB_NODELIST"),
        ({"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "2"}, "SLURM_TASKS_PER_NODE"),
        ({"SLURM_JOB_NODELIST": "n1", "SLURM_TASKS_PER_NODE": "x"}, "SLURM_TASKS_PER_NODE"),
        (
            {"SLURM_JOB_NODELIST": "n1", "SLURM_TASKS_PER_NODE": "1(x99999999)"},
            "SLURM_TASKS_PER_NODE",
        ),
    ],
)
def test_outside_of_a_slurm_job_it_says_so(environ: dict[str, str], where: str) -> None:
    with pytest.raises(PreflightError) as raised:
        from_slurm(environ)
    assert raised.value.where == where
    assert "Slurm job" in raised.value.fix
