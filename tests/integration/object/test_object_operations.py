"""Every kind of object request on real servers, including storlab's own.

The servers are versitygw (plain, TLS, virtual hosts) and gofakes3. The requested operations are
sent, and nothing is left behind.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from scipy import stats

from simulators.faulty_proxy import FaultyProxy
from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.model.result import RunRecord
from storlab.results.store import ResultStore
from storlab.workloads.object.job import OBJECT_OPERATIONS
from support.ports import free_port
from support.s3_servers import S3Server, gofakes3, versitygw

SIGMAS = 5
CHANCE = 2 * stats.norm.sf(SIGMAS)
MIX = {"get": 30, "put": 35, "head": 15, "list": 10, "delete": 5, "multi_delete": 5}
SERVERS = ("versitygw", "versitygw with TLS", "versitygw, virtual", "gofakes3", "embedded")
WHOLE = [name for name in SERVERS if name != "gofakes3"]  # it does not support trailers
STUDY = f"""\
[study]
name = "every request"
repeats = 1
ramp = "50ms"
runtime = "1s"
interval = "50ms"

{{targets}}

[[workload]]
kind = "object"
name = "everything"
targets = {json.dumps(WHOLE)}
payload = ["unsigned", "signed", "streaming", "trailer-crc"]
{{everything}}

[[workload]]
kind = "object"
name = "everything without trailers"
targets = ["gofakes3"]
payload = ["unsigned", "signed", "streaming"]
{{everything}}

[[workload]]
kind = "object"
name = "ranges"
range_size = "1000B"
object_size = {{{{ uniform = ["2KiB", "30KiB"] }}}}
objects = 20
concurrency = 4
verify = true

