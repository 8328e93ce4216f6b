"""Preflight and environment on this machine."""

from __future__ import annotations

import json
import os
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from storlab.base.errors import EngineError, ExitCode, PreflightError, StudyError
from storlab.base.units import NS_PER_S
from storlab.cli.main import main
from storlab.contracts.check import Check
from storlab.contracts.registry import ENGINES, get_engine
from storlab.engines.native.engine import NativeEngine
from storlab.lab.plan.plan import make_plan
from storlab.lab.preflight.limits import limit_checks
from storlab.lab.preflight.machine import core_checks, load_check, spin_check, spin_ns
from storlab.lab.preflight.preflight import check_machine, check_study, refuse_errors
from storlab.lab.study.file import LoadedStudy, load_study
from storlab.lab.watch.limits import limit_facts
from storlab.process.host_memory import host_memory_bytes
from storlab.results.environment import describe_environment
from storlab.stores.filesystems import file_system_of, free_bytes, supports_direct


def loaded(tmp_path: Path, target: str, workload: str = "", study: str = "") -> LoadedStudy:
    path = tmp_path / "study.toml"
    path.write_text(f"""
    [study]
    name = "preflight"
    {study}
    [[target]]
    name = "t"
    {target}
    [[workload]]
    kind = "block"
    {workload}
    """)
    return load_study(path)


def checks_of(study: LoadedStudy) -> dict[str, Check]:
    checks = check_study(study.study, make_plan(study), Path.cwd())
    return {check.name.removeprefix("t: "): check for check in checks}


