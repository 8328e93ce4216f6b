"""Types of the documents that ``--json`` prints; docs/reference/json is generated from them.

No command imports this module: commands print plain dicts, and the tests check every printed
document against its schema. Removing a field or changing its meaning requires a new version.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, NotRequired, Optional

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from storlab.audit.finding import Finding
from storlab.cli.client_documents import ClientFacts
from storlab.cli.common import DOCUMENT_VERSION
from storlab.cli.main import FURTHER
from storlab.contracts.check import Check
from storlab.contracts.meter import Discovered
from storlab.model.point import Plan
from storlab.model.result import Attempt, Failure, RunRecord

DIALECT = "https://json-schema.org/draft/2020-12/schema"
CLOSED = ConfigDict(extra="forbid")


class Error(TypedDict):
    """What went wrong: where, what, and how to mend it."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    kind: str
    where: str
    what: str
    fix: str
    exit_code: int
    problems: NotRequired[list[Any]]


class ErrorDocument(TypedDict):
    """Of any verb that ends with an error before it has something to report."""

    error: Error


class InitDocument(TypedDict):
    """storlab init: the study that was written, and what it names."""

    file: str
    targets: list[dict[str, Any]]
    devices: list[dict[str, Any]]


class PlanDocument(TypedDict):
    """storlab plan: everything that a study will do."""

    plan_hash: str
    absent_devices: dict[str, list[str]]
    plan: Plan


class DoctorDocument(TypedDict):
    """storlab doctor: what was looked at; ok without an error among it.

    ``clients``, of a cluster: what each of those that answer is, by name.
    """

    ok: bool
    checks: list[Check]
    clients: NotRequired[dict[str, ClientFacts]]


class MetersDocument(TypedDict):
    """storlab meters: what this machine has or could have."""

    meters: list[Discovered]


class RunCounts(TypedDict):
    """Runs of a campaign, and those of this session."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    planned: int
    finished: int
    failed: int
    missing: int
    this_session: NotRequired[int]


class FailedRun(TypedDict):
    """A run that failed."""

    run_id: str
    target: str
    failure: Optional[Failure]  # noqa: UP045


class RunFlag(TypedDict):
    """A warning that a run carries."""

    run_id: str
    kind: str
    message: str


class Estimate(TypedDict):
    """An estimate, its 95 % interval (null where repeats give none) and its number of repeats."""

    estimate: float | None
    low: float | None
    high: float | None
    n: int


class AdvantageDocument(TypedDict):
    """One target ahead of another in one quantity at one point, `times` as good."""

    metric: str
    what: str
    ahead: str
    behind: str
    where: str
    times: Estimate
    points: list[str]
    runs: list[str]
    note: str


class StandingDocument(TypedDict):
    """One target ahead of another in one quantity at `points` of the `of` points."""

    metric: str
    what: str
    ahead: str
    behind: str
    points: int
    of: int
    example: AdvantageDocument


class ToldDocument(TypedDict):
    """What answers a question in words: of one target, or of all (null)."""

    target: str | None
    text: str


class VerdictDocument(TypedDict):
    """The answer to one question that the study asks; in words in `sentences`."""

    question: str
    kind: str
    told: list[ToldDocument]
    workload: str
    targets: list[str]
    winner: str | None
    headline: AdvantageDocument | None
    points: int
    ahead: dict[str, int]
    comparisons: int
    range: list[float] | None
    caveat: str
    better: list[StandingDocument]
    worse: list[StandingDocument]
    sentences: list[str]


class RepeatedRun(TypedDict):
    """A run with its failed attempts, in order of time; the run itself need not be there yet."""

    run_id: str
    target: str
    attempts: list[Attempt]


class RunDocument(TypedDict):
    """storlab run and storlab resume: how the campaign stands at the end of the session."""

    directory: str
    plan_hash: str
    exit_code: int
    interrupted: bool
    runs: RunCounts
    failures: list[FailedRun]
    flags: list[RunFlag]
    removed_data_files: list[str]
    verdicts: list[VerdictDocument]
    brief: str | None
    brief_error: Error | None


class StatusDocument(TypedDict):
    """storlab status: how far a campaign is."""

    directory: str
    study: str
    plan_hash: str
    running: bool
    runs: RunCounts
    left_ns: int
    flags: dict[str, int]
    errors: dict[str, int]
    by_target: dict[str, RunCounts]
    by_clients: NotRequired[list[dict[str, Any]]]
    clients_now: NotRequired[list[dict[str, Any]]]
    failures: list[FailedRun]
    repeated: list[RepeatedRun]


class ColumnDocument(TypedDict):
    """A quantity of the table; values and ratios lie under its key."""

    key: str
    metric: str
    operation: str
    unit: str
    better: str


class ProofDocument(TypedDict):
    """Whether the medium served the finished runs of one workload on one target.

    `state` is the weakest one of `runs`, which counts runs by state; `reasons` are by state, too.
    """

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    workload: str
    target: str
    state: Literal["proven", "unproven", "contradicted"]
    runs: dict[str, int]
    not_judged: int
    reasons: dict[str, list[str]]


class EndpointFigures(TypedDict):
    """Single requests of one kind to one endpoint and address at one point, all repeats merged."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    where: str
    target: str
    point: str
    endpoint: str
    address: str | None
    kind: str
    requests: int
    bytes: int
    errors: int
    mean_ns: float
    p50_ns: int
    p99_ns: int


