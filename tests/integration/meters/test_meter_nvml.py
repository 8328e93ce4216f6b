"""The nvml meter: the real nvidia-ml-py on a simulated driver library written in C."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import need_program

SOURCE = Path(__file__).with_name("fake_nvml.c")

# Runs with LD_LIBRARY_PATH set to the simulator; each step sets the library's answers.
SCRIPT = """
import json, os, sys
from storlab.base.errors import StorlabError
from storlab.contracts.document import Error
from storlab.meters.nvml import discover, open_meter
from storlab.model.study import MeterSpec, Target

fields, states = json.loads(sys.argv[1]), json.loads(sys.argv[2])
out = {"readings": []}

def answer(state):
    with open(os.environ["FAKE_NVML"], "w") as file:
        file.writelines(f"{name} {value}\\n" for name, value in state.items())

answer(states[0])
out["discovered"] = [[d.sensor, d.available, d.how] for d in discover()]
target = Target(name="t", path="null:")
try:
    meter = open_meter(MeterSpec.model_validate({"kind": "nvml", **fields}), target)
    out["infos"] = [info.dump() for info in meter.describe()]
    for state in states[1:]:
        answer(state)
        out["readings"].append([[r.sensor, r.value, r.sensor_time] for r in meter.sample()])
    meter.close()
except StorlabError as error:
    out["error"] = Error.of(error).model_dump()
print(json.dumps(out))
"""

IDLE = {
    "count": 1,
    "energy_mj": 5_000_000,
    "instant_mw": 71_000,
    "average_mw": 70_500,
    "stamp": 1_700_000_000,
}


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the simulator's directory."""
    where = tmp_path_factory.mktemp("nvml")
    built = where / "libnvidia-ml.so.1"
    compiler = need_program("cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", built, SOURCE], check=True)
    return where


def _run(
    where: Path, tmp_path: Path, fields: dict[str, Any], *states: dict[str, int]
) -> dict[str, Any]:
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(where),
        "FAKE_NVML": str(tmp_path / "state"),
    }
    command = [sys.executable, "-c", SCRIPT, json.dumps(fields), json.dumps(states)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    out: dict[str, Any] = json.loads(done.stdout)
    return out


def test_the_energy_counter_is_preferred(library: Path, tmp_path: Path) -> None:
    later = {**IDLE, "energy_mj": 5_071_000}
    out = _run(library, tmp_path, {}, IDLE, IDLE, later)
    (info,) = out["infos"]
    assert (info["sampling"], info["unit"], info["quantum"]) == ("counter", "J", 0.001)
    assert info["counter_max"] is None
    assert "part of the time" in info["description"]
    assert info["clock_uncertainty_ns"] >= 50_000_000
    assert out["readings"] == [[["nvml:0", 5000.0, None]], [["nvml:0", 5071.0, None]]]
    assert out["discovered"][0][:2] == ["nvml:0", True]
    assert "energy counter" not in out["discovered"][0][2]


def test_instant_power_where_there_is_no_counter(library: Path, tmp_path: Path) -> None:
    without = {**IDLE, "energy_error": 3}
    out = _run(library, tmp_path, {}, without, without)
    assert (out["infos"][0]["sampling"], out["infos"][0]["unit"]) == ("instantaneous", "W")
    assert out["readings"] == [[["nvml:0", 71.0, "1700000000"]]]


def test_average_power_on_request_is_a_mean_of_one_second(library: Path, tmp_path: Path) -> None:
    out = _run(library, tmp_path, {"reading": "average"}, IDLE, IDLE)
    (info,) = out["infos"]
    assert (info["sampling"], info["sensor_interval_ns"]) == ("interval_mean", 10**9)
    assert out["readings"] == [[["nvml:0", 70.5, "1700000000"]]]


def test_stale_values_carry_their_unchanged_stamp(library: Path, tmp_path: Path) -> None:
    fresh = {**IDLE, "stamp": 1_700_000_100}
    out = _run(library, tmp_path, {"reading": "instant"}, IDLE, IDLE, IDLE, fresh)
    assert [reading[0][2] for reading in out["readings"]] == [
        "1700000000",
        "1700000000",
        "1700000100",
    ]


def test_gpus_by_uuid_and_all_of_them(library: Path, tmp_path: Path) -> None:
    two = {**IDLE, "count": 2}
    out = _run(library, tmp_path, {"gpu": "GPU-bbbb"}, two, two)
    assert out["readings"] == [[["nvml:GPU-bbbb", 10_000.0, None]]]
    assert out["infos"][0]["whole"] == ""
    out = _run(library, tmp_path, {"gpu": "all"}, two, two)
    assert [sensor for sensor, _, _ in out["readings"][0]] == ["nvml:0", "nvml:1"]
    assert [info["whole"] for info in out["infos"]] == ["GPUs", "GPUs"]
    assert [info["description"][:10] for info in out["infos"]] == ["Fake GPU 0", "Fake GPU 1"]


@pytest.mark.parametrize("gpus", [[0, 0], [0, "GPU-aaaa"]])
def test_a_gpu_is_not_added_twice(library: Path, tmp_path: Path, gpus: list[int | str]) -> None:
    out = _run(library, tmp_path, {"gpu": gpus}, {**IDLE, "count": 2})
    assert "nvml:0 is listed twice" in out["error"]["what"]


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"energy_error": 15}, "the GPU is lost"),
        ({"energy_error": 4}, "may not read"),
        ({"energy_error": 10}, "did not answer in time"),
        ({"energy_mj": 10}, "counter decreased"),
        ({"energy_error": 999}, "NVML error 999"),
    ],
)
def test_faults_in_mid_run(
    library: Path, tmp_path: Path, broken: dict[str, int], words: str
) -> None:
    out = _run(library, tmp_path, {}, IDLE, IDLE, {**IDLE, **broken}, IDLE)
    assert len(out["readings"]) == 1
    assert out["error"]["kind"] == "MeterError"
    assert words in out["error"]["what"]


