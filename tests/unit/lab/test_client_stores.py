"""Clients' reports about a store, by target and with client names."""

from __future__ import annotations

from typing import Any

from storlab.lab.preflight.client_stores import client_store_checks

FIRST, OTHER = "https://s1", "https://s2"


def told(problem: str = "", skew_s: float | None = 0.2, listed_ms: int = 5) -> dict[str, Any]:
    listed_ns = None if problem else listed_ms * 10**6
    return {"problem": problem, "fix": "do this", "skew_s": skew_s, "listed_ns": listed_ns}


def checks(**clients: dict[str, Any]) -> dict[str, tuple[str, str]]:
    facts = {name: {"stores": {"SSD": each}} for name, each in clients.items()}
    return {check.name: (check.status, check.what) for check in client_store_checks(facts)}


def test_all_reach_it() -> None:
    found = checks(c1={FIRST: told()}, c2={FIRST: told(listed_ms=12), OTHER: told()})
    assert found == {"SSD: clients": ("ok", "2 clients can list it, the slowest in 12 ms")}


def test_who_does_not_is_named_with_endpoint_and_reason() -> None:
    gone = told("no answer in time", skew_s=None)
    found = checks(c1={FIRST: told()}, c2={FIRST: gone}, c3={FIRST: gone})
    what = f"{FIRST} cannot be listed from c2, c3: no answer in time"
    assert found == {"SSD: clients": ("error", what)}


def test_clocks_by_which_requests_would_be_refused() -> None:
    found = checks(c1={FIRST: told(skew_s=60.0)}, c2={FIRST: told(skew_s=-61.0)})
    what = "clocks that are ahead of the store's (+) or behind it (-): c2 (+61 s)"
    assert found["SSD: clocks of clients"] == ("warning", what)
    found = checks(c1={FIRST: told(skew_s=901.0)})
    assert found["SSD: clocks of clients"][0] == "error"


def test_no_store_is_no_check() -> None:
    assert list(client_store_checks({"c1": {"stores": {}}})) == []
