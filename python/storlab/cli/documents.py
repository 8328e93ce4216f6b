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
    """Error of a command: location, cause and fix."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    kind: str
    where: str
    what: str
    fix: str
    exit_code: int
    problems: NotRequired[list[Any]]


class ErrorDocument(TypedDict):
    """Document of a command that fails before it has a result to report."""

    error: Error


class InitDocument(TypedDict):
    """storlab init: the study file written, and the targets and devices it names."""

    file: str
    targets: list[dict[str, Any]]
    devices: list[dict[str, Any]]


class PlanDocument(TypedDict):
    """storlab plan: the points, order and cost of a study, and the hash of the plan."""

    plan_hash: str
    absent_devices: dict[str, list[str]]
    plan: Plan


class DoctorDocument(TypedDict):
    """storlab doctor: the checks made; `ok` if none of them is an error.

    `clients` holds facts about each cluster client that responds, by name.
    """

    ok: bool
    checks: list[Check]
    clients: NotRequired[dict[str, ClientFacts]]


class MetersDocument(TypedDict):
    """storlab meters: power meters that this machine has or could have."""

    meters: list[Discovered]


class RunCounts(TypedDict):
    """Number of runs of a campaign by state, and of those made in this session."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    planned: int
    finished: int
    failed: int
    missing: int
    this_session: NotRequired[int]


class FailedRun(TypedDict):
    """Failed run with its failure."""

    run_id: str
    target: str
    failure: Optional[Failure]  # noqa: UP045


class RunFlag(TypedDict):
    """Warning attached to a run."""

    run_id: str
    kind: str
    message: str


class Estimate(TypedDict):
    """Estimate with its 95 % interval (null if repeats give none) and number of repeats."""

    estimate: float | None
    low: float | None
    high: float | None
    n: int


class AdvantageDocument(TypedDict):
    """Lead of one target over another in one quantity at one point; it is `times` as good."""

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
    """Lead of one target over another in one quantity, at `points` of `of` points."""

    metric: str
    what: str
    ahead: str
    behind: str
    points: int
    of: int
    example: AdvantageDocument


class ToldDocument(TypedDict):
    """Textual answer to a question for one target, or for all (null)."""

    target: str | None
    text: str


class VerdictDocument(TypedDict):
    """Answer to one question of the study, as data and in `sentences`."""

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
    """Failed attempts of a run in order of time; the run itself may still be missing."""

    run_id: str
    target: str
    attempts: list[Attempt]


class RunDocument(TypedDict):
    """storlab run and storlab resume: state of the campaign at the end of the session."""

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
    """storlab status: progress of a campaign."""

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
    """Quantity of the comparison table; `key` identifies its values and ratios."""

    key: str
    metric: str
    operation: str
    unit: str
    better: str


class ProofDocument(TypedDict):
    """Proof that the medium served the finished runs of one workload on one target.

    `state` is the weakest state in `runs`, which counts runs by state; `reasons` are by state, too.
    """

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    workload: str
    target: str
    state: Literal["proven", "unproven", "contradicted"]
    runs: dict[str, int]
    not_judged: int
    reasons: dict[str, list[str]]


class EndpointFigures(TypedDict):
    """Requests of one kind to one endpoint and address at one point, all repeats merged."""

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
    """storlab compare: every point with every target, ratios, proofs and verdicts.

    `endpoints` (object) lists targets with several endpoints or addresses, `gpu_paths` (gpudirect)
    the shares of the paths, and `saturation` (preprocess) whether storage is the bottleneck. These
    three are missing if metrics were selected.
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
    """storlab report: the files written, and the verdicts."""

    html: str
    pdf: str | None
    directory: str
    verdicts: list[VerdictDocument]


class ExportDocument(TypedDict):
    """storlab export: the file written."""

    output: str
    format: str
    samples: bool
    runs: int


class ImportDocument(TypedDict):
    """storlab import: the result directory made, and its runs."""

    directory: str
    runs: list[RunRecord]


class GateRuleVerdict(TypedDict):
    """Gate rule as written, its verdict over all checks, and the number of checks by outcome."""

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
    """Check of one rule at one target and point; `interval` and `bound` are in `unit`, or ratios.

    `rule_number` counts from 1; `metric` is the column that was checked. `boundary` is what the
    power meter includes; it is null if the metric is not power or no run has energy. `repeats` is
    the existing number of repeats, `repeats_to_decide` the total that would decide the check.
    `runs` are the runs that have a value; if none has, all finished runs.
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
    """Field of the environment or settings that differs from the baseline's."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    field: str
    here: Any
    there: Any


class GateDocument(TypedDict):
    """storlab gate: whether results satisfy their rules; `confidence` is that of each interval.

    `saved` is the file of a new baseline; `unsaved` is the reason why --save wrote none. `verdict`
    is null if --save is used and no rule can be judged without a baseline.
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
    """Change of a quantity's level at a point, from the result `since` (start of its runs) on.

    `ratio` is the new level over the one before, `chance` the probability that noise alone gives as
    large a change. `candidates` are facts that changed near it, nearest first; their `offset` is in
    results. `boundary` is what the power meter includes; null if the metric is not power.
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
    """Fact that changed near a change of level, and `elsewhere` times more at that point."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    field: str
    before: Any
    after: Any
    offset: int
    elsewhere: int


class HistoryPoint(TypedDict):
    """History of one target at one workload point, with its page; changes are newest first."""

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
    """storlab history: the site, the directories read for it, and every change it shows."""

    site: str
    directories: int
    read: list[str]
    problems: list[Error]
    points: list[HistoryPoint]


class CrosscheckDocument(TypedDict):
    """storlab crosscheck: whether two engines agree, and the repeats that would decide."""

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
    """storlab capacity: the content of capacity.json, with directory and exit code."""

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
    """storlab clean: the data removed, and the problems."""

    directory: str
    removed: list[str]
    problems: list[Error]


class VerifyDocument(TypedDict):
    """storlab verify: number of blocks checked and bad blocks, by run."""

    ok: bool
    runs: dict[str, dict[str, Any]]


class AuditDocument(TypedDict):
    """storlab audit: findings of the rules."""

    path: str
    rules: list[str]
    counts: dict[str, int]
    findings: list[Finding]


class PublishedListDocument(TypedDict):
    """storlab published: tables of published results."""

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
