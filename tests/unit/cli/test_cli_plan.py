"""The commands init, schema and plan, with errors and exit codes."""

from __future__ import annotations

import inspect
import json
import math
import os
import signal
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from storlab import __version__
from storlab.base.errors import ExitCode
from storlab.cli.common import emit_json
from storlab.cli.consoles import CLOSED_PIPE
from storlab.cli.documents import AcceptedDifference, GateDocument
from storlab.cli.main import EXIT_CODES, main, verbs
from storlab.contracts.registry import FAMILIES
from storlab.lab.plan.plan import make_plan
from storlab.lab.study.file import LoadedStudy, load_study, loaded_study, parse_study
from storlab.lab.study.json_schema import study_schema
from storlab.lab.study.starter import FileTarget, FoundDevice, found_devices, starter_study
from storlab.lab.study.templates import template_names, template_text
from storlab.model.decision import Interval
from storlab.model.result import Metric
from support.schema_parts import PLACE, schema_parts

ROOT = Path(__file__).parents[3]
TEMPLATES = ROOT / "python" / "storlab" / "templates"
PUBLISHED = TEMPLATES / "micron-6600-ion-vs-16-hdd-fio.toml"


def storlab(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "storlab", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_plan_of_the_published_study(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(PUBLISHED)]) == ExitCode.OK
    printed = capsys.readouterr().out
    assert "1x SSD: 40 h" in printed
    assert "16x HDD: 40 h" in printed
    assert "32 cells x 2 targets x 5 repeats = 320 runs" in printed
    assert "WOULD BE OVERWRITTEN" in printed
    assert (
        "/dev/disk/by-id/ata-FILL-IN-16 (not on this machine; the hash changes once it is found)"
        in printed
    )
    assert f"plan hash: {make_plan(load_study(PUBLISHED)).plan_hash}" in printed


def test_plan_lists_every_run_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    def rows(*options: str) -> int:
        main(["plan", str(PUBLISHED), *options])
        lines = capsys.readouterr().out.splitlines()
        return sum(line.split()[:1] != [] and line.split()[0].isdigit() for line in lines)

    assert rows("--all") >= 320
    assert rows() < 40


def test_plan_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(PUBLISHED), "--json"]) == ExitCode.OK
    report = json.loads(capsys.readouterr().out)
    assert report["plan_hash"] == make_plan(load_study(PUBLISHED)).plan_hash
    assert len(report["plan"]["runs"]) == 320
    assert len(report["absent_devices"]["16x HDD"]) == 16


def test_a_wrong_study_is_an_error_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "s.toml"
    wrong.write_text('[study]\nname = "[bold]x[/bold]"\nsed = 1\n')
    assert main(["plan", str(wrong)]) == ExitCode.STUDY
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{wrong}:3: [study] sed" in printed.err
    assert 'did you mean "seed"?' in printed.err
    assert main(["plan", str(wrong), "--json"]) == ExitCode.STUDY
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["exit_code"] == ExitCode.STUDY
    assert {"line": 3, "fix": 'did you mean "seed"?'}.items() <= error["problems"][-1].items()


def test_init_writes_a_study_that_plans_and_touches_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == ExitCode.OK
    assert "next: storlab plan study.toml" in capsys.readouterr().out
    loaded = load_study("study.toml")
    assert make_plan(loaded).destructive == []
    assert [str(p) for p in tmp_path.iterdir()] == [str(tmp_path / "study.toml")]
    for device in found_devices():
        assert f'# path = "{device.path}"' in loaded.text


