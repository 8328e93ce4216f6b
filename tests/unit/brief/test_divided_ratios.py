"""The table of ratios includes those per terabyte and per money if asked for."""

from __future__ import annotations

import random

from storlab.analysis.compare import Comparison
from storlab.brief.model import DataTable
from storlab.brief.tables import ratio_table
from support.made_comparisons import comparison_of, noisy, study_of

HEADER = "baseline = 'B'\nquestion = {}"
FACTS = {
    "A": "capacity = '1TB'\nprice = 300\ncurrency = 'USD'",
    "B": "capacity = '4TB'\nprice = 100\ncurrency = 'USD'",
}


def table_of(comparison: Comparison) -> DataTable:
    found = ratio_table(comparison, comparison.sections)
    assert found is not None
    return found


def test_what_is_asked_per_terabyte_and_per_money_has_its_ratios() -> None:
    """Check the ratios per TB and money: twice the rate, a quarter of the size, 3 x the price."""
    study = study_of("AB", header=HEADER.format("['cost', 'density']"), facts=FACTS, mixes=(50,))
    draw = noisy(random.Random(1), {"A": 200.0, "B": 100.0}, 0.001)
    table = table_of(comparison_of(study, draw))
    titles = [title.replace("\u00a0", " ") for title, _ in table.columns]
    assert titles[-2:] == ["throughput for the money", "throughput per terabyte"]
    for row in table.rows:
        plain, money, terabyte = (
            float(row.numbers[titles.index(title)].text.rstrip("×"))
            for title in ("throughput", *titles[-2:])
        )
        assert (round(plain, 1), round(money, 2), round(terabyte, 1)) == (2.0, 0.67, 8.0)


def test_what_is_not_asked_or_not_declared_has_none() -> None:
    draw = noisy(random.Random(1), {"A": 200.0, "B": 100.0}, 0.001)
    for question, facts in (("['throughput']", FACTS), ("['density']", {"A": FACTS["A"]})):
        study = study_of("AB", header=HEADER.format(question), facts=facts, mixes=(50,))
        table = table_of(comparison_of(study, draw))
        assert not [title for title, _ in table.columns if "money" in title or "tera" in title]
