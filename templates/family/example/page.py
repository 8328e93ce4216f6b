"""How reports present the family: operations, axes, words and figures."""

from __future__ import annotations

from storlab.contracts.figure import FigureKind, OverSweep
from storlab.contracts.page import Load, Metrics, Operations, Page, Parameters, Text, margins, rate
from storlab.workloads.example.job import PHASES
from storlab.workloads.example.params import ExampleParams

EXAMPLE_PAGE = Page(
    operations=Operations(
        main=PHASES,
        moved=PHASES,
        rate=rate("files_s", "files/s"),
        over_spans=True,
    ),
    parameters=Parameters(
        axes=("workers", "files"),
        model=ExampleParams,
        facet="file_size",
        titles={"file_size": "file size"},
    ),
    load=Load(workers="workers", buffered=True),
    metrics=Metrics(margins=margins(rates={"files_s": 0.05})),
    text=Text(work="files", last_point="the largest number of workers"),
)
EXAMPLE_FIGURES = (
    FigureKind(
        "files",
        "section",
        "Files per second",
        "Mean of the repeats; every dot is one run.",
        parts=(
            OverSweep(
                ("files_s.all",),
                name="files-by-workers",
                words="files per second",
                noun="file rate",
            ),
        ),
    ),
)
