"""Determine the clients of a study: their hosts, ranks and individual settings."""

from __future__ import annotations

import os
from pathlib import Path

from storlab.base.errors import StudyError
from storlab.base.files import read_input
from storlab.cluster.hosts import expand, from_slurm, read_hostfile
from storlab.cluster.task import ClientPlace
from storlab.model.cluster import LOCALHOST, Cluster


class ClusterError(StudyError):
    """Error in the ``[cluster]`` table of a study; ``field`` is the path of the invalid field."""

    def __init__(self, field: tuple[str, ...], what: str, fix: str) -> None:
        self.field = field
        is_key = len(field) == 2  # longer paths name a table: [cluster.host.c7]
        where = f"[{field[0]}] {field[1]}" if is_key else f"[{'.'.join(field)}]"
        super().__init__(where, what, fix)


def client_hosts(cluster: Cluster, base: Path) -> list[str]:
    """Return the names of the clients' hosts, in the order of use.

    Args:
        cluster: The ``[cluster]`` table of the study.
        base: Directory to which a relative path of the host file refers.

    Raises:
        ClusterError: The list of hosts is invalid, or the host file cannot be read.
        StudyError: A line of the host file is invalid.
        PreflightError: The hosts come from Slurm, but the process does not run in a Slurm job.
    """
    if cluster.from_ is not None:
        return [line.name for line in from_slurm(os.environ)]
    if cluster.hosts is not None:
        try:
            hosts = expand(cluster.hosts)
        except StudyError as error:
            raise ClusterError(("cluster", "hosts"), error.what, error.fix) from error
        # Not checked for a scheduler's hosts, because each job gets different ones.
        unknown = sorted(set(cluster.host) - set(hosts))
        if unknown:
            field = ("cluster", "host", unknown[0])
            raise ClusterError(
                field, "is not listed in [cluster] hosts", "correct the name, or add it to hosts"
            )
        return hosts
    path = base / (cluster.hostfile or "")
    try:
        text = read_input(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        what = f"{path} cannot be read: {_reason(error)}"
        raise ClusterError(("cluster", "hostfile"), what, "correct the path") from error
    return [line.name for line in read_hostfile(text, str(path))]


def client_counts(cluster: Cluster, hosts: list[str]) -> list[int]:
    """Return the numbers of clients that the study sweeps; all hosts if it sets none.

    Raises:
        ClusterError: A number exceeds the number of hosts.
    """
    wanted = cluster.clients
    counts = [len(hosts)] if wanted is None else wanted if isinstance(wanted, list) else [wanted]
    most = max(counts)
    if not cluster.is_local and most > len(hosts):
        raise ClusterError(
            ("cluster", "clients"),
            f"asks for {most} clients, but there are only {len(hosts)} hosts",
            "list more hosts, or lower the number of clients",
        )
    return counts


def places(cluster: Cluster, hosts: list[str], count: int) -> list[ClientPlace]:
    """Return the first ``count`` clients with their settings.

    A client has the name of its host; clients on this machine are named ``client-1`` and so on.
    """
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
    return "it is not text" if isinstance(error, UnicodeDecodeError) else error.strerror or "?"
