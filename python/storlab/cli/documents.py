"""JSON documents that commands print with ``--json``; docs/reference/json holds their schemas.

A command imports this module only when it prints JSON, because pydantic doubles its start-up time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field

from storlab.analysis import gate
from storlab.analysis.proofs import TargetProof
from storlab.audit.finding import Finding, Severity
from storlab.contracts.check import Check
from storlab.contracts.document import OPTIONAL, Document, Error, Part
from storlab.contracts.meter import Discovered
from storlab.model.decision import Interval, Verdict
from storlab.model.point import Plan
from storlab.model.published import Row
from storlab.model.result import Attempt, BadBlock, Failure, RunRecord


class ErrorDocument(Document):
    """Document of a command that fails before it has a result to report."""

    schema_name: Literal["error"] = Field(default="error", alias="schema")
    error: Error


class StarterTarget(Part):
    """Data file that a new study names as a target."""

    name: str
    path: str
    size_bytes: int
    direct: bool
    where: str


class StarterDevice(Part):
    """Block device that a new study lists as a comment; `uses` describes what uses it."""

    name: str
    path: str
    model: str
    size_bytes: int
    rotational: bool
    uses: list[str]


class InitDocument(Document):
    """storlab init: the study file written, and the targets and devices it names."""

    schema_name: Literal["init"] = Field(default="init", alias="schema")
    file: Path
    targets: list[StarterTarget]
    devices: list[StarterDevice]


class PlanDocument(Document):
    """storlab plan: the points, order and cost of a study, and the hash of the plan."""

    schema_name: Literal["plan"] = Field(default="plan", alias="schema")
    plan_hash: str
    absent_devices: dict[str, list[str]]
    plan: Plan


class ClientMount(Part):
    """File system that holds a target's directory, on one client."""

    point: str
    kind: str
    source: str
    options: str
    total_bytes: int
    free_bytes: int
    network: bool


class ClientClock(Part):
    """Offset of a client's CLOCK_MONOTONIC from this machine's, and how it was measured."""

    offset_ns: int
    round_trip_ns: int
    drift_ns: int


class ClientStore(Part):
    """Response of an object store endpoint to a client.

    `unreachable` is true if the network or the store may recover; `skew_s` is how far the store's
    clock is ahead.
    """

    problem: str
    fix: str
    unreachable: bool
    skew_s: float | None
    listed_ns: int | None


class ClientFacts(Part):
    """Facts about a client of a cluster; directories are named as in the study."""

    model_config = ConfigDict(extra="allow")

    host: str
    storlab: str
    build: str
    native: str
    io_uring: str
    python: str
    kernel: str
    cpu_level: str
    cores: int
    memory_bytes: int
    memlock_bytes: int
    open_files: int
    load: float
    nics: dict[str, int | None]
    missing_nics: list[str]
    stores: dict[str, dict[str, ClientStore]]
    devices: dict[str, dict[str, str | int]]
    engines: dict[str, str]
    mount: str | None
    mounts: dict[str, ClientMount | None]
    free: dict[str, int] | None = OPTIONAL
    direct: dict[str, bool] | None = OPTIONAL
    problems: dict[str, str]
    fixes: dict[str, str]
    claimed: dict[str, str]
    sees: list[str] | None = OPTIONAL
    clock: ClientClock | None = OPTIONAL


class DoctorDocument(Document):
    """storlab doctor: the checks made; `ok` if none of them is an error.

    `clients` holds facts about each cluster client that responds, by name.
    """

    schema_name: Literal["doctor"] = Field(default="doctor", alias="schema")
    ok: bool
    checks: list[Check]
    clients: dict[str, ClientFacts] | None = OPTIONAL


class MetersDocument(Document):
    """storlab meters: power meters that this machine has or could have."""

    schema_name: Literal["meters"] = Field(default="meters", alias="schema")
    meters: list[Discovered]


class RunCounts(Part):
    """Number of runs of a campaign by state, and of those made in this session."""

    planned: int
    finished: int
    failed: int
    missing: int
    this_session: int | None = OPTIONAL


