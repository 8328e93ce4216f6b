"""Object runs on misbehaving servers, through the command: counts and messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from simulators.faulty_proxy import FaultyProxy, Harm
from storlab._native import Histogram
from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.contracts.registry import get_engine
from storlab.model.job import WeightedSize
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore
from storlab.stores.s3.embedded import EmbeddedServer
from storlab.workloads.object.job import ObjectJob, ObjectMix, ObjectSizes, Pool
from support.s3_servers import S3Server, versitygw

CONCURRENCY = 4
TIMEOUT_S = 0.5
RETRIES = 12
GIVEN_UP = ("trickle", "silence")
HARMS = {
    "corrupt": Harm("corrupt", 0.2),
    "truncate": Harm("truncate", 0.2),
    "reset": Harm("reset", 0.2),
    "trickle": Harm("trickle", 0.3, seconds=0.005),
    "silence": Harm("silence", 0.3),
    "storm": Harm("refuse", 0.5),
    "plain": Harm("delay", 0.0),
    "retried": Harm("refuse", 0.3),
}
KINDS = {
    "corrupt": "wrong body",
    "truncate": "short body",
    "reset": "connection reset",
    "trickle": "time-out",
    "silence": "time-out",
    "storm": "SlowDown (503)",
    "retried": "SlowDown (503)",
}
HEAD = """\
[study]
name = "faults"
repeats = 1
ramp = 0
runtime = "1s"
interval = "100ms"
"""
TARGET = """
[[target]]
name = "{name}"
s3 = "{endpoint}/bench"
s3_options = {{ {options} }}
"""
WORKLOAD = f"""
[[workload]]
kind = "object"
name = "gets"
targets = {json.dumps([name for name in HARMS if name not in (*GIVEN_UP, "retried")])}
objects = 20
object_size = "20KiB"
concurrency = {CONCURRENCY}
verify = true

[[workload]]
kind = "object"
name = "gets, given up"
targets = {json.dumps(GIVEN_UP)}
objects = 20
object_size = "20KiB"
concurrency = {CONCURRENCY}
request_timeout = "{TIMEOUT_S}s"
verify = true

[[workload]]
kind = "object"
name = "gets, tried again"
targets = ["retried"]
objects = 20
object_size = "20KiB"
concurrency = {CONCURRENCY}
retries = {RETRIES}
retry_backoff = "1us"
"""


@dataclass(frozen=True)
class Ran:
    """The campaign's runs by target, and the proxies in between."""

    records: dict[str, RunRecord]
    proxies: dict[str, FaultyProxy]
    store: ResultStore
    keys_left: list[str]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """Provide one campaign; each target is the same server behind a proxy with its own fault."""
    place = tmp_path_factory.mktemp("faults")
    with ExitStack() as stack:
        server = stack.enter_context(versitygw(place / "server"))
        server.make_bucket()
        server.put("somebody/else")
        proxies = {
            name: stack.enter_context(FaultyProxy(server.endpoint, harm))
            for name, harm in HARMS.items()
        }
        targets = [
            TARGET.format(name=n, endpoint=p.endpoint, options="") for n, p in proxies.items()
        ]
        (place / "study.toml").write_text(HEAD + "".join(targets) + WORKLOAD)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(place)
            server.set_environment(patch)
            code = main(["run", "study.toml", "--out", "out", "--no-report", "--quiet"])
        assert (
            code == ExitCode.DISAGREE
        )  # because some bodies were wrong; failed requests do not matter
        store = ResultStore.open(place / "out")
        records = {record.target: record for record in store.records()}
        yield Ran(records, proxies, store, server.keys())


def test_everything_was_cleaned_behind_the_worst_of_servers(ran: Ran) -> None:
    assert ran.keys_left == ["somebody/else"]


def test_an_honest_server_has_no_errors(ran: Ran) -> None:
    record = ran.records["plain"]
    assert record.totals["get"].operations > 20
    assert record.totals["get"].errors == {}
    assert record.metric("error_percent") == 0
    assert not {"errors", "verify-failed"} & {flag.kind for flag in record.flags}


