"""Warnings, before the first run, about questions of a study that its runs cannot answer.

They are printed by ``storlab plan``, ``storlab doctor`` and ``storlab run``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

from storlab.analysis.points import WorkloadPoint, sections_of
from storlab.analysis.quantiles import normal
from storlab.analysis.repeats import POWER, least_repeats
from storlab.analysis.stats import CONFIDENCE, t_quantile
from storlab.base.steady import WINDOW
from storlab.contracts.check import Check
from storlab.contracts.registry import FAMILIES, get_meter
from storlab.model.point import Plan
from storlab.model.power import Boundary
from storlab.model.study import StudyBase, Target

SPREAD = 0.05
"""Assumed relative standard deviation of single runs, for the number of repeats."""
LARGEST_UNCLEAR = 2.0
"""Largest ratio of two targets that the repeats may leave unclear without a warning."""
_FACTS = {
    "efficiency": ("power", "meter", "meters"),
    "cost": ("cost", "price", "price"),
    "density": ("capacity", "capacity", "capacity"),
}
"""For each question: the quantity to compare, the fact that each target must declare or measure for
it, and the field of the target table that states this fact."""


def question_checks(study: StudyBase, plan: Plan) -> list[Check]:
    """Return a warning for each question that the planned runs cannot answer for all targets.

    Reasons are missing meters, prices or capacities, meters at different power boundaries, and too
    few repeats. The list is empty if the plan has only one target.
    """
    used = {point.target for point in plan.points.values()}
    targets = [target for target in study.target if target.name in used]
    if len(targets) < 2:
        return []
    able = {
        "efficiency": [target for target in targets if target.meters],
        "cost": [target for target in targets if target.storage_price],
        "density": [target for target in targets if target.capacity],
    }
    asked = _asked(study, plan, able)
    checks = [_lacking(study, name, targets, able[name]) for name in _FACTS if name in asked]
    if "efficiency" in asked and not study.study.accept_unequal_boundaries:
        checks.append(_boundaries(able["efficiency"]))
    if "cost" in asked:
        checks.append(_currencies(able["cost"]))
    names = {name: {target.name for target in own} for name, own in able.items()}
    checks.append(_repeats(plan, _comparisons(plan, asked, names)))
    return [check for check in checks if check is not None]


def _asked(
    study: StudyBase, plan: Plan, able: Mapping[str, Sequence[Target]]
) -> dict[str, set[str]]:
    """Return the questions that the brief will answer, each with the families that ask it.

    Without questions in the study, power and price are asked if some target has a meter or price.
    """
    asked: dict[str, set[str]] = {}
    for kind in {point.kind for point in plan.points.values()}:
        for question in FAMILIES[kind].page.metrics.questions:
            wanted = question.asked == "always" or (
                question.asked == "answered" and bool(able.get(question.name))
            )
            if question.name in study.study.question if study.study.question else wanted:
                asked.setdefault(question.name, set()).add(kind)
    return asked


def _warn(name: str, what: str, fix: str) -> Check:
    return Check(name=name, status="warning", what=what, fix=fix)


def _lacking(
    study: StudyBase, name: str, targets: Sequence[Target], able: Sequence[Target]
) -> Check | None:
    """Warn that targets lack the fact that a question needs; None if all have it."""
    lacking = [target.name for target in targets if target not in able]
    if not lacking:
        return None
    subject, fact, field = _FACTS[name]
    what = f"{subject} will not be compared: no {fact} is given for {', '.join(lacking)}"
    fix = f"add {field} to the target"
    if name in study.study.question:
        fix += f', or remove "{name}" from question in [study]'
    return _warn(subject, what, fix)


def _boundaries(metered: Sequence[Target]) -> Check | None:
    """Warn that the meters of two targets cover different equipment; None if none do."""
    for first, other in combinations(metered, 2):
        sides = [_boundaries_of(target) for target in (first, other)]
        reported = [
            target.power_boundary or own[0]
            for target, own in zip((first, other), sides, strict=True)
        ]
        if len(set(reported)) > 1 and not set(sides[0]) & set(sides[1]):
            return _warn(
                "power",
                "power will not be compared: the meters cover different equipment "
                f"({first.name}: {reported[0]}, {other.name}: {reported[1]})",
                "use meters that cover the same equipment, or set accept_unequal_boundaries = true "
                "in [study]",
            )
    return None


def _boundaries_of(target: Target) -> list[Boundary]:
    """Return the power boundaries of a target's meters, as stated or by default."""
    return [
        meter.boundary
        if "boundary" in meter.model_fields_set
        else getattr(get_meter(meter.kind), "BOUNDARY", meter.boundary)
        for meter in target.meters
    ]


