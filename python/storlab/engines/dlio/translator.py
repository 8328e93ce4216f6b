"""Option ``--from-dlio`` of ``storlab init``; the translation is in ``translation.py``."""

from __future__ import annotations

from storlab.contracts.translation import Translator

TRANSLATOR = Translator(
    place="storlab.engines.dlio.translation:translate",
    metavar="YAML",
    help="Translate a workload of DLIO or MLPerf Storage, such as unet3d_h100.yaml, or the "
    "config.yaml of a run. May be given several times.",
)
