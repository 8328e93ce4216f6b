"""One of a store's three endpoints is 50 ms slower, as shown by run, brief and compare."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from simulators.faulty_proxy import FaultyProxy, Harm
from storlab.analysis.compare import compare
from storlab.analysis.dataset import load_dataset
from storlab.cli import terminal
from storlab.cli.main import main
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore
from storlab.workloads.object.details import EndpointRequests, ObjectDetails
from storlab.workloads.object.findings import endpoint_table
from support.s3_servers import versitygw

DELAY_S = 0.05
STUDY = """\
[study]
name = "endpoints"
repeats = 2
ramp = 0
runtime = "3s"
interval = "500ms"

{targets}
[[workload]]
kind = "object"
name = "gets"
objects = 20
object_size = "20KiB"
concurrency = 16
"""
TARGET = """\
[[target]]
name = "{name}"
s3 = "{first}/bench"
s3_options = {{ endpoints = {more} }}

"""


@dataclass(frozen=True)
class Ran:
    """The runs by target, their endpoints, and where they are stored."""

    records: dict[str, RunRecord]
    endpoints: dict[str, list[str]]
    place: Path


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """Provide targets with one endpoint, three equal ones, and three with a slow one.

    All are names of one server, so only the delay differs.
    """
    place = tmp_path_factory.mktemp("endpoints")
    with ExitStack() as stack:
        server = stack.enter_context(versitygw(place / "server"))
        server.make_bucket()
        slow = stack.enter_context(
            FaultyProxy(server.endpoint, Harm("delay", seconds=DELAY_S, methods=("GET",)))
        )
        port = urlsplit(server.endpoint).port
        names = [f"http://{name}.localhost:{port}" for name in ("a", "b", "c")]
        endpoints = {"one": names[:1], "alike": names, "uneven": [*names[:2], slow.endpoint]}
        targets = "".join(
            TARGET.format(name=name, first=own[0], more=json.dumps(own[1:]))
            for name, own in endpoints.items()
        )
        (place / "study.toml").write_text(STUDY.format(targets=targets))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(place)
            server.set_environment(patch)
            assert main(["run", "study.toml", "--out", "out", "--quiet"]) == 0
        records = {record.target: record for record in ResultStore.open(place / "out").records()}
        yield Ran(records, endpoints, place)


def rows(record: RunRecord) -> dict[str, EndpointRequests]:
    return {row.endpoint: row for row in ObjectDetails.of(record).endpoints if row.requests}


@pytest.mark.parametrize("target", ["one", "alike", "uneven"])
def test_every_request_counts_at_its_endpoint(ran: Ran, target: str) -> None:
    record = ran.records[target]
    own = rows(record)
    assert list(own) == ran.endpoints[target]
    gets = record.totals["get"].operations
    # Requests that end with the window may count in one of the two only.
    assert abs(sum(row.requests for row in own.values()) - gets) <= 16
    for row in own.values():
        assert row.kind == "get"
        assert row.bytes == (20 << 10) * row.requests
        assert row.address == f"127.0.0.1:{urlsplit(row.endpoint).port}"


def test_the_slow_endpoint_is_named_although_the_median_of_all_hides_it(ran: Ran) -> None:
    record = ran.records["uneven"]
    slow = ran.endpoints["uneven"][2]
    latency = record.totals["get"].latency
    assert latency is not None
    assert latency.p50_ns < DELAY_S * 1e9
    assert rows(record)[slow].p50_ns >= DELAY_S * 1e9 * 0.99
    (flag,) = (flag for flag in record.flags if flag.kind == "uneven-endpoints")
    assert flag.message.startswith(f"GET at {slow}: ")


@pytest.mark.parametrize("target", ["one", "alike"])
def test_alike_endpoints_are_not_marked(ran: Ran, target: str) -> None:
    assert "uneven-endpoints" not in {flag.kind for flag in ran.records[target].flags}


def test_brief_and_compare_show_the_endpoints(
    ran: Ran, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal.out, "width", 200)
    assert main(["compare", str(ran.place / "out")]) == 0
    printed = capsys.readouterr().out
    page = (ran.place / "out" / "brief.html").read_text()
    for text in (printed, page):
        assert ran.endpoints["uneven"][2] in text
        assert "uneven" in text
    assert 'id="endpoints"' in page


def test_compare_gives_the_endpoints_as_json(ran: Ran, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(ran.place / "out"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["endpoints"]
    runs = [r for r in ResultStore.open(ran.place / "out").records() if r.target == "uneven"]
    of_target = {row["endpoint"]: row for row in found if row["target"] == "uneven"}
    assert {row["target"] for row in found} == {"alike", "uneven"}
    assert sorted(of_target) == sorted(ran.endpoints["uneven"])
    for endpoint, row in of_target.items():
        own = [rows(record)[endpoint] for record in runs]
        assert len(own) == 2
        assert row["requests"] == sum(each.requests for each in own)
        assert row["bytes"] == sum(each.bytes for each in own)
        assert (row["kind"], row["errors"], row["address"]) == ("get", 0, own[0].address)
        medians = [each.p50_ns for each in own]
        assert 0.98 * min(medians) <= row["p50_ns"] <= 1.02 * max(medians)
        assert row["point"] == runs[0].point_id
    slow = of_target[ran.endpoints["uneven"][2]]
    assert slow["p50_ns"] >= DELAY_S * 1e9 * 0.98
    assert main(["compare", str(ran.place / "out"), "--json", "-m", "requests_s"]) == 0
    assert "endpoints" not in json.loads(capsys.readouterr().out)


def test_one_endpoint_needs_no_table(ran: Ran) -> None:
    comparison = compare(load_dataset([ResultStore.open(ran.place / "out")]))
    table = endpoint_table(comparison)
    assert table is not None
    assert {row.target for row in table.rows} == {"alike", "uneven"}
    assert len(table.rows) == 6
    marked = [row for row in table.rows if any(number.marks for number in row.numbers)]
    assert [row.heads[-1][0] for row in marked] == [ran.endpoints["uneven"][2]]
