"""Physical limits derived from facts in the table."""

from __future__ import annotations

from unit.audit.audit_rows import check, row, setting


def flow(config: str, number: float, unit: str = "GB/s", **more: object) -> dict[str, str]:
    known: dict[str, object] = {
        "config": config,
        "workload": "seqread",
        "rw_mix": "100/0",
        "block_size": "1MiB",
        "op": "read",
        "metric": "throughput" if unit.endswith("/s") else "iops",
        "kind": "measured",
    }
    return row(**{**known, **more}, value=number, unit=unit)


def network(nics: int | None = 1) -> list[dict[str, str]]:
    rows = [setting("servers", 6, config="A"), setting("nic_rate", 200, "Gb/s", "A")]
    return rows if nics is None else [*rows, setting("nics", nics, config="A")]


def test_more_than_the_network_carries_is_an_error() -> None:
    found = check("ceilings", [*network(), flow("A", 155)])
    assert [f.severity for f in found] == ["error"]
    assert set(found[0].rows) == {"001", "002", "003", "004"}
    assert check("ceilings", [*network(), flow("A", 149)]) == []
    assert check("ceilings", [*network(2), flow("A", 290)]) == []


def test_a_number_of_ports_that_is_not_stated_is_assumed_aloud() -> None:
    assert [f.severity for f in check("ceilings", [*network(None), flow("A", 155)])] == ["warning"]


def test_a_link_carries_both_directions() -> None:
    mixed = flow("A", 290, rw_mix="50/50", op="read+write")
    assert check("ceilings", [*network(), mixed]) == []
    assert len(check("ceilings", [*network(), flow("A", 310, rw_mix="50/50", op="total")])) == 1


def test_iops_cross_the_link_as_well() -> None:
    rows = [*network(), flow("A", 40e6, "IOPS", block_size="4KiB")]
    assert len(check("ceilings", rows)) == 1


def test_clients_have_links_too() -> None:
    rows = [setting("clients", 4), setting("client_nic_rate", 100, "Gb/s"), flow("A", 60)]
    assert [f.severity for f in check("ceilings", rows)] == ["warning"]
    assert check("ceilings", [*rows[:2], flow("A", 45)]) == []


def test_pcie_generation_and_lanes() -> None:
    gen5 = [setting("interface_generation", 5, "pcie_gen", "1x SSD")]
    lanes = setting("pcie_lanes", 4, config="1x SSD")
    assert [f.severity for f in check("ceilings", [*gen5, lanes, flow("1x SSD", 16.5)])] == [
        "error"
    ]
    assert [f.severity for f in check("ceilings", [*gen5, flow("1x SSD", 16.5)])] == ["warning"]
    assert check("ceilings", [*gen5, lanes, flow("1x SSD", 14.9)]) == []
    two = [setting("pcie_generation", 4, "pcie_gen", "A"), setting("drive_count", 2, config="A")]
    assert check("ceilings", [*two, flow("A", 14)]) == []


def test_a_sata_link() -> None:
    link = setting("sata_rate", 6, "Gb/s", "A")
    rows = [link, setting("drives", 10, config="A")]
    assert len(check("ceilings", [*rows, flow("A", 8.1)])) == 1
    assert check("ceilings", [*rows, flow("A", 5)]) == []


def test_disks_have_a_plausible_rate() -> None:
    assert [f.severity for f in check("ceilings", [flow("16x HDD", 5.2)])] == ["warning"]
    assert check("ceilings", [flow("16x HDD", 4.2)]) == []
    assert check("ceilings", [flow("16x SSD", 90)]) == []
    hybrid = [setting("ssd_cache", 2, config="16x HDD"), flow("16x HDD", 5.2)]
    assert check("ceilings", hybrid) == []


def test_disks_serve_few_random_operations() -> None:
    common = {"workload": "randread", "block_size": "4KiB"}
    assert len(check("ceilings", [flow("16x HDD", 12_000, "IOPS", **common)])) == 1
    assert check("ceilings", [flow("16x HDD", 6_000, "IOPS", **common)]) == []
    sequential = flow("16x HDD", 100_000, "IOPS", block_size="16KiB")
    assert check("ceilings", [sequential]) == []


def test_mean_power_above_the_limit_of_the_drive() -> None:
    limit = setting("power_limit", 20, "W", "1x SSD")
    power = row(config="1x SSD", metric="power_avg", value=24.8, unit="W", kind="measured")
    assert [f.severity for f in check("ceilings", [limit, power])] == ["warning"]
    power["value"] = power["printed"] = "19.6"
    assert check("ceilings", [limit, power]) == []


def test_usable_above_raw() -> None:
    raw = setting("raw_cluster_capacity", 461, "TB", "A")
    assert [
        f.severity
        for f in check("ceilings", [raw, setting("usable_cluster_capacity", 500, "TB", "A")])
    ] == ["error"]
    assert check("ceilings", [raw, setting("usable_cluster_capacity", 304, "TB", "A")]) == []
    assert check("ceilings", [raw, setting("effective_capacity", 900, "TB", "A")]) == []


def test_a_rate_that_the_memory_generation_does_not_have() -> None:
    rows = [setting("dimm_type", 4, "ddr_gen"), setting("dimm_rate", 5600, "MT/s")]
    assert [f.rows for f in check("ceilings", rows)] == [["001", "002"]]
    rows[1] = setting("dimm_rate", 3200, "MT/s")
    assert check("ceilings", rows) == []