@pytest.mark.parametrize("name", KINDS)
def test_each_harm_is_counted_by_its_kind(ran: Ran, name: str) -> None:
    record, proxy = ran.records[name], ran.proxies[name]
    errors = record.totals["get"].errors
    assert set(errors) == {KINDS[name]}
    done = proxy.done[HARMS[name].kind]
    # Requests in flight at the end of the window were hit once per attempt, but are not counted.
    # If the machine stalls, requests without a fault time out as well.
    attempts = RETRIES + 1 if name == "retried" else 1
    assert done - CONCURRENCY * attempts <= errors[KINDS[name]]
    assert errors[KINDS[name]] <= done or name in GIVEN_UP
    assert record.metric("errors", "get") == errors[KINDS[name]] > 0
    assert KINDS[name] in next(flag.message for flag in record.flags if flag.kind == "errors")


@pytest.mark.parametrize("name", HARMS)
def test_what_failed_is_in_no_histogram_and_no_byte_count(ran: Ran, name: str) -> None:
    record = ran.records[name]
    totals = record.totals["get"]
    assert totals.operations > 0
    assert totals.bytes == totals.operations * 20 * 1024
    assert totals.latency is not None
    assert totals.ttfb is not None
    assert totals.latency.count == totals.ttfb.count == totals.operations
    table = ran.store.samples(record.run_id)
    assert sum(table.column("operations").to_pylist()) == totals.operations
    assert sum(table.column("errors").to_pylist()) == sum(totals.errors.values())
    for column in ("latency_hist", "ttfb_hist"):
        counts = [
            Histogram.from_v2(encoded).count
            for encoded in table.column(column).to_pylist()
            if encoded
        ]
        assert sum(counts) == totals.operations


@pytest.mark.parametrize("name", [name for name in KINDS if name != "retried"])
def test_nothing_is_tried_again_in_secret(ran: Ran, name: str) -> None:
    totals = ran.records[name].totals["get"]
    counted = totals.operations + sum(totals.errors.values())
    assert counted <= ran.proxies[name].count("GET") <= counted + CONCURRENCY
    assert ran.records[name].details["retries"] == 0


def test_retries_end_well_and_every_refusal_is_still_counted(ran: Ran) -> None:
    record, proxy = ran.records["retried"], ran.proxies["retried"]
    totals = record.totals["get"]
    refused = totals.errors["SlowDown (503)"]
    sent = proxy.count("GET")
    assert totals.operations + refused <= sent
    assert sent <= totals.operations + refused + CONCURRENCY * (RETRIES + 1)
    assert record.details["retries"] == pytest.approx(refused, abs=CONCURRENCY * RETRIES)
    assert "attempts" in next(flag.message for flag in record.flags if flag.kind == "errors")


@pytest.mark.parametrize(
    ("name", "kind"), [("corrupt", "verify-failed"), ("truncate", "engine-note")]
)
def test_damage_is_named_with_its_key(ran: Ran, name: str, kind: str) -> None:
    record = ran.records[name]
    (flag,) = (flag for flag in record.flags if flag.kind == kind)
    keys = {seen.path.removeprefix("/bench/") for seen in ran.proxies[name].seen}
    named = [key for key in keys if "/pool-" in key and key in flag.message]
    assert 1 <= len(named) <= 3


def test_only_content_that_differs_is_wrong_data(ran: Ran) -> None:
    wrong = {n for n, r in ran.records.items() if "verify-failed" in {f.kind for f in r.flags}}
    assert wrong == {"corrupt"}


def test_a_connection_that_is_closed_in_a_body_is_no_wrong_data(
    owner: S3Server, campaign: Campaign
) -> None:
    with FaultyProxy(owner.endpoint, Harm("truncate", 0.2)) as proxy:
        code, printed, record = campaign(proxy.endpoint)
    assert record is not None
    assert set(record.totals["get"].errors) == {"short body"}
    assert code == ExitCode.OK
    assert "wrong data" not in printed


@dataclass(frozen=True)
class Campaign:
    """Runner of studies of one short run in the test's directory."""

    place: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(
        self,
        endpoint: str,
        *,
        verb: str = "run",
        options: str = "",
        workload: str = "objects = 5",
        bucket: str = "bench",
    ) -> tuple[int, str, RunRecord | None]:
        """Return the exit code, the output, and the run if there is one."""
        target = TARGET.format(name="store", endpoint=endpoint, options=options)
        study = HEAD + target.replace("/bench", f"/{bucket}")
        study += (
            f'[[workload]]\nkind = "object"\nobject_size = "4KiB"\nconcurrency = 2\n{workload}\n'
        )
        (self.place / "study.toml").write_text(study)
        arguments, out = [verb, str(self.place / "study.toml")], self.place / "out"
        if verb == "run":
            arguments += ["--out", str(out), "--no-report", "--quiet"]
        code = main(arguments)
        printed = "".join(self.capsys.readouterr())
        records = ResultStore.open(out).records() if out.exists() else []
        return code, " ".join(printed.split()), records[0] if records else None


