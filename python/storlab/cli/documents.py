"""JSON documents that commands print with ``--json``; their schemas are in docs/reference/json.

Commands import this module only to print JSON, because pydantic doubles their start-up time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field

from storlab.analysis import gate
from storlab.analysis.proofs import TargetProof
from storlab.audit.finding import Finding, Severity
from storlab.audit.wide_table import WideColumn
from storlab.contracts.check import Check
from storlab.contracts.document import OPTIONAL, Document, Error, Part
from storlab.contracts.meter import Discovered
from storlab.model.decision import Interval, Verdict
from storlab.model.point import Plan
from storlab.model.published import Row
from storlab.model.result import Attempt, BadBlock, Failure, RunRecord


class StarterTarget(Part):
    """Data file that ``storlab init`` writes into a study as a target."""

    name: str
    path: str
    size_bytes: int
    direct: bool
    where: str


class StarterDevice(Part):
    """Block device that ``storlab init`` lists as a comment; `uses` says what uses the device."""

    name: str
    path: str
    model: str
    size_bytes: int
    rotational: bool
    uses: list[str]


class InitDocument(Document):
    """Output of storlab init: path of the new study file, with the targets and devices in it."""

    schema_name: Literal["init"] = Field(default="init", alias="schema")
    file: Path
    targets: list[StarterTarget]
    devices: list[StarterDevice]


class TemplateListDocument(Document):
    """Output of storlab init --from without a name: the title of each template."""

    schema_name: Literal["templates"] = Field(default="templates", alias="schema")
    templates: dict[str, str]


class TranslatedJob(Part):
    """Workload that ``storlab init`` translated, with the place of the job that it was."""

    name: str
    origin: str


class TranslationRemark(Part):
    """Option of another tool's job that a study cannot fully express."""

    where: str
    option: str
    meaning: str


class TranslatedStudyDocument(Document):
    """Output of storlab init with an option --from-...: tables of the study, and what it lacks."""

    schema_name: Literal["translated-study"] = Field(default="translated-study", alias="schema")
    file: Path
    targets: list[str]
    workloads: list[TranslatedJob]
    remarks: list[TranslationRemark]


class PlanDocument(Document):
    """Output of storlab plan: points, order and cost of a study, and the hash of the plan.

    `warnings` name questions of the study that its runs cannot answer for all targets.
    """

    schema_name: Literal["plan"] = Field(default="plan", alias="schema")
    plan_hash: str
    absent_devices: dict[str, list[str]]
    warnings: list[Check]
    plan: Plan


class ClientMount(Part):
    """File system that contains a target's directory, as one client sees it."""

    point: str
    kind: str
    source: str
    options: str
    total_bytes: int
    free_bytes: int
    network: bool


class ClientClock(Part):
    """Offset of a client's CLOCK_MONOTONIC from this machine's, with round trip and drift."""

    offset_ns: int
    round_trip_ns: int
    drift_ns: int


class ClientStore(Part):
    """Response of an object store's endpoint to a client, or the problem and its fix.

    `unreachable` is true if the problem may be temporary: network or store may recover. `skew_s` is
    how far the store's clock is ahead in seconds, `listed_ns` how long a listing took.
    """

    problem: str
    fix: str
    unreachable: bool
    skew_s: float | None
    listed_ns: int | None


class ClientFacts(Part):
    """Facts about a client of a cluster; keys are directories as written in the study."""

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
    """Output of storlab doctor: results of all checks; `ok` is true if none is an error.

    `clients` has facts about each client of the cluster that responded, by its name.
    """

    schema_name: Literal["doctor"] = Field(default="doctor", alias="schema")
    ok: bool
    checks: list[Check]
    clients: dict[str, ClientFacts] | None = OPTIONAL


class MetersDocument(Document):
    """Output of storlab meters: this machine's power meters, and meters that it cannot use yet."""

    schema_name: Literal["meters"] = Field(default="meters", alias="schema")
    meters: list[Discovered]


class RunCounts(Part):
    """Number of a campaign's runs by state; `this_session` counts runs made by this process."""

    planned: int
    finished: int
    failed: int
    missing: int
    this_session: int | None = OPTIONAL


