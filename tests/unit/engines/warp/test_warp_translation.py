"""Translation of warp's command lines into studies."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from storlab.base.errors import UsageError
from storlab.cli.main import main
from storlab.contracts.translation import Translation
from storlab.engines.warp.command_line import (
    BENCHMARKS,
    CommandLineError,
    expanded_hosts,
    parse_command_line,
)
from storlab.engines.warp.translation import translate
from storlab.lab.study.translated import study_text


def only(command: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    """Return the target, the workload, and the meaning of each remark by its options."""
    translation = translate([command])
    study_text(translation, "a test")  # raises an error if the study is invalid
    (target,), (workload,) = translation.targets, translation.workloads
    remarks = {remark.option: remark.meaning for remark in translation.remarks}
    return target.fields, workload.fields, remarks


def test_a_mixed_command_line() -> None:
    target, workload, remarks = only(
        "warp mixed --host=s3-{1...3}:9000 --tls --insecure --region eu-1 --bucket bench "
        "--duration=5m --obj.size 4MiB --concurrent 24 --get-distrib=60 --stat-distrib 0 "
        "--put-distrib=30 --delete-distrib=10 --objects=500 --prefix=p --disable-multipart"
    )
    assert target["s3"] == "https://s3-1:9000/bench"
    assert target["s3_options"] == {
        "region": "eu-1",
        "endpoints": ["https://s3-2:9000", "https://s3-3:9000"],
        "verify_tls": False,
        "prefix": "p/",
        "create_bucket": True,
    }
    expected = {
        "get_percent": 60,
        "delete_percent": 10,
        "object_size": "4MiB",
        "objects": 500,
        "concurrency": 24,
        "read_written": True,
        "payload": "unsigned",
        "routing": "least_busy",
    }
    assert {name: workload[name] for name in expected} == expected
    assert "head_percent" not in workload
    assert remarks == {}
    assert translate(["warp put --duration=90s"]).runtime_ns == 90e9


def test_options_that_are_not_given_have_warps_defaults() -> None:
    target, workload, _ = only("warp mixed")
    assert target["s3"] == "http://127.0.0.1:9000/warp-benchmark-bucket"
    mix = [workload[f"{kind}_percent"] for kind in ("get", "head", "delete")]
    assert mix == [45, 30, 10]
    assert (workload["object_size"], workload["objects"]) == ("10MiB", 2500)
    assert (workload["concurrency"], workload["payload"]) == (20, "streaming")
    assert translate(["warp mixed"]).runtime_ns == 300e9


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("get --range-size 64KiB", {"get_percent": 100, "range_size": "64KiB"}),
        ("put --obj.size=1M", {"get_percent": 0, "object_size": "1MB"}),
        (
            "put --obj.size=64MiB",
            {"part_size": "16MiB", "part_concurrency": 4, "payload": "streaming"},
        ),
        ("put --obj.size=64MiB --part.size=8MiB --tls --checksum=CRC32", {"part_size": "8MiB"}),
        ("delete --batch=7", {"multi_delete_percent": 100, "delete_batch": 7, "objects": 25000}),
        ("list --concurrent=4", {"list_percent": 100, "list_max_keys": 100, "prefixes": 4}),
        ("stat --objects=9", {"head_percent": 100, "objects": 9, "object_size": "1KB"}),
        ("multipart --parts=10", {"object_size": "50MiB", "range_size": "5MiB", "objects": 1}),
        (
            "multipart-put --parts=8",
            {"object_size": "40MiB", "part_size": "5MiB", "part_concurrency": 8},
        ),
        ("versioned", {"get_percent": 45, "objects": 250}),
        ("put --rps-limit=50", {"rate_requests": 50}),
        ("get --obj.size=1024:0,1048577:1", {"object_size": {"uniform": ["1KiB", "1MiB"]}}),
    ],
)
def test_benchmarks(command: str, expected: dict[str, Any]) -> None:
    _, workload, _ = only(f"warp {command}")
    assert {name: workload[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("--autoterm --autoterm.dur=10s", "--autoterm, --autoterm.dur=10s"),
        ("--encrypt", "--encrypt"),
        ("--storage-class=COLD", "--storage-class=COLD"),
        ("--a-later-one=7", "--a-later-one"),
        ("--warp-client=c-{1...4}", "--warp-client=c-{1...4}"),
        ("--json --benchdata=x --analyze.v", "--json, --benchdata=x, --analyze.v"),
        ("--obj.randsize", "--obj.randsize"),
        ("--rps-limit=5", "--rps-limit=5"),
        ("--range", "--range"),
        ("stray", "stray"),
        ("--list-existing", "--list-existing"),
    ],
)
def test_what_a_study_cannot_express_is_named(options: str, named: str) -> None:
    assert named in only(f"warp get {options}")[2]


def test_options_that_change_nothing_are_not_named() -> None:
    assert only("warp get --encrypt=false --versions=1 --obj.generator=random")[2] == {}


def test_credentials_are_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = (
        "WARP_ACCESS_KEY=KEY1 docker run -e WARP_SECRET_KEY=KEY2 -e OTHER=KEY3 minio/warp put "
        "--access-key KEY4 --secret-key='KEY 5' --session-token=KEY6 --influxdb http://KEY7@h/b"
    )
    path = tmp_path / "study.toml"
    assert main(["init", str(path), "--from-warp", command]) == 0
    printed = capsys.readouterr()
    for text in (path.read_text(), printed.out, printed.err):
        assert "KEY1" not in text.replace("AWS_ACCESS_KEY", "")
        assert not any(f"KEY{i}" in text or f"KEY {i}" in text for i in range(2, 8))
    assert "AWS_SECRET_ACCESS_KEY" in path.read_text()


def test_several_commands_share_a_target_and_the_longest_runtime(tmp_path: Path) -> None:
    translation: Translation = translate(
        [
            "warp get --host=a:9000 --duration=1m",
            "warp put --host=a:9000 --duration=2m",
            "warp put --host=b:9000 --duration=2m",
        ]
    )
    assert [t.fields["s3"].split("/")[2] for t in translation.targets] == ["a:9000", "b:9000"]
    used = [workload.fields["targets"] for workload in translation.workloads]
    assert used[0] == used[1] != used[2]
    assert translation.runtime_ns == 120e9
    assert [r.option for r in translation.remarks] == ["--duration=1min"]
    assert len({workload.fields["name"] for workload in translation.workloads}) == 3


def test_the_written_study_can_be_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "study.toml"
    command = "warp mixed --host 127.0.0.1:9000 --duration 1m --obj.size 1MiB --objects 100"
    assert main(["init", str(path), "--from-warp", command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["remarks"] == []
    assert tomllib.loads(path.read_text())["study"]["runtime"] == "1min"
    assert main(["plan", str(path)]) == 0


@pytest.mark.parametrize(
    ("command", "where"),
    [
        ("warp", "--from-warp"),
        ("warp get --host", "--from-warp"),
        ("warp get 'open", "--from-warp"),
        ("warp get --tls=perhaps", "--from-warp"),
        ("warp snowball", "warp snowball"),
        ("warp get --objects=many", "--objects"),
        ("warp get --objects=0", "--objects"),
        ("warp get --duration=soon", "--duration"),
        ("warp get --obj.size=big", "--obj.size"),
        ("warp get --host=file:hosts", "--host"),
        ("warp mixed --put-distrib=0", "--delete-distrib"),
        ("warp multipart --part.size=x", "--part.size"),
        ("warp put --rps-limit=fast", "--rps-limit"),
    ],
)
def test_what_cannot_be_translated_is_refused(command: str, where: str) -> None:
    with pytest.raises(UsageError) as caught:
        translate([command])
    assert where in caught.value.where


def test_words_of_command_lines() -> None:
    line = parse_command_line(
        "$ WARP_TLS=1 X=y ./warp get -host a:1 \\\n"
        " --tls=false --concurrent=3 --prefix 'a b' 2>&1 | tee get.log"
    )
    assert (line.benchmark, line.flags["host"], line.flags["prefix"]) == ("get", "a:1", "a b")
    assert not line.is_on("tls")
    assert line.unread == ["X"]
    for benchmark in BENCHMARKS:
        assert parse_command_line(f"get warp {benchmark}").benchmark == benchmark
    with pytest.raises(CommandLineError):
        parse_command_line("warp analyze file")


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a:1,b:1", ["a:1", "b:1"]),
        ("n{1...3}:9000", ["n1:9000", "n2:9000", "n3:9000"]),
        ("r{1...2}n{08...10}", ["r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10"]),
        ("", []),
    ],
)
def test_ranges_of_hosts(text: str, hosts: list[str]) -> None:
    assert list(expanded_hosts(text)) == hosts


def test_values_of_unknown_flags_are_not_in_the_study() -> None:
    translation = translate(
        ["warp get --host=h:9000 --bucket=bench --secert-key=Zz8 --sse-key Zz9"]
    )
    assert "Zz" not in study_text(translation, "a test")
    named = {option for remark in translation.remarks for option in remark.option.split(", ")}
    assert {"--secert-key", "--sse-key"} <= named
