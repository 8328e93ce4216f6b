"""Identities of the clients' block devices.

They are part of the plan, so that the user can see which devices a campaign would overwrite.
"""

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

SHARED = "would be overwritten by both clients with different content"
SHARED_FIX = (
    'give each client its own device or partition: set path in [cluster.host.NAME.target."..."]'
)
# These facts identify a device on one machine until it restarts, but not across machines.
_OF_THIS_BOOT = ("backing_file", "diskseq")
# Prefix of a SCSI NAA name in multipath's device-mapper uuid; the kernel writes "naa." instead.
_NAA = "3"


def plan_with_devices(study: StudyBase, plan: Plan, base: Path) -> Plan:
    """Return a plan with the identities of the devices that clients would overwrite.

    The clients are asked for them. If a plan overwrites no devices of clients, it is returned
    unchanged.

    Raises:
        PreflightError: Not all clients answer.
        GuardError: Two clients would overwrite the same device. Other errors are those of
            ``Clients.of``.
    """
    if study.cluster is None or not any(plan.client_devices.values()):
        return plan
    # Import late: this loads Arrow, which would double the start time of ``storlab plan``.
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
            f"the clients could not be asked for their devices: {gathered.failure.message}",
            gathered.failure.fix or "run `storlab doctor STUDY`, which checks each client",
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
    """Return the default paths of the file and device targets that a plan uses, by target.

    Individual clients may use other paths.
    """
    used = {point.target for point in plan.points.values()}
    return {
        t.name: t.locations
        for t in study.target
        if t.name in used and t.directory is None and t.s3 is None and not t.is_null
    }


class SharedDevice(NamedTuple):
    """Pair of devices of two clients that have the same name and would both be overwritten."""

    first: str  # PATH on CLIENT
    second: str
    name: str
    sure: bool  # whether the name is globally unique; virtual drives may repeat others

    def __str__(self) -> str:
        return f"{self.first} and {self.second} are the same device ({self.name}), which"


def shared_devices(plan: Plan, told: Mapping[str, Mapping[str, Any]]) -> Iterator[SharedDevice]:
    """Yield devices that a plan would overwrite from two clients.

    Different partitions of one device count as different devices.

    Args:
        plan: Plan with the devices of each client.
        told: By client, the facts that its ``check`` task returned.
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
    """Return a name of a device that is the same on all machines that see the device.

    If it has no such name, return one made from ``boot``, the client's boot id, which is valid only
    until the client restarts; None if even that is impossible.
    """
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
    """Return whether a device name is globally unique, unlike one made from a serial number."""
    return not name.startswith(("serial ", "nvme."))