class FailedRun(Part):
    """Run that failed, with its target and the failure."""

    run_id: str
    target: str
    failure: Failure | None


class RunFlag(Part):
    """Flag of a run: a warning about its numbers."""

    run_id: str
    kind: str
    message: str


class VerdictDocument(Verdict):
    """Answer to one question of a study, as data and in sentences."""

    sentences: list[str]


class RepeatedRun(Part):
    """Run that was repeated after failures, with all failed attempts in order of time.

    The run's final result may still be missing.
    """

    run_id: str
    target: str
    attempts: list[Attempt]


class RunDocument(Document):
    """Output of storlab run and storlab resume: state of the campaign when the command ends."""

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
    """Output of storlab status: progress of a campaign."""

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
    """Quantity that `storlab compare` tabulates; values and ratios are stored under its `key`."""

    key: str
    metric: str
    operation: str
    unit: str
    better: str


class EndpointFigures(Part):
    """Requests of one kind at one point to one endpoint and address, merged over repeats."""

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


class RoundsDocument(Part):
    """Tracked metric of a target that ends when it is steady, by round, and its window."""

    metric: str
    values: list[float | None]
    first: int
    last: int
    verdict: Literal["steady", "not-steady", "too-short"]
    mean: float | None
    excursion_percent: float | None
    slope_percent: float | None


class CompareDocument(Document):
    """Output of storlab compare: results of every point and target, ratios, proofs and answers.

    `endpoints` (object workloads) lists targets with several endpoints or addresses, `gpu_paths`
    (gpudirect) the fraction of I/O on each path to the GPU, and `saturation` (preprocess) whether
    storage is the bottleneck. These three are missing if metrics were selected by --metric. A
    target's `own_percentiles` at a point are those of each repeat, by column, if runs have no
    histograms to merge: the estimate is then their median. `rounds` lists targets with
    `until_steady`, whose runs are those of the measurement window, `first` to `last`.
    `changed_settings` lists settings of the study that options of the command replaced.
    """

    schema_name: Literal["compare"] = Field(default="compare", alias="schema")
    confidence: float
    baseline: str
    targets: list[str]
    columns: list[ColumnDocument]
    points: list[dict[str, Any]]
    rounds: dict[str, RoundsDocument]
    failed: list[dict[str, Any]]
    proofs: list[TargetProof]
    changed_settings: list[str]
    endpoints: list[EndpointFigures] | None = OPTIONAL
    gpu_paths: list[dict[str, Any]] | None = OPTIONAL
    saturation: list[dict[str, Any]] | None = OPTIONAL
    verdicts: list[VerdictDocument]


class ReportDocument(Document):
    """Output of storlab report: files written, and answers to the study's questions.

    `changed_settings` lists settings of the study that options of the command replaced.
    """

    schema_name: Literal["report"] = Field(default="report", alias="schema")
    html: Path
    pdf: Path | None
    directory: Path
    changed_settings: list[str]
    verdicts: list[VerdictDocument]


class ExportDocument(Document):
    """Output of storlab export: file written, its format and the number of runs in it."""

    schema_name: Literal["export"] = Field(default="export", alias="schema")
    output: Path
    format: str
    samples: bool
    runs: int


class ImportOutcome(Part):
    """Outcome of one file or run directory of an import, with the reason if it has one."""

    file: Path
    outcome: Literal["imported", "skipped", "refused", "duplicate"]
    runs: int
    reason: str
    fix: str


class ImportedTarget(Part):
    """Target of an import: the number of its runs and files, and the folders of these."""

    name: str
    runs: int
    files: int
    folders: list[Path]


class ImportDocument(Document):
    """Output of storlab import: the new result directory, its runs, and each file's outcome."""

    schema_name: Literal["import"] = Field(default="import", alias="schema")
    directory: Path
    runs: list[RunRecord]
    targets: list[ImportedTarget]
    files: list[ImportOutcome]


class GateRuleVerdict(Part):
    """Gate rule as written in the study, its verdict, and the number of its checks by outcome."""

    number: int
    metric: str
    target: str | None
    workload: str | None
    at: dict[str, Any]
    at_most: str | float | None
    at_least: str | float | None
    verdict: Literal["held", "broken", "inconclusive"]
    held: int
    broken: int
    inconclusive: int


