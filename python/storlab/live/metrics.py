r"""Write the state of a running campaign as OpenMetrics text, for Prometheus.

Source: the OpenMetrics specification 1.0.0 (prometheus.io/docs/specs/om): TYPE, UNIT and HELP of a
family precede its samples, families follow one another, ``# EOF`` ends the text; ``\\``, ``"`` and
line feeds are escaped in label values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from storlab.base.units import NS_PER_S
from storlab.live.feed import MOMENT, State

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Family:
    """One OpenMetrics metric family; its name ends with its unit, as the format requires."""

    name: str
    kind: Literal["gauge", "counter", "info"]
    help: str
    unit: str = ""
    samples: Sequence[tuple[Mapping[str, str], float | None]] = ()

    def lines(self) -> Iterator[str]:
        """Yield the family's lines of OpenMetrics text; none if no sample has a value."""
        known = [(labels, value) for labels, value in self.samples if value is not None]
        if not known:
            return
        yield f"# TYPE {self.name} {self.kind}"
        if self.unit:
            yield f"# UNIT {self.name} {self.unit}"
        yield f"# HELP {self.name} {_escaped(self.help)}"
        suffix = {"counter": "_total", "info": "_info", "gauge": ""}[self.kind]
        for labels, value in known:
            shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"{self.name}{suffix}{{{shown}}} {_number(value)}"


def open_metrics(state: State) -> str:
    """Return the OpenMetrics text of a campaign's state."""
    lines = [line for family in _families(state) for line in family.lines()]
    return "\n".join([*lines, "# EOF", ""])


def _families(state: State) -> Iterator[Family]:
    study = {"study": state.study}
    run: Mapping[str, Any] = state.run or {}
    last = dict(zip(MOMENT, state.moments[-1], strict=True)) if state.moments else {}
    if last.get("run") != run.get("number"):
        last = {}  # the newest values are of the previous run
    of_run = {**study, "target": run.get("target", ""), "workload": run.get("workload", "")}
    yield from _campaign(state, study)
    if run:
        names = {"run": run["id"], "name": run["name"], "phase": state.phase}
        yield Family("storlab_run", "info", "The run in progress.", "", [({**of_run, **names}, 1)])
    p99, cpu = last.get("p99_ns"), last.get("cpu_percent")
    seconds = None if p99 is None else p99 / NS_PER_S
    cores = None if cpu is None else cpu / 100
    flush_p99 = last.get("flush_p99_ns")
    flush_s = None if flush_p99 is None else flush_p99 / NS_PER_S
    for name, unit, value, text in (
        ("throughput", "bytes_per_second", last.get("bytes_s"), "Over the last interval."),
        ("rate", "operations_per_second", last.get("operations_s"), "Over the last interval."),
        ("latency_p99", "seconds", seconds, "Over the last interval; of clients the slowest's."),
        ("flush_p99", "seconds", flush_s, "Of flushes, over the last interval."),
        ("client_cpu", "cores", cores, "What the load generator uses."),
    ):
        samples = [(of_run, value)] if run else []
        yield Family(f"storlab_{name}_{unit}", "gauge", text, unit, samples)
    for kind, name, unit, place, text in (
        ("power", "storlab_power_watts", "watts", "boundary", "By the target's own meters."),
        ("temperature", "storlab_temperature_celsius", "celsius", "device", "Every second."),
    ):
        own = [gauge for gauge in state.gauges if gauge.kind == kind]
        of_gauges = [({**study, "target": g.target, place: g.place}, g.value) for g in own]
        yield Family(name, "gauge", text, unit, of_gauges)
    yield from _devices(state, study)


def _devices(state: State, study: Mapping[str, str]) -> Iterator[Family]:
    """Yield metric families with the kernel's byte counters of the targets' devices."""
    for kind in ("read", "written"):
        name = f"storlab_device_{kind}_bytes"
        samples = [
            ({**study, "target": gauge.target, "device": gauge.place}, gauge.value)
            for gauge in state.gauges
            if gauge.kind == kind
        ]
        text = f"Bytes {kind} on the device by all programs, as counted by the kernel."
        yield Family(name, "counter", text, "bytes", samples)


def _campaign(state: State, study: Mapping[str, str]) -> Iterator[Family]:
    version = {**study, "version": state.version, "stage": state.stage}
    yield Family("storlab_campaign", "info", "The campaign.", "", [(version, 1)])
    ended = "Runs of the plan that are stored, including those of earlier sessions."
    for name, value, text in (
        ("planned", state.planned, "Runs of the plan."),
        ("stored", state.done, ended),
        ("failed", state.failed, "Runs of this session that failed."),
    ):
        samples = [(study, float(value))]
        yield Family(f"storlab_campaign_{name}_runs", "gauge", text, "runs", samples)
    left = "Estimated time until the end of the campaign."
    samples = [(study, state.left_s)]
    yield Family("storlab_campaign_left_seconds", "gauge", left, "seconds", samples)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
