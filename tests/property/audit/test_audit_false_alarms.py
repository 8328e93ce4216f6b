"""Random consistent publications from one model of storage have no findings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from storlab.audit import audit_table
from support.audit_tables import fact, table

# Spellings of each quantity: metric, unit, and factor to SI.
SPELLINGS: dict[str, list[tuple[str, str, float]]] = {
    "rate": [
        ("throughput", "MB/s", 1e6),
        ("bandwidth", "GB/s", 1e9),
        ("bw_gib_s", "GiB/s", 2**30),
        ("tput", "MiB/s", 2**20),
        ("throughput_mb_s", "", 1e6),
        ("throughput", "Gb/s", 1.25e8),
    ],
    "iops": [("iops", "IOPS", 1), ("iops_k", "", 1e3), ("iops", "kIOPS", 1e3)],
    "mean": [("latency_avg", "us", 1e-6), ("lat_mean_ms", "", 1e-3), ("clat_mean", "ms", 1e-3)],
    "tail": [("latency_p99", "us", 1e-6), ("99th_percentile_latency", "ms", 1e-3)],
    "watts": [("power", "W", 1), ("power_w_avg", "W", 1), ("watts", "", 1)],
    "per_watt": [("perf_per_watt", "MB/s/W", 1e6), ("mb_s_per_w", "", 1e6)],
    "per_kwh": [("energy_efficiency", "TB/kWh", 1e12 / 3.6e6), ("tb_per_kwh", "", 1e12 / 3.6e6)],
    "iops_per_watt": [("iops_per_watt", "IOPS/W", 1)],
    "per_tb": [("throughput_per_tb", "MB/s/TB", 1e-6)],
}
CLAIMS = {"rate": "throughput", "iops": "iops", "mean": "latency", "watts": "power"}
BLOCKS = {"4KiB": 4096, "64KB": 65_536, "128K": 131_072, "1MiB": 1_048_576, "4MB": 4_194_304}


@dataclass(frozen=True)
class Storage:
    """Model that saturates; watts rise with the rate, and writes cost more than reads."""

    limit: float
    service: float
    idle: float
    slope: float
    capacity_tb: float

    def cell(self, flight: int, size: int, reads: int) -> dict[str, float]:
        """Return all quantities at one operating point in SI units."""
        limit = self.limit * (0.5 + reads / 200)
        iops = flight / (self.service + size / (2 * limit) + flight * size / limit)
        rate = iops * size
        watts = self.idle + self.slope * rate * (1.2 - 0.2 * reads / 100)
        return {
            "rate": rate,
            "iops": iops,
            "mean": flight / iops,
            "tail": 2.7 * flight / iops,
            "watts": watts,
            "per_watt": rate / watts,
            "per_kwh": rate / watts,
            "iops_per_watt": iops / watts,
            "per_tb": rate / self.capacity_tb / 1e12,
        }


def digits(value: float, count: int, truncate: bool = False) -> str:
    """Round a number to significant digits; whole numbers below 1,000 stay exact."""
    exponent = math.floor(math.log10(abs(value)))
    places = count - 1 - exponent
    places = max(places, 0) if exponent < 3 else places
    scaled = value * 10.0**places
    whole = math.floor(scaled + 1e-9) if truncate else round(scaled)
    return f"{whole / 10.0**places:,.{max(places, 0)}f}"


def storages(random: Random) -> dict[str, Storage]:
    """Draw configurations that differ by up to two orders of magnitude."""
    return {
        name: Storage(
            10 ** random.uniform(8.3, 10.5),
            random.uniform(20e-6, 300e-6),
            random.uniform(50, 400),
            random.uniform(3e-9, 2e-8),
            random.choice((7.68, 122.88, 983.04)),
        )
        for name in random.sample(("alpha", "beta 2U", "old gen", "new gen"), 2)
    }


def publication(random: Random) -> list[dict[str, str]]:
    """Draw a table; which cells are printed, their spelling and rounding vary."""
    depth, swept = random.choice((1, 8, 32, 64)), random.random() < 0.6
    jobs = random.sample((1, 2, 4, 8, 16), 3) if swept else [8]
    setup = [("runs", "3", "count"), ("stdev", "1", "%"), ("direct_io", "1", "count")]
    setup += [("power_meter", "PDU", "model"), ("power_boundary", "server", "")]
    rows = [fact(*triple, config="") for triple in [*setup, ("iodepth", str(depth), "count")]]
    rows += [] if swept else [fact("numjobs", "8", "count", config="")]
    models = storages(random)
    rows += [
        fact("raw_capacity", f"{m.capacity_tb:.2f}", "TB", config=c) for c, m in models.items()
    ]
    truncate = random.random() < 0.3
    printed = {
        name: (random.choice(names), random.choice((3, 4, 5) if truncate else (2, 3, 4, 5)))
        for name, names in SPELLINGS.items()
        if random.random() < 0.6
    }
    for reads in random.sample((0, 30, 50, 70, 100), random.choice((1, 2, 3, 5))):
        for block in random.sample(sorted(BLOCKS), random.choice((1, 2, 3))):
            for job in jobs:
                place = {"workload": "mixed", "rw_mix": f"{reads}/{100 - reads}"}
                place |= {"block_size": block, "op": "total"}
                place |= {"x_name": "numjobs", "x_value": str(job)} if swept else {}
                cells = {c: m.cell(depth * job, BLOCKS[block], reads) for c, m in models.items()}
                for config, cell in cells.items():
                    for name, ((metric, unit, factor), count) in printed.items():
                        text = digits(cell[name] / factor, count, truncate)
                        rows.append(_measured(place, config, metric, unit, text))
                rows += claims(random, place, cells, set(printed))
    return rows


def _measured(
    place: dict[str, str], config: str, metric: str, unit: str, printed: str
) -> dict[str, str]:
    cell = {**place, "config": config, "metric": metric, "unit": unit, "printed": printed}
    return {**cell, "kind": "measured", "qualifier": "exact"}


def claims(
    random: Random, place: dict[str, str], cells: dict[str, dict[str, float]], known: set[str]
) -> list[dict[str, str]]:
    """Return ratios and percentages about one place, with suitable wording."""
    (first, first_values), (other, other_values) = random.sample(sorted(cells.items()), 2)
    found = []
    for name, word in CLAIMS.items():
        ratio = first_values[name] / other_values[name]
        if name not in known or 0.97 < ratio < 1.03:
            continue
        up, lower_is_better = ratio > 1, name in ("mean", "watts")
        forms = {"increase": up, "reduction": not up, "improvement": up != lower_is_better}
        forms |= {"ratio": up or lower_is_better, "faster": up and not lower_is_better}
        form = random.choice(sorted(form for form, fits in forms.items() if fits) or ["none"])
        if form == "none":
            continue
        text = digits(100 * abs(ratio - 1), 2) + "%"
        if form == "ratio":
            text = digits(max(ratio, 1 / ratio), random.choice((2, 3))) + "x"
        row = {**place, "config": first, "compare_config": other, "metric": f"{word}_{form}"}
        row |= {"kind": "ratio_claim", "unit": text[-1], "printed": text, "qualifier": "exact"}
        found.append(row)
    return found


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_consistent_publication_has_neither_error_nor_warning(random: Random) -> None:
    found = audit_table(table(*publication(random)))
    serious = [f for f in found if f.severity != "note"]
    assert [f"{f.rule} {f.rows}: {f.printed} | {f.recomputed}" for f in serious] == []