def _currencies(priced: Sequence[Target]) -> Check | None:
    currencies = sorted({target.currency for target in priced})
    if len(currencies) < 2:
        return None
    what = f"cost will not be compared: prices are in {' and '.join(currencies)}"
    return _warn("cost", what, "give all prices in one currency")


def _comparisons(
    plan: Plan, asked: Mapping[str, Collection[str]], able: Mapping[str, set[str]]
) -> int:
    """Return how many pairs of targets the brief will compare, over all questions.

    Each question compares all pairs at one point of every mix and block size.
    """
    at: dict[str, set[str]] = {}
    works: dict[str, WorkloadPoint] = {}
    for point in plan.points.values():
        work = WorkloadPoint.of(point)
        works.setdefault(work.key, work)
        at.setdefault(work.key, set()).add(point.target)
    count = 0
    for section in sections_of(list(works.values())):
        for facet in section.facets():
            here = set().union(*(at[work.key] for work in section.of_facet(facet)))
            for name, kinds in asked.items():
                if section.kind in kinds:
                    count += math.comb(len(here & able.get(name, here)), 2)
    return count


def least_clear_ratio(repeats: int, comparisons: int) -> float:
    """Return the ratio of two targets from which on about four of five briefs call one better.

    Single runs are assumed to vary by ``SPREAD``, and all intervals hold together (Bonferroni).
    The spread is estimated from the same few runs. Fewer degrees of freedom than the 2n - 2 of two
    equal spreads account for that: simulated, 1.25 (n - 1) gives 75 to 90 % from three repeats on.

    Args:
        repeats: Runs of each point, at least 2.
        comparisons: Number of comparisons in the brief.
    """
    confidence = 1 - (1 - CONFIDENCE) / max(comparisons, 1)
    quantiles = t_quantile(confidence, 1.25 * (repeats - 1)) + normal(POWER)
    # Two repeats and 100,000 comparisons would overflow.
    return math.exp(min(quantiles * SPREAD * math.sqrt(2 / repeats), 700.0))


def _repeats(plan: Plan, comparisons: int) -> Check | None:
    """Warn that the repeats decide only large differences; None if they decide smaller ones."""
    repeats = max((run.repeat for run in plan.runs), default=0)
    if plan.rounds is not None:
        repeats = WINDOW  # results are those of the measurement window alone
    if not comparisons or not repeats:
        return None
    least = least_repeats(lambda n: least_clear_ratio(n, comparisons) <= LARGEST_UNCLEAR, repeats)
    fix = f"set repeats = {least or 3} in [study]"
    if plan.rounds is not None:
        fix = f"remove until_steady and {fix}: with it, results are those of {WINDOW} rounds"
    if repeats == 1:
        what = "a single run of each point has no interval, so no target can be called better"
        return _warn("repeats", what, fix)
    ratio = least_clear_ratio(repeats, comparisons)
    if ratio <= LARGEST_UNCLEAR:
        return None
    clear = (
        f"only differences of about {ratio:.2g} times or more" if ratio < 10 else "no difference"
    )
    what = (
        f"with {repeats} repeats, {clear} can be called clear over all comparisons "
        f"({comparisons:,}) if runs vary by {SPREAD:.0%}"
    )
    return _warn("repeats", what, fix)