@pytest.mark.parametrize(
    ("fields", "state", "words"),
    [
        ({"gpu": 3}, IDLE, "no such GPU"),
        ({"gpu": "GPU-none"}, IDLE, "no such GPU"),
        ({}, {**IDLE, "handle_error": 4}, "may not read"),
        ({"reading": "energy"}, {**IDLE, "energy_error": 3}, "no energy value"),
        (
            {},
            {**IDLE, "energy_error": 3, "instant_error": 3, "average_error": 3},
            "neither energy nor power",
        ),
        ({}, {**IDLE, "energy_error": 3, "fields_error": 4}, "may not read"),
        ({}, {**IDLE, "init_error": 9}, "driver is not loaded"),
        ({}, {**IDLE, "init_error": 18}, "different versions"),
    ],
)
def test_what_cannot_be_opened(
    library: Path, tmp_path: Path, fields: dict[str, Any], state: dict[str, int], words: str
) -> None:
    out = _run(library, tmp_path, fields, state)
    assert out["error"]["kind"] == "MeterError"
    assert words in out["error"]["what"]
    assert out["error"]["where"].startswith('target "t"')


@pytest.mark.parametrize("gpu", [-1, "0", [], True])
def test_bad_names_of_gpus_are_errors_of_the_study(
    library: Path, tmp_path: Path, gpu: object
) -> None:
    out = _run(library, tmp_path, {"gpu": gpu}, IDLE)
    assert out["error"]["kind"] == "StudyError"
    assert "meter: gpu" in out["error"]["problems"][0]["where"]


def test_a_machine_without_driver(tmp_path: Path) -> None:
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has an NVIDIA driver")
    out = _run(tmp_path, tmp_path, {}, IDLE)
    assert "no NVIDIA driver" in out["error"]["what"]
    ((sensor, available, how),) = out["discovered"]
    assert (sensor, available) == ("nvml", False)
    assert "install the driver" in how
