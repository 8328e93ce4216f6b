"""Findings of the arithmetic rules on the shipped tables, each verified by hand."""

from __future__ import annotations

import pytest

from storlab.audit import audit_table
from storlab.audit.table import load_published

RULES = (
    "ratio_arithmetic",
    "percent_language",
    "identities",
    "totals",
    "units",
    "duplicates",
    "headlines",
)
EXPECTED: dict[str, list[tuple[str, str, str]]] = {
    "micron-6550-ion-ai-workloads": [
        ("error", "percent_language", "013"),  # 135 % slower
        ("warning", "percent_language", "011"),  # 2.51 x the time is not 1 / 2.35 of throughput
    ],
    "micron-6550-ion-gpudirect-storage": [
        ("warning", "units", "061"),  # 1,024 x 48 GB is 49.2 TB
    ],
    "micron-6600-ion-vs-16-hdd-fio": [
        ("warning", "identities", "040"),  # 145.6 x 3.6 = 524.2, and 145 x 3.6 = 522
        ("warning", "identities", "075"),  # 221.2 x 3.6 = 796.3
        ("warning", "units", "005"),  # 256 KB and 256 KiB
        ("warning", "units", "006"),  # 4 MB and 4 MiB
        ("warning", "duplicates", "093"),  # fio 3.4.1 and 3.41
    ],
    "micron-6600-ion-vs-16-hdd-minio-warp": [
        ("error", "ratio_arithmetic", "071"),  # 359.1 / 0.96 = 374
        ("warning", "units", "001"),  # 4 MB and 4 MiB
    ],
    "micron-weka-three-ssd-classes-fio": [
        ("error", "totals", "139"),  # 12 x 64 GB is 768 GB
        ("warning", "identities", "012"),  # 112 GB/s / 973 TB = 0.115 GB/s per TB, not 0.1
        ("warning", "identities", "019"),  # 104 GB/s / 461 TB = 0.226 GB/s per TB, not 0.2
        ("warning", "duplicates", "087"),  # 768 GB and 256 GB
    ],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_findings_of_a_shipped_table(name: str) -> None:
    found = audit_table(load_published(name), RULES)
    serious = [(f.severity, f.rule, f.rows[0]) for f in found if f.severity != "note"]
    assert sorted(serious) == sorted(EXPECTED[name])
