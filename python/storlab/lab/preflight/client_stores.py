"""Preflight checks of S3 stores, from this machine and from every client of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from storlab.base.errors import StorlabError
from storlab.contracts.check import Check
from storlab.lab.preflight.s3 import LOOKING, SKEW_ERROR_S, SKEW_WARNING_S, store_checks
from storlab.model.point import Plan
from storlab.model.s3 import grant
from storlab.model.study import StudyBase
from storlab.stores.s3.target import S3Hold

_NAMED = 5


def granted_stores(
    study: StudyBase, plan: Plan, base: Path, held: Mapping[str, S3Hold]
) -> tuple[list[Check], dict[str, Any]]:
    """Check the S3 stores from this machine, and collect what clients need to access them.

    Clients cannot access storlab's own server, or a bucket that does not exist yet.

    Args:
        study: Study to check.
        plan: Plan of the study.
        base: Directory that relative paths start from.
        held: Stores that the guard has already locked, by target; others are opened read-only.

    Returns:
        The checks, and by target the credentials and addresses for the clients.
    """
    used = {point.target for point in plan.points.values()}
    checks: list[Check] = []
    granted: dict[str, Any] = {}
    for target in study.target:
        if target.s3 is None or target.name not in used:
            continue
        hold = held.get(target.name)
        own = list(store_checks(target, plan, base, hold))
        checks += [c.model_copy(update={"name": f"{target.name}: {c.name}"}) for c in own]
        if target.is_embedded or any(check.status == "error" for check in own):
            continue
        if hold is not None:
            granted |= {target.name: grant(hold.access)} if hold.bucket_exists else {}
            continue
        try:
            with S3Hold(target, LOOKING, base, None, look_only=True) as looked:
                granted |= {target.name: grant(looked.access)} if looked.bucket_exists else {}
        except StorlabError as error:  # the store became unavailable meanwhile
            checks.append(
                Check(
                    name=f"{target.name}: store",
                    status="error",
                    what=f"{error.where}: {error.what}",
                    fix=error.fix,
                )
            )
    return checks, granted


def client_store_checks(facts: Mapping[str, dict[str, Any]]) -> Iterator[Check]:
    """Check that each client can list each S3 store at each endpoint, and that clocks agree."""
    listed: dict[str, list[dict[str, Any]]] = {}
    refused: dict[tuple[str, str, str, str], list[str]] = {}
    skews: dict[str, dict[str, float]] = {}
    for name, fact in facts.items():
        for target, endpoints in fact["stores"].items():
            for endpoint, told in endpoints.items():
                if told["problem"]:
                    key = (target, endpoint, told["problem"], told["fix"])
                    refused.setdefault(key, []).append(name)
                else:
                    listed.setdefault(target, []).append(told)
                if told["skew_s"] is not None:
                    skews.setdefault(target, {})[name] = told["skew_s"]
    for (target, endpoint, problem, fix), names in refused.items():
        what = f"{endpoint} cannot be listed from {_some(names)}: {problem}"
        yield Check(name=f"{target}: clients", status="error", what=what, fix=f"clients: {fix}")
    bad = {target for target, *_ in refused}
    for target, stores in listed.items():
        if target not in bad:
            slowest_ms = max(told["listed_ns"] for told in stores) / 1e6
            what = f"{len(facts)} clients can list it, the slowest in {slowest_ms:.0f} ms"
            yield Check(name=f"{target}: clients", status="ok", what=what)
    for target, by_client in skews.items():
        yield from _clocks(target, by_client)


def _clocks(target: str, skews: Mapping[str, float]) -> Iterator[Check]:
    off = {name: skew for name, skew in skews.items() if abs(skew) > SKEW_WARNING_S}
    if not off:
        return
    worst = max(map(abs, off.values()))
    text = ", ".join(f"{name} ({-skew:+.0f} s)" for name, skew in list(off.items())[:_NAMED])
    yield Check(
        name=f"{target}: clocks of clients",
        status="error" if worst > SKEW_ERROR_S else "warning",
        what=f"clocks that are ahead of the store's (+) or behind it (-): {text}",
        fix="set these clocks, for instance by NTP: stores refuse requests from 15 min on",
    )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