def test_init_does_not_overwrite_unless_told_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("precious")
    assert main(["init", str(file)]) == ExitCode.USAGE
    assert "--force" in capsys.readouterr().err
    assert file.read_text() == "precious"
    assert main(["init", str(file), "--force", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["file"] == str(file)
    assert load_study(file)
    assert main(["init", str(file / "x.toml")]) == ExitCode.USAGE


def test_a_starter_survives_hostile_names_and_never_activates_a_device() -> None:
    device = FoundDevice(
        'sd"x', "/dev/disk/by-id/a\n[[target]]", 'M"o\nd\x1b[31m#', 10**13, True, ("in\nuse",)
    )
    target = FileTarget('disk "1"\x7f', 'a "b"\\c\nd', 1 << 30, True, "on /m\n[[x]]")
    text = starter_study([device], [target])
    study = parse_study(text)
    assert [(t.name, t.path) for t in study.target] == [(target.name, target.path)]
    assert study.workload[0].targets == [target.name]
    assert "\x1b" not in text


def test_uncommented_devices_of_a_starter_make_a_study_that_only_reads_them() -> None:
    device = FoundDevice("nvme9n1", "/dev/disk/by-id/nvme-no-such", "Model", 10**12, False, ())
    text = starter_study([device], [FileTarget("disk file", "x.dat", 1 << 30, True, "on /")])
    active, keep = [], False
    for line in text.splitlines():
        keep = line in ("# [[target]]", "# [[workload]]") or (keep and line.startswith("# "))
        active.append(line[2:] if keep else line)
    study = parse_study("\n".join(active))
    stores = ["object store", "own server"]
    assert [t.name for t in study.target] == ["disk file", "nvme9n1 Model", *stores]
    on_device = [w for w in study.workload if "nvme9n1 Model" in (w.targets or [])]
    assert [v["read_percent"] for w in on_device for v in w.values()] == [100.0, 100.0]
    plan = make_plan(LoadedStudy(study, text, "0" * 64, Path("starter.toml")))
    assert {p.target for p in plan.points.values() if p.kind == "object"} == set(stores)


def test_the_schema_is_valid_and_every_field_is_described() -> None:
    schema = study_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert all("description" in table for table in schema["$defs"].values())
    undescribed = []

    def look(node: Any, at: str) -> None:
        if isinstance(node, dict):
            for name, field in node.get("properties", {}).items():
                if "description" not in field:
                    undescribed.append(f"{at}/{name}")
            for key, value in node.items():
                look(value, f"{at}/{key}")

    look(schema, "")
    assert undescribed == []


def test_plan_of_a_cluster_says_what_each_client_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(TEMPLATES / "micron-weka-three-ssd-classes.toml")]) == 0
    printed = capsys.readouterr().out
    assert "data set per client" in printed
    assert "clients = 12" in printed
    assert "20 cells x 3 targets x 3 repeats = 180 runs" in printed
    assert "16 cells x 3 targets x 3 repeats = 144 runs" in printed
    shares = "jobs, queue depth, rate, size and files are per client"
    assert shares in " ".join(printed.split())
    assert "more workers" not in printed  # this machine's cores do not matter for clients
    study = tmp_path / "local.toml"
    text = (ROOT / "studies" / "demo-cluster.toml").read_text()
    study.write_text(text.replace("jobs = 2 ", "jobs = [500, 1000] "))
    assert main(["plan", "--all", str(study)]) == 0
    printed = capsys.readouterr().out
    assert "clients   jobs per client" in printed
    assert "more workers (up to 4,000) than there are cores" in printed


@pytest.mark.parametrize("study", sorted((ROOT / "studies").rglob("*.toml")), ids=lambda p: p.name)
def test_ready_made_studies_fit_the_schema_and_can_be_planned(study: Path) -> None:
    validator = jsonschema.Draft202012Validator(study_schema())
    assert list(validator.iter_errors(tomllib.loads(study.read_text()))) == []
    assert make_plan(load_study(study)).runs


@pytest.mark.parametrize(
    "line", ['block_szie = "4KiB"', 'block_size = "64K"', "jobs = []", 'access = "randon"']
)
def test_the_schema_refuses_what_the_model_refuses(line: str) -> None:
    text = (ROOT / "studies" / "demo.toml").read_text()
    text = text.replace('kind = "block"', f'kind = "block"\n{line}')
    text = text.replace('\naccess = "random"', "") if line.startswith("access") else text
    text = text.replace("\njobs = [1, 2, 4, 8]", "") if line.startswith("jobs") else text
    text = text.replace('\nblock_size = ["256KiB", "4MiB"]', "") if "64K" in line else text
    validator = jsonschema.Draft202012Validator(study_schema())
    assert list(validator.iter_errors(tomllib.loads(text)))


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ('kind = "block"\nblock_szie = "4KiB"', "'block_szie' was unexpected"),
        ('kind = "object"\nblock_size = "4KiB"', "'block_size' was unexpected"),
        ('kind = "blokc"', f"'blokc' is not one of {list(FAMILIES)}"),
        ('kind = "block"\njobs = 0', "0 is not valid under any of the given schemas"),
        ("jobs = 1", "'kind' is a required property"),
    ],
)
def test_editors_name_the_field_of_a_workload(line: str, word: str) -> None:
    text = f'[study]\nname = "x"\n[[target]]\nname = "t"\npath = "null:"\n[[workload]]\n{line}\n'
    errors = list(jsonschema.Draft202012Validator(study_schema()).iter_errors(tomllib.loads(text)))
    assert [error.message for error in errors if word in error.message]
    assert len(errors) == 1
    assert list(errors[0].path)[:2] == ["workload", 0]


