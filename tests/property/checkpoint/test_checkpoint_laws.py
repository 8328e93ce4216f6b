"""Laws of checkpoint profiles and intervals for every scale, shape and failure rate."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from storlab.workloads.checkpoint.interval import (
    daly_interval,
    share_lost,
    share_lost_with_failures,
    young_interval,
)
from storlab.workloads.checkpoint.job import CheckpointFile
from storlab.workloads.checkpoint.profiles import (
    Profile,
    Shape,
    Sharding,
    derived_files,
    files_of,
    load_profile,
    profile_names,
    scaled,
)

COSTS = st.floats(min_value=0.1, max_value=600)


@given(cost=COSTS, ratio=st.floats(min_value=0.001, max_value=0.5))
def test_no_other_interval_loses_much_less_than_dalys(cost: float, ratio: float) -> None:
    """Check Daly's interval to 1 %, far above Daly's own error bound."""
    mtbf = cost / ratio
    best = share_lost_with_failures(cost, daly_interval(cost, mtbf), mtbf, cost)
    for factor in (0.5, 0.8, 0.9, 1.1, 1.25, 2):
        other = share_lost_with_failures(cost, factor * daly_interval(cost, mtbf), mtbf, cost)
        assert best <= other + 0.01 * (1 - other)


@given(cost=COSTS, ratio=st.floats(min_value=1e-9, max_value=1e-6))
def test_rare_failures_make_young_and_daly_alike(cost: float, ratio: float) -> None:
    mtbf = cost / ratio
    assert math.isclose(young_interval(cost, mtbf), daly_interval(cost, mtbf), rel_tol=1e-2)


@given(
    cost=COSTS,
    interval=st.floats(min_value=1, max_value=1e5),
    mtbf=st.floats(min_value=1, max_value=1e7),
    restart=st.floats(min_value=0, max_value=600),
)
def test_failures_never_give_time_back(
    cost: float, interval: float, mtbf: float, restart: float
) -> None:
    lost = share_lost_with_failures(cost, interval, mtbf, restart)
    assert share_lost(cost, interval) - 1e-9 <= lost <= 1


COUNTS = st.integers(min_value=1, max_value=6)
SHAPES = st.builds(
    Shape,
    layers=st.integers(min_value=1, max_value=40),
    hidden=st.integers(min_value=1, max_value=999),
    ffn=st.integers(min_value=1, max_value=999),
    heads=COUNTS,
    kv_heads=COUNTS,
    vocabulary=st.integers(min_value=1, max_value=999),
)
SHARDINGS = st.one_of(
    st.builds(
        Sharding,
        tensor=COUNTS,
        pipeline=COUNTS,
        data=COUNTS,
        zero=st.integers(min_value=0, max_value=2),
    ),
    st.builds(Sharding, tensor=COUNTS, data=COUNTS, zero=st.just(3)),
)


@given(model=SHAPES, sharding=SHARDINGS)
def test_sharding_loses_and_doubles_nothing(model: Shape, sharding: Sharding) -> None:
    files = list(derived_files(model, sharding))
    parameters = sum(model.pieces)
    assert sum(file.bytes for file in files) == 14 * parameters
    assert len({file.name for file in files}) == len(files)
    assert {file.rank for file in files} <= set(range(sharding.ranks))
    layers = [file for file in files if file.name.startswith("layer_")]
    if sharding.zero < 3:
        assert len(layers) == (model.layers + 3) * sharding.tensor


@given(size=st.integers(min_value=0, max_value=2**50), scale=st.floats(1e-6, 1))
def test_a_scaled_size_is_near_and_never_empty(size: int, scale: float) -> None:
    small = scaled(size, scale)
    assert (small == 0) == (size == 0)
    assert small <= size
    assert abs(small - size * scale) <= 1


@given(
    name=st.sampled_from(profile_names()),
    layout=st.sampled_from(["profile", "file_per_rank", "safetensors"]),
    scale=st.floats(min_value=1e-4, max_value=1),
    subset=st.none() | st.integers(min_value=1, max_value=8),
)
def test_every_layout_has_unique_names_and_ranks_of_the_subset(
    name: str, layout: str, scale: float, subset: int | None
) -> None:
    profile: Profile = load_profile(name)
    files: list[CheckpointFile] = files_of(profile, layout, scale, subset)
    assert len({file.name for file in files}) == len(files)
    assert {file.rank for file in files} == set(range(subset or profile.ranks))
    assert all(file.bytes > 0 for file in files)