[[workload]]
kind = "object"
name = "parts"
get_percent = 50
object_size = "11MiB"
part_size = "5MiB"
part_concurrency = 2
read_written = true
objects = 2
concurrency = 2
verify = true
"""
EVERYTHING = f"""\
get_percent = {MIX["get"]}
head_percent = {MIX["head"]}
list_percent = {MIX["list"]}
delete_percent = {MIX["delete"]}
multi_delete_percent = {MIX["multi_delete"]}
object_size = {{ "1KiB" = 1, "20KiB" = 1 }}
objects = 30
prefixes = 3
list_max_keys = 7
delete_batch = 4
read_written = true
concurrency = 4
verify = true
"""


def target(name: str, address: str, options: str = "") -> str:
    more = f"s3_options = {{ {options} }}\n" if options else ""
    return f'[[target]]\nname = "{name}"\ns3 = "{address}"\n{more}\n'


@dataclass(frozen=True)
class Ran:
    """A campaign's records, and the proxies in between."""

    records: list[RunRecord]
    proxies: dict[str, FaultyProxy]

    def of(self, workload: str, name: str | None = None) -> list[RunRecord]:
        found = [r for r in self.records if workload in r.workload and name in (None, r.target)]
        assert found
        return found


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Provide runs of all kinds of requests on all servers, made once."""
    place = tmp_path_factory.mktemp("operations")
    port = free_port()
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        plain = stack.enter_context(versitygw(place / "plain"))
        tls = stack.enter_context(versitygw(place / "tls", tls=True))
        named = versitygw(place / "named", "--virtual-domain", f"localhost:{port}", port=port)
        virtual = stack.enter_context(named)
        other = stack.enter_context(gofakes3(place / "other"))
        servers = dict(zip(SERVERS, (plain, tls, virtual, other), strict=False))
        options = {
            "versitygw with TLS": f'ca_file = "{tls.ca_file}"',
            "versitygw, virtual": 'addressing = "virtual"',
        }
        targets = target("embedded", "embedded:objects")
        for number, (name, server) in enumerate(servers.items()):
            server.set_environment(patch, f"KEYS{number}")
            if name != "gofakes3":
                server.make_bucket()
            options_text = ", ".join([f'credentials_env = "KEYS{number}"', options.get(name, "")])
            address = f"{server.endpoint}/bench"
            if "virtual" in name:
                address = address.replace("127.0.0.1", "localhost")
            targets += target(name, address, options_text.rstrip(", "))
        (place / "study.toml").write_text(STUDY.format(targets=targets, everything=EVERYTHING))
        patch.chdir(place)
        code = main(["run", "study.toml", "--out", "out", "--no-report", "--quiet"])
        assert code == ExitCode.OK
        for server in servers.values():
            assert server.keys() == []
        assert not (place / "objects").exists()
        return Ran(ResultStore.open(place / "out").records(), {})


def test_every_request_succeeds_on_every_server(ran: Ran) -> None:
    assert len(ran.records) == 4 * len(WHOLE) + 3 + 2 * len(SERVERS)
    assert {record.target for record in ran.records} == set(SERVERS)
    for record in ran.records:
        assert record.status == "finished", record.failure
        assert {op: t.errors for op, t in record.totals.items() if t.errors} == {}
        assert "verify-failed" not in {flag.kind for flag in record.flags}


@pytest.mark.parametrize("name", SERVERS)
def test_all_kinds_were_done_and_measured(ran: Ran, name: str) -> None:
    done: Counter[str] = Counter()
    for record in ran.of("everything", name):
        for operation, totals in record.totals.items():
            done[operation] += totals.operations
            if not totals.operations:
                continue
            assert totals.latency is not None
            assert totals.latency.count == totals.operations
            assert (totals.ttfb is not None) == (operation == "get")
            assert bool(totals.bytes) == (operation in ("get", "put"))
    assert set(done) == set(OBJECT_OPERATIONS)
    assert all(done.values()), done


@pytest.mark.parametrize("name", SERVERS)
def test_a_mix_holds_its_percentages(ran: Ran, name: str) -> None:
    done: Counter[str] = Counter()
    records = ran.of("everything", name)
    for record in records:
        done.update({op: totals.operations for op, totals in record.totals.items()})
        assert record.details["repeated_draws"] == 0
        assert "mix-off" not in {flag.kind for flag in record.flags}
    every = done.total()
    # Requests in flight at a window's edge are mostly of slow kinds.
    edges = 4 * len(records)
    for kind, percent in MIX.items():
        share = percent / 100
        off = abs(done[kind] - every * share)
        assert off <= SIGMAS * math.sqrt(every * share * (1 - share)) + edges, (kind, done)


def test_first_bytes_come_before_last_ones(ran: Ran) -> None:
    for record in ran.records:
        totals = record.totals["get"]
        assert totals.ttfb is not None
        assert totals.latency is not None
        assert 0 < totals.ttfb.mean_ns <= totals.latency.mean_ns


def test_ranges_have_their_size(ran: Ran) -> None:
    for record in ran.of("ranges"):
        assert set(record.totals) == {"get"}
        assert record.totals["get"].bytes == 1000 * record.totals["get"].operations


def test_an_upload_in_parts_is_one_request_of_its_size(ran: Ran) -> None:
    for record in ran.of("parts"):
        put = record.totals["put"]
        assert put.operations + record.totals["get"].operations > 0
        assert put.bytes == put.operations * 11 * 2**20


def test_only_what_is_not_usual_is_flagged(ran: Ran) -> None:
    for record in ran.records:
        kinds = {flag.kind for flag in record.flags}
        assert "tls-unverified" not in kinds
        assert ("embedded-server" in kinds) == (record.target == "embedded")
        unusual = "everything" in record.workload and record.params["payload"] != "unsigned"
        assert ("payload-mode" in kinds) == unusual
        assert (record.server_cpu is not None) == (record.target == "embedded")


DRAWS = """\
[study]
name = "what is drawn"
repeats = 1
ramp = 0
runtime = "2s"