def test_the_schema_is_the_one_in_golden(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema"]) == ExitCode.OK
    printed = capsys.readouterr().out
    written = tmp_path / "schema.json"
    assert main(["schema", "--output", str(written)]) == ExitCode.OK
    assert written.read_text() == printed
    assert json.loads(printed) == study_schema()
    golden = {path.name: path.read_text() for path in PLACE.iterdir()}
    assert schema_parts() == golden, (
        "the schema has changed; look at the difference, then run: "
        "python -m tests.support.schema_parts"
    )


def test_version_and_help() -> None:
    version = storlab("--version")
    assert version.stdout == f"storlab {__version__}\n"
    bare = storlab()
    assert bare.returncode == ExitCode.USAGE
    assert "Commands:" in bare.stdout + bare.stderr


@pytest.mark.parametrize("verb", verbs())
def test_every_verb_shows_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == ExitCode.OK
    assert f"Example: storlab {verb}" in capsys.readouterr().out


@pytest.mark.parametrize("verb", verbs())
def test_the_list_of_verbs_says_what_each_says(verb: str) -> None:
    module, _, function = verbs()[verb].place.partition(":")
    text = inspect.getdoc(getattr(import_module(module), function)) or ""
    assert verbs()[verb].summary == " ".join(text.split("\n\n")[0].split())


def imported_by(arguments: list[str]) -> set[str]:
    """Return the modules that a command has loaded when it ends."""
    program = f"import sys; from storlab.cli.main import main; main({arguments!r})"
    shown = "; print('imported', *sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program + shown], capture_output=True, text=True, check=False
    )
    modules = {*done.stderr.rpartition("imported ")[2].split()}
    assert "storlab.cli.main" in modules
    return modules


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["frob"]])
def test_the_list_of_verbs_imports_none(arguments: list[str]) -> None:
    heavy = {"pyarrow", "scipy", "numpy", "altair", "storlab.model", "storlab.lab"}
    assert not heavy & imported_by(arguments)


def test_a_plan_loads_nothing_that_results_are_read_with() -> None:
    modules = imported_by(["plan", str(PUBLISHED)])
    assert "storlab.lab.plan.plan" in modules
    assert not {"pyarrow", "numpy", "altair"} & modules


def test_every_exit_code_is_documented() -> None:
    words = [line.split() for line in EXIT_CODES.splitlines()]
    documented = [int(line[0]) for line in words if line and line[0].isdigit()]
    assert documented == sorted(int(code) for code in ExitCode)
    assert "10  the verdict" in storlab("--help").stdout


def test_a_wrong_command_line_is_a_usage_error() -> None:
    for arguments in (["frob"], ["plan"], ["plan", "x", "--frob"]):
        printed = storlab(*arguments)
        assert printed.returncode == ExitCode.USAGE
        assert "Error" in printed.stderr


