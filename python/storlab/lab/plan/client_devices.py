"""Identities of clients' block devices, collected before the user consents to overwriting them."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from storlab.base.errors import GuardError, PreflightError
from storlab.model.point import Plan
from storlab.model.study import StudyBase

SHARED = "would be written to by both, each with content of its own"
SHARED_FIX = (
    'give each client a device or a partition of its own: path in [cluster.host.NAME.target."..."]'
)
# These facts are valid on one machine until it restarts, and cannot match across machines.
_OF_THIS_BOOT = ("backing_file", "diskseq")
# type of a SCSI name as in multipath's device-mapper uuid; the kernel writes "naa." instead
_NAA = "3"


def plan_with_devices(study: StudyBase, plan: Plan, base: Path) -> Plan:
    """Add what each client reports about the devices that it would overwrite to a plan.

    Plans without such devices are returned unchanged, without asking clients.

    Raises:
        PreflightError: Not all clients answer.
        GuardError: Two clients would overwrite the same device. Also raises as ``Clients.of``.
    """
    if study.cluster is None or not any(plan.client_devices.values()):
        return plan
    # imported here, because it loads Arrow and doubles the start time of ``storlab plan``
    from storlab.lab.site.clients import Clients

    clients = Clients.of(study.cluster, base)
    everybody = clients.places(clients.most)
    directory = Path(tempfile.mkdtemp(prefix="storlab-devices-"))
    arguments: dict[str, Any] = {"shared": [], "campaign": "", "paths": device_paths(study, plan)}
    session = clients.begin("check", everybody, directory / "task", arguments)
    try:
        while (gathered := session.wait(1.0)) is None:
            pass
    finally:
        session.end()
        shutil.rmtree(directory, ignore_errors=True)
    if gathered.failure is not None:
        raise PreflightError(
            "[cluster]",
            f"the devices of the clients are not known: {gathered.failure.message}",
            gathered.failure.fix or "see `storlab doctor STUDY`",
        )
    told = {p.name: json.loads(gathered.outcomes[p.rank]) for p in everybody}
    for pair in shared_devices(plan, told):
        if pair.sure:
            raise GuardError("[cluster]", f"{pair} {SHARED}", SHARED_FIX)
    devices = {
        name: {path: told[name]["devices"].get(path, {}) for path in paths}
        for name, paths in plan.client_devices.items()
    }
    return plan.model_copy(update={"client_devices": devices})


def device_paths(study: StudyBase, plan: Plan) -> dict[str, list[str]]:
    """Return the paths of file and device targets in use, as most clients name them."""
    used = {point.target for point in plan.points.values()}
    return {
        t.name: t.locations
        for t in study.target
        if t.name in used and t.directory is None and t.s3 is None and not t.is_null
    }


class SharedDevice(NamedTuple):
    """Two clients whose devices to overwrite report the same name."""

    first: str  # PATH on CLIENT
    second: str
    name: str
    sure: bool  # whether the name is globally unique; virtual drives may repeat others

    def __str__(self) -> str:
        return f"{self.first} and {self.second} are one device ({self.name}), which"


def shared_devices(plan: Plan, told: Mapping[str, Mapping[str, Any]]) -> Iterator[SharedDevice]:
    """Yield devices to overwrite that two clients share.

    Partitions of one device count as separate devices.

    Args:
        plan: Plan with the devices of each client.
        told: Facts of a ``check`` task by client.
    """
    places = [
        (client, path, facts, name)
        for client, fact in told.items()
        for path in plan.client_devices.get(client, {})
        if (facts := fact["devices"].get(path)) and (name := _name_of(facts, fact["boot"]))
    ]
    for (client, path, own, name), (other, there, others, same) in combinations(places, 2):
        parts = {own.get("partition"), others.get("partition")}
        if client != other and name == same and (None in parts or len(parts) == 1):
            yield SharedDevice(f"{path} on {client}", f"{there} on {other}", name, _is_sure(name))


def _name_of(facts: Mapping[str, str | int], boot: str) -> str | None:
    """Return a device's name that is equal on all machines or, if need be, for this boot."""
    for fact in ("wwid", "uuid", "cid"):
        if name := str(facts.get(fact, "")).removeprefix("mpath-"):
            naa = name.removeprefix(_NAA)
            is_naa = fact == "uuid" and name != naa and set(naa) <= set("0123456789abcdef")
            return f"naa.{naa}" if is_naa else name
    if "serial" in facts:
        return "serial " + "/".join(str(facts[f]) for f in ("serial", "nsid") if f in facts)
    if "udev" in facts:
        return f"serial {facts['udev']}"
    counted = [f"{fact} {facts[fact]}" for fact in _OF_THIS_BOOT if fact in facts]
    return f"{counted[0]} of one machine, {boot}" if counted else None


def _is_sure(name: str) -> bool:
    """Return whether a name is globally unique; one based on a serial number is not."""
    return not name.startswith(("serial ", "nvme."))
