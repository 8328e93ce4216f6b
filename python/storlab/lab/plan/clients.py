"""Rules for studies with a cluster: numbers of clients, and what several clients cannot run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from storlab.base.errors import PreflightError, Problem, StudyError
from storlab.cluster.places import ClusterError, client_counts, client_hosts, places
from storlab.cluster.task import ClientPlace
from storlab.contracts.engine import SharesRuns
from storlab.contracts.family import Workload
from storlab.contracts.registry import FAMILIES, get_engine
from storlab.contracts.services import dividing_family
from storlab.model.cluster import Cluster, is_whole_path
from storlab.model.point import Point
from storlab.model.study import StudyBase, Target
from storlab.stores.data_file import is_kernel_place


def counts_of(study: StudyBase) -> list[int | None]:
    """Return the numbers of clients with which each point of a study is run.

    Returns:
        The numbers of clients; ``[None]`` if the study has no cluster.

    Raises:
        StudyError: The list of hosts is invalid or has too few hosts.
    """
    if study.cluster is None:
        return [None]
    return [*client_counts(study.cluster, client_hosts(study.cluster, Path.cwd()))]


def cluster_problems(study: StudyBase) -> list[Problem]:
    """Return the reasons why a study cannot run on its clients; none if it has no cluster."""
    if study.cluster is None:
        return []
    problems = [
        Problem(("target", index, *problem.field), problem.what, problem.fix)
        for index, target in enumerate(study.target)
        for problem in _target_problems(target, study.cluster)
    ]
    problems += _client_problems(study.cluster)
    problems += _host_problems(study, study.cluster)
    for index, workload in enumerate(study.workload):
        family = FAMILIES[workload.kind]
        if family.fixed_work and dividing_family(workload.kind) is None:
            problems.append(
                Problem(
                    ("workload", index, "kind"),
                    f"{workload.kind} workloads have a fixed amount of work, which storlab cannot "
                    "divide among clients",
                    family.spread_fix,
                )
            )
    return problems


def target_on(target: Target, place: ClientPlace) -> Target:
    """Return a target with the paths that one client uses for it.

    The serial number is also that of the client's device, so that consent to overwrite one device
    does not apply to another one.
    """
    own = place.targets.get(target.name)
    if own is None or not own.locations:
        return target
    return target.model_copy(update={"path": own.path, "paths": own.paths, "serial": own.serial})


def client_places(study: StudyBase) -> list[ClientPlace]:
    """Return all clients on other machines that a study uses; empty without a remote cluster."""
    cluster = study.cluster
    if cluster is None or cluster.is_local:
        return []
    hosts = client_hosts(cluster, Path.cwd())
    return places(cluster, hosts, max(client_counts(cluster, hosts)))


def written_problems(study: StudyBase, written: Iterable[Target]) -> list[Problem]:
    """Return a problem for each device to which several clients of this machine would write.

    Args:
        study: Study to check.
        written: Device targets that the study writes to.
    """
    cluster = study.cluster
    if cluster is None or not cluster.is_local or cluster.most_asked == 1:
        return []
    return [
        Problem(
            ("target", study.target.index(target), "path" if target.path is not None else "paths"),
            f"{cluster.most_asked} clients of this machine would write to the same device",
            "use one client, or a directory, in which each client creates its own files",
        )
        for target in written
    ]


def point_problems(points: Iterable[Point]) -> list[Problem]:
    """Return why the work of these points cannot be divided among their clients."""
    problems: dict[tuple[tuple[str | int, ...], str], Problem] = {}
    for point in points:
        family = dividing_family(point.kind)
        if point.clients is None or family is None:
            continue
        for problem in _division_problems(point, point.clients, family):
            problems.setdefault((problem.field, problem.what), problem)
    return list(problems.values())


def _division_problems(point: Point, clients: int, family: Workload) -> Iterator[Problem]:
    if not isinstance(get_engine(point.engine), SharesRuns):
        yield Problem(
            ("workload", point.workload_index, "kind"),
            f"the {point.engine} engine cannot divide {point.kind} workloads among clients",
            'set engine = "native", or remove [cluster]',
        )
    try:
        pieces = family.pieces(point)
    except StudyError:  # the family's own check reports this error
        return
    if clients > pieces:
        yield Problem(
            ("cluster", "clients"),
            f"{clients} clients are more than the {pieces} {family.pieces_word} of "
            f"{point.workload}",
            f"use at most {pieces}",
        )


def _client_problems(cluster: Cluster) -> Iterator[Problem]:
    try:
        client_counts(cluster, client_hosts(cluster, Path.cwd()))
    except ClusterError as error:
        yield Problem(error.field, error.what, error.fix)
    except (StudyError, PreflightError):
        # Report nothing: counts_of raises this error, too, with the host file or the scheduler.
        return


def _host_problems(study: StudyBase, cluster: Cluster) -> Iterator[Problem]:
    """Yield problems of the tables ``[cluster.host.NAME.target."..."]``, which set paths."""
    targets = {target.name: target for target in study.target}
    for host, facts in cluster.host.items():
        for name, own in facts.target.items():
            field = ("cluster", "host", host, "target", name)
            target = targets.get(name)
            if target is None:
                fix = "use the name of a [[target]]"
                yield Problem(field, "is not a target of the study", fix)
                continue
            usual = [] if target.directory is not None or target.is_null else target.locations
            if not usual or len(own.locations) != len(usual) or None not in (own.path, own.paths):
                yield Problem(
                    field,
                    f"has {len(own.locations)} files or devices, but the target has {len(usual)}",
                    "set path or paths to as many as the target has; leave this table out for a "
                    "directory or an S3 target, which are the same for all clients",
                )
                continue
            in_dev = is_kernel_place(Path(usual[0]))
            for place in own.locations:
                if not is_whole_path(place):
                    what = f'"{place}" is not an absolute path'
                    yield Problem(field, what, 'write a path that begins with "/", without ".."')
                elif is_kernel_place(Path(place)) != in_dev:
                    what = f'of "{place}" and "{usual[0]}", one is a file and one a device'
                    yield Problem(field, what, "define a target for each")


def _target_problems(target: Target, cluster: Cluster) -> Iterator[Problem]:
    if target.power_state is not None:
        yield Problem(
            ("power_state",),
            "cannot be used with a cluster: storlab could not restore the drives of servers or "
            "clients to their former state after a crash",
            "remove power_state; set it on these machines before the campaign (nvme set-feature "
            "-f 2), and record it in the target's `server` table",
        )
    if target.is_embedded and not cluster.is_local:
        yield Problem(
            ("s3",),
            "storlab's own S3 server can be reached only from this machine",
            'name a store that the clients can reach, or set hosts = ["localhost"]',
        )
    files = [] if target.directory is not None or target.is_null else target.locations
    if (
        cluster.is_local
        and cluster.most_asked > 1
        and any(not is_kernel_place(Path(file)) for file in files)
    ):
        yield Problem(
            ("path" if target.path is not None else "paths",),
            f"{cluster.most_asked} clients of this machine would use the same file",
            "use a directory, in which each client creates its own files",
        )
    if target.directory is None or cluster.mount is None:
        return
    if not target.directory.startswith("/"):
        yield Problem(
            ("directory",),
            f'"{target.directory}" is a relative path, which clients cannot resolve',
            f'write an absolute path: "{cluster.mount}/..."',
        )
    elif not is_whole_path(target.directory):
        yield Problem(
            ("directory",),
            f'"{target.directory}" contains "..", so it could be on another file system',
            'write the path without ".."',
        )
    elif not PurePosixPath(target.directory).is_relative_to(cluster.mount):
        yield Problem(
            ("directory",),
            f'"{target.directory}" is not below the mount point of the cluster, {cluster.mount}',
            f'choose a directory below "{cluster.mount}", or correct [cluster] mount',
        )
