"""``storlab gate`` in CI: exit codes, output files, and refused comparisons."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.model.result import Failure
from storlab.results.store import ResultStore
from support.fio_output import write_fio_output
from support.large_campaign import large_campaign
from tidy import tree

RULES = """
[[gate]]
metric = "throughput"
target = "Disk"
at = {{ block_size = "4KiB" }}
at_least = "{bound}"
"""
LOOSE, TIGHT, AMID = "1MB/s", "1TB/s", "1.0 x baseline"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide two results of the same work, ``new`` and ``old``."""
    place = tmp_path_factory.mktemp("gate")
    for seed, name in enumerate(("new", "old")):
        large_campaign(place / name, runs=20, repeats=5, draw=random.Random(seed))
    return place


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "results"))


def gate(place: Path, bound: str, *more: str | Path) -> int:
    (place / "gate.toml").write_text(RULES.format(bound=bound))
    words: Sequence[str | Path] = ["gate", place / "new", "--rules", place / "gate.toml", *more]
    return main([str(word) for word in words])


def set_environment(directory: Path, **facts: Any) -> None:
    """Edit the environment as if measured elsewhere."""
    store = ResultStore.open(directory)
    shutil.rmtree(directory / ".made", ignore_errors=True)
    made = ResultStore.create(
        directory.with_name("made"), store.study_text, store.study, store.plan, facts
    )
    for name in ("environment.json", "result.json"):
        shutil.copy(made.directory / name, directory / name)
    shutil.rmtree(made.directory)


@pytest.mark.parametrize(
    ("own", "mapped"),
    [(0, 0), (ExitCode.DISAGREE, 1), (ExitCode.INCONCLUSIVE, 3), (ExitCode.USAGE, 2)],
)
def test_the_page_maps_codes_for_a_ci(own: int, mapped: int) -> None:
    (line,) = re.findall(r"```bash\n(.*)\n```", tree.read("docs/gate.md"))
    script = f"storlab() {{ return {int(own)}; }}; {line}"
    assert subprocess.run(["bash", "-ec", script], check=False).returncode == mapped


def test_recipes_keep_results_where_no_ci_cleans() -> None:
    """Check that CI recipes store baselines outside of the checkout, which is cleaned."""
    recipes = re.findall(r"```yaml\n(.*?)```", tree.read("docs/gate.md"), flags=re.DOTALL)
    assert len(recipes) == 2
    for recipe in recipes:
        assert re.search(r"RESULTS: /srv/", recipe)
        commands = re.findall(r"storlab (?:run|gate) .*", recipe)
        assert len(commands) == 2
        for command in commands:
            assert '"$RESULTS"' in command
            assert "results/" not in command