@pytest.fixture
def campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Campaign:
    return Campaign(tmp_path, capsys)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Provide a server with a bucket and users with limited permissions."""
    place = tmp_path_factory.mktemp("users")
    (place / "iam").mkdir()
    with versitygw(place, "--iam-dir", str(place / "iam"), "--iam-cache-disable") as server:
        server.make_bucket()
        yield server


@pytest.fixture
def owner(users: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """Provide the server with its owner's keys in the environment."""
    users.set_environment(monkeypatch)
    return users


def test_wrong_keys(owner: S3Server, campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, wrong, words in (
        ("AWS_SECRET_ACCESS_KEY", "x" * 40, "the secret key does not match"),
        ("AWS_ACCESS_KEY_ID", "nobody-knows-me", "does not know the access key"),
    ):
        monkeypatch.setenv(name, wrong)
        code, printed, record = campaign(owner.endpoint)
        assert code == ExitCode.PREFLIGHT
        assert words in printed
        assert wrong not in printed
        assert record is None
    assert owner.keys() == []


def test_a_bucket_that_is_not_there(owner: S3Server, campaign: Campaign) -> None:
    code, printed, _ = campaign(owner.endpoint, bucket="elsewhere")
    assert code == ExitCode.PREFLIGHT
    assert "the bucket does not exist" in printed
    assert "create_bucket = true" in printed
    assert not (owner.root / "elsewhere").exists()


def as_user(
    users: S3Server, monkeypatch: pytest.MonkeyPatch, *statements: dict[str, object]
) -> None:
    user = users.add_user()
    users.allow(user, "bench", *statements)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", user.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", user.secret_key)


BUCKET, OBJECTS = "arn:aws:s3:::bench", "arn:aws:s3:::bench/*"


