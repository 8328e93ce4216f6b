"""A publication from one model has no finding; each modification causes one."""

from __future__ import annotations

from storlab.audit import audit_table
from storlab.audit.finding import Finding
from unit.audit.audit_rows import row, setting, table

DEPTH = 32
JOBS = (1, 4, 16)
MIXES = (30, 50, 70, 90)
# MB/s at saturation, W idle, W per GB/s: a flash array and disks in the same enclosure
CONFIGS = {"array one": (6000.0, 180.0, 14.0), "array two": (2100.0, 210.0, 9.0)}


def honest() -> list[dict[str, str]]:
    """Return a table: rates saturate, latencies follow Little's law, watts follow the rate."""
    rows = [
        setting("iodepth", DEPTH),
        setting("runs_averaged", 5),
        setting("throughput_stdev_max", 1.5, "%"),
        setting("power_meter", "PDU", "model"),
        setting("data_set_size", 20, "TB"),
        setting("memory", 256, "GB"),
    ]
    for name in CONFIGS:
        rows.append(setting("power_boundary", "enclosure", "", name))
        rows.append(setting("raw_capacity", 100, "TB", name))
    for mix in MIXES:
        for block, size in (("64KiB", 65_536), ("1MiB", 1_048_576)):
            for jobs in JOBS:
                rows += cell_pair(mix, block, size, jobs)
    return rows


def cell_pair(mix: int, block: str, size: int, jobs: int) -> list[dict[str, str]]:
    """Return both configurations at one operating point, and ratios claimed for it."""
    rows = []
    place = {"workload": "randrw", "rw_mix": f"{mix}/{100 - mix}", "block_size": block}
    place |= {"x_name": "numjobs", "x_value": str(jobs)}
    seen: dict[str, list[float]] = {}
    for name, (limit, idle, slope) in CONFIGS.items():
        rate = limit * jobs * DEPTH / (jobs * DEPTH + 60) * (0.7 + mix / 300)
        iops = rate * 1e6 / size
        mean_ms = 1e3 * jobs * DEPTH / iops
        watts = idle + slope * rate / 1e3
        seen[name] = [rate, mean_ms, rate / watts]
        common = {**place, "config": name, "kind": "measured", "op": "total"}
        for metric, value, unit in (
            ("throughput", rate, "MB/s"),
            ("iops", iops, "IOPS"),
            ("power_avg", watts, "W"),
            ("power_efficiency", rate / watts, "MB/s/W"),
            ("energy_efficiency", 3.6 * rate / watts, "TB/kWh"),
            ("throughput_per_tb", rate / 100, "MB/s/TB"),
            ("latency_avg", mean_ms, "ms"),
            ("latency_p99", 3 * mean_ms, "ms"),
        ):
            rows.append(row(**common, metric=metric, value=f"{value:.3f}", unit=unit))
    first, other = seen.values()
    claim = {**place, "config": "array one", "compare_config": "array two", "op": "total"}
    claim |= {"kind": "ratio_claim", "unit": "x", "qualifier": "approx"}
    for metric, value in (
        ("throughput_ratio", first[0] / other[0]),
        ("latency_ratio", other[1] / first[1]),
        ("power_efficiency_ratio", first[2] / other[2]),
    ):
        rows.append(row(**claim, metric=metric, value=f"{value:.1f}", printed=f"{value:.1f}x"))
    return rows


def findings(rows: list[dict[str, str]]) -> list[Finding]:
    return audit_table(table(rows))


def told(found: list[Finding]) -> list[str]:
    return [f"{f.severity} {f.rule} {f.rows}: {f.printed} | {f.recomputed}" for f in found]


def test_an_honest_publication_has_no_finding() -> None:
    assert told(findings(honest())) == []


def test_latencies_of_another_load_are_found() -> None:
    rows = honest()
    for made in rows:
        if made["config"] == "array one" and made["metric"].startswith("latency_"):
            made["value"] = made["printed"] = f"{float(made['value']) / 20:.3f}"
        if made["metric"] == "latency_ratio":
            number = float(made["value"]) * 20
            made["value"], made["printed"] = f"{number:.1f}", f"{number:.1f}x"
    rules = {f.rule for f in findings(rows)}
    assert rules >= {"implied_outstanding", "effective_concurrency"}


def test_an_efficiency_of_another_cell_is_found() -> None:
    rows = [made for made in honest() if made["metric"] not in ("power_avg", "energy_efficiency")]
    rows = [made for made in rows if not made["metric"].startswith("power_efficiency_ratio")]
    wrong = next(
        made
        for made in rows
        if made["config"] == "array one"
        and made["metric"] == "power_efficiency"
        and (made["rw_mix"], made["block_size"], made["x_value"]) == ("70/30", "1MiB", "16")
    )
    wrong["value"] = wrong["printed"] = f"{float(wrong['value']) * 1.8:.3f}"
    assert [f.rule for f in findings(rows)] == ["implied_watts"]
