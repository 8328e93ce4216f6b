"""Block devices of clients: asked for before anybody consents to overwriting them."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from storlab.base.errors import PreflightError
from storlab.lab.site.clients import Clients
from storlab.model.point import Plan
from storlab.model.study import StudyBase


def plan_with_devices(study: StudyBase, plan: Plan, base: Path) -> Plan:
    """The plan with what each client says of the devices that would be overwritten there.

    Every other plan is returned as it is, and nobody is asked. Raises PreflightError where not all
    clients answer, and as ``Clients.of``.
    """
    if study.cluster is None or not any(plan.client_devices.values()):
        return plan
    clients = Clients.of(study.cluster, base)
    everybody = clients.places(clients.most)
    directory = Path(tempfile.mkdtemp(prefix="storlab-devices-"))
    arguments: dict[str, Any] = {"shared": [], "campaign": "", "paths": device_paths(study, plan)}
    session = clients.begin_on("check", everybody, directory / "task", arguments)
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
    told = {p.name: json.loads(gathered.outcomes[p.rank])["devices"] for p in everybody}
    devices = {
        name: {path: told[name].get(path, {}) for path in paths}
        for name, paths in plan.client_devices.items()
    }
    return plan.model_copy(update={"client_devices": devices})


def device_paths(study: StudyBase, plan: Plan) -> dict[str, list[str]]:
    """By target the paths of those that are used, as the study has them for most clients."""
    used = {point.target for point in plan.points.values()}
    return {
        t.name: t.locations
        for t in study.target
        if t.name in used and t.directory is None and t.s3 is None and not t.is_null
    }