class FailedRun(Part):
    """Failed run with its failure."""

    run_id: str
    target: str
    failure: Failure | None


class RunFlag(Part):
    """Warning attached to a run."""

    run_id: str
    kind: str
    message: str


class VerdictDocument(Verdict):
    """Answer to one question of the study, as data and in sentences."""

    sentences: list[str]


class RepeatedRun(Part):
    """Failed attempts of a run in order of time; the run itself may still be missing."""

    run_id: str
    target: str
    attempts: list[Attempt]


class RunDocument(Document):
    """storlab run and storlab resume: state of the campaign at the end of the session."""

    schema_name: Literal["run"] = Field(default="run", alias="schema")
    directory: Path
    plan_hash: str
    exit_code: int
    interrupted: bool
    runs: RunCounts
    failures: list[FailedRun]
    flags: list[RunFlag]
    removed_data_files: list[str]
    verdicts: list[VerdictDocument]
    brief: Path | None
    brief_error: Error | None


class StatusDocument(Document):
    """storlab status: progress of a campaign."""

    schema_name: Literal["status"] = Field(default="status", alias="schema")
    directory: Path
    study: str
    plan_hash: str
    running: bool
    runs: RunCounts
    left_ns: int
    flags: dict[str, int]
    errors: dict[str, int]
    by_target: dict[str, RunCounts]
    by_clients: list[dict[str, Any]] | None = OPTIONAL
    clients_now: list[dict[str, Any]] | None = OPTIONAL
    failures: list[FailedRun]
    repeated: list[RepeatedRun]


class ColumnDocument(Part):
    """Quantity of the comparison table; `key` identifies its values and ratios."""

    key: str
    metric: str
    operation: str
    unit: str
    better: str


class EndpointFigures(Part):
    """Requests of one kind to one endpoint and address at one point, all repeats merged."""

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


class CompareDocument(Document):
    """storlab compare: every point with every target, ratios, proofs and verdicts.

    `endpoints` (object) lists targets with several endpoints or addresses, `gpu_paths` (gpudirect)
    the shares of the paths, and `saturation` (preprocess) whether storage is the bottleneck. These
    three are missing if metrics were selected.
    """

    schema_name: Literal["compare"] = Field(default="compare", alias="schema")
    confidence: float
    baseline: str
    targets: list[str]
    columns: list[ColumnDocument]
    points: list[dict[str, Any]]
    failed: list[dict[str, Any]]
    proofs: list[TargetProof]
    endpoints: list[EndpointFigures] | None = OPTIONAL
    gpu_paths: list[dict[str, Any]] | None = OPTIONAL
    saturation: list[dict[str, Any]] | None = OPTIONAL
    verdicts: list[VerdictDocument]


class ReportDocument(Document):
    """storlab report: the files written, and the verdicts."""

    schema_name: Literal["report"] = Field(default="report", alias="schema")
    html: Path
    pdf: Path | None
    directory: Path
    verdicts: list[VerdictDocument]


class ExportDocument(Document):
    """storlab export: the file written."""

    schema_name: Literal["export"] = Field(default="export", alias="schema")
    output: Path
    format: str
    samples: bool
    runs: int


class ImportDocument(Document):
    """storlab import: the result directory made, and its runs."""

    schema_name: Literal["import"] = Field(default="import", alias="schema")
    directory: Path
    runs: list[RunRecord]


class GateRuleVerdict(Part):
    """Gate rule as written, its verdict over all checks, and the number of checks by outcome."""

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


class AcceptedDifference(Part):
    """Field of the environment or settings that differs from the baseline's."""

    field: str
    here: Any
    there: Any