@pytest.mark.parametrize(
    ("bound", "code"),
    [(LOOSE, ExitCode.OK), (TIGHT, ExitCode.DISAGREE), (AMID, ExitCode.INCONCLUSIVE)],
)
def test_three_verdicts_have_three_exit_codes(
    place: Path, bound: str, code: ExitCode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(place, bound, "--baseline", place / "old") == code
    printed = capsys.readouterr().out
    word = {0: "held: ", 10: "broken: ", 12: "inconclusive: "}[code]
    assert printed.startswith(word)
    assert "Intervals hold" in printed


def test_json_has_a_version_and_each_check(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gate(place, LOOSE, "--json") == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "held"
    assert {check["target"] for check in told["checks"]} == {"Disk"}
    assert all(check["runs"] for check in told["checks"])


def test_a_ci_reads_junit_and_a_reviewer_markdown(place: Path) -> None:
    study = place / "new" / "study.toml"
    assert study.exists()
    gate(place, TIGHT, "--junit", place / "gate.xml", "--markdown", place / "gate.md")
    suite = ElementTree.parse(place / "gate.xml").getroot()[0]
    cases = suite.findall("testcase")
    assert int(suite.attrib["tests"]) == len(cases) > 0
    assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure")) == len(cases)
    text = (place / "gate.md").read_text()
    assert text.count("| **broken** |") == len(cases)


def test_rules_stand_in_the_study_too(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", str(place / "new")]) == ExitCode.USAGE
    assert "has no [[gate]] tables" in capsys.readouterr().err


def test_unlike_environments_are_refused_by_name(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_environment(place / "new", kernel="Linux 6.8", cpu={"model": "A", "cores": 8})
    set_environment(place / "old", kernel="Linux 6.5", cpu={"model": "A", "cores": 4})
    against = ("--baseline", place / "old")
    assert gate(place, "0.5 x baseline", *against) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "kernel: Linux 6.8 here, Linux 6.5 in the baseline; and 1 more: cpu.cores" in told
    accepted = ("--accept", "kernel", "--accept", "cpu")
    assert gate(place, "0.5 x baseline", *against, *accepted, "--json") == ExitCode.OK
    fields = [each["field"] for each in json.loads(capsys.readouterr().out)["accepted"]]
    assert fields == ["kernel", "cpu.cores"]


def test_a_saved_baseline_is_a_reference(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", str(place / "old"), "--save", "stable"]) == ExitCode.OK
    assert gate(place, "0.5 x baseline", "--baseline", "stable") == ExitCode.OK
    moved = place.with_name("elsewhere")
    place.rename(moved)  # together with what it refers to
    assert gate(moved, "0.5 x baseline", "--baseline", "stable") == ExitCode.OK
    shutil.rmtree(next((moved / "old" / "runs").iterdir()))
    capsys.readouterr()
    assert gate(moved, "0.5 x baseline", "--baseline", "stable") == ExitCode.RESULT
    assert "have changed since it was saved as baseline stable" in capsys.readouterr().err
    assert gate(moved, "0.5 x baseline", "--baseline", "other") == ExitCode.RESULT
    assert main(["gate", str(moved / "new"), "--save", "../x"]) == ExitCode.USAGE


def test_the_first_baseline_is_saved_whose_rules_refer_to_one(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(place, AMID, "--save", "stable") == ExitCode.OK
    assert "saved: " in capsys.readouterr().out
    for bound, code in ((TIGHT, ExitCode.DISAGREE), (LOOSE, ExitCode.OK)):
        (place / "gate.toml").write_text(RULES.format(bound=AMID) + RULES.format(bound=bound))
        words = ["gate", str(place / "new"), "--rules", str(place / "gate.toml"), "--json"]
        assert main([*words, "--save", "second"]) == code
        told = json.loads(capsys.readouterr().out)
        assert [(r["number"], r["at_least"]) for r in told["rules"]] == [(2, bound)]
        assert (told["saved"] is None) == (code != ExitCode.OK)
        assert main(words) == ExitCode.STUDY  # a gate with rules on the baseline needs one
        capsys.readouterr()


@pytest.mark.parametrize("fails", [False, True])
def test_what_breaks_a_rule_is_saved_as_no_baseline(
    fails: bool, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that results with a failed run are not saved as a baseline, with a message."""
    if fails:
        fail_a_run(place / "new")
    bound = LOOSE if fails else TIGHT
    assert gate(place, bound, "--save", "stable") == ExitCode.DISAGREE
    assert "not saved: baseline stable" in capsys.readouterr().out
    assert not (place / "baselines").exists()
    assert gate(place, bound, "--save", "stable", "--json") == ExitCode.DISAGREE
    told = json.loads(capsys.readouterr().out)
    assert told["saved"] is None
    assert str(place / "new") in told["unsaved"]
    assert gate(place, bound, "--json") == ExitCode.DISAGREE
    assert json.loads(capsys.readouterr().out)["unsaved"] is None


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("[[gate]]\nmetric = 'iops'\n", "no bound"),
        ("[[gate]]\nmetric = 'iops'\nat_most = 'fast'\n", "is not a limit"),
        ("[[gate]]\nmetrics = 'iops'\nat_most = 1\n", "metrics"),
        ("[gate]\nmetric = 'iops'\nat_most = 1\n", "[[gate]]"),
        ("", "gate"),
        ("gate = [", "not valid TOML"),
    ],
)
def test_bad_rules_are_named_with_their_line(
    place: Path, written: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "bad.toml").write_text(written)
    code = main(["gate", str(place / "new"), "--rules", str(place / "bad.toml")])
    assert code == ExitCode.STUDY
    error = capsys.readouterr().err
    assert told in error
    assert "bad.toml" in error


HOSTILE = (
    "a|b\n</td><script>x</script> [l](javascript:1) ![i](//x) `c` *d* _e_ ~f~ # @g \"&']]>"
    "\x07\x1b[31m\x7f\ufffe\uffff\u2028"
)


def test_names_of_targets_and_studies_stay_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that names are escaped for XML and Markdown."""
    study, target = f"study {HOSTILE}", f"target {HOSTILE}"
    for seed, name in enumerate(("new", "old")):
        large_campaign(
            tmp_path / name, runs=20, repeats=5, draw=random.Random(seed), names=(study, target)
        )
        environment = {"targets": {target: {"kind": name}}, "kernel": HOSTILE + name}
        set_environment(tmp_path / name, **environment)
    rules = tmp_path / "gate.toml"
    quoted = json.dumps(target).replace("\x7f", "\\u007f")
    rules.write_text(f'[[gate]]\nmetric = "throughput"\ntarget = {quoted}\nat_least = "1TB/s"\n')
    xml, markdown = tmp_path / "gate.xml", tmp_path / "gate.md"
    words = ["--junit", xml, "--markdown", markdown, "--rules", rules, "--json"]
    words += ["--baseline", tmp_path / "old", "--accept", "targets", "--accept", "kernel"]
    code = main([str(word) for word in ("gate", tmp_path / "new", *words)])
    assert code == ExitCode.DISAGREE
    assert {c["target"] for c in json.loads(capsys.readouterr().out)["checks"]} == {target}

    suite = ElementTree.parse(xml).getroot()[0]
    told = "".join("\ufffd" if sign in "\x07\x1b\ufffe\uffff" else sign for sign in HOSTILE)
    assert suite.attrib["name"] == f"storlab gate: study {told}"
    cases = suite.findall("testcase")
    assert {case.attrib["classname"] for case in cases} == {f"target {told}"}
    tags = {"testcase", "failure", "properties", "property"}
    assert {element.tag for element in suite.iter()} == {"testsuite", *tags}

    text = markdown.read_text()
    assert text.startswith("### storlab gate: ")
    bare = [re.sub(r"&#\d+;|\\.", "", line) for line in text.removeprefix("### ").split("\n")]
    rows = [line for line in bare if line.startswith("| **")]
    assert {row.count("|") for row in rows} == {9}
    assert len(rows) == len(cases)
    for line in bare:  # unescaped lines are storlab's own
        assert not set("<>@`*_~[]!#\\") & set(line.replace("**", ""))
    assert not set("\x07\x1b\ufffe\uffff") & set(text)


def test_a_ci_is_told_how_sure_the_verdicts_are(place: Path) -> None:
    gate(place, LOOSE, "--junit", place / "gate.xml", "--markdown", place / "gate.md")
    suite = ElementTree.parse(place / "gate.xml").getroot()[0]
    told = {each.attrib["name"]: each.attrib["value"] for each in suite.iter("property")}
    checks = len(suite.findall("testcase"))
    assert float(told["confidence"]) == pytest.approx(1 - 0.05 / checks)
    correction = f"by Bonferroni's correction for {checks} checks"
    assert correction in told["intervals"]
    assert correction in (place / "gate.md").read_text()
    assert told["rule 1"].startswith("held: rule 1, throughput of Disk at block_size")
    assert all(c.attrib["name"].startswith("rule 1: throughput") for c in suite.iter("testcase"))


def test_each_rule_has_a_line_and_a_verdict(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = place / "rules.toml"
    rules.write_text(RULES.format(bound=LOOSE) + RULES.format(bound=TIGHT))
    words = ["gate", str(place / "new"), "--rules", str(rules)]
    assert main(words) == ExitCode.DISAGREE
    lines = [x for x in capsys.readouterr().out.splitlines() if ": rule " in x]
    assert [line.partition(",")[0] for line in lines] == ["held: rule 1", "broken: rule 2"]
    assert main([*words, "--json"]) == ExitCode.DISAGREE
    told = json.loads(capsys.readouterr().out)
    assert [(r["number"], r["verdict"]) for r in told["rules"]] == [(1, "held"), (2, "broken")]
    assert {check["number"] for check in told["checks"]} == {1, 2}


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ('at = { jbs = 1 }\nat_most = "1ms"', "no point has jbs = 1\n  fix: jbs: did you mean"),
        ('at = { jobs = 7777 }\nat_most = "1ms"', "fix: jobs is 1"),
        ('target = "Dsk"\nat_most = "1ms"', '1: target: "Dsk" is not a target of the study'),
        ('workload = "x"\nat_most = "1ms"', '1: workload: "x" is not a workload of the study'),
        ('at_most = "1ms"\nat_least = "2ms"', "[[gate]] 1: at_least: 2ms is"),
        ('at_most = "1 x baseline"', "[[gate]] 1: at_most: "),
        ("at_most = nan", "[[gate]] #1 at_most: nan is not a limit"),
        ('at_mst = "1ms"', 'at_mst is not a field of [[gate]] #1\n  fix: did you mean "at_most"?'),
    ],
)
def test_a_wrong_rule_is_named_with_its_fix(
    rule: str, words: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = place / "gate.toml"
    rules.write_text(f'[[gate]]\nmetric = "latency_p99"\n{rule}\n')
    assert main(["gate", str(place / "new"), "--rules", str(rules)]) == ExitCode.STUDY
    told = capsys.readouterr().err
    assert words in told
    assert "problems" not in told


def test_a_missing_file_of_rules_is_no_missing_study(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate", str(place / "new"), "--rules", str(place / "no")]) == ExitCode.STUDY
    assert "docs/gate.md" in capsys.readouterr().err


def test_options_that_contradict_are_refused_first(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, where in (
        (("--save", "a/b", "--json"), "--save"),
        (("--accept", "kernel", "--json"), "--accept"),
        (("--baseline", place / "new" / ".." / "new", "--json"), "--baseline"),
    ):
        assert gate(place, LOOSE, *words) == ExitCode.USAGE
        told = json.loads(capsys.readouterr().out)  # one document in any case
        assert told["schema"] == "error"
        assert told["error"]["where"] == where
        assert told["error"]["fix"]


def test_a_wrong_baseline_is_told_before_missing_rules(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["gate", str(place / "new"), "--baseline"]
    assert main([*words, str(place / "new")]) == ExitCode.USAGE
    assert "--baseline: " in capsys.readouterr().err
    assert main([*words, "never"]) == ExitCode.RESULT
    told = capsys.readouterr().err
    assert "never" in told
    assert "fix: save it" in told
    assert gate(place, AMID, "--save", "stable") == ExitCode.OK
    assert main([*words, "never"]) == ExitCode.RESULT
    assert "fix: use one of stable, or save it" in capsys.readouterr().err
    assert main([*words, str(place / "old")]) == ExitCode.USAGE
    assert "--rules: " in capsys.readouterr().err


def test_a_saved_baseline_is_told_as_json_too(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate", str(place / "old"), "--save", "stable", "--json"]) == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert (told["verdict"], told["checks"]) == (None, [])
    assert Path(told["saved"]).is_file()
    assert gate(place, TIGHT, "--save", "other", "--json") == ExitCode.DISAGREE
    assert json.loads(capsys.readouterr().out)["saved"] is None


def fail_a_run(directory: Path) -> None:
    """Replace one repeat of a disk point by a failed run."""
    store = ResultStore.open(directory)
    record = next(r for r in store.records() if r.target == "Disk" and r.repeat == 1)
    failure = Failure(message="the device answered with EIO")
    failed = record.model_copy(update={"status": "failed", "failure": failure, "metrics": []})
    (path,) = directory.glob(f"runs/*{record.run_id}*")
    shutil.rmtree(path)
    store.write_run(failed, [], {})


def test_a_failed_run_breaks_the_rules_of_its_point(place: Path) -> None:
    assert gate(place, LOOSE) == 0
    fail_a_run(place / "new")
    junit = place / "gate.xml"
    assert gate(place, LOOSE, "--junit", junit) == ExitCode.DISAGREE
    (suite,) = ElementTree.parse(junit).getroot()
    assert int(suite.attrib["failures"]) > 0


def test_results_with_a_failed_run_are_no_baseline(place: Path) -> None:
    fail_a_run(place / "new")
    words = ["gate", str(place / "new"), "--save", "stable"]
    assert main(words) == ExitCode.USAGE  # no rule is judged, as the study has none
    assert not (place / "baselines" / "stable.json").exists()


def test_the_summary_of_the_recipe_does_without_a_gate_file(tmp_path: Path) -> None:
    """Check the recipe's summary for a failed campaign, which has no verdicts."""
    (step,) = re.findall(
        r"run: (.*GITHUB_STEP_SUMMARY.*)", (tree.ROOT / "docs/gate.md").read_text()
    )
    summary = tmp_path / "summary"
    for there in (False, True):
        if there:
            (tmp_path / "gate.md").write_text("held")
        ended = subprocess.run(
            ["bash", "-e", "-c", step],
            cwd=tmp_path,
            env={"GITHUB_STEP_SUMMARY": str(summary), "PATH": "/usr/bin:/bin"},
            check=False,
        )
        assert ended.returncode == 0
        assert summary.exists() == there


def test_results_without_percentiles_are_named_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check the message for output of fio without percentiles (clat_percentiles=0)."""
    plain = write_fio_output(tmp_path / "plain.json", p99_us=100, percentiles=False)
    assert main(["import", str(plain), "--out", str(tmp_path / "new")]) == 0
    rules = tmp_path / "gate.toml"
    rules.write_text('[[gate]]\nmetric = "latency_p99_ns.read"\nat_most = "1ms"\n')
    capsys.readouterr()
    assert main(["gate", str(tmp_path / "new"), "--rules", str(rules)]) == ExitCode.STUDY
    told = capsys.readouterr().err
    assert "json+" in told
    assert "did you mean" not in told
