"""Option ``--from-warp`` of ``storlab init``; the translation is in ``translation.py``."""

from __future__ import annotations

from storlab.contracts.translation import Translator

TRANSLATOR = Translator(
    place="storlab.engines.warp.translation:translate",
    metavar="COMMAND",
    help="Translate a warp command line in quotes, such as 'warp mixed --host=... "
    "--obj.size=4MiB'. May be given several times. Credentials are not written into the study.",
)