{targets}
"""
DRAWN = """
[[workload]]
kind = "object"
name = "{name}"
targets = ["{name}"]
objects = 40
object_size = "1KiB"
concurrency = 4
{more}
"""
WORKLOADS = {
    "uniform": "",
    "zipf": 'keys = "zipf"\nzipf_theta = 1.1',
    "hot_cold": 'keys = "hot_cold"\nhot_space_percent = 10\nhot_access_percent = 90',
    "30/70": "get_percent = 30",
    "90/10": "get_percent = 90",
    "lanes": "concurrency_per_operation = { get = 3, put = 1 }",
    "open loop": 'rate_requests = 200\narrival = "poisson"\nget_percent = 50',
}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """Provide one run of each key distribution, each through a proxy that sees every request."""
    place = tmp_path_factory.mktemp("drawn")
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        server: S3Server = stack.enter_context(versitygw(place / "server"))
        server.make_bucket()
        server.set_environment(patch)
        proxies = {n: stack.enter_context(FaultyProxy(server.endpoint)) for n in WORKLOADS}
        targets = "".join(target(n, f"{p.endpoint}/bench") for n, p in proxies.items())
        workloads = "".join(DRAWN.format(name=n, more=m) for n, m in WORKLOADS.items())
        workloads = workloads.replace("concurrency = 4\nconcurrency_per", "concurrency_per")
        (place / "study.toml").write_text(DRAWS.format(targets=targets) + workloads)
        code = main([
            *("run", str(place / "study.toml"), "--out", str(place / "out")),
            *("--no-report", "--quiet"),
        ])  # fmt: skip
        assert code == ExitCode.OK
        yield Ran(ResultStore.open(place / "out").records(), proxies)


def keys_read(drawn: Ran, name: str) -> list[int]:
    """Return how often each of the 40 objects was read, the most popular first."""
    seen = drawn.proxies[name].seen
    counts = Counter(s.path for s in seen if s.method == "GET" and "/pool-" in s.path)
    assert counts.total() > 100
    return sorted(counts.values(), reverse=True) + [0] * (40 - len(counts))


def test_uniform_keys_are_uniform(drawn: Ran) -> None:
    counts = keys_read(drawn, "uniform")
    assert len(counts) == 40
    chance = stats.chisquare(counts).pvalue
    # Drawn independently: a shuffled deck would be more even than chance.
    assert CHANCE < chance < 1 - CHANCE


def test_zipf_and_hot_keys_are_as_skewed_as_asked(drawn: Ran) -> None:
    shares = [1 / rank**1.1 for rank in range(1, 41)]
    first = shares[0] / sum(shares)
    for name, top, share in (("zipf", 1, first), ("hot_cold", 4, 0.9)):
        counts = keys_read(drawn, name)
        scatter = SIGMAS * math.sqrt(sum(counts) * share * (1 - share))
        assert abs(sum(counts[:top]) - sum(counts) * share) <= scatter, (name, counts)


@pytest.mark.parametrize(("name", "share"), [("30/70", 0.3), ("90/10", 0.9)])
def test_the_kind_is_drawn_for_each_request(drawn: Ran, name: str, share: float) -> None:
    proxy = drawn.proxies[name]
    got, put = proxy.count("GET", "/pool-"), proxy.count("PUT", "/run-")
    scatter = math.sqrt((got + put) * share * (1 - share))
    assert abs(got - (got + put) * share) <= SIGMAS * scatter
    # A shuffled deck would give the same number of PUTs in every stretch.
    load = (("GET", "/pool-"), ("PUT", "/run-"))
    kinds = [
        s.method for s in proxy.seen for how, path in load if s.method == how and path in s.path
    ]
    stretches = [kinds[at : at + 20].count("GET") for at in range(0, len(kinds) - 20, 20)]
    spread = sum((n - 20 * share) ** 2 for n in stretches) / (20 * share * (1 - share))
    assert CHANCE < stats.chi2.sf(spread, len(stretches)) < 1 - CHANCE


@pytest.mark.parametrize("name", WORKLOADS)
def test_what_is_counted_is_what_was_sent(drawn: Ran, name: str) -> None:
    (record,) = drawn.of(name, name)
    for operation, method, path in (("get", "GET", "/pool-"), ("put", "PUT", "/run-")):
        totals = record.totals.get(operation)
        counted = 0 if totals is None else totals.operations + totals.late_operations
        sent = drawn.proxies[name].count(method, path)
        assert counted <= sent <= counted + 4


def test_requests_are_signed_and_their_bodies_are_not(drawn: Ran) -> None:
    for seen in drawn.proxies["30/70"].seen:
        assert seen.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=")
        if "/run-" in seen.path and seen.method == "PUT":
            assert seen.headers["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD"
            assert seen.headers["content-length"] == "1024"


def test_lanes_do_not_wait_for_one_another(drawn: Ran) -> None:
    (record,) = drawn.of("lanes")
    assert record.params["concurrency"] == 4
    assert record.totals["get"].operations > 0
    assert record.totals["put"].operations > 0


def test_an_open_loop_sends_what_is_due(drawn: Ran) -> None:
    (record,) = drawn.of("open loop")
    due = sum(totals.operations + totals.late_operations for totals in record.totals.values())
    assert abs(due - 400) <= SIGMAS * math.sqrt(400) + 4
    for totals in record.totals.values():
        assert totals.intended is not None
        assert totals.latency is not None
        assert totals.intended.mean_ns >= totals.latency.mean_ns