class GateDocument(Document):
    """storlab gate: whether results satisfy their rules; `confidence` is that of each interval.

    `saved` is the file of a new baseline; `unsaved` is the reason why --save wrote none. `verdict`
    is null if --save is used and no rule can be judged without a baseline.
    """

    schema_name: Literal["gate"] = Field(default="gate", alias="schema")
    directory: Path
    baseline: Path | None
    verdict: Literal["held", "broken", "undecided"] | None
    confidence: float | None
    accepted: list[AcceptedDifference]
    rules: list[GateRuleVerdict]
    checks: list[gate.Check]
    saved: Path | None
    unsaved: str | None


class HistoryChange(Part):
    """Change of a quantity's level at a point, from the result `since` (start of its runs) on.

    `ratio` is the new level over the one before, `chance` the probability that noise alone gives as
    large a change. `candidates` are facts that changed near it, nearest first; their `offset` is in
    results. `boundary` is what the power meter includes; null if the metric is not power.
    """

    metric: str
    boundary: str | None
    unit: str
    since: str
    directory: Path
    before: float
    after: float
    ratio: Interval | None
    verdict: Literal["better", "worse", ""]
    chance: float
    candidates: list[HistoryCandidate]


class HistoryCandidate(Part):
    """Fact that changed near a change of level, and `elsewhere` times more at that point."""

    field: str
    before: Any
    after: Any
    offset: int
    elsewhere: int


class HistoryPoint(Part):
    """History of one target at one workload point, with its page; changes are newest first."""

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


class HistoryDocument(Document):
    """storlab history: the site, the directories read for it, and every change it shows."""

    schema_name: Literal["history"] = Field(default="history", alias="schema")
    site: Path
    directories: int
    read: list[str]
    problems: list[Error]
    points: list[HistoryPoint]


class CrosscheckDocument(Document):
    """storlab crosscheck: whether two engines agree, and the repeats that would decide."""

    schema_name: Literal["crosscheck"] = Field(default="crosscheck", alias="schema")
    agree: bool
    verdict: Literal["agree", "differ", "inconclusive"]
    counts: dict[str, int]
    repeats_to_decide: int | None
    reference: str
    confidence: float
    family_confidence: float
    points: list[dict[str, Any]]
    directory: Path
    planned: int
    missing: int
    interrupted: bool
    failed: int


class CapacityDocument(Document):
    """storlab capacity: the content of capacity.json, with directory and exit code."""

    schema_name: Literal["capacity"] = Field(default="capacity", alias="schema")
    schema_version: int
    metric: str
    threshold_percent: float
    repeats: int
    confidence: float
    complete: bool
    cases: list[dict[str, Any]]
    directory: Path
    exit_code: int


class CleanDocument(Document):
    """storlab clean: the data removed, and the problems."""

    schema_name: Literal["clean"] = Field(default="clean", alias="schema")
    directory: Path
    removed: list[str]
    problems: list[Error]


class VerifiedRun(Part):
    """Result of the verification of a run; `ok` if all checked blocks hold what was written."""

    ok: bool
    checked_blocks: int
    bad_blocks: dict[str, int]
    examples: list[BadBlock]


class VerifyDocument(Document):
    """storlab verify: number of blocks checked and bad blocks, by run."""

    schema_name: Literal["verify"] = Field(default="verify", alias="schema")
    ok: bool
    runs: dict[str, VerifiedRun]


class AuditDocument(Document):
    """storlab audit: findings of the rules."""

    schema_name: Literal["audit"] = Field(default="audit", alias="schema")
    path: str
    rules: list[str]
    counts: dict[Severity, int]
    findings: list[Finding]


class PublishedSummary(Part):
    """Published table, with its number of rows and of these, of measurements and claims."""

    name: str
    path: str
    title: str
    date: str
    rows: int
    measured: int
    claims: int


class PublishedListDocument(Document):
    """storlab published: tables of published results."""

    schema_name: Literal["published"] = Field(default="published", alias="schema")
    directory: Path
    tables: list[PublishedSummary]


class PublishedTableDocument(Document):
    """storlab published show: one table, row by row."""

    schema_name: Literal["published-table"] = Field(default="published-table", alias="schema")
    name: str
    columns: dict[str, str]
    rows: tuple[Row, ...]
