"""Functions that tests call in the guest (``Guest.call``). Arguments and results are JSON.

Campaigns are run without the end of the command: an emulated processor takes seconds to import what
compares results.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from storlab._native import zones
from storlab.base.errors import StorlabError
from storlab.cli.campaign import reporter_of
from storlab.cli.main import main
from storlab.lab.plan.client_devices import plan_with_devices
from storlab.lab.plan.plan import make_plan
from storlab.lab.run.session import resume_study, run_study
from storlab.lab.study.file import load_study
from storlab.process.execution import StopRequest
from storlab.results.environment import drive_facts
from storlab.results.store import ResultStore
from storlab.stores.devices import Device, device_number

TRACING = Path("/sys/kernel/tracing")
REQUEST = re.compile(r"block_bio_queue: \S+ (\w)\w* (\d+) \+ (\d+) \[(?:storlab-job|iou-wrk)")


def shell(script: str) -> str:
    """Run a script by bash and return its output.

    Raises:
        RuntimeError: A command of the script failed.
    """
    with tempfile.TemporaryFile("w+") as output:
        command = ["bash", "-euo", "pipefail", "-c", script]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
        )
        output.seek(0)
        text = output.read().strip()
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {script}\n{text}")
    return text


def storlab(arguments: list[str], study: str = "") -> dict[str, Any]:
    """Run the command ``storlab``, with a study as its last argument if one is given.

    Returns:
        Exit code and output.
    """
    with (
        tempfile.TemporaryDirectory() as place,
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
    ):
        if study:
            file = Path(place) / "study.toml"
            file.write_text(study)
            arguments = [*arguments, str(file)]
        code = main(arguments)
    return {"code": int(code), "out": out.getvalue(), "err": err.getvalue()}


def device(path: str) -> dict[str, Any]:
    """Return what storlab reads about a block device, and other disks with its serial number."""
    it = Device(device_number(path) or 0)
    facts = it.facts()
    return {
        "identities": it.identities(),
        "facts": facts,
        "drive": drive_facts(it),
        "read_only": it.is_read_only,
        "others": it.others_with(str(facts.get("serial"))),
    }


def run(study: str, directory: str, consent: bool = False) -> dict[str, Any]:
    """Run a study into a result directory, or resume the campaign that is there.

    Args:
        study: Text of the study.
        directory: Result directory; missing for a new campaign.
        consent: Whether to give the hash of the plan.

    Returns:
        The records of its runs and the number of missing ones, or the error that ended it.
    """
    place = Path(directory)
    file = place.with_suffix(".toml")
    stop = StopRequest()
    try:
        if place.exists():
            store = ResultStore.open(place)
            plan = store.plan
            summary = resume_study(
                store,
                retry_failed=True,
                reporter=lambda: reporter_of(plan, True, True, None),
                stop=stop,
            )
        else:
            file.write_text(study)
            loaded = load_study(file)
            plan = plan_with_devices(loaded.study, make_plan(loaded), place.parent)
            store, summary = run_study(
                loaded,
                plan,
                place,
                plan_hash=plan.plan_hash if consent else None,
                reporter=lambda: reporter_of(plan, True, True, None),
                stop=stop,
            )
    except StorlabError as error:
        return {"error": type(error).__name__, "text": str(error)}
    records = [record.model_dump(mode="json") for record in store.records()]
    return {"runs": records, "missing": summary.missing}


def traced(study: str, directory: str, path: str) -> dict[str, Any]:
    """Run a study, and return its runs with the requests that workers sent to a zoned device.

    Args:
        study: Text of the study.
        directory: Result directory.
        path: Path of the device.

    Returns:
        The result of ``run``, the device's ``zones``, and ``requests``: R, W or N (a reset), start
        and length in bytes.
    """
    number = device_number(path) or 0
    event = TRACING / "events/block/block_bio_queue"
    shell(f"mountpoint -q {TRACING} || mount -t tracefs none {TRACING}")
    (TRACING / "buffer_size_kb").write_text("8192")
    (event / "filter").write_text(f"dev == {os.major(number) << 20 | os.minor(number)}")
    (event / "enable").write_text("1")
    done = run(study, directory)
    (event / "enable").write_text("0")
    requests = [
        (kind, int(sector) << 9, int(sectors) << 9)
        for kind, sector, sectors in REQUEST.findall((TRACING / "trace").read_text())
    ]
    return {**done, "requests": requests, "zones": zones(path)}


def zones_of(path: str) -> list[tuple[int, int, int, int]] | None:
    """Return start, length, capacity and written bytes of the zones of a device."""
    return zones(path)