def test_the_machine_is_described_without_errors() -> None:
    checks = check_machine(NS_PER_S // 100)
    about = ["load", "cores", "build", "io_uring", "clock", "CPU governor", "CPU state"]
    about += ["memlock", "fio"]
    names = [check.name for check in checks]
    assert names[: len(about) + 1] == [*about, "power"]
    assert names[len(about) + 1 :]  # followed by facts from families
    assert all(check.status != "error" for check in checks)


@pytest.mark.parametrize(
    ("load", "cores", "status"),
    [(10.0, 2, "warning"), (1.01, 2, "warning"), (1.0, 2, "ok"), (10.0, 32, "ok")],
)
def test_load_is_warned_of(load: float, cores: int, status: str) -> None:
    found = load_check(load, cores)
    assert (found.name, found.status) == ("load", status)
    assert f"{load:.2f} over the last minute" in found.what


@pytest.mark.parametrize(
    ("lost", "stolen", "status"),
    [(0.1, 0.0, "ok"), (2.0, None, "warning"), (1.9, 1.9, "ok"), (1.9, 2.0, "warning")],
)
def test_cores_that_others_take_are_warned_of(
    lost: float, stolen: float | None, status: str
) -> None:
    found = spin_check(
        {
            "threads": 2,
            "length_ns": NS_PER_S,
            "largest_gap_ns": 12_000_000,
            "lost_percent": lost,
            "waited_percent": 0.0,
            "steal_percent": stolen,
        }
    )
    assert (found.name, found.status) == ("cores", status)
    assert "the largest gap was 12 ms" in found.what
    assert f"{lost:.2g} % of 1 s" in found.what


def test_a_short_campaign_does_not_wait_a_second_for_its_check() -> None:
    assert spin_ns(3600 * NS_PER_S) == NS_PER_S
    assert spin_ns(10 * NS_PER_S) == NS_PER_S // 10
    assert spin_ns(0) == NS_PER_S // 50


def test_cores_are_watched_for_as_long_as_asked() -> None:
    _, cores = core_checks(NS_PER_S // 50)
    assert cores.name == "cores"
    assert "% of 20 ms" in cores.what


def test_a_build_for_tests_is_no_build_for_measuring() -> None:
    (check,) = (check for check in check_machine(1) if check.name == "build")
    unoptimised = "unoptimised build" in NativeEngine().describe().features
    assert (check.status, "make build" in check.fix) == (
        ("warning", True) if unoptimised else ("ok", False)
    )


def test_a_file_study_that_can_run(tmp_path: Path) -> None:
    study = loaded(tmp_path, f'path = "{tmp_path}/data"\nsize = "1MiB"\ndirect = false')
    checks = checks_of(study)
    refuse_errors(list(checks.values()))
    assert checks["permissions"].status == "ok"
    assert checks["free space"].status == "ok"
    assert list(tmp_path.iterdir()) == [tmp_path / "study.toml"]


def test_the_page_cache_is_warned_of_on_a_drive(disk_path: Path) -> None:
    study = loaded(disk_path, f'path = "{disk_path}/data"\nsize = "1MiB"\ndirect = false')
    checks = checks_of(study)
    assert checks["page cache"].status == "warning"
    assert checks["data set"].status == "warning"
    assert "direct = true" in checks["data set"].fix


def test_a_file_in_memory_is_called_so() -> None:
    if file_system_of(Path("/dev/shm")).kind != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs here")
    assert file_system_of(Path("/dev/shm/any/new/file")).in_memory


def test_too_little_space_is_an_error(tmp_path: Path) -> None:
    study = loaded(tmp_path, f'path = "{tmp_path}/data"\nsize = "900PiB"\ndirect = false')
    checks = checks_of(study)
    assert checks["free space"].status == "error"
    with pytest.raises(PreflightError, match="free space"):
        refuse_errors(list(checks.values()))


@pytest.mark.parametrize(
    ("lines", "field"),
    [
        ('kind = "preprocess"\nrows = 1_000_000_000_000', "rows"),
        ('kind = "training"\nprofile = "unet3d-h100"\nfiles = 1_000_000_000', "scale"),
    ],
)
def test_too_little_space_names_a_field_that_the_workload_has(
    tmp_path: Path, lines: str, field: str
) -> None:
    path = tmp_path / "study.toml"
    head = f'[study]\nname = "s"\n[[target]]\nname = "t"\ndirectory = "{tmp_path}"\n[[workload]]\n'
    path.write_text(head + lines)
    found = checks_of(load_study(path))["free space"]
    assert found.status == "error"
    assert f"reduce {field} of the workload" in found.fix


def test_what_is_needed_counts_from_where_the_campaign_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that relative paths refer to the study's folder after a resume elsewhere."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "day_0").write_bytes(b"\n" * (1 << 20))
    path = tmp_path / "study.toml"
    head = '[study]\nname = "s"\n[[target]]\nname = "t"\ndirectory = "data"\n[[workload]]\n'
    path.write_text(f'{head}kind = "preprocess"\ninput = ["day_*"]\n')
    study = load_study(path)
    monkeypatch.chdir(tmp_path)
    plan = make_plan(study)
    here = check_study(study.study, plan, tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    there = check_study(study.study, plan, tmp_path)
    problems = [
        next(check.what for check in checks if check.name == "t: free space").partition(" needed")
        for checks in (here, there)
    ]
    assert problems[0][0] == problems[1][0]
    assert not problems[0][0].startswith("0")


def test_a_missing_device_is_an_error(tmp_path: Path) -> None:
    study = loaded(tmp_path, 'path = "/dev/disk/by-id/storlab-no-such"', "read_percent = 100")
    assert checks_of(study)["device"].status == "error"


@pytest.mark.parametrize("key", ["directory", "path"])
def test_a_missing_directory_is_an_error(key: str, tmp_path: Path) -> None:
    """Check that the message names the file system that is checked instead."""
    missing = tmp_path / "none" / "deeper"
    study = loaded(tmp_path, f'{key} = "{missing / "x"}"\nsize = "1MiB"\ndirect = false')
    found = checks_of(study)
    assert found["directory"].status == "error"
    under = file_system_of(tmp_path)
    missing = missing / "x" if key == "directory" else missing
    for part in (f"{missing} ", f"{tmp_path} ", f"{under.kind} at {under.mount_point}"):
        assert part in found["directory"].what
    assert found["permissions"].what == str(tmp_path)
    assert "mount" not in found
    assert not (tmp_path / "none").exists()


def test_a_directory_that_exists_is_what_is_checked(tmp_path: Path) -> None:
    found = checks_of(loaded(tmp_path, f'directory = "{tmp_path}"\nsize = "1MiB"\ndirect = false'))
    assert found["permissions"].what == str(tmp_path)
    assert not {"directory", "mount"} & found.keys()


@pytest.mark.parametrize(
    ("line", "is_unmounted"),
    [
        ("/dev/sdz1 {here}/disk ext4 noauto 0 2", True),
        ("server:/export {here}/disk/ nfs4 rw", True),
        ("UUID=1 {here}/disk/inner xfs defaults 0 0", True),
        ("# /dev/sdz1 {here}/disk ext4 defaults 0 2", False),
        ("/dev/sdz1 {here}/other ext4 defaults 0 2", False),
        ("/dev/sdz1 / ext4 defaults 0 1", False),  # mounted
        ("/dev/sdz2 none swap sw 0 0", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_a_mount_point_without_its_file_system_is_warned_of(
    line: str, is_unmounted: bool, exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "disk" / "inner"
    if exists:
        here.mkdir(parents=True)
    fstab = tmp_path / "fstab"
    fstab.write_text(line.format(here=tmp_path) + "\n")
    monkeypatch.setattr("storlab.stores.filesystems.FSTAB", fstab)
    study = loaded(tmp_path, f'directory = "{here}"\nsize = "1MiB"\ndirect = false')
    found = checks_of(study)
    assert ("mount" in found) == is_unmounted
    assert ("directory" in found) != exists
    if is_unmounted:
        point = line.split()[1].format(here=tmp_path).rstrip("/")
        assert found["mount"].status == "warning"
        assert found["mount"].fix == f"mount {point}"
        if not exists:
            assert point in found["directory"].fix


def test_a_file_in_the_place_of_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = checks_of(loaded(tmp_path, f'path = "{tmp_path}/file/x"\nsize = "1MiB"'))
    assert found["directory"].status == "error"


@pytest.mark.parametrize(
    ("target", "workload", "words"),
    [
        ('path = "mine"\nsize = "1MiB"', "read_percent = 0", "storlab did not create it"),
        ('path = "none/data"\nsize = "1MiB"', "", "does not exist"),
    ],
)
def test_doctor_says_what_run_would_refuse(
    target: str,
    workload: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text("precious")
    loaded(tmp_path, f"{target}\ndirect = false", workload)
    before = sorted(tmp_path.iterdir())
    assert main(["doctor", "study.toml", "--json"]) == ExitCode.PREFLIGHT
    report = json.loads(capsys.readouterr().out)
    assert any(words in c["what"] for c in report["checks"] if c["status"] == "error")
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_meter_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    meter = 'kind = "csv", path = "none.csv", time_column = "t", time_format = "epoch", '
    meter += 'clock_offset = 0, columns = ["w"], boundary = "wall"'
    study = loaded(tmp_path, f'path = "null:"\nmeters = [{{ {meter} }}]')
    found = checks_of(study)
    assert found["meter csv"].status == "error"
    assert "none.csv" in found["meter csv"].what
    assert found["power"].status == "warning"  # no settle pause


def test_a_meter_that_works_is_named_with_its_boundary(tmp_path: Path) -> None:
    meter = 'kind = "declared", idle_watts = 3, joules_per_byte = 1e-9, boundary = "device"'
    study = loaded(tmp_path, f'path = "null:"\nmeters = [{{ {meter} }}]', study="settle = 1")
    found = checks_of(study)
    assert found["meter declared"].status == "ok"
    assert "device, declared" in found["meter declared"].what
    assert "power" not in found


def test_without_a_pause_only_metered_idle_power_is_missing(tmp_path: Path) -> None:
    meter = 'kind = "declared", idle_watts = 3, joules_per_byte = 1e-9, boundary = "device"'
    study = loaded(tmp_path, f'path = "null:"\nmeters = [{{ {meter} }}]', study="settle = 0")
    assert "power" not in checks_of(study)


def test_doctor_counts_in_plain_english(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    loaded(tmp_path, 'path = "null:"')
    assert main(["doctor", "study.toml"]) == ExitCode.OK
    *checks, last = capsys.readouterr().out.splitlines()
    count = sum(line.startswith("warning ") for line in checks)  # load varies
    assert last.endswith(f", 0 errors, {count} warning{'' if count == 1 else 's'}")


def test_a_field_that_a_meter_does_not_have_is_an_error_of_the_study(tmp_path: Path) -> None:
    study = loaded(tmp_path, 'path = "null:"\nmeters = [{ kind = "declared", idle_wats = 3 }]')
    with pytest.raises(StudyError, match="idle_watts"):
        checks_of(study)


def test_meters_at_several_boundaries_need_a_headline(tmp_path: Path) -> None:
    meter = '{ kind = "declared", idle_watts = 3, joules_per_byte = 1e-9, boundary = "device" }'
    meters = f"meters = [{meter}, {meter.replace('device', 'wall')}]"
    with pytest.raises(StudyError, match="power_boundary"):
        checks_of(loaded(tmp_path, f'path = "null:"\n{meters}'))
    study = loaded(tmp_path, f'path = "null:"\npower_boundary = "wall"\n{meters}')
    refuse_errors(list(checks_of(study).values()))


def test_a_power_state_needs_an_nvme_drive(tmp_path: Path) -> None:
    target = 'path = "/dev/shm/storlab-power-state.dat"\nsize = "1MiB"\npower_state = 1'
    study = loaded(tmp_path, f"{target}\ndirect = false")
    assert checks_of(study)["power state"].status == "error"


def test_a_missing_engine_is_an_error_when_the_study_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORLAB_FIO", str(tmp_path / "none"))
    target = f'path = "{tmp_path}/data"\nsize = "1MiB"'
    study = loaded(tmp_path, target, study='engine = "fio"')
    assert checks_of(study)["fio"].status == "error"
    assert [c.status for c in check_machine(1) if c.name == "fio"] == ["ok"]


def test_no_errors_no_refusal() -> None:
    refuse_errors([Check(name="a", status="warning", what="w")])


def test_every_error_is_named() -> None:
    checks = [Check(name=n, status="error", what=f"what {n}", fix=f"fix {n}") for n in "abc"]
    with pytest.raises(PreflightError) as caught:
        refuse_errors(checks)
    assert all(f"what {n}" in str(caught.value) and f"fix {n}" in str(caught.value) for n in "abc")


def test_direct_support_is_tried_not_assumed(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(4096))
    try:
        os.close(os.open(file, os.O_RDONLY | os.O_DIRECT))
        works = True
    except OSError:
        works = False
    assert supports_direct(file) is works
    assert supports_direct(tmp_path / "new") is works
    assert supports_direct(Path("/proc/cpuinfo")) is False
    assert sorted(tmp_path.iterdir()) == [file]


def test_free_bytes_agrees_with_the_kernel(tmp_path: Path) -> None:
    status = os.statvfs(tmp_path)
    assert free_bytes(tmp_path / "new") <= status.f_blocks * status.f_frsize


def test_the_environment_is_json_and_knows_the_drive_below_a_file(tmp_path: Path) -> None:
    study = loaded(tmp_path, f'path = "{tmp_path}/data"\nsize = "1MiB"').study
    environment = json.loads(json.dumps(describe_environment(study), allow_nan=False))
    assert environment["cpu"]["cores"] == os.cpu_count()
    assert environment["memory"]["total_bytes"] == host_memory_bytes() > 0
    assert environment["engines"]["native"]["version"]
    about = environment["targets"]["t"]
    assert about["kind"] == "file"
    assert about["file_system"] == file_system_of(tmp_path).kind
    for drive in about["drives"]:
        assert drive["size_bytes"] > 0


def broken(name: str, place: str) -> EntryPoint:
    return EntryPoint(name=name, value=place, group=ENGINES.group)


def test_an_engine_that_is_broken_is_recorded_and_breaks_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "storlab_broken_import.py").write_text("import a_module_that_is_not_there\n")
    (tmp_path / "storlab_broken_engine.py").write_text(
        "class Engine:\n    def describe(self):\n        raise PermissionError(13, 'not yours')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(ENGINES, "loaded", {})
    monkeypatch.setitem(ENGINES.points, "fio", broken("fio", "storlab_broken_import:Engine"))
    monkeypatch.setitem(ENGINES.points, "warp", broken("warp", "storlab_broken_engine:Engine"))
    engines = describe_environment()["engines"]
    assert "a_module_that_is_not_there" in engines["fio"]["missing"]
    assert "not yours" in engines["warp"]["missing"]
    assert engines["native"]["version"]
    with pytest.raises(EngineError, match="cannot be loaded") as caught:
        get_engine("fio")
    assert caught.value.fix


ROOMY = {
    "quota_cores": None, "quota_group": "", "memory_limit_bytes": None, "memory_group": "",
    "memory_left_bytes": 1 << 30, "threads": 1000,
}  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "workers", "memory", "statuses"),
    [
        ({}, 8, 1 << 29, {}),
        ({"quota_cores": 4.0}, 8, 0, {}),
        ({"quota_cores": 0.1}, 8, 0, {"CPU quota": "warning"}),
        ({"memory_limit_bytes": 1 << 30}, 8, 0, {"memory limit": "ok"}),
        ({}, 8, 1 << 31, {"memory": "error"}),
        ({}, 990, 0, {"threads": "error"}),
    ],
)
def test_limits_of_the_client_are_known_beforehand(
    facts: dict[str, object], workers: int, memory: int, statuses: dict[str, str]
) -> None:
    found = limit_checks({**ROOMY, **facts}, 4, workers, memory)
    assert {check.name: check.status for check in found} == statuses


def test_facts_of_this_machine_are_complete() -> None:
    facts = limit_facts()
    assert facts.keys() == ROOMY.keys()
    assert facts["memory_left_bytes"] > 0 < facts["threads"]
