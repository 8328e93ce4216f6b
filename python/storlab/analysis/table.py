"""Comparison table as plain values, for ``--json`` and for the data embedded in a brief."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from storlab.analysis.columns import COLUMNS
from storlab.analysis.compare import PER_REPEAT, PLACES, Cell, Comparison, Row
from storlab.analysis.dataset import RunData
from storlab.analysis.stats import CONFIDENCE
from storlab.model.decision import Decision

TABLE_VERSION = 1


def comparison_dict(comparison: Comparison, keys: set[str] | None = None) -> dict[str, Any]:
    """Return the comparison table as a dict for JSON.

    Args:
        comparison: Comparison to convert.
        keys: Column keys to include, such as ``latency_p99_ns.read``; None for all.
    """
    wanted = [c for c in comparison.columns if keys is None or c.key in keys]
    chosen = {column.key for column in wanted}
    return {
        "version": TABLE_VERSION,
        "confidence": CONFIDENCE,
        "baseline": comparison.baseline,
        "targets": comparison.targets,
        "columns": [
            {
                "key": c.key,
                "metric": c.name,
                "operation": c.operation,
                "unit": c.unit,
                "better": c.better,
            }
            for c in wanted
        ],
        "points": [
            _row(comparison.row(point), chosen)
            for section in comparison.sections
            for point in section.points
        ],
        "rounds": {
            label: {
                "metric": own.rule.metric,
                "values": list(own.values),
                "first": own.first,
                "last": own.last,
                "verdict": own.verdict.verdict,
                "mean": own.verdict.mean,
                "excursion_percent": own.verdict.excursion_percent,
                "slope_percent": own.verdict.slope_percent,
            }
            for label, own in comparison.dataset.rounds.items()
        },
        "failed": [
            _failed(run)
            for row in comparison.rows.values()
            for cell in row.cells.values()
            for run in cell.failed
        ],
    }


def _row(row: Row, keys: set[str]) -> dict[str, Any]:
    return {
        "workload": row.point.workload,
        "kind": row.point.kind,
        "engine": row.point.engine,
        "params": dict(row.point.params),
        "use_cases": row.use_cases,
        "targets": {label: _cell(cell, keys) for label, cell in row.cells.items()},
        "ratios": {
            label: {key: _ratio(d) for key, d in decisions.items() if key in keys}
            for label, decisions in row.decisions.items()
        },
    }


def _cell(cell: Cell, keys: set[str]) -> dict[str, Any]:
    return {
        "point_id": cell.point_id,
        "provenance": cell.provenance,
        "planned": cell.planned,
        "runs": cell.run_ids,
        "failed": [run.record.run_id for run in cell.failed],
        "values": {k: v.as_dict() for k, v in cell.values.items() if k in keys},
        "own_percentiles": {
            key: cell.own_percentiles(COLUMNS[PLACES[key]])
            for key in sorted(cell.percentile_flags.get(PER_REPEAT, ()))
            if key in keys
        },
        "concurrency_configured": cell.configured,
        "errors": cell.errors,
        "power": _power(cell),
        "flags": [{"kind": f.kind, "message": f.message, "runs": f.runs} for f in cell.flags],
        "drifts": [asdict(drift) for drift in cell.drifts],
    }


def _power(cell: Cell) -> dict[str, Any]:
    account = cell.power
    if account is None:
        return {"measured": False, "reason": cell.power_missing}
    return {
        "measured": True,
        "boundary": account.boundary,
        "supply": account.supply or None,
        "provenance": account.provenance,
        "energy_j": account.energy_j,
        "meter_uncertainty_relative": account.meter_relative(),
        "sensors": list(account.sensors),
        "shares": list(account.share_rules),
        "runs": [entry.run_id for entry in account.entries],
    }


def _ratio(decision: Decision) -> dict[str, Any]:
    fields = {"outcome", "reason", "interval", "concurrency", "boundaries"}
    return decision.model_dump(include=fields)


def _failed(run: RunData) -> dict[str, Any]:
    failure = run.record.failure
    return {
        "run_id": run.record.run_id,
        "target": run.target,
        "status": run.record.status,
        "message": failure.message if failure else "",
        "fix": failure.fix if failure else "",
    }
