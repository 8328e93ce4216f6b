"""Content of a brief about cluster clients: all together, and each one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from integration.brief.kinds import draw
from integration.conftest import Made
from storlab.analysis.clients import balance_of, clients_of, sections_by_clients
from storlab.analysis.compare import Cell, Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.points import CLIENTS, Section
from storlab.brief import write_brief
from storlab.brief.audit_input import audit_directory
from storlab.brief.cluster import cluster_facts, cluster_section, flag_notes, kept_text, lead
from storlab.brief.cluster_maxima import clients_words, fast_facts, maxima_tables, scaling_tables
from storlab.brief.model import DataTable
from storlab.brief.tables import scales_of
from storlab.figures.common import axis_title
from storlab.model.target import Target
from support.cluster_campaign import CAPACITY, PERFORMANCE, SLOW


@pytest.fixture(scope="module")
def together(cluster_made: Made) -> Comparison:
    return compare(load_dataset([cluster_made.store]))


@pytest.fixture(scope="module")
def swept(swept_clients_made: Made) -> Comparison:
    return compare(load_dataset([swept_clients_made.store]))


def far(comparison: Comparison, mix: int, target: str) -> Cell:
    """Return the point of small random I/O at the greatest depth."""
    points = [
        row.point
        for row in comparison.rows.values()
        if row.point.params["read_percent"] == mix and row.point.params["block_size"] == 4096
    ]
    point = max(points, key=lambda p: (p.clients, p.params["queue_depth"]))
    return comparison.row(point).cells[target]


def texts(table: DataTable, row: int) -> list[str]:
    return [number.text for number in table.rows[row].numbers]


def test_outstanding_is_that_of_all_clients(together: Comparison) -> None:
    cell = far(together, 100, CAPACITY)
    assert cell.configured == 32 * 16 * 6
    assert cell.values["concurrency_effective.all"].estimate == pytest.approx(3072, rel=0.1)
    assert not [flag for flag in cell.flags if flag.kind == "concurrency-mismatch"]


def test_shares_are_over_the_mean_of_all_clients(together: Comparison) -> None:
    cell = far(together, 100, CAPACITY)
    balance = balance_of(cell)
    assert balance is not None
    assert balance.clients == 6
    assert balance.least[0] == SLOW
    assert sum(balance.shares.values()) / 6 == pytest.approx(1)
    run = cell.runs[0].record.cluster
    assert run is not None
    mean = sum(client.bytes_s for client in run.clients) / 6
    slow = next(each for each in clients_of(cell) if each.client.name == SLOW)
    assert slow.share == pytest.approx(slow.client.bytes_s / mean)
    assert slow.network == pytest.approx(1.034, abs=0.002)
    assert balance_of(far(together, 100, PERFORMANCE)).least[1] > 0.9  # type: ignore[union-attr]


def test_the_whole_is_the_sum_of_its_clients(together: Comparison) -> None:
    for run in together.dataset.all_runs():
        assert run.record.cluster is not None
        clients = sum(client.operations for client in run.record.cluster.clients)
        whole = sum(totals.operations for totals in run.record.totals.values())
        assert whole == pytest.approx(clients, rel=0.01)


def test_the_lead_in_golden(together: Comparison) -> None:
    (text,) = lead(together)
    shape = re.sub(r"\d+(\.\d+)?", "#", text.replace("\u00a0", " "))
    assert shape == (
        "# clients made the load, started together. Each client ran the full workload, so # to #,# "
        "operations were outstanding in total. First I/Os came at most # µs after the common start "
        "(c#). The clients were measured together for at least # % of the window; their clocks "
        "differ by at most # µs (c#). The slowest client reached # % of the mean of all (c#, on "
        "Capacity class at small random I/O: #/# read/write, # KiB, queue depth #). For each byte "
        "moved, # bytes went over the data interfaces of a client."
    )
    assert text.startswith("6\u00a0clients made the load")
    assert "so 192 to 3,072 operations" in text
    assert f"({SLOW}, on Capacity class" in text


def test_flags_stand_with_names_of_clients(together: Comparison) -> None:
    (note,) = flag_notes(together)
    assert note.startswith("Flag “slow client”: A client did less than 0.8 of its fair share. At ")
    assert re.search(rf"of the mean rate: {SLOW} \(0\.\d\d\); 2 of 2\u00a0runs", note)
    assert note.endswith("and 5 more.")


def test_fast_facts_hold_what_is_declared_and_the_most(together: Comparison) -> None:
    (table,) = fast_facts(together, scales_of(together))
    capacity, performance = (texts(table, row) for row in (0, 1))
    assert capacity[:3] == ["1,475", "973", "48"]
    assert performance[:3] == ["461", "304", "60"]
    best = far(together, 100, CAPACITY).values["iops.all"].estimate
    assert capacity[5] == f"{best:,.0f}"
    assert float(capacity[6].replace(",", "")) == pytest.approx(best / 1475, rel=0.01)
    assert 90 < float(capacity[3]) < 120
    ids = {point for row in table.rows for _, point in row.links}
    assert ids <= {cell.point_id for row in together.rows.values() for cell in row.cells.values()}


def test_maxima_say_which_depth_gave_them(together: Comparison) -> None:
    most, worth = maxima_tables(together, scales_of(together))
    assert most.caption == "Maxima over queue depth: the largest mean, and where it was found"
    assert len(most.rows) == 3 * 2
    heads = {row.heads[0][0] for row in most.rows}
    assert "small random I/O: reads only, 4\u00a0KiB" in heads
    row = next(row for row in most.rows if "reads only, 4" in row.heads[0][0])
    cell = far(together, 100, CAPACITY)
    assert [number.text for number in row.numbers[1:]] == [
        f"{cell.values['iops.all'].estimate:,.0f}", "queue depth 16", "3,072",
    ]  # fmt: skip
    assert all(number.point_id for row in most.rows for number in row.numbers)
    heads = [name for name, _ in worth.columns]
    assert heads == ["per raw TB"] * 2 + ["per usable TB"] * 2 + [
        "USD per GB/s", "USD per 1,000 IOPS",
    ]  # fmt: skip
    value = cell.values["throughput_mb_s.all"].estimate / 1e3
    numbers = next(row for row in worth.rows if "reads only, 4" in row.heads[0][0]).numbers
    shown = [float(number.text.replace(",", "")) for number in numbers]
    assert shown[0] == pytest.approx(value / 1475, rel=0.01)
    assert shown[2] == pytest.approx(value / 973, rel=0.01)
    assert shown[4] == pytest.approx(470_000 / value, rel=0.01)


def test_clients_are_an_axis_beside_the_depth(swept: Comparison) -> None:
    sections = sections_by_clients(swept)
    assert [section.axes.x for section in sections] == [CLIENTS] * 3
    assert {p.params["queue_depth"] for s in sections for p in s.points} == {16}
    assert [p.clients for p in sections[0].points] == [1, 3, 6]
    assert axis_title(sections[0]) == "clients, 32\u00a0jobs each"
    depth = next(s for s in swept.sections if s.points[0].clients == 6)
    assert axis_title(depth) == "queue depth, on each of 6 clients"
    assert _titles(swept, sections)[1].startswith("6\u00a0clients reach ")


def _titles(comparison: Comparison, sections: list[Section]) -> list[str]:
    return [figure.title for figure in draw("client_rates", comparison, sections)]


def test_scaling_is_over_the_fewest_clients(swept: Comparison) -> None:
    small, _ = scaling_tables(swept, scales_of(swept))
    assert small.caption == "Scaling with clients, small random I/O: the whole, and each client"
    rows = [row for row in small.rows if row.target == CAPACITY][-3:]
    alone, three, six = ([n.text for n in row.numbers] for row in rows)
    assert (alone[3], alone[4]) == ("1.00×", "100")
    base, value = float(alone[0]), float(six[0])
    assert float(six[3].rstrip("×")) == pytest.approx(value / base, rel=0.01)
    assert float(six[4]) == pytest.approx(100 * value / base / 6, abs=1)
    assert float(three[2].replace(",", "")) == pytest.approx(float(three[0]) * 1e3 / 3, rel=0.01)


def test_without_an_axis_beside_them_clients_are_the_axis_of_the_page(only: Comparison) -> None:
    assert sections_by_clients(only) == []
    assert {section.axes.x for section in only.sections} == {CLIENTS}
    assert maxima_tables(only, scales_of(only))[0].caption.startswith("Maxima over clients")
    assert len(scaling_tables(only, scales_of(only))) == 2


@pytest.fixture(scope="module")
def only(only_clients_made: Made) -> Comparison:
    return compare(load_dataset([only_clients_made.store]))


@pytest.mark.parametrize("made", ["cluster_made", "swept_clients_made", "only_clients_made"])
def test_every_number_leads_to_its_runs(request: pytest.FixtureRequest, made: str) -> None:
    brief: Made = request.getfixturevalue(made)
    html = brief.html
    start = html.index('<section class="extra" id="clients"')
    section = html[start : html.index("</section>", start)]
    points = set(re.findall(r'href="#point-([0-9a-f]+)"', section))
    assert points
    assert all(f'id="point-{point}"' in html for point in points)
    assert "not measured" not in section


@pytest.mark.parametrize("made", ["cluster_made", "swept_clients_made", "only_clients_made"])
def test_the_audit_has_nothing_against_it(request: pytest.FixtureRequest, made: str) -> None:
    campaign: Made = request.getfixturevalue(made)
    found = {f.rule for f in audit_directory(campaign.store.directory)}
    assert found == {"straggler", "power"}  # flags that the fixture provokes


def test_facts_of_clients_servers_and_networks(cluster_made: Made, together: Comparison) -> None:
    tables = {table.heading: dict(table.rows) for table in cluster_facts(together)}
    assert tables["Clients"]["Hosts"] == "c[01-06]"
    assert tables["Clients"]["Heartbeat timeout"] == "6\u00a0s"
    assert tables["Servers of Capacity class"] == {"CPU cores": "24", "memory": "256 GB"}
    assert tables["Network of Performance class"] == {"storage server": "2x 200 Gb/s"}
    html = cluster_made.html
    assert "<dt>Usable</dt><dd>973\u00a0TB <span" in html
    assert "Merging of clients" in html
    assert "fig-cost-capacity-usd" in html


def test_a_card_tells_what_a_terabyte_costs(cluster_made: Made) -> None:
    """Check that a card states the cost per terabyte, of the storage and the whole system."""
    assert "<dt>Price</dt><dd>USD 310,000 (210 per TB) <span" in cluster_made.html
    assert "<dt>Whole cost</dt><dd>USD 470,000 (319 per TB) <span" in cluster_made.html


def test_shares_lie_in_the_page_for_programs(cluster_made: Made) -> None:
    pattern = r'<script type="application/json" id="storlab-data">(.*?)</script>'
    text = re.search(pattern, cluster_made.html, re.S)
    assert text is not None
    clients = json.loads(text[1])["clients"]
    assert len(clients) == 18
    assert set(clients[0]["shares"]) == {f"c0{n}" for n in range(1, 7)}


def test_a_study_without_a_cluster_has_nothing_of_it(comparison: Comparison, made: Made) -> None:
    assert cluster_section(comparison, [], scales_of(comparison)) is None
    assert cluster_facts(comparison) == []
    assert sections_by_clients(comparison) == []
    assert draw("client_rates", comparison, comparison.sections) == []
    assert draw("client_balance", comparison, comparison.sections) == []
    assert 'id="clients"' not in made.html
    assert "Common start" not in made.html


def test_a_share_of_the_window_is_not_rounded_up() -> None:
    assert kept_text(1.0) == "100\u00a0%"
    assert kept_text(0.9999999) == "99.999\u00a0%"
    assert kept_text(0.9995) == "99.95\u00a0%"
    assert kept_text(0.5) == "50\u00a0%"


def test_clients_in_words() -> None:
    assert clients_words([1]) == "1\u00a0client"
    assert clients_words([12]) == "12\u00a0clients"
    assert clients_words([1, 2, 4]) == "1, 2 and 4\u00a0clients"


def test_usable_is_no_more_than_raw(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="more than the capacity"):
        Target.model_validate(
            {"name": "a", "directory": str(tmp_path), "capacity": "10TB", "usable": "11TB"}
        )


def test_an_interrupted_cluster_campaign_has_a_brief(tmp_path: Path) -> None:
    from support.cluster_campaign import cluster_campaign

    store = cluster_campaign(tmp_path / "partial", repeats=1, depths="[1, 4]", stop_after=5)
    html = write_brief(store, pdf=False).read_text()
    assert 'id="clients"' in html
    assert "not measured" in html
