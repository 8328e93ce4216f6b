"""Health of SATA and SAS drives by the JSON of smartctl, hostile output included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storlab.health.smartctl import decode, read_smartctl
from support.golden import PLACE


def document(name: str) -> Any:
    return json.loads((PLACE / "smartctl" / f"{name}.json").read_text())


def test_a_sata_drive_reports_by_its_device_statistics() -> None:
    found = decode(document("sata_ssd"))
    assert found.values == {
        "temperature_c": 36,
        "temperature_limit_c": 70,
        "percentage_used": 12,
        "host_written_bytes": 4_000_000 * 512,
        "host_read_bytes": 2_000_000 * 512,
        "media_errors": 2,
        "hot_min": 0,
        "interface_errors": 4,
    }
    assert found.sources == ["smartctl (ATA)"]
    assert found.absent.keys() == {"media_written_bytes"}


def test_sectors_of_a_drive_of_4_kib_blocks_are_longer() -> None:
    whole = document("sata_ssd") | {"logical_block_size": 4096}
    assert decode(whole).values["host_read_bytes"] == 2_000_000 * 4096


def test_a_sas_drive_reports_by_its_error_counter_logs() -> None:
    found = decode(document("sas_ssd"))
    assert found.values == {
        "temperature_c": 44,
        "temperature_limit_c": 60,
        "percentage_used": 7,
        "grown_defects": 3,
        "host_read_bytes": 123_456_789_000_000,
        "host_written_bytes": 98_765_432_000_000,
        "media_errors": 3,
    }
    assert found.sources == ["smartctl (SCSI)"]


def test_a_drive_that_fails_its_own_test_is_failing() -> None:
    whole = document("sas_ssd") | {"smart_status": {"passed": False}}
    assert decode(whole).values["failing"] == 1


def _without_validity(whole: Any) -> Any:
    for part in whole["ata_device_statistics"]["pages"]:
        for row in part["table"]:
            row["flags"]["valid"] = False
    return whole


def test_statistics_that_are_not_valid_are_not_used() -> None:
    found = decode(_without_validity(document("sata_ssd")))
    assert found.values == {"temperature_c": 35}
    assert "host_written_bytes" in found.absent


@pytest.mark.parametrize(
    "hostile",
    [
        [],
        None,
        "text",
        {},
        {"temperature": 7, "ata_device_statistics": {"pages": {"number": 1}}},
        {"temperature": {"current": True}, "scsi_grown_defect_list": "many"},
        {"ata_device_statistics": {"pages": [None, {"number": [], "table": [[], {"offset": {}}]}]}},
        {"scsi_error_counter_log": {"read": [], "write": {"gigabytes_processed": "NaN"}}},
        {"scsi_error_counter_log": {"write": {"gigabytes_processed": "1e999999"}}},
        {"scsi_grown_defect_list": 10**400, "temperature": {"current": -1e308}},
    ],
)
def test_hostile_documents_give_no_values(hostile: Any) -> None:
    assert decode(hostile).values == {}


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo not JSON", "no JSON"),
        (
            'echo \'{"smartctl": {"messages": [{"string": "Permission denied"}]}}\'; exit 2',
            "Permission denied",
        ),
        ("echo '{}'; exit 3", "could not open"),
    ],
)
def test_a_smartctl_that_fails_gives_the_reason(tmp_path: Path, script: str, words: str) -> None:
    program = tmp_path / "smartctl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    found = read_smartctl("/dev/sda", program)
    assert found.values == {}
    assert words in found.absent["smartctl"]


def test_warnings_in_the_exit_status_do_not_hide_the_values(tmp_path: Path) -> None:
    program = tmp_path / "smartctl"
    program.write_text(f"#!/bin/sh\ncat {PLACE}/smartctl/sas_ssd.json\nexit 72\n")
    program.chmod(0o755)
    assert read_smartctl("/dev/sdb", program).values["media_errors"] == 3


def test_a_smartctl_that_is_missing_is_the_reason(tmp_path: Path) -> None:
    assert read_smartctl("/dev/sda", tmp_path / "none").absent.keys() == {"smartctl"}
