"""The answer of each family's brief: golden sentences, and the order set by questions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from integration.brief.brief_fixture import build_store
from integration.conftest import Made
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.verdict import verdicts
from storlab.audit.from_claims import BriefClaims, audit_brief
from storlab.brief.answers import answer_tiles, headlines
from storlab.brief.build import build_brief
from storlab.brief.tables import ratio_table
from storlab.results.store import ResultStore
from support.made_comparisons import findings_of, told


def test_the_answer_about_block_io(comparison: Comparison) -> None:
    assert told(comparison) == {
        "throughput": [
            "Memory moves 3.3 times as much data per second as Disk (3.1 to 3.5) at 30/70 "
            "read/write, 4 MiB, 8 jobs, the median of 4 points.",
            "No statistically clear disadvantage found.",
            "On Memory, the load generator was near the limit of its CPU: the target may be faster "
            "than shown.",
        ]
    }


@pytest.mark.parametrize(
    ("made", "question", "sentence"),
    [
        (
            "object_made",
            "throughput",
            "1x SSD moves 9.9 times as much data per second as 16x HDD (9.3 to 10.5) at 70/30 "
            "GET/PUT, 4 MiB, concurrency 16, the median of 4 points.",
        ),
        (
            "object_made",
            "efficiency",
            "1x SSD reaches 61 times the throughput per watt of 16x HDD (59 to 62) at 70/30 "
            "GET/PUT, 4 MiB, concurrency 16, the median of 4 points.",
        ),
        (
            "gpudirect_made",
            "throughput",
            "Micron 6550 ION moves 1.30 times as much data per second as competitor 61.44TB SSD "
            "(1.27 to 1.33) at bounce-overlapped, reads only, 2 in flight each, 1 MiB, "
            "256 workers, the median of 8 points.",
        ),
        (
            "cluster_made",
            "cost",
            "Performance class moves 2.08 times as much data per second as Capacity class for the "
            "same money (2.07 to 2.09) at small random I/O: 70/30 read/write, 4 KiB, queue depth "
            "16, the median of 3 points.",
        ),
    ],
)
def test_the_answers_of_other_families_and_questions(
    request: pytest.FixtureRequest, made: str, question: str, sentence: str
) -> None:
    campaign: Made = request.getfixturevalue(made)
    assert told(compare(load_dataset([campaign.store])))[question][0] == sentence


def test_the_headline_is_recomputed_by_the_audit(comparison: Comparison) -> None:
    records = {run.record.run_id: run.record for run in comparison.dataset.all_runs()}
    (headline,) = headlines(comparison)
    assert headline.decision.confidence == 0.95
    assert headline.decision.comparisons == 4
    assert audit_brief(BriefClaims([headline], records)) == []
    wider = replace(headline, decision=headline.decision.model_copy(update={"confidence": 0.99}))
    assert "interval does not follow" in audit_brief(BriefClaims([wider], records))[0].why
    other = replace(headline, statement=headline.statement.replace("3.3 times", "3.4 times"))
    assert "multiple in the sentence" in audit_brief(BriefClaims([other], records))[0].why
    bare = replace(headline, beside=frozenset())
    assert "client-bound" in audit_brief(BriefClaims([bare], records))[0].recomputed


def test_a_tile_names_the_winner_in_its_colour(made: Made) -> None:
    tile, *_ = build_brief(made.store, beside=made.store.directory).summary.tiles
    assert (tile.name, tile.index, tile.amount) == ("Memory", 1, "3.3×")
    assert '<div class="tile t2">' in made.html


def asked(store: ResultStore, *questions: str) -> Comparison:
    """Return the comparison of the same runs as if the study had asked this question."""
    found = compare(load_dataset([store]))
    header = store.study.study.model_copy(update={"question": list(questions)})
    store.study = store.study.model_copy(update={"study": header})
    return found


def test_a_question_orders_findings_and_ratios(tmp_path: Path) -> None:
    store = build_store(tmp_path / "run", mixes=(70,), repeats=2)
    plain = compare(load_dataset([store]))
    assert next(iter(findings_of(plain))) == "throughput_mb_s.all"
    latency = asked(store, "latency", "throughput")
    assert next(iter(findings_of(latency))) == "latency_p99_ns.read"
    assert [v.question for v in verdicts(latency)] == ["latency", "throughput"]
    table = ratio_table(latency, latency.sections)
    assert table is not None
    assert table.columns[0][0].startswith("read p99")
    brief = build_brief(store, beside=tmp_path)
    assert [tile.title for tile in brief.summary.tiles] == ["Latency", "Throughput"]
    caveat = verdicts(latency)[0].caveat
    assert caveat is not None and caveat.kind == "different concurrency"


def test_one_target_has_no_answer(full_store: ResultStore) -> None:
    comparison = compare(load_dataset([full_store]))
    comparison.dataset.targets = comparison.dataset.targets[:1]
    assert answer_tiles(comparison) == []