def test_a_user_that_may_only_read_is_refused_before_anything_is_written(
    users: S3Server, campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = {"Effect": "Allow", "Action": ["s3:ListBucket", "s3:GetObject"]}
    as_user(users, monkeypatch, {**reading, "Resource": [BUCKET, OBJECTS]})
    code, printed, record = campaign(users.endpoint)
    assert code == ExitCode.PREFLIGHT
    assert "AccessDenied (403)" in printed
    assert "s3:PutObject" in printed
    assert record is None
    assert users.keys() == []


def test_a_user_that_may_not_delete_is_refused_before_anything_is_written(
    users: S3Server, campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(
        users,
        monkeypatch,
        {"Effect": "Allow", "Action": "s3:*", "Resource": [BUCKET, OBJECTS]},
        {"Effect": "Deny", "Action": "s3:DeleteObject", "Resource": OBJECTS},
    )
    code, printed, record = campaign(users.endpoint)
    assert code == ExitCode.PREFLIGHT
    assert "cannot delete storlab-" in printed
    assert "allow these credentials s3:PutObject and s3:DeleteObject" in printed
    assert record is None
    assert users.keys() == []


def test_wrong_data_ends_with_a_code_of_its_own_and_names_the_run(
    owner: S3Server, campaign: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultyProxy(owner.endpoint, Harm("corrupt", 0.2)) as proxy:
        options = "objects = 5\nverify = true"
        code, printed, record = campaign(proxy.endpoint, workload=options)
        again = main(["resume", str(tmp_path / "out"), "--no-report"])
    assert record is not None
    assert record.status == "finished"
    assert again == ExitCode.DISAGREE
    assert f"wrong data: {record.run_id}" in capsys.readouterr().err
    assert code == ExitCode.DISAGREE
    assert f"wrong data: {record.run_id} on store" in printed


def test_requests_that_are_denied_in_a_run_are_errors_of_it(
    users: S3Server, campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_user(
        users,
        monkeypatch,
        {"Effect": "Allow", "Action": "s3:*", "Resource": [BUCKET, OBJECTS]},
        {"Effect": "Deny", "Action": "s3:PutObject", "Resource": f"{BUCKET}/storlab-*/run-*"},
    )
    code, printed, record = campaign(users.endpoint, workload="objects = 5\nget_percent = 60")
    assert record is not None, printed
    assert code == ExitCode.OK
    assert record.totals["get"].operations > 0
    assert record.totals["get"].errors == {}
    assert record.totals["put"].operations == 0
    assert set(record.totals["put"].errors) == {"AccessDenied (403)"}
    assert users.keys() == []


def test_a_run_in_which_nothing_succeeds_has_failed_and_says_why(
    owner: S3Server, campaign: Campaign
) -> None:
    with FaultyProxy(owner.endpoint, Harm("refuse")) as proxy:
        code, printed, record = campaign(proxy.endpoint)
    assert code == ExitCode.RUN_FAILED
    assert "SlowDown (503)" in printed
    assert record is not None
    assert record.status == "failed"
    assert record.metrics == []
    assert owner.keys() == []


@pytest.mark.parametrize(("skew_s", "way"), [(3600, "ahead of"), (-3600, "behind")])
def test_a_clock_that_is_far_off_stops_the_campaign(
    owner: S3Server, campaign: Campaign, skew_s: float, way: str
) -> None:
    clock = Harm("date", seconds=skew_s, methods=("GET", "PUT", "DELETE", "POST"), path="/")
    with FaultyProxy(owner.endpoint, clock) as proxy:
        code, printed, record = campaign(proxy.endpoint)
    assert code == ExitCode.PREFLIGHT
    assert way in printed
    assert record is None
    assert owner.keys() == []


def test_a_clock_that_is_a_little_off_is_a_warning(owner: S3Server, campaign: Campaign) -> None:
    with FaultyProxy(owner.endpoint, Harm("date", path="/", seconds=300)) as proxy:
        code, printed, _ = campaign(proxy.endpoint, verb="doctor")
    assert code == ExitCode.OK
    assert "300 s ahead of" in printed
    assert owner.keys() == []


@pytest.mark.parametrize("skew_s", [3600, -3600])
def test_a_store_that_finds_requests_too_old_or_too_new(
    owner: S3Server, campaign: Campaign, skew_s: float
) -> None:
    with FaultyProxy(owner.endpoint, Harm("redate", path="/", seconds=skew_s)) as proxy:
        code, printed, record = campaign(proxy.endpoint)
    assert code == ExitCode.PREFLIGHT
    assert "RequestTimeTooSkewed" in printed
    assert "the clocks of client and store are too far apart" in printed
    assert record is None


def test_certificates(campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with versitygw(tmp_path / "server", tls=True) as server:
        server.make_bucket()
        server.set_environment(monkeypatch)
        code, printed, record = campaign(server.endpoint)
        assert code == ExitCode.PREFLIGHT
        assert "certificate is not accepted" in printed
        assert "ca_file" in printed
        assert record is None
        flags = {}
        for options in (f'ca_file = "{server.ca_file}"', "verify_tls = false"):
            place = tmp_path / options[:2]
            place.mkdir()
            code, printed, record = Campaign(place, campaign.capsys)(
                server.endpoint, options=options
            )
            assert code == ExitCode.OK, printed
            assert record is not None
            assert record.totals["get"].operations > 0
            assert record.totals["get"].errors == {}
            flags[options] = {flag.kind for flag in record.flags}
        trusted, blind = flags.values()
        assert "tls-unverified" in blind
        assert "tls-unverified" not in trusted
        assert server.keys() == []


@pytest.mark.parametrize("name", ["corrupt", "truncate", "reset", "storm"])
def test_the_same_before_storlabs_own_server(tmp_path: Path, name: str) -> None:
    sizes = ObjectSizes(kind="fixed", sizes=[WeightedSize(bytes=20_000)])
    job = {
        "pool": Pool(prefix="pool-1/", objects=10, sizes=sizes),
        "write_prefix": "run-1/",
        "mix": ObjectMix(get=100),
        "concurrency": CONCURRENCY,
        "window_ns": 1_000_000_000,
        "verify": True,
    }
    engine = get_engine("native")
    with (
        EmbeddedServer(tmp_path / "objects") as server,
        FaultyProxy(server.store.endpoints[0], HARMS[name]) as proxy,
    ):
        store = server.store.model_copy(update={"endpoints": [proxy.endpoint]})
        for task in ("fill", "run"):
            order = ObjectJob.model_validate({**job, "store": store, "task": task})
            outcome = engine.start(order, tmp_path).wait()
            assert outcome is not None
            assert outcome.status == "finished", outcome.failure
    totals = outcome.totals["get"]
    assert set(totals.errors) == {KINDS[name]}
    done = proxy.done[HARMS[name].kind]
    assert done - CONCURRENCY <= totals.errors[KINDS[name]] <= done
    assert totals.latency is not None
    assert totals.latency.count == totals.operations > 0
    assert "pool-1/" in outcome.details["error_examples"][KINDS[name]]
