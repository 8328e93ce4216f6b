"""Sentences of a brief with example values, one golden file per catalogue module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from storlab.analysis import digits
from storlab.analysis.efficiency import Account
from storlab.model.decision import (
    Better,
    Caveat,
    CaveatKind,
    Decision,
    Interval,
    Outcome,
    Reason,
    ReasonKind,
    Standing,
    Verdict,
)
from storlab.words import caveats, findings, openings, power
from storlab.words.answers import basis, sentences, summary, tile_text
from storlab.words.text import named, sentence_case
from storlab.workloads.common.flags import flag_meanings
from support.golden import golden_text
from support.made_comparisons import decided

CLEAR, WIDE = Interval(1.47, 1.43, 1.51, 3), Interval(1.02, 0.97, 1.08, 3)
OPEN, ONE_RUN = Interval(2.0, 0.4, 9.0, 2), Interval(1.47, None, None, 1)
LOOSE, BARELY = Interval(5.41, 1.49, 19.7, 3), Interval(2.0, 1.005, 8.0, 3)
SIDES = ("SSD", "HDD")


def decision(interval: Interval = CLEAR, **more: Any) -> Decision:
    plain = {"what": "throughput", "where": "4 KiB, 8 jobs", "sides": SIDES, **more}
    return decided(interval).model_copy(update=plain)


def verdict(**more: Any) -> Verdict:
    plain: dict[str, Any] = {
        "question": "throughput",
        "title": "Throughput",
        "kind": "winner",
        "targets": SIDES,
        "winner": "SSD",
        "does": "moves {times} as much data per second as {other}",
        "headline": decision(),
        "points": 1,
        "won": 1,
        "ahead": {"SSD": 1, "HDD": 0},
        "comparisons": 1,
    }
    return Verdict(**{**plain, **more})


def standing(points: int, of: int, lost: int = 0, **more: Any) -> Standing:
    return Standing(points=points, lost=lost, of=of, example=decision(**more))


LOW = Interval(0.68, 0.66, 0.7, 3)
LATENCY = {"quantity": "latency_p99_ns.read", "better": "less", "what": "p99 read latency"}
WORSE = (
    standing(1, 1, interval=LOW, **LATENCY),
    standing(2, 4, lost=1, what="power"),
    standing(3, 4, what="energy"),
)
OPEN_ONE = {"kind": "within noise", "winner": "", "alike": 1}
UNKNOWN = {"kind": "not measured", "winner": "", "headline": None}
ANSWERS: Mapping[str, Verdict] = {
    "winner": verdict(),
    "winner of some points": verdict(points=8, won=7, comparisons=16),
    "winner of all points": verdict(points=8, won=8, comparisons=16),
    "winner of one point": verdict(points=8, won=1, comparisons=16),
    "winner of three targets": verdict(targets=(*SIDES, "Memory"), workload="block"),
    "winner by at least": verdict(headline=decision(LOOSE)),
    "winner by an unknown size": verdict(headline=decision(BARELY)),
    "winner of what should be little": verdict(headline=decision(LOW, **LATENCY)),
    "drawbacks": verdict(worse=WORSE[:1]),
    "more drawbacks": verdict(worse=WORSE),
    "depends": verdict(kind="depends", winner="", points=4, ahead={"SSD": 3, "HDD": 1}),
    "within noise": verdict(**OPEN_ONE, headline=decision(WIDE)),
    "within noise at some points": verdict(**OPEN_ONE, headline=decision(WIDE), points=4),
    "too noisy": verdict(**{**OPEN_ONE, "kind": "too noisy"}, headline=decision(OPEN)),
    "one run": verdict(**{**OPEN_ONE, "kind": "one run"}, headline=decision(ONE_RUN)),
    "not significant in all comparisons": verdict(
        **OPEN_ONE, headline=decision(outcome="within noise", comparisons=16), comparisons=16
    ),
    "alone": verdict(kind="alone", winner="", targets=("SSD",), headline=None),
    **{
        f"not compared: {kind}": verdict(
            **{**UNKNOWN, "kind": Reason(kind=kind).outcome},
            question="efficiency",
            reason=Reason(kind=kind, targets=("HDD",) if kind == "no meter" else (), detail="..."),
        )
        for kind in get_args(ReasonKind)
    },
    "in text": verdict(texts=(("SSD", "CPU-bound at 8 workers"), ("HDD", "the device saturates"))),
}


def golden(name: str, lines: list[str]) -> None:
    text = "\n".join(lines).replace("\u00a0", " ") + "\n"
    assert text == golden_text(f"words/{name}.txt", text)


def test_answers_golden() -> None:
    lines = []
    for name, example in ANSWERS.items():
        text = tile_text(example)
        beside = f" {text.against} [{text.bounds}]" if text.against else ""
        more = [text.detail, *sentences(example), basis([example])]
        lines += [f"{name}: {text.title}", f"  {text.amount}{beside}"]
        lines += [f"  {sentence}" for sentence in more if sentence]
    flags = [meaning for meaning in flag_meanings().values() if meaning.claims]
    details = {
        "unequal boundaries": "device against wall",
        "flag": flags[0].kind,
        "not measured": "declared",
    }
    for kind in get_args(CaveatKind):
        caveat = Caveat(kind=kind, targets=SIDES, detail=details.get(kind, ""), what="power")
        lines.append(f"caveat: {sentences(verdict(caveat=caveat))[-1]}")
    golden("answers", lines)


def test_each_flag_that_qualifies_a_claim_has_a_caveat() -> None:
    for meaning in flag_meanings().values():
        caveat = Caveat(kind="flag", targets=("SSD",), detail=meaning.kind)
        assert sentences(verdict(caveat=caveat))[-1].startswith("On SSD, ")


def test_the_second_sentence_is_a_disadvantage_or_else_the_caveat() -> None:
    caveat = Caveat(kind="two repeats")
    for found, second in (
        (verdict(caveat=caveat, worse=WORSE), sentences(verdict(worse=WORSE))[1]),
        (verdict(caveat=caveat), sentences(verdict(caveat=caveat))[2]),
        (verdict(), sentences(verdict())[1]),
    ):
        assert summary([found, verdict()]) == [sentences(found)[0], second]
    assert summary([]) == []


def test_ratios_whose_size_is_unknown_are_not_quoted() -> None:
    single = decision(Interval(3.0, 1.2, 7.5, 2), outcome="within noise", comparisons=8)
    assert len(sentences(verdict(**OPEN_ONE, headline=single, comparisons=8))) == 1
    printed = [
        power.per_joule([decision(ratio) for ratio in ratios])
        for ratios in ([OPEN], [OPEN, OPEN], [OPEN, CLEAR])
    ]
    for sentence in printed:
        assert f"{digits.TOO_NOISY} to estimate" in sentence


def test_findings_golden() -> None:
    rates = (Interval(1470.0, 1430.0, 1510.0, 3), Interval(1000.0, 990.0, 1010.0, 3))
    waits = (Interval(2.0e6, 1.9e6, 2.1e6, 3), Interval(2.94e6, 2.9e6, 3.0e6, 3))
    values = ((rates, "MB/s"), (waits, "ns"), (rates, ""))
    slower = decision(Interval(0.5, 0.05, 0.9, 3), **LATENCY)
    leads = [findings.times_of(each, "") for each in (decision(), decision(LOOSE), slower)]
    golden(
        "findings",
        [
            findings.caption("", SIDES, 32),
            findings.caption("block", SIDES, 1),
            findings.statement(decision(**LATENCY), "1.47×", ["2.00 ms", "2.94 ms"]),
            findings.not_compared("power", SIDES, "not measured", "HDD: no meter"),
            *(", ".join(n.words for n in findings.value_numbers(*each)) for each in values),
            *(f"{lead.kind} {lead.text}" for lead in leads),
            findings.concurrency_caveat(SIDES, (16.0, 4.0)),
            *(findings.place(won, points, "4 KiB") for won, points in ((1, 1), (1, 4), (2, 4))),
            *(findings.place(won, 4, "4 KiB") for won in (3, 4)),
            findings.better_title("HDD"),
            findings.better_title("HDD", "SSD"),
            findings.best_title("throughput", "more"),
            findings.best_title("p99 read latency", "less"),
            findings.best_caption("block"),
            findings.EXPLAINED,
        ],
    )


def test_caveats_golden() -> None:
    changes = [
        caveats.other_questions(["efficiency", "cost"], []),
        caveats.other_questions(["efficiency"], ["throughput"]),
        caveats.other_baseline("SSD", "HDD"),
        caveats.other_boundaries(accepted=True),
        caveats.only_points(["jobs=4", "jobs=8"], 12),
    ]
    failed = [("0123abcd-r1", "SSD", "the device went away")]
    waits = {"runs": 4, "workers": 32, "cores": 8, "longest_wait_percent": 12.5}
    golden(
        "caveats",
        [
            caveats.failed(1),
            caveats.failed(3),
            caveats.incomplete(1, 24),
            caveats.incomplete(12, 1024),
            caveats.repeated(failed, 1),
            caveats.repeated(failed, 5),
            caveats.changed_settings(changes),
            *(caveats.flagged_points("SSD", *counts) for counts in ((1, 1), (4, 4), (1, 4))),
            caveats.more_drifts(3),
            caveats.more_workers_than_cores(**waits, is_confined=False),
            caveats.more_workers_than_cores(**waits, is_confined=True),
            caveats.FEW_REPEATS,
            caveats.short_window(30_000_000_000),
        ],
    )


def test_power_golden() -> None:
    meter = Account("wall", "AC", "measured", (), 3, "", (), ())
    ratios = [decision(interval) for interval in (CLEAR, CLEAR, WIDE)]
    accepted = {"boundaries": "device against wall"}
    golden(
        "power",
        [
            power.not_metered("SSD", "no meter"),
            power.drawn("SSD", meter, [11.2, 18.5], 4, 0),
            power.drawn("SSD", replace(meter, provenance="declared"), [11.2], 3, 1),
            power.refused(SIDES, "device against wall"),
            power.no_ratio(SIDES),
            power.per_joule(ratios[:1]),
            power.per_joule(ratios[:2]),
            power.per_joule(ratios),
            power.per_joule([decision(WIDE), decision(WIDE)]),
            power.per_joule([decision(**accepted)]),
            power.boundary_caveat("device against wall"),
            power.weak({"declared": ["SSD"], "modelled": ["HDD", "Tape"]}),
        ],
    )


def clause(
    leads: Sequence[openings.Lead],
    *,
    what: str = "throughput",
    unit: str = "MB/s",
    better: Better = "more",
    sides: Sequence[str] = SIDES,
) -> openings.Clause:
    printed_unit = {"ns": " ms", "1/s": ""}.get(unit, f" {unit}")
    values = (("1,687", f"4,168{printed_unit}"), ("235", f"729{printed_unit}"))
    ends = len(leads) or 2
    printed = [
        openings.Side(side, tuple(openings.Linked(text, "") for text in own[-ends:]))
        for side, own in zip(sides, values, strict=False)
    ]
    return openings.Clause(what, unit, better, printed, leads)


def lead(place: str, ratio: str = "", outcome: Outcome = "better") -> openings.Lead:
    ahead = "HDD" if outcome == "worse" else "SSD"
    return openings.Lead(openings.Linked(ratio, "") if ratio else None, outcome, ahead, place)


def test_openings_golden() -> None:
    first, last = lead("1 job", "7.2×"), lead("8 jobs", "5.7×")
    noise = [lead(place, outcome="within noise") for place in ("1 job", "8 jobs")]
    noisy = lead("8 jobs", outcome="too noisy")
    behind = lead("1 job", "1.3×", "worse")
    latency = clause([last], what="mean read latency", unit="ns", better="less")
    writes = latency._replace(what="mean write latency")
    examples: Mapping[str, tuple[Sequence[openings.Clause], dict[str, Any]]] = {
        "sweep": ([clause([first, last])], {}),
        "sweep, less is better": ([clause([first, last], unit="s", better="less")], {}),
        "sweep of one target": ([clause([], sides=SIDES[:1])], {"targets": 1}),
        "sweep of four targets": ([clause([first, last])], {"targets": 4}),
        "sweep without a difference": ([clause(noise)], {}),
        "sweep with open ends": ([clause([noisy, noisy])], {}),
        "sweep with one open end": ([clause([first, noisy])], {}),
        "sweep that crosses": ([clause([behind, last])], {}),
        "sweep with a target missing": ([clause([], sides=SIDES[:1])], {"missing": ["HDD"]}),
        "point": ([latency, writes], {"other_concurrency": True}),
        "point, open": ([latency._replace(leads=[noisy])], {}),
        "point, behind": ([latency, writes._replace(leads=[behind])], {}),
        "plural": ([clause([last], what="samples per second", unit="1/s")], {}),
    }
    lines = []
    for name, (clauses, more) in examples.items():
        place = "from 1 to 8 jobs" if name.startswith("sweep") else "at 8 jobs"
        text = openings.text_of(openings.sentence(clauses, place, **{"targets": 2, **more}))
        lines.append(f"{name}: {text}")
    ends = (("1 job", "8 jobs", ("1", "8")), ("depth 1", "depth 16", ("1", "16")))
    lines += [f"span: {openings.span(*each)}" for each in ends]
    declared, unequal = {"declared": SIDES}, {"SSD": "device", "HDD": "enclosure"}
    for weak, boundaries in ((declared, {}), (declared, unequal), ({}, unequal)):
        lines += [f"power: {text}" for text in openings.power(weak, boundaries)]
    lines += [f"caveat: {openings.ONE_RUN}", f"nothing: {openings.NOTHING_MEASURED}"]
    golden("openings", lines)


def test_names_of_targets_stand_as_names() -> None:
    for phrase in ("memory file", "disk", "in-memory", "scratch disk"):
        assert named(phrase) == f"“{phrase}”"
    for label in ("nvme0n1", "eMMC", "HDD stand-in", "/dev/shm", "4x SSD", "./on-disk", "Disk"):
        assert named(label) == sentence_case(label) == label
    assert sentence_case(f"{named('memory file')} is ahead") == "“memory file” is ahead"
    assert [sentence_case(text) for text in ("p99 latency", "reads take 2×")] == [
        "P99 latency",
        "Reads take 2×",
    ]