class CompareDocument(TypedDict):
    """storlab compare: every point with every target, the ratios, proofs, and the verdicts.

    `endpoints` (object) has the targets with several endpoints or addresses, `gpu_paths` the shares
    of the paths (gpudirect), `saturation` (preprocess) whether storage holds the work back. A
    selection of metrics is without these three.
    """

    confidence: float
    baseline: str
    targets: list[str]
    columns: list[ColumnDocument]
    points: list[dict[str, Any]]
    failed: list[dict[str, Any]]
    proofs: list[ProofDocument]
    endpoints: NotRequired[list[EndpointFigures]]
    gpu_paths: NotRequired[list[dict[str, Any]]]
    saturation: NotRequired[list[dict[str, Any]]]
    verdicts: list[VerdictDocument]


class ReportDocument(TypedDict):
    """storlab report: the files that were written, and the verdicts."""

    html: str
    pdf: str | None
    directory: str
    verdicts: list[VerdictDocument]


class ExportDocument(TypedDict):
    """storlab export: the file that was written."""

    output: str
    format: str
    samples: bool
    runs: int


class ImportDocument(TypedDict):
    """storlab import: the result directory that was made, and its runs."""

    directory: str
    runs: list[RunRecord]


class GateRuleVerdict(TypedDict):
    """A rule as it is written, its verdict over all of its checks, and how many ended how."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    number: int
    metric: str
    target: str | None
    workload: str | None
    at: dict[str, Any]
    at_most: str | float | None
    at_least: str | float | None
    verdict: Literal["held", "broken", "undecided"]
    held: int
    broken: int
    undecided: int


class GateCheck(TypedDict):
    """One rule at one target and point. `interval` and `bound` are in `unit`, or a ratio.

    `rule_number` is that of the rule, from 1, and `metric` the column that it was held to there;
    `boundary` is what the meter behind it includes, null of what is not power and where no run has
    energy. Of the `repeats_to_decide`, `repeats` are there. `runs` are those that have a value;
    where none has, all that finished.
    """

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    rule_number: int
    target: str
    where: str
    metric: str
    boundary: str | None
    rule: str
    bound: float
    unit: str
    interval: Optional[Estimate]  # noqa: UP045
    verdict: Literal["held", "broken", "undecided"]
    reason: str
    repeats: int
    repeats_to_decide: int | None
    remarks: list[str]
    runs: list[str]


class AcceptedDifference(TypedDict):
    """A field of environment or settings that differs from the baseline's."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    field: str
    here: Any
    there: Any


class GateDocument(TypedDict):
    """storlab gate: whether results keep to their rules; `confidence` is that of each interval.

    `saved` is the file of a baseline that was made. --save without rules that refer to no baseline
    judges nothing: no verdict then. `unsaved` is why --save made none.
    """

    directory: str
    baseline: str | None
    verdict: Optional[Literal["held", "broken", "undecided"]]  # noqa: UP045
    confidence: float | None
    accepted: list[AcceptedDifference]
    rules: list[GateRuleVerdict]
    checks: list[GateCheck]
    saved: str | None
    unsaved: str | None


