"""Task ``check`` on a client: reports facts about the client and its shared directories."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from storlab.base.clock import monotonic_ns
from storlab.base.errors import GuardError, StorlabError
from storlab.cluster.client import ClientEnd
from storlab.cluster.client_facts import client_facts, mount_facts
from storlab.cluster.task import ClientPlace
from storlab.contracts.registry import get_engine
from storlab.lab.plan.targets import device_facts
from storlab.lab.watch.limits import limit_facts
from storlab.model.s3 import S3Store, access_of
from storlab.stores.directory_lease import holder_now
from storlab.stores.filesystems import free_bytes, supports_direct
from storlab.stores.reachability import UNREACHABLE
from storlab.stores.s3.control import S3Control
from storlab.stores.s3.errors import StoreUnreachableError

STORE_S = 2.0  # time limit per request in seconds, because rank 0 waits meanwhile
NONCE_DIGITS = 12  # number of hexadecimal digits in the nonce of an order


def check(end: ClientEnd) -> None:
    """Send facts about this client, and which clients' files it sees in shared directories."""
    arguments, place = end.order.arguments, end.place
    mount = arguments.get("mount")
    seen_here = {name: place.path_of(name, mount) for name in arguments["shared"]}
    shared = list(seen_here.values())
    facts = {**client_facts(place), "limits": limit_facts()}
    facts["stores"] = _stores(arguments.get("granted", {}))
    facts["devices"] = _devices(place, arguments.get("paths", {}))
    facts["engines"] = {name: engine_problem(name) for name in arguments.get("engines", [])}
    facts["mount"] = place.mount
    facts["mounts"] = {name: mount_facts(path, place.mount) for name, path in seen_here.items()}
    own: list[Path] = []
    problems: dict[str, str] = {}
    fixes: dict[str, str] = {}  # for problems that have a better fix than creating the directory
    unreachable: dict[str, str] = {}  # directories whose file system does not answer
    claimed: dict[str, str] = {}
    for name, directory in seen_here.items():
        nonce = directory / f".storlab-{end.order.nonce}-{place.name}"
        try:
            facts.setdefault("free", {})[name] = free_bytes(directory)
            _remove_nonces(directory, place.name)
            if (holder := holder_now(directory, arguments["campaign"])) is not None:
                claimed[str(directory)] = str(holder)
            if name in arguments.get("direct", []):
                facts.setdefault("direct", {})[name] = supports_direct(directory)
            nonce.touch()  # empty, so that a full file system is reported as lack of space
            own.append(nonce)
        except OSError as error:
            problems[str(directory)] = error.strerror or str(error)
            if error.errno in UNREACHABLE:
                unreachable[str(directory)] = problems[str(directory)]
        except GuardError as error:
            problems[error.where], fixes[error.where] = error.what, error.fix
    try:
        facts |= {"problems": problems, "fixes": fixes, "unreachable": unreachable}
        end.give_facts({**facts, "claimed": claimed})
        end.barrier()
        seen = [
            client.name
            for client in end.order.clients
            if all((d / f".storlab-{end.order.nonce}-{client.name}").exists() for d in shared)
        ]
        end.give_seen(seen)
        end.leave()
    finally:
        for nonce in own:
            nonce.unlink(missing_ok=True)


def _devices(place: ClientPlace, paths: dict[str, list[str]]) -> dict[str, dict[str, Any]]:
    """Return facts that identify block devices, by path; empty for a path without a device."""
    own = {name: place.targets[name].locations for name in paths if name in place.targets}
    return {
        path: device_facts(path)
        for paths_of_target in {**paths, **own}.values()
        for path in paths_of_target
    }


def _stores(granted: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return by target and endpoint whether this client can list an S3 store.

    Each client must try this, since network, certificates and clock differ between clients. All
    endpoints are tried in parallel; ``problem`` is empty on success.
    """
    asked = [
        (name, endpoint, access.store.model_copy(update={"endpoints": [endpoint]}), access.prefix)
        for name, grant in granted.items()
        for access in [access_of(grant)]
        for endpoint in access.store.endpoints
    ]
    answers: dict[str, Any] = {name: {} for name in granted}
    with ThreadPoolExecutor(max(1, len(asked))) as pool:
        told = pool.map(lambda question: _store(*question[2:]), asked)
        for (name, endpoint, *_), answer in zip(asked, told, strict=True):
            answers[name][endpoint] = answer
    return answers


def _store(store: S3Store, prefix: str) -> dict[str, Any]:
    began_ns = monotonic_ns()
    try:
        control = S3Control(store, STORE_S)
        control.list_keys(prefix, 1)
    except StorlabError as error:
        away = isinstance(error, StoreUnreachableError)
        known: dict[str, Any] = {"problem": error.what, "fix": error.fix, "unreachable": away}
        return {**known, "skew_s": None, "listed_ns": None}
    listed_ns = monotonic_ns() - began_ns
    known = {"problem": "", "fix": "", "unreachable": False}
    return {**known, "skew_s": control.clock_skew_s(), "listed_ns": listed_ns}


def engine_problem(name: str) -> str:
    """Return why an engine cannot be used on this client; empty if it can."""
    try:
        get_engine(name).describe()
    except StorlabError as error:
        return error.what
    return ""


def _remove_nonces(directory: Path, client: str) -> None:
    """Remove files that this client created in earlier checks and left because it was killed."""
    for left in directory.glob(f".storlab-*-{client}"):
        digits = left.name.removeprefix(".storlab-").removesuffix(f"-{client}")
        if len(digits) == NONCE_DIGITS and set(digits) <= set("0123456789abcdef"):
            left.unlink(missing_ok=True)
