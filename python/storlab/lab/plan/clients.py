"""Cluster rules of a plan: number of clients per point, and what cannot run on several clients."""

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
    """Return the numbers of clients that the points of a study are run with.

    Returns:
        One entry per number of clients; ``[None]`` if the study has no cluster.

    Raises:
        StudyError: The list of hosts is invalid or has too few hosts.
    """
    if study.cluster is None:
        return [None]
    return [*client_counts(study.cluster, client_hosts(study.cluster, Path.cwd()))]


def cluster_problems(study: StudyBase) -> list[Problem]:
    """Return why a study cannot run on its clients; empty if it has no cluster."""
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
                    f"{workload.kind} workloads are work that ends when it is done, and storlab "
                    "cannot divide it among clients",
                    family.spread_fix,
                )
            )
    return problems


def target_on(target: Target, place: ClientPlace) -> Target:
    """Return a target with the paths that one client uses for it.

    The serial number is replaced too: consent to overwrite one device does not cover another.
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
    """Return problems of devices that several clients of this machine would write to.

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
            f"is written to, but {cluster.most_asked} clients of this machine cannot each have it",
            "use one client, or a directory: each client makes files of its own in it",
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
            f"the {point.engine} engine does not divide {point.kind} workloads among clients",
            "let storlab's own engine do them, or leave [cluster] out",
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
        # raised by counts_of: errors of a host file or a scheduler have a place of their own
        return


def _host_problems(study: StudyBase, cluster: Cluster) -> Iterator[Problem]:
    """Yield the problems of ``[cluster.host.NAME.target."..."]`` tables."""
    targets = {target.name: target for target in study.target}
    for host, facts in cluster.host.items():
        for name, own in facts.target.items():
            field = ("cluster", "host", host, "target", name)
            target = targets.get(name)
            if target is None:
                yield Problem(field, "is not a target of the study", "name it as [[target]] does")
                continue
            usual = [] if target.directory is not None or target.is_null else target.locations
            if not usual or len(own.locations) != len(usual) or None not in (own.path, own.paths):
                yield Problem(
                    field,
                    f"files or devices: {len(own.locations)} here, and {len(usual)} of the target",
                    "give path or paths, as many as the target has of its own; a directory lies "
                    "below mount, and a store is the same for all",
                )
                continue
            in_dev = is_kernel_place(Path(usual[0]))
            for place in own.locations:
                if not is_whole_path(place):
                    what = f'"{place}" is not an absolute path'
                    yield Problem(field, what, 'write it from "/" on, without ".."')
                elif is_kernel_place(Path(place)) != in_dev:
                    what = f'"{place}" and "{usual[0]}" are not both files, or both devices'
                    yield Problem(field, what, "make a target of each")


def _target_problems(target: Target, cluster: Cluster) -> Iterator[Problem]:
    if target.power_state is not None:
        yield Problem(
            ("power_state",),
            "is of drives, and with a cluster these are in servers or clients, where storlab "
            "would have to watch that each gets its former state back, also after a crash",
            "remove power_state; set it there before the campaign (nvme set-feature -f 2), and "
            "say so in the target's `server` table",
        )
    if target.is_embedded and not cluster.is_local:
        yield Problem(
            ("s3",),
            "storlab's own server can only be reached from this machine",
            'name a store that the clients reach, or hosts = ["localhost"]',
        )
    files = [] if target.directory is not None or target.is_null else target.locations
    if (
        cluster.is_local
        and cluster.most_asked > 1
        and any(not is_kernel_place(Path(file)) for file in files)
    ):
        yield Problem(
            ("path" if target.path is not None else "paths",),
            f"is one file, but {cluster.most_asked} clients of this machine cannot each have it",
            "name a directory: each client makes files of its own in it",
        )
    if target.directory is None or cluster.mount is None:
        return
    if not target.directory.startswith("/"):
        yield Problem(
            ("directory",),
            "starts from where storlab is, which clients do not know",
            f'write the whole path: "{cluster.mount}/..."',
        )
    elif not is_whole_path(target.directory):
        yield Problem(
            ("directory",),
            'has ".." in it, and could lie on another file system than its mount point',
            'write the path without ".."',
        )
    elif not PurePosixPath(target.directory).is_relative_to(cluster.mount):
        yield Problem(
            ("directory",),
            f"is not below the mount point of the cluster, {cluster.mount}",
            f'choose a directory below "{cluster.mount}", or correct [cluster] mount',
        )
