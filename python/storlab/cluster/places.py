"""The clients of a study: which hosts, in which order, and what is different on each."""

from __future__ import annotations

import os
from pathlib import Path

from storlab.base.errors import StudyError
from storlab.base.files import read_input
from storlab.cluster.hosts import expand, from_slurm, read_hostfile
from storlab.cluster.task import ClientPlace
from storlab.model.cluster import LOCALHOST, Cluster


class ClusterError(StudyError):
    """What ``[cluster]`` says of its clients cannot be. ``field`` is a path in the study."""

    def __init__(self, field: tuple[str, ...], what: str, fix: str) -> None:
        self.field = field
        is_key = len(field) == 2  # else a table: [cluster.host.c7]
        where = f"[{field[0]}] {field[1]}" if is_key else f"[{'.'.join(field)}]"
        super().__init__(where, what, fix)


def client_hosts(cluster: Cluster, base: Path) -> list[str]:
    """Names of all hosts, in the order in which they are used. ``base`` is where paths start.

    Raises ClusterError for a list that names none, StudyError for a line of a host file,
    PreflightError outside of a Slurm job.
    """
    if cluster.from_ is not None:
        return [line.name for line in from_slurm(os.environ)]
    if cluster.hosts is not None:
        try:
            hosts = expand(cluster.hosts)
        except StudyError as error:
            raise ClusterError(("cluster", "hosts"), error.what, error.fix) from error
        # Of a scheduler's hosts a job has some today and others tomorrow: there it is no mistake.
        unknown = sorted(set(cluster.host) - set(hosts))
        if unknown:
            field = ("cluster", "host", unknown[0])
            raise ClusterError(field, "is none of [cluster] hosts", "correct the name")
        return hosts
    path = base / (cluster.hostfile or "")
    try:
        text = read_input(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        what = f"{path} cannot be read: {_reason(error)}"
        raise ClusterError(("cluster", "hostfile"), what, "correct the path") from error
    return [line.name for line in read_hostfile(text, str(path))]


def client_counts(cluster: Cluster, hosts: list[str]) -> list[int]:
    """How many clients a study sweeps. Raises ClusterError for more than there are hosts."""
    wanted = cluster.clients
    counts = [len(hosts)] if wanted is None else wanted if isinstance(wanted, list) else [wanted]
    most = max(counts)
    if not cluster.is_local and most > len(hosts):
        raise ClusterError(
            ("cluster", "clients"),
            f"asks for {most} clients, and there are {len(hosts)} hosts",
            "name more hosts, or fewer clients",
        )
    return counts


def places(cluster: Cluster, hosts: list[str], count: int) -> list[ClientPlace]:
    """The first ``count`` clients. On one machine they have numbers for names."""
    if cluster.is_local:
        names = [f"client-{number}" for number in range(1, count + 1)]
        pairs = [(name, LOCALHOST) for name in names]
    else:
        pairs = [(host, host) for host in hosts[:count]]
    places = []
    for rank, (name, host) in enumerate(pairs, 1):
        own = cluster.host.get(host)
        nics = cluster.data_nics if own is None or own.data_nics is None else own.data_nics
        mount = cluster.mount if own is None or own.mount is None else own.mount
        places.append(
            ClientPlace(
                name=name,
                host=host,
                rank=rank,
                mount=mount,
                data_nics=list(nics),
                targets={} if own is None else own.target,
            )
        )
    return places


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return "it is no text" if isinstance(error, UnicodeDecodeError) else error.strerror or "?"