class AcceptedDifference(Part):
    """Field of environment or settings that differs between results (`here`) and baseline."""

    field: str
    here: Any
    there: Any


class GateDocument(Document):
    """Output of storlab gate: whether results satisfy their rules.

    `confidence` is that of each interval. `saved` is the file of the new baseline, `replaced` is
    true if it existed; `unsaved` is the reason why --save wrote none. `verdict` is null if --save
    is used without a baseline and every rule needs one.
    """

    schema_name: Literal["gate"] = Field(default="gate", alias="schema")
    directory: Path
    baseline: Path | None
    verdict: Literal["held", "broken", "inconclusive"] | None
    confidence: float | None
    accepted: list[AcceptedDifference]
    rules: list[GateRuleVerdict]
    checks: list[gate.Check]
    saved: Path | None
    replaced: bool
    unsaved: str | None


class HistoryChange(Part):
    """Change point: from the result `since` on, a metric of a point has another level.

    `since` is the start of that result's runs. `ratio` is the new level divided by the old level.
    `chance` is the probability that noise alone gives as large a change. `candidates` are possible
    causes, nearest in time first. `boundary` is the power boundary, null unless metric is power.
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
    """Possible cause of a change point: a fact such as the kernel that changed at about that time.

    `offset` is its distance from the change point in results. `elsewhere` is how often the fact
    changed at other times.
    """

    field: str
    before: Any
    after: Any
    offset: int
    elsewhere: int


class HistoryPoint(Part):
    """Results of one target at one workload point over time; the newest change comes first."""

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
    """Output of storlab history: path of the site, directories read, and all change points."""

    schema_name: Literal["history"] = Field(default="history", alias="schema")
    site: Path
    directories: int
    read: list[str]
    problems: list[Error]
    points: list[HistoryPoint]


class CrosscheckDocument(Document):
    """Output of storlab crosscheck: whether two engines agree, or how many repeats would decide."""

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
    """Output of storlab capacity: content of capacity.json, result directory and exit code."""

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
    """Output of storlab clean: data files and objects removed, and what could not be removed."""

    schema_name: Literal["clean"] = Field(default="clean", alias="schema")
    directory: Path
    removed: list[str]
    problems: list[Error]


class VerifiedRun(Part):
    """Result of verifying a run; `ok` is true if all checked blocks contain what was written."""

    ok: bool
    checked_blocks: int
    bad_blocks: dict[str, int]
    examples: list[BadBlock]


class VerifyDocument(Document):
    """Output of storlab verify: number of checked and of bad blocks for each run."""

    schema_name: Literal["verify"] = Field(default="verify", alias="schema")
    ok: bool
    runs: dict[str, VerifiedRun]


class PurgeDocument(Document):
    """Output of storlab purge: the NVMe namespace that was erased."""

    schema_name: Literal["purge"] = Field(default="purge", alias="schema")
    device: str
    model: str
    firmware: str
    namespace: int
    size_bytes: int
    duration_ns: int


class AuditDocument(Document):
    """Output of storlab audit: findings of all rules, and their number by severity."""

    schema_name: Literal["audit"] = Field(default="audit", alias="schema")
    path: str
    rules: list[str]
    counts: dict[Severity, int]
    findings: list[Finding]
    columns: list[WideColumn] = Field(
        default_factory=list, description="columns of a wide table, and what they were taken for"
    )


class PublishedSummary(Part):
    """Table of published results: its source, and numbers of rows, measurements and claims."""

    name: str
    path: str
    title: str
    date: str
    rows: int
    measured: int
    claims: int


class PublishedListDocument(Document):
    """Output of storlab published: all tables of published results that ship with storlab."""

    schema_name: Literal["published"] = Field(default="published", alias="schema")
    directory: Path
    tables: list[PublishedSummary]


class PublishedTableDocument(Document):
    """Output of storlab published show: all rows of one table."""

    schema_name: Literal["published-table"] = Field(default="published-table", alias="schema")
    name: str
    columns: dict[str, str]
    rows: tuple[Row, ...]
