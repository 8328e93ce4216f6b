"""Laws of training: the content of an epoch and the range of utilisation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlab.contracts.registry import FAMILIES
from storlab.model.study import Target
from storlab.workloads.training.metrics import (
    AcceleratorEpoch,
    Epoch,
    au_configured_percent,
    au_percent,
    au_with_first_percent,
)
from storlab.workloads.training.params import TrainingParams
from storlab.workloads.training.profiles import profile_names
from storlab.workloads.training.rules import least_samples, settings_of
from storlab.workloads.training.spec import TrainingSpec
from support.refusals import refusal

SPANS = st.integers(min_value=0, max_value=10**10)


def params(**changes: Any) -> dict[str, Any]:
    (plain,) = TrainingSpec(kind="training", **changes).values()
    return plain


@st.composite
def accelerators(draw: st.DrawFn) -> tuple[AcceleratorEpoch, int]:
    """Draw steps that wait and compute at least the configured time, and that time."""
    configured = draw(st.integers(min_value=1, max_value=10**9))
    steps = draw(st.integers(min_value=2, max_value=20))
    waits = draw(st.lists(SPANS, min_size=steps, max_size=steps))
    slept = draw(st.lists(SPANS, min_size=steps, max_size=steps))
    computes = [configured + over for over in slept]
    return (
        AcceleratorEpoch(
            steps=steps,
            total=sum(waits) + sum(computes),
            first_total=waits[0] + computes[0],
            compute=sum(computes),
            first_compute=computes[0],
            wait=sum(waits),
            barrier=0,
        ),
        configured,
    )


@given(accelerators())
def test_utilisation_is_a_share_and_oversleeping_only_adds_to_it(
    drawn: tuple[AcceleratorEpoch, int],
) -> None:
    epoch, configured = drawn
    epochs = [Epoch(epoch.total, 1, 1, None, [epoch])]
    au, whole = au_percent(epochs), au_with_first_percent(epochs)
    by_configuration = au_configured_percent(epochs, configured)
    assert au is not None
    assert whole is not None
    assert by_configuration is not None
    assert 0 < by_configuration <= au * (1 + 1e-9)
    assert au <= 100 * (1 + 1e-9)
    assert 0 < whole <= 100 * (1 + 1e-9)
    assert (1 - whole / 100) * epoch.total == pytest.approx(epoch.wait, rel=1e-6, abs=1e-3)


@given(
    st.sampled_from(profile_names()),
    st.integers(min_value=1, max_value=64),
    st.integers(min_value=1, max_value=10**6),
    st.integers(min_value=1, max_value=500),
    st.none() | st.integers(min_value=1, max_value=1000),
)
def test_an_epoch_reads_no_more_than_there_is(
    profile: str, accelerators: int, files: int, batch: int, most: int | None
) -> None:
    given_params = params(
        profile=profile,
        accelerators=accelerators,
        files=files,
        batch_size=batch,
        computation_time=0.1,  # a batch size other than the profile's needs its own time
        max_steps=most,
    )
    settings = settings_of(TrainingParams.of(given_params))
    consumed = settings.steps * batch * accelerators
    assert consumed <= settings.samples
    assert settings.epoch_bytes <= settings.data_bytes
    if most is None:
        assert settings.samples - consumed < (batch + 1) * accelerators
    refused = refusal(FAMILIES["training"].check(given_params, Target(name="t", directory="d")))
    assert (refused is None) == (settings.steps > 0)


@given(
    st.integers(min_value=1, max_value=64),
    st.integers(min_value=0, max_value=1 << 44),
    st.integers(min_value=0, max_value=1 << 44),
)
def test_more_memory_or_accelerators_never_ask_for_less(
    accelerators: int, memory: int, more: int
) -> None:
    first, other = (
        settings_of(TrainingParams.of(params(accelerators=n)))
        for n in (accelerators, accelerators + 1)
    )
    assert least_samples(first, memory) <= least_samples(first, memory + more)
    assert least_samples(first, memory) <= least_samples(other, memory)
