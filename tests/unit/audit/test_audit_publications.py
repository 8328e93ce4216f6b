"""Complete realistic publications: correct ones pass, and each planted error is found."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from unit.audit.audit_publications import PUBLICATIONS, audit, number, rows, select


@pytest.mark.parametrize("name", PUBLICATIONS)
def test_an_honest_publication_has_no_finding(name: str) -> None:
    found = audit(rows(PUBLICATIONS[name]))
    assert [f"{f.severity} {f.rule} {f.rows}: {f.recomputed}" for f in found] == []


@dataclass(frozen=True)
class Planted:
    """A change to a publication, and the expected finding."""

    name: str
    finds: str
    change: dict[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    add: str = ""


Z1, Z0 = "Z1 Pro 7.68TB", "Z0 Pro 7.68TB"
FS = "FS cluster, 8 nodes | ior_easy_read"
PLANTED = [
    Planted(
        "nvme_brief",
        "error ratio_arithmetic",
        {"seqwrite | bandwidth_ratio": "2.7x"},
        drop=("headline_claim",),
    ),
    Planted("nvme_brief", "error identities", {f"{Z1} | tb_per_kwh": "2,855"}),
    Planted(
        "nvme_brief",
        "error identities",
        {f"{Z1} | iops_per_watt": "122.1K"},
        drop=("iops_per_watt_improvement",),
    ),
    Planted(
        "nvme_brief",
        "error ceilings",  # 4 lanes of PCIe 4 carry 7.9 GB/s
        {
            f"{Z0} | seqread | seq_read_bandwidth": "8,900",
            f"{Z0} | seqread | perf_per_watt": "754",
            f"{Z0} | seqread | tb_per_kwh": "2,715",
            f"{Z0} | seqread | lat_avg_us": "471",
        },
        drop=("bandwidth_ratio", "bandwidth_ratio_min"),
        add=f"config: {Z0}\n  pcie_lanes = 4 [count]",
    ),
    Planted(
        "nvme_brief",
        "warning ceilings",
        {f"{Z0} | seqwrite | power_w_avg": "22.4", f"{Z0} | seqwrite | perf_per_watt": "183"},
    ),
    Planted(
        "nvme_brief",
        "warning implied_outstanding",
        {f"{Z1} | randread | lat_avg_us": "17.7", f"{Z1} | randread | lat_p99_us": "31"},
        drop=("latency_reduction",),
    ),
    Planted(
        "nvme_brief",
        "error identities",  # p99 below the median
        {f"{Z1} | randread | lat_p99_us": "31"},
        add=f"measured: {Z1} @ randread 100/0 4KiB read iodepth=256\n  lat_p50_us = 150 [us]",
    ),
    Planted("nvme_brief", "warning headlines", {"headline_claim | bandwidth_ratio": "2.9x"}),
    Planted(
        "nvme_brief",
        "error duplicates",
        add=f"measured: {Z1} @ seqread 100/0 128KiB read iodepth=32\n"
        "  seq_read_bandwidth = 13,400 [MB/s]",
    ),
    Planted(
        "nvme_brief",
        "warning power_boundary",
        drop=("power_boundary",),
        add=f"config: {Z1}\n  power_boundary = drive rails\n"
        f"config: {Z0}\n  power_boundary = whole server at the wall",
    ),
    Planted(
        "power_table",
        "error identities",  # W x s is not Wh
        {"Server A | energy": "284"},
        drop=("energy_reduction",),
    ),
    Planted("power_table", "error identities", {"Server A | energy_per_tb": "6.42"}),
    Planted("power_table", "error identities", {"Server A | power_peak": "405"}),
    Planted("power_table", "error ratio_arithmetic", {"energy_reduction": "35%"}),
    Planted(
        "archive",
        "error identities",
        {"QLC JBOF | cost_per_tb": "23.2"},
        drop=("cost_per_tb_ratio",),
    ),
    Planted("archive", "error totals", {"HDD JBOD | raw_capacity": "4.25"}),
    Planted(
        "archive",
        "warning ceilings",  # 400 MB/s per disk
        {
            "HDD JBOD | throughput": "41",
            "HDD JBOD | throughput_per_tb": "16.7",
            "HDD JBOD | throughput_per_rack_unit": "10.25",
            "HDD JBOD | mb_s_per_w": "37.6",
            "throughput_ratio": "1.2x",
        },
    ),
    Planted("cloud", "error identities", {"gp-volume | throughput_mib_s": "312"}),
    Planted(
        "cloud",
        "warning ceilings",  # more than was provisioned
        {
            "gp-volume | iops": "21,000",
            "gp-volume | throughput_mib_s": "328",
            "gp-volume | latency_mean": "3.05",
            "gp-volume | latency_p99": "4.88",
            "gp-volume | iops_per_dollar": "131.3",
            "iops_ratio": "3x",
            "latency_reduction": "67%",
        },
    ),
    Planted(
        "object_appliance",
        "error totals",
        {"OBX all-flash | total | throughput": "53.4"},
        drop=("headline_claim",),
    ),
    Planted("object_appliance", "error totals", {"OBX all-flash | raw_capacity": "1,206"}),
    Planted("object_appliance", "error ceilings", {"OBX all-flash | usable_capacity": "1,304"}),
    Planted(
        "object_appliance",
        "warning units",  # GiB/s divided as if it were GB/s
        {"OBX all-flash | throughput_per_watt": "19.65"},
        drop=("throughput_per_watt_ratio",),
    ),
    Planted("object_appliance", "error ratio_arithmetic", {"power_reduction": "17%"}),
    Planted(
        "object_appliance", "error identities", {"OBX all-flash | throughput_per_node": "12.2"}
    ),
    Planted(
        "mlperf_training",
        "error ratio_arithmetic",
        {"cosmoflow_h100 | accelerators_ratio": "1.9x"},
    ),
    Planted(
        "mlperf_training",
        "error identities",
        {"Array X 2U | unet3d_h100 | throughput_per_accelerator": "3,844"},
    ),
    Planted(
        "checkpoint",
        "error percent_language",
        add="ratio_claim: Parallel FS on HDD > NVMe tier @ llama70b_save - - write\n"
        "  slower_bandwidth = 122% [%]",
    ),
    Planted(
        "checkpoint",
        "warning identities",  # 912 GB at 61 GB/s
        {"NVMe tier | llama70b_load | duration": "11.5"},
        drop=("time_ratio",),
    ),
    Planted("parallel_fs", "error identities", {f"{FS} | bandwidth_per_tb": "165"}),
    Planted("parallel_fs", "warning units", {f"{FS} | bw_gb_s": "312"}),
    Planted("parallel_fs", "error identities", {f"{FS} | bandwidth_per_rack_unit": "39.0"}),
    Planted("parallel_fs", "error identities", {"FS cluster, 8 nodes | cost_per_usable_tb": "625"}),
    Planted(
        "headline_brief",
        "warning words",
        {"Gen5 array | restore | runtime_ratio": "a tenfold difference"},
    ),
    Planted(
        "headline_brief",
        "error ratio_arithmetic",
        {"restore | watts_reduction": "49%"},
        drop=("headline_claim",),
    ),
    Planted("headline_brief", "error headlines", {"headline_claim | tput_ratio": "4.8x"}),
    Planted(
        "headline_brief",
        "error percent_language",  # 1.6 x is not 166 % more
        add="ratio_claim: Gen5 array > Gen4 array @ backup 0/100 1MB\n  tput_increase = 166% [%]",
    ),
    Planted("tco", "warning totals", {"opt1 | server_cost": "90,000"}),
    Planted("tiers_power", "error identities", {"rack A | energy_total": "52.9"}),
    Planted(
        "oltp",
        "error ratio_arithmetic",
        {"64 | ratio_claim | transactions_per_second_ratio": "2.6x"},
        drop=("headline_claim",),
    ),
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda p: f"{p.name}-{p.finds.split()[1]}")
def test_a_planted_error_is_found_and_nothing_else(planted: Planted) -> None:
    cells = [
        cell
        for cell in rows(PUBLICATIONS[planted.name])
        if not {cell["metric"], cell["kind"]} & set(planted.drop)
    ]
    changed = set()
    for where, printed in planted.change.items():
        place = next(select(cells, where))
        cells[place] |= {"printed": printed, "value": number(printed) or cells[place]["value"]}
        changed.add(f"{place + 1:03d}")
    if planted.add:
        added = rows(planted.add)
        changed |= {f"{len(cells) + place + 1:03d}" for place in range(len(added))}
        cells += added
    serious = [f for f in audit(cells) if f.severity != "note"]
    assert planted.finds in [f"{f.severity} {f.rule}" for f in serious]
    assert [f.rule for f in serious if not changed & set(f.rows)] == []
