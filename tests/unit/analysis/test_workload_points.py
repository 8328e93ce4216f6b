"""Which runs did the same work, and the name of that work."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from pydantic import Field

from storlab.analysis.points import (
    WorkloadPoint,
    choose_axes,
    describe,
    format_value,
    page_of,
    sections_of,
    use_cases_of,
    value_text,
)
from storlab.model.study import UseCase, WorkloadSpec

PAGE = page_of("block")


def points(**swept: list[Any]) -> list[WorkloadPoint]:
    found: list[dict[str, Any]] = [{"access": "random", "queue_depth": 16}]
    for name, values in swept.items():
        found = [{**params, name: value} for params in found for value in values]
    return [WorkloadPoint("block", "block", "native", params) for params in found]


def test_jobs_are_the_axis_and_block_sizes_the_small_multiples() -> None:
    axes = choose_axes(points(read_percent=[30.0, 70.0], block_size=[4096, 262144], jobs=[1, 8]))
    assert (axes.x, axes.facet, axes.section) == ("jobs", "block_size", ("read_percent",))


def test_queue_depth_is_the_axis_where_jobs_stand_still() -> None:
    axes = choose_axes(points(block_size=[4096], jobs=[2], queue_depth=[1, 4, 16]))
    assert (axes.x, axes.section) == ("queue_depth", ())


def test_what_else_is_swept_makes_sections() -> None:
    sweep = points(access=["random", "sequential"], block_size=[4096], jobs=[1, 2], batch=[1, 32])
    sections = sections_of(sweep)
    assert [section.title for section in sections] == [
        "random, batch 1",
        "random, batch 32",
        "sequential, batch 1",
        "sequential, batch 32",
    ]
    assert all(len(section.points) == 2 for section in sections)


def test_sections_and_points_are_in_order_of_size() -> None:
    sweep = points(read_percent=[90.0, 30.0], block_size=[4194304, 262144], jobs=[8, 1])
    sections = sections_of(sweep)
    assert [s.title for s in sections] == ["30/70 read/write", "90/10 read/write"]
    assert [(p.params["block_size"], p.params["jobs"]) for p in sections[0].points] == [
        (262144, 1),
        (262144, 8),
        (4194304, 1),
        (4194304, 8),
    ]


def test_a_single_point_has_a_section_named_after_its_workload() -> None:
    (section,) = sections_of(points(block_size=[4096], jobs=[1]))
    assert section.title == "block"
    assert section.facets() == [4096]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("block_size", 262144, "256\u00a0KiB"),
        ("block_size", 1000, "1\u00a0KB"),
        ("block_size", {"4KiB": 70.0, "64KiB": 30.0}, "4\u00a0KiB x 70, 64\u00a0KiB x 30"),
        ("read_percent", 70.0, "70/30"),
        ("read_percent", 100, "100/0"),
        ("drain_timeout", 30_000_000_000, "30 s"),
        ("verify", False, "no"),
        ("cpus", [0, 1], "0, 1"),
        ("rate_iops", None, "default"),
    ],
)
def test_values_read_as_people_write_them(name: str, value: object, text: str) -> None:
    assert format_value(PAGE, name, value) == text


def test_a_phrase_names_what_is_not_obvious() -> None:
    params = {"read_percent": 100.0, "block_size": 4096, "jobs": 1, "queue_depth": 8}
    assert describe(
        PAGE, params, ["read_percent", "block_size", "jobs", "queue_depth", "absent"]
    ) == ("reads only, 4\u00a0KiB, 1\u00a0job, queue depth 8")


def test_trims_are_part_of_the_mix() -> None:
    mixed = {"read_percent": 20.0, "trim_percent": 30.0, "jobs": 1}
    assert describe(PAGE, mixed, ("read_percent", "jobs")) == "20/50/30 read/write/trim, 1\u00a0job"
    assert describe(PAGE, mixed, ("read_percent", "trim_percent")) == "20/50/30 read/write/trim"
    assert describe(
        PAGE, {**mixed, "read_percent": 0.0, "trim_percent": 100.0}, ("read_percent",)
    ) == ("trims only")
    none = {**mixed, "trim_percent": 0.0}
    assert describe(PAGE, none, ("read_percent", "trim_percent")) == "20/80 read/write, trim (%) 0"


def test_use_cases_match_sizes_in_either_spelling() -> None:
    cases = [
        UseCase(name="Ingest", match={"read_percent": 30, "block_size": "256KiB"}),
        UseCase(name="Bulk", match={"read_percent": 30, "block_size": 4194304}),
        UseCase(name="Any", match={"read_percent": 30.0}),
        UseCase(name="Other", match={"compress_percent": 50}),
    ]
    assert use_cases_of(PAGE, {"read_percent": 30.0, "block_size": 262144}, cases) == [
        "Ingest",
        "Any",
    ]


def test_the_key_forgets_the_target_and_nothing_else() -> None:
    first, other = points(jobs=[1, 2])
    assert first.key == points(jobs=[1])[0].key
    assert first.key != other.key
    assert first.key != WorkloadPoint("block", "block", "fio", first.params).key


def test_two_engines_and_two_workloads_are_told_apart() -> None:
    (only,) = points(read_percent=[70.0], jobs=[1])
    fio = WorkloadPoint("block", "block", "fio", only.params)
    scan = WorkloadPoint("scan", "block", "native", only.params)
    assert [s.title for s in sections_of([only, fio])] == [
        "native: 70/30 read/write",
        "fio: 70/30 read/write",
    ]
    assert [s.title for s in sections_of([only, scan])] == [
        "block: 70/30 read/write",
        "scan: 70/30 read/write",
    ]
    assert sections_of([only])[0].title == "70/30 read/write"
    section = sections_of([only, fio])[1]
    assert section.where(fio).replace("\u00a0", " ") == "fio: 70/30 read/write, 1 job"


OBJECT: dict[str, Any] = {
    "get_percent": 70.0,
    "head_percent": 0.0,
    "list_percent": 0.0,
    "delete_percent": 0.0,
    "multi_delete_percent": 0.0,
    "object_size": 4194304,
    "concurrency": 16,
    "concurrency_per_operation": None,
}


def requests(**more: Any) -> WorkloadPoint:
    return WorkloadPoint("mixed", "object", "native", OBJECT | more)


def test_object_requests_lie_on_a_page_of_their_own() -> None:
    axes = choose_axes([requests(concurrency=4), requests(get_percent=30.0)])
    assert (axes.x, axes.facet, axes.section) == ("concurrency", "object_size", ("get_percent",))
    sections = sections_of([requests(get_percent=90.0), requests(get_percent=30.0)])
    assert [(s.title, s.mix) for s in sections] == [
        ("30/70 GET/PUT", "30/70"),
        ("90/10 GET/PUT", "90/10"),
    ]
    point = sections[0].points[0]
    assert sections[0].where(point).replace("\u00a0", " ") == (
        "30/70 GET/PUT, 4 MiB, concurrency 16"
    )


def test_a_mix_of_other_kinds_keeps_its_words_on_an_axis() -> None:
    (section,) = sections_of([requests(head_percent=10.0)])
    assert section.mix == "70/20/10 GET/PUT/HEAD"
    page = page_of("object")
    assert value_text(page, "get_percent", requests().params) == "70/30"
    assert value_text(page, "get_percent", requests(head_percent=10.0).params) == section.mix


def test_distributions_of_sizes_are_small_multiples_in_words() -> None:
    sizes = [4194304, {"uniform": ["64KiB", "1MiB"]}, {"4KiB": 70.0, "1MiB": 30.0}]
    (section,) = sections_of([requests(object_size=size) for size in sizes])
    assert [section.facet_text(v).replace("\u00a0", " ") for v in section.facets()] == [
        "4 MiB",
        "70 % 4 KiB, 30 % 1 MiB",
        "64 KiB to 1 MiB",
    ]


def test_families_make_sections_apart() -> None:
    (only,) = points(read_percent=[70.0], jobs=[1])
    assert [s.title for s in sections_of([only, requests()])] == [
        "block: 70/30 read/write",
        "mixed: 70/30 GET/PUT",
    ]


def test_a_parameter_that_no_point_has_makes_no_small_multiples() -> None:
    params = [{"rows": None, "input": ["day_*"], "workers": workers} for workers in (1, 2)]
    real = [WorkloadPoint("w", "preprocess", "native", each) for each in params]
    assert choose_axes(real).facet is None
    made = [WorkloadPoint("w", "preprocess", "native", {**each, "rows": 9}) for each in params]
    assert choose_axes(made).facet == "rows"


class Wheel(WorkloadSpec):
    """Family whose parameter "colour" has no effect while its wheels stand still."""

    swept: ClassVar[tuple[str, ...]] = ("turns", "colour")

    turns: list[int] = Field(default=[0, 1])
    colour: list[str] | None = Field(default=None)

    def reduced(self, params: dict[str, Any]) -> dict[str, Any]:
        return params if params["turns"] else params | {"colour": self.default_of("colour")}


def test_points_that_differ_in_what_they_have_no_use_for_are_one() -> None:
    wheel = Wheel(kind="wheel", colour=["red", "blue"])
    assert len(wheel.product()) == 4
    assert wheel.values() == [
        {"turns": 0, "colour": None},
        {"turns": 1, "colour": "red"},
        {"turns": 1, "colour": "blue"},
    ]
