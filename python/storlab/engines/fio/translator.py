"""Option ``--from-fio`` of ``storlab init``; the translation is in ``translation.py``."""

from __future__ import annotations

from storlab.contracts.translation import Translator

TRANSLATOR = Translator(
    place="storlab.engines.fio.translation:translate",
    metavar="JOB",
    help="Translate a fio job file, or a command line in quotes such as "
    "'fio --name=a --rw=randread ...'. May be given several times.",
)
