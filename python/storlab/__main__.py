"""``python -m storlab`` is the ``storlab`` command."""

import sys

from storlab.cli.main import main

sys.exit(main())
