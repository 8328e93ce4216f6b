"""The study that ``storlab try`` makes of paths and addresses, and what it refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storlab.base.errors import ResultError, StorlabError, UsageError
from storlab.base.units import GIB, NS_PER_S
from storlab.lab.plan.plan import make_plan
from storlab.lab.study import short_study as module
from storlab.lab.study.short_study import REPEATS, place_of, short_study

FILE = Path("results/x/study.toml")


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    names = ["a", "b"]
    for name in names:
        (tmp_path / name).mkdir()
    return [str(tmp_path / name) for name in names]


def values_of(places: list[str], name: str) -> set[object]:
    return {p.params[name] for p in make_plan(short_study(places, 60, FILE)).points.values()}


def test_directories_are_read_and_written_within_the_time(two: list[str]) -> None:
    for seconds in (20, 60):
        loaded = short_study(two, seconds, FILE)
        study, plan = loaded.study, make_plan(loaded)
        assert [(t.name, t.directory) for t in study.target] == [(two[0], two[0]), (two[1], two[1])]
        assert study.baseline == two[1]
        assert study.study.repeats == REPEATS
        assert {t.size for t in study.target} <= {GIB >> n for n in range(5)}
        for estimated_ns in plan.estimated_ns_by_target.values():
            assert seconds * 0.9 <= estimated_ns / NS_PER_S <= seconds
        work = {
            (p.params["access"], p.params["block_size"], p.params["read_percent"])
            for p in plan.points.values()
        }
        assert work == {
            *(("random", 4096, share) for share in (100, 70, 0)),
            *(("sequential", 1 << 20, share) for share in (100, 0)),
        }
        random = [p for p in plan.points.values() if p.params["access"] == "random"]
        assert {p.params["queue_depth"] for p in random} == {1, 32}
        assert plan.destructive == []


def test_a_file_that_exists_is_only_read_and_so_is_what_stands_beside_it(
    two: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "data"
    file.write_bytes(b"x" * module.LEAST_FILE_BYTES)
    assert values_of([str(file)], "read_percent") == {100}
    assert values_of([str(file), two[0]], "read_percent") == {100}


def test_relative_paths_are_stored_absolute_and_named_as_given(
    two: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(two[0]).parent)
    (target,) = short_study(["a/"], 60, FILE).study.target
    assert (target.name, target.directory) == ("a/", two[0])


def test_names_may_hold_quotes_and_control_characters(tmp_path: Path) -> None:
    place = tmp_path / 'a "b"\n[[target]]\x1b'
    place.mkdir()
    (target,) = short_study([str(place)], 60, FILE).study.target
    assert target.directory == str(place)


@pytest.mark.parametrize(
    ("environment", "given", "address"),
    [
        ({"AWS_ENDPOINT_URL": "http://h:9/"}, "s3://bench", "http://h:9/bench"),
        (
            {"AWS_ENDPOINT_URL": "http://h:9", "AWS_ENDPOINT_URL_S3": "http://s3"},
            "s3://bench",
            "http://s3/bench",
        ),
        ({"AWS_REGION": "eu-west-1"}, "s3://bench", "https://s3.eu-west-1.amazonaws.com/bench"),
        ({}, "https://host/bench", "https://host/bench"),
        ({}, "embedded:objects", "embedded:objects"),
    ],
)
def test_buckets(
    environment: dict[str, str],
    given: str,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    place = place_of(given)
    assert (place.field, place.address, place.writes) == ("s3", address, True)
    assert values_of([given], "get_percent") == {100, 0}


def test_the_endpoint_of_the_profile_and_a_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text("[profile lab]\nendpoint_url = http://lab:9000\n")
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_PROFILE", "lab")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    (target,) = short_study(["s3://bench/team/one"], 60, FILE).study.target
    assert target.s3 == "http://lab:9000/bench"
    assert target.s3_options is not None
    assert target.s3_options.prefix == "team/one/"


def test_numbers_of_a_data_sheet_are_named_by_the_study(
    two: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sheet.csv").write_text("config,metric,value\na,throughput,1\n")
    study = short_study(two, 60, FILE, ["sheet.csv", "micron-6600-ion-vs-16-hdd-fio"]).study
    sheet = str(tmp_path / "sheet.csv")
    assert study.study.published == [sheet, "micron-6600-ion-vs-16-hdd-fio"]
    with pytest.raises(ResultError):
        short_study(two, 60, FILE, ["missing.csv"])


def test_what_cannot_be_measured_is_refused_with_a_fix(two: list[str], tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x")
    (tmp_path / "study.toml").write_text("[study]")
    (tmp_path / "link").symlink_to(two[0])
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "result.json").touch()
    refused = [
        [str(tmp_path / "missing")],
        [str(tmp_path / "small")],
        [str(tmp_path / "study.toml")],
        [str(tmp_path / "results")],
        ["/dev/null"],
        [two[0], two[0]],
        [two[0], str(tmp_path / "link")],
        [two[0], "https://host/bench"],
        ["https://host"],
        ["s3://"],
    ]
    for places in refused:
        with pytest.raises(UsageError) as caught:
            short_study(places, 60, FILE)
        assert caught.value.fix, places
    with pytest.raises(UsageError) as caught:
        short_study(["https://key:secret@host/bench"], 60, FILE)
    assert "secret" not in str(caught.value)
    with pytest.raises(UsageError) as caught:
        short_study(two, 1, FILE)
    least = int(caught.value.fix.split()[-1])
    assert short_study(two, least, FILE)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write and read everything")
def test_missing_permission_is_refused(two: list[str]) -> None:
    Path(two[0]).chmod(0o500)
    with pytest.raises(StorlabError) as caught:
        short_study(two, 60, FILE)
    assert caught.value.fix
