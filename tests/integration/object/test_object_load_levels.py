"""Load levels of object requests on a real S3 server."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest

from storlab.analysis.compare import compare
from storlab.analysis.dataset import load_dataset
from storlab.analysis.offered_load import level_of
from storlab.base.errors import ExitCode
from storlab.cli.main import main
from storlab.figures.drawing import draw
from storlab.results.store import ResultStore
from storlab.workloads.common.figure_kinds import LATENCY_UNDER_LOAD
from support.s3_servers import versitygw

pytestmark = pytest.mark.versitygw

LEVELS = [30, 60, 1000]  # a tenfold rate cannot be reached
STUDY = """\
[study]
name = "load levels of a store"
repeats = 2
ramp = "50ms"
runtime = "400ms"
interval = "50ms"

[[target]]
name = "store"
s3 = "{endpoint}/bench"

[[workload]]
kind = "object"
get_percent = 50
object_size = "1KiB"
objects = 20
concurrency = 4
load_percent = {levels}
"""


def test_a_store_is_offered_percentages_of_its_own_maximum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with versitygw(tmp_path / "server") as server:
        server.make_bucket()
        server.set_environment(monkeypatch)
        study = tmp_path / "study.toml"
        study.write_text(STUDY.format(endpoint=server.endpoint, levels=LEVELS))
        arguments = ["run", str(study), "--out", str(tmp_path / "out"), "--no-report", "--quiet"]
        assert main(arguments) == ExitCode.OK
        assert server.keys() == []
    store = ResultStore.open(tmp_path / "out")
    records = store.records()
    closed = [record for record in records if level_of(record) is None]
    assert [r.repeat for r in closed] == [1, 2]
    maximum = fmean(record.metric("requests_s") or 0 for record in closed)
    for record in records:
        level = level_of(record)
        assert "concurrency-mismatch" not in {f.kind for f in record.flags if level}
        if level is None:
            continue
        assert record.offered is not None
        assert record.offered.rate_s == pytest.approx(maximum * level / 100)
        arrival = json.loads(store.raw(record.run_id, "job.json"))["arrival"]
        assert arrival == {"kind": "constant", "rate_iops": record.offered.rate_s}
        if level == 1000:
            assert "open-loop-behind" in {flag.kind for flag in record.flags}
            assert (record.metric("requests_s") or 0) < record.offered.rate_s
    comparison = compare(load_dataset([store]))
    (section,) = comparison.sections
    figures = draw(LATENCY_UNDER_LOAD, comparison, [section])
    assert [figure.title.partition(" ")[0] for figure in figures] == ["GET", "PUT"]
    for figure in figures:
        assert [row[1] for row in figure.rows] == ["30 %", "60 %", "1000 %"]
        assert figure.rows[-1][-1] == "yes"
