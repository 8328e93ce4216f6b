"""The clients of a study, and their individual facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from storlab.base.errors import StudyError
from storlab.base.units import NS_PER_S
from storlab.cluster.places import client_counts, client_hosts, places
from storlab.model.cluster import Cluster

HOSTS = {"hosts": ["c[1-3]"]}


def cluster(**given: Any) -> Cluster:
    return Cluster.model_validate(given or HOSTS)


def test_hosts_are_those_of_the_study() -> None:
    assert client_hosts(cluster(), Path("/nowhere")) == ["c1", "c2", "c3"]


def test_a_host_file_is_found_from_the_study(tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text("c2 slots=4\nc1:8  # the other\n")
    assert client_hosts(cluster(hostfile="hosts.txt"), tmp_path) == ["c2", "c1"]
    with pytest.raises(StudyError, match=r"hosts\.txt cannot be read"):
        client_hosts(cluster(hostfile="hosts.txt"), tmp_path / "elsewhere")
    (tmp_path / "hosts.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(StudyError, match="cannot be read"):
        client_hosts(cluster(hostfile="hosts.txt"), tmp_path)


def test_hosts_of_a_slurm_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[08-10]")
    monkeypatch.delenv("SLURM_TASKS_PER_NODE", raising=False)
    assert client_hosts(cluster(**{"from": "slurm"}), Path()) == ["n08", "n09", "n10"]


@pytest.mark.parametrize(
    ("clients", "counts"), [(None, [3]), (2, [2]), ([1, 2, 3], [1, 2, 3]), ([3, 1], [3, 1])]
)
def test_how_many_clients(clients: Any, counts: list[int]) -> None:
    given = HOSTS if clients is None else {**HOSTS, "clients": clients}
    assert client_counts(cluster(**given), ["c1", "c2", "c3"]) == counts


def test_more_clients_than_hosts() -> None:
    with pytest.raises(StudyError, match="asks for 4 clients, but there are only 3 hosts"):
        client_counts(cluster(**HOSTS, clients=[1, 4]), ["c1", "c2", "c3"])
    assert client_counts(cluster(hosts=["localhost"], clients=[1, 40]), ["localhost"]) == [1, 40]


def test_places_are_the_first_hosts_in_order() -> None:
    found = places(cluster(), ["c1", "c2", "c3"], 2)
    assert [(p.name, p.host, p.rank) for p in found] == [("c1", "c1", 1), ("c2", "c2", 2)]


def test_clients_of_this_machine_have_numbers() -> None:
    found = places(cluster(hosts=["localhost"], clients=2), ["localhost"], 2)
    assert [(p.name, p.host, p.rank) for p in found] == [
        ("client-1", "localhost", 1),
        ("client-2", "localhost", 2),
    ]


def test_where_one_client_differs() -> None:
    given = cluster(
        hosts=["c[1-3]"],
        mount="/mnt/a",
        data_nics=["e0"],
        host={"c2": {"mount": "/mnt/b"}, "c3": {"data_nics": []}},
    )
    found = places(given, ["c1", "c2", "c3"], 3)
    assert [(p.mount, p.data_nics) for p in found] == [
        ("/mnt/a", ["e0"]),
        ("/mnt/b", ["e0"]),
        ("/mnt/a", []),
    ]


def test_facts_of_a_host_that_is_not_there_are_a_mistake() -> None:
    """Check that facts of an unknown host are refused, not silently ignored."""
    given = cluster(**HOSTS, mount="/mnt/a", host={"c03": {"mount": "/mnt/b"}})
    with pytest.raises(
        StudyError, match=r"\[cluster\.host\.c03\].*not listed in \[cluster\] hosts"
    ):
        client_hosts(given, Path())


@pytest.mark.parametrize(
    ("given", "field", "what"),
    [
        ({"mount": "mnt/a"}, ("mount",), '"mnt/a" is not an absolute path'),
        ({"mount": "/mnt/../a"}, ("mount",), "is not an absolute path"),
        ({"mount": "/m", "host": {"c1": {"mount": "m"}}}, ("host", "c1", "mount"), "absolute path"),
        ({"host": {"c1": {"mount": "/m"}}}, ("host", "c1", "mount"), "[cluster] has no mount"),
    ],
)
def test_mounts_are_whole_paths(given: Any, field: tuple[str, ...], what: str) -> None:
    with pytest.raises(ValidationError) as caught:
        cluster(**HOSTS, **given)
    (problem,) = caught.value.errors()[0]["ctx"]["error"].problems
    assert problem.field == field
    assert what in problem.what


def test_a_limit_below_what_clients_say_of_themselves_would_lose_them_all() -> None:
    with pytest.raises(ValidationError, match="lost_after"):
        cluster(**HOSTS, lost_after="1s")
    assert cluster(**HOSTS, lost_after="3s").lost_after == 3 * NS_PER_S


def test_a_machine_starts_so_many_clients_and_no_more() -> None:
    assert cluster(hosts=["localhost"], clients=[1, 256]).most_asked == 256
    with pytest.raises(ValidationError, match="clients"):
        cluster(hosts=["localhost"], clients=[1, 257])
    assert cluster(hosts=["c[001-300]"], clients=300).most_asked == 300
