"""Recognition of runs that several files have in different formats."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.vdbench_reports import Load, Run, flatfile, summary

from storlab.contracts.exchange import ImportedRun
from storlab.engines.vdbench.importer import VdbenchImport
from storlab.exchange.same_runs import same_runs

ONE = Run("rd1", [Load(1000)] * 3)
FLAT, PRINTED = (VdbenchImport().read(text(ONE), "x")[0] for text in (flatfile, summary))


def at(clock: str, run: ImportedRun, *, zone_assumed: bool = False) -> ImportedRun:
    return replace(run, started_at=f"2026-03-08T{clock}+00:00", zone_assumed=zone_assumed)


def test_only_the_flatfile_of_vdbench_has_no_time_zone() -> None:
    assert (FLAT.zone_assumed, PRINTED.zone_assumed) == (True, False)


@pytest.mark.parametrize("assumed", [(False, False), (True, True)])
def test_runs_a_quarter_of_an_hour_apart_are_different(assumed: tuple[bool, bool]) -> None:
    runs = [at("00:00:00", FLAT, zone_assumed=assumed[0])]
    runs += [at("00:15:00", PRINTED, zone_assumed=assumed[1])]
    assert same_runs(runs, ["a/x.csv", "a/x.json"]) == {}


def test_an_assumed_zone_may_differ_in_one_folder() -> None:
    runs = [at("18:00:00.014", FLAT, zone_assumed=True), at("17:00:00", PRINTED)]
    assert same_runs(runs, ["a/x.csv", "a/x.json"]) == {1: 0}
    assert same_runs(runs, ["a/x.csv", "b/x.json"]) == {}


def test_the_same_start_goes_before_another_zone() -> None:
    flat = [at(clock, FLAT, zone_assumed=True) for clock in ("17:00:00", "18:00:00")]
    runs = [*flat, at("18:00:01", PRINTED)]
    assert same_runs(runs, ["a/x.csv", "a/x.csv", "a/x.json"]) == {2: 1}


def test_one_run_is_in_another_format_only_once() -> None:
    flat = [at(clock, FLAT, zone_assumed=True) for clock in ("18:00:00", "18:15:00")]
    runs = [at("17:00:00", PRINTED), *flat]
    assert same_runs(runs, ["a/x.json", "a/x.csv", "a/x.csv"]) == {1: 0}
