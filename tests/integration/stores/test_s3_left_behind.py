"""A clean-up leaves nothing of storlab's in a bucket, or reports what is left.

MinIO is simulated because it lists in its own way; versitygw is real.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from simulators.minio import Minio
from storlab.base.errors import ExitCode, PreflightError
from storlab.cli.main import main
from storlab.lab.plan.plan import make_plan
from storlab.lab.preflight.s3 import _held_checks
from storlab.lab.run.progress import PlainReporter
from storlab.lab.site.clean import clean_store
from storlab.lab.study.file import load_study
from storlab.model.s3 import S3Options
from storlab.model.target import Target
from storlab.process.execution import StopRequest
from storlab.results.store import ResultStore
from storlab.stores.s3.control import S3Control
from storlab.stores.s3.proof import prove
from storlab.stores.s3.target import S3Hold
from support.s3_servers import S3Server, versitygw

CAMPAIGN = "0123456789ab"
RUN = "run-0123456789ab-r1/"
STUDY = """
[study]
name = "objects"
repeats = 1
[[target]]
name = "SSD"
s3 = "{address}"
{options}
[[workload]]
kind = "object"
objects = 10
"""


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AK")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SK")


def target(server: Minio | S3Server, **options: Any) -> Target:
    s3_options = S3Options(**options) if options else None
    return Target(name="SSD", s3=f"{server.endpoint}/bench", s3_options=s3_options)


def hold(aim: Target, recorded: dict[str, Any] | None = None, **more: Any) -> S3Hold:
    return S3Hold(aim, CAMPAIGN, Path.cwd(), recorded, **more)


def killed(aim: Target) -> dict[str, Any]:
    """Return the record of a campaign killed in the middle of an upload."""
    with hold(aim) as held:
        held.control.put(held.access.prefix + RUN + "0000/00000000", b"data")
        held.control.begin_upload(held.access.prefix + RUN + "0000/00000001")
        return held.record()


def begun(place: Path, address: str, options: str = "") -> tuple[Path, dict[str, Any]]:
    """Provide the result directory of such a campaign, and its record."""
    study_file = place / "study.toml"
    study_file.write_text(STUDY.format(address=address, options=options))
    loaded = load_study(study_file)
    record = killed(loaded.study.target[0])
    guard = {"working_directory": str(place), "campaign": CAMPAIGN, "s3": {"SSD": record}}
    ResultStore.create(
        place / "out", loaded.text, loaded.study, make_plan(loaded), {"guard": guard}
    )
    return place / "out", record


def clean(aim: Target, record: dict[str, Any]) -> tuple[list[str], str]:
    """Clean up; return the removed items and the messages."""
    told = io.StringIO()
    with hold(aim, record, cleaning=True) as held:
        removed = clean_store(held, StopRequest(), PlainReporter(Console(file=told, width=1000)))
    return removed, told.getvalue()


def test_open_uploads_go_where_a_prefix_is_taken_for_a_whole_key() -> None:
    with Minio(empty=True) as server:
        aim = target(server, create_bucket=True)
        record = killed(aim)
        server.uploads["somebody's"] = "somebody/else"
        assert record["proof"] == {"uploads": "bucket", "keeps_versions": False}
        removed, _ = clean(aim, record)
        assert server.uploads == {"somebody's": "somebody/else"}
        assert server.objects == {}
        assert server.there  # for the sake of that upload
        del server.uploads["somebody's"]
        record = killed(aim)
        removed, _ = clean(aim, {**record, "made_bucket": True})
        assert removed[1:] == [f"bucket {server.endpoint}/bench"]
        assert (server.uploads, server.there) == ({}, False)


def test_a_versioned_bucket_is_cleaned_and_what_stays_is_said(tmp_path: Path) -> None:
    with Minio(versioned=True) as server:
        out, record = begun(tmp_path, f"{server.endpoint}/bench")
        assert record["proof"]["keeps_versions"] is True
        code = main(["clean", str(out), "--json"])
        assert code == ExitCode.OK
        assert server.objects == {}
        assert record["prefix"] + "storlab.json" in server.versions


def test_the_note_on_old_versions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Minio(versioned=True, empty=True) as server:
        options = "s3_options = { create_bucket = true }"
        out, _ = begun(tmp_path, f"{server.endpoint}/bench", options)
        capsys.readouterr()
        assert main(["clean", str(out)]) == ExitCode.OK
        printed = capsys.readouterr()
        text = " ".join((printed.out + printed.err).split())
        assert "keeps old versions and delete markers" in text
        assert "cannot remove the bucket that it created" in text
        assert server.there


@pytest.mark.parametrize("versioned", [True, False])
def test_doctor_tells_of_versions(tmp_path: Path, versioned: bool) -> None:
    with Minio(versioned=versioned) as server, hold(target(server), look_only=True) as held:
        found = {check.name: check for check in _held_checks(held)}
        assert (server.objects, server.versions) == ({}, [])
    assert ("versions" in found) is versioned
    if versioned:
        assert found["versions"].status == "warning"
        assert "old versions" in found["versions"].what


def test_uploads_that_nobody_lists_are_told_before_and_after() -> None:
    with Minio() as server:
        server.forgetful = True
        with hold(target(server)) as held:
            assert held.proof is not None
            assert held.proof.uploads == "hidden"
            found = {check.name: check for check in _held_checks(held)}
            assert found["uploads"].status == "warning"
        assert server.uploads == {}  # the trial upload was aborted
        _, messages = clean(target(server), killed(target(server)))
        assert "does not list unfinished multipart uploads" in messages


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Any:
    place = tmp_path_factory.mktemp("real")
    (place / "versions").mkdir()
    with versitygw(place / "server", versions=place / "versions") as server:
        yield server


def test_a_real_versioned_bucket(
    real: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real.set_environment(monkeypatch)
    control = S3Control(real.store())
    control.create_bucket()
    enabled = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    status, _, answer = control._client.request("PUT", None, [("versioning", "")], enabled, 10.0)
    assert status == 200, answer
    record = killed(target(real))
    assert record["proof"] == {"uploads": "prefix", "keeps_versions": True}
    removed, told = clean(target(real), record)
    assert removed == [f"{real.endpoint}/bench/{record['prefix']}"]
    assert "keeps old versions" in told
    assert control.list_keys("") == control.list_uploads("") == []


@pytest.mark.parametrize(
    ("prefix", "plain"),
    [
        ("//double//", "double/"),
        ("a//b/", "a/b/"),
        ("/lead/", "lead/"),
        ("../up/", "up/"),
        ("a/./b", "a/b"),
        ("/", ""),
    ],
)
def test_prefixes_that_stores_collapse_are_refused(
    prefix: str, plain: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Minio() as server:
        with pytest.raises(PreflightError, match=r"s3_options\.prefix") as caught:
            hold(target(server, prefix=prefix)).__enter__()
        assert caught.value.fix == f'set s3_options.prefix = "{plain}"'
        assert (server.objects, server.uploads) == ({}, {})
        study = tmp_path / "s.toml"
        study.write_text(
            f'[study]\nname = "p"\n[[target]]\nname = "t"\ns3 = "{server.endpoint}/bench"\n'
            f's3_options = {{ prefix = "{prefix}" }}\n[[workload]]\nkind = "object"\nobjects = 1\n'
        )
        load_study(study)
        assert main(["doctor", str(study)]) == ExitCode.PREFLIGHT
        assert "s3_options.prefix" in "".join(capsys.readouterr())
        # A campaign that started before this check existed continues, and is cleaned up.
        control = S3Control(server.store())
        before = {"bucket": "bench", "endpoints": [server.endpoint], "embedded": None}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("storlab.stores.s3.target.prefix_problem", lambda prefix: None)
            record = killed(target(server, prefix=prefix))
        assert {name: record[name] for name in before} == before
        removed, _ = clean(target(server, prefix=prefix), record)
        assert removed
        assert control.list_keys("") == control.list_uploads("") == []


def test_a_store_that_lists_other_names_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storlab.stores.s3.proof._PAUSES_S", ())
    with versitygw(tmp_path) as server:
        server.make_bucket()
        control = S3Control(server.store())
        control.put("a//b/storlab.json", json.dumps({}).encode())
        with pytest.raises(PreflightError, match="the store does not list it"):
            prove(control, "a//b/", "a//b/storlab.json", "a//b/probe")
        assert prove(control, "a/b/", "a/b/storlab.json", "a/b/probe").uploads == "prefix"


def test_such_a_store_keeps_nothing_of_a_campaign_that_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storlab.stores.s3.proof._PAUSES_S", ())
    monkeypatch.setattr("storlab.stores.s3.target.prefix_problem", lambda prefix: None)
    with versitygw(tmp_path) as server:
        server.set_environment(monkeypatch)
        with pytest.raises(PreflightError, match="the store does not list it"):
            hold(target(server, prefix="a//b/", create_bucket=True)).__enter__()
        assert not (server.root / "bench").exists()


def test_a_refusal_with_a_good_status_is_one() -> None:
    with Minio() as server:
        control = S3Control(server.store())
        server.refuse = ("PUT /bench/key", "AccessDenied")
        with pytest.raises(PreflightError, match=r"cannot write key: .*AccessDenied \(200\)"):
            control.put("key", b"data")
        server.refuse = ("GET /bench?", "SlowDown")
        with pytest.raises(PreflightError, match="store is busy"):
            control.list_keys("")