@pytest.mark.parametrize(
    "arguments",
    [["frob"], ["plan"], ["plan", "x", "--frob"], ["crosscheck", "x", "--repeats", "1"], []],
)
def test_a_wrong_command_line_is_json_where_json_is_asked_for(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--json"]) == ExitCode.USAGE
    printed = capsys.readouterr()
    error = json.loads(printed.out)["error"]
    assert error["exit_code"] == ExitCode.USAGE
    assert error["what"]
    assert error["fix"].startswith("see `storlab ")
    assert printed.err == ""
    assert main(["plan", "--json", "--help"]) == ExitCode.OK
    assert "Example:" in capsys.readouterr().out


def test_no_colour_without_a_terminal_or_under_no_color() -> None:
    assert "\x1b" not in storlab("plan", str(PUBLISHED)).stdout
    coloured = storlab("plan", str(PUBLISHED), FORCE_COLOR="1", TERM="xterm")
    assert "\x1b[1;31m" in coloured.stdout
    plainly = storlab("plan", str(PUBLISHED), FORCE_COLOR="1", TERM="xterm", NO_COLOR="1")
    assert "\x1b[1;31m" not in plainly.stdout


@pytest.mark.parametrize(
    "call", ["plan {}", "plan {} --all --json", "schema", "plan --help", "plan none.toml --json"]
)
def test_a_closed_pipe_ends_every_verb_quietly(call: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "storlab", *call.format(PUBLISHED).split()]
    ended = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (CLOSED_PIPE, b"")


def test_completion_knows_the_verbs() -> None:
    printed = storlab(_STORLAB_COMPLETE="complete_bash", COMP_WORDS="storlab pl", COMP_CWORD="1")
    assert "plan" in printed.stdout.split()


def test_ctrl_c_ends_with_its_own_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check the exit code of Ctrl-C, raised while the study is read."""
    monkeypatch.setattr(
        "storlab.lab.study.file.load_study", lambda _: signal.raise_signal(signal.SIGINT)
    )
    assert main(["plan", "study.toml"]) == ExitCode.INTERRUPTED
    printed = capsys.readouterr().err
    assert "interrupted" in printed
    assert "Traceback" not in printed


def test_json_output_has_no_bare_nan(capsys: pytest.CaptureFixture[str]) -> None:
    metric = Metric(name="m", value=1.0, unit="1")
    width = Interval(1.0, 0.5, math.inf, 2)
    difference = AcceptedDifference(field="f", here=[math.nan, Path("x"), metric], there=width)
    emit_json(
        GateDocument(
            directory=Path("d"), baseline=None, verdict=None, confidence=math.inf,
            accepted=[difference], rules=[], checks=[], saved=None, replaced=False, unsaved=None,
        )
    )  # fmt: skip
    printed = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert printed["confidence"] is None
    (shown,) = printed["accepted"]
    assert shown["here"] == [None, "x", metric.model_dump(mode="json")]
    assert shown["there"] == {"estimate": 1.0, "low": 0.5, "high": None, "n": 2}


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", template_names())
def test_templates_fit_the_schema_and_can_be_planned(
    name: str, quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--quick"] if quick else []
    assert main(["init", "--from", name, *options]) == ExitCode.OK
    text = Path("study.toml").read_text()
    assert (
        list(jsonschema.Draft202012Validator(study_schema()).iter_errors(tomllib.loads(text))) == []
    )
    plan = make_plan(load_study("study.toml"))
    assert plan.runs
    assert "# quick:" not in text
    assert text.startswith("# ")
    if quick:
        full = make_plan(loaded_study(template_text(name), Path("full.toml")))
        assert plan.estimated_ns < full.estimated_ns / 5


def test_a_study_is_printed_instead_of_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--from", "nvme", "-"]) == ExitCode.OK
    assert capsys.readouterr().out == template_text("nvme")
    assert main(["init", "-"]) == ExitCode.OK
    assert parse_study(capsys.readouterr().out, "-").target
    assert main(["init", "-", "--from-fio", "fio --name=a --rw=read --size=1m"]) == ExitCode.OK
    assert parse_study(capsys.readouterr().out, "-").workload
    assert main(["init", "-", "--json"]) == ExitCode.USAGE
    assert list(tmp_path.iterdir()) == []


def test_templates_are_listed_and_unknown_ones_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--from"]) == ExitCode.OK
    listed = capsys.readouterr().out
    assert [name for name in template_names() if name not in listed] == []
    for arguments in (["--from", "--json"], ["--json", "--from"], ["--from", "--quick", "--json"]):
        assert main(["init", *arguments]) == ExitCode.OK
        assert list(json.loads(capsys.readouterr().out)["templates"]) == list(template_names())
    assert main(["gate", "--json", "--from"]) == ExitCode.USAGE
    assert "--from" in capsys.readouterr().out
    assert main(["init", "--from", "nvem"]) == ExitCode.USAGE
    assert '"nvme"' in capsys.readouterr().err
    assert main(["init", "--from", "nvme", "--from-fio", "x.fio"]) == ExitCode.USAGE
    assert list(tmp_path.iterdir()) == []


def test_the_short_form_of_the_starter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lengths = []
    for options in (["--force"], ["--force", "--quick"]):
        assert main(["init", *options]) == ExitCode.OK
        assert "# quick:" not in Path("study.toml").read_text()
        lengths.append(load_study("study.toml").study.study.runtime)
    assert lengths[1] * 5 <= lengths[0]