class HistoryChange(TypedDict):
    """A quantity of a point at another level since `since`, the start of that result's runs.

    `ratio` is that of the level to the one before, `chance` how often noise alone shows as large a
    change. `candidates` are facts that changed near it, nearest first; `offset` in results.
    `boundary` is what the meter behind it includes, null of what is not power.
    """

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    metric: str
    boundary: str | None
    unit: str
    since: str
    directory: str
    before: float
    after: float
    ratio: Optional[Estimate]  # noqa: UP045
    verdict: Literal["better", "worse", ""]
    chance: float
    candidates: list[HistoryCandidate]


class HistoryCandidate(TypedDict):
    """A fact that changed near a change, `elsewhere` times more in the history of the point."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    field: str
    before: Any
    after: Any
    offset: int
    elsewhere: int


class HistoryPoint(TypedDict):
    """One target at one workload point, and its page in the site; changes newest first."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    page: str
    kind: str
    workload: str
    engine: str
    target: str
    where: str
    results: int
    runs: int
    metric: str
    unit: str
    last: float | None
    changes: list[HistoryChange]


class HistoryDocument(TypedDict):
    """storlab history: the site, what was read for it, and every change that it shows."""

    site: str
    directories: int
    read: list[str]
    problems: list[Error]
    points: list[HistoryPoint]


class CrosscheckDocument(TypedDict):
    """storlab crosscheck: whether two engines agree, and how many repeats would decide."""

    agree: bool
    verdict: Literal["agree", "differ", "inconclusive"]
    counts: dict[str, int]
    repeats_to_decide: int | None
    reference: str
    confidence: float
    family_confidence: float
    points: list[dict[str, Any]]
    directory: str
    planned: int
    missing: int
    interrupted: bool
    failed: int


class CapacityDocument(TypedDict):
    """storlab capacity: what was found; but for its end as in capacity.json."""

    schema_version: int
    metric: str
    threshold_percent: float
    repeats: int
    confidence: float
    complete: bool
    cases: list[dict[str, Any]]
    directory: str
    exit_code: int


class CleanDocument(TypedDict):
    """storlab clean: what went, and what could not."""

    directory: str
    removed: list[str]
    problems: list[Error]


class VerifyDocument(TypedDict):
    """storlab verify: by run, how many blocks were checked and which were bad."""

    ok: bool
    runs: dict[str, dict[str, Any]]


class AuditDocument(TypedDict):
    """storlab audit: what the rules found."""

    path: str
    rules: list[str]
    counts: dict[str, int]
    findings: list[Finding]


class PublishedListDocument(TypedDict):
    """storlab published: the tables that there are."""

    directory: str
    tables: list[dict[str, Any]]


class PublishedTableDocument(TypedDict):
    """storlab published show: one table, row by row."""

    name: str
    columns: dict[str, str]
    rows: list[dict[str, Any]]


OWN: dict[str, Any] = {
    "error": ErrorDocument,
    "init": InitDocument,
    "plan": PlanDocument,
    "doctor": DoctorDocument,
    "meters": MetersDocument,
    "run": RunDocument,
    "status": StatusDocument,
    "compare": CompareDocument,
    "report": ReportDocument,
    "export": ExportDocument,
    "import": ImportDocument,
    "crosscheck": CrosscheckDocument,
    "gate": GateDocument,
    "history": HistoryDocument,
    "capacity": CapacityDocument,
    "clean": CleanDocument,
    "verify": VerifyDocument,
    "audit": AuditDocument,
    "published": PublishedListDocument,
    "published-table": PublishedTableDocument,
}
"""Types of the documents by the name in their ``schema`` field."""


def documents() -> dict[str, Any]:
    """Return the types of all documents, including those of family commands.

    A family command defines its type as ``Document`` in its own module.
    """
    schemas = dict(OWN)
    for name, verb in FURTHER.items():
        own = getattr(import_module(verb.place.partition(":")[0]), "Document", None)
        if own is not None:
            schemas[name] = own
    return schemas


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of one document."""
    schema = TypeAdapter(documents()[name]).json_schema(mode="serialization")
    head = {
        "schema": {"const": name, "description": "what this document is"},
        "version": {"const": DOCUMENT_VERSION, "description": "of its schema"},
    }
    return {
        "$schema": DIALECT,
        **schema,
        "title": f"storlab {name}",
        "properties": {**head, **schema["properties"]},
        "required": [*head, *schema.get("required", [])],
        "additionalProperties": schema.get("additionalProperties", False),
    }
