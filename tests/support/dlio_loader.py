"""DLIO's own path from command line to arguments, without running the benchmark.

Started like ``dlio_benchmark``, with a DLIO on PYTHONPATH: Hydra reads DLIO's schema and the
workload, DLIO's ``LoadConfig`` converts them to arguments, and names and values go to stdout. The
frameworks, which take gigabytes, are not needed.
"""

from __future__ import annotations

import json
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import dftracer.python

# The release imports the tracer by an older name; without one, DLIO's own substitute fails.
sys.modules["dftracer.logger"] = dftracer.python

import dlio_benchmark  # noqa: E402
import hydra  # noqa: E402
from dlio_benchmark.utils.config import ConfigArguments, LoadConfig  # noqa: E402
from dlio_benchmark.utils.utility import DLIOMPI  # noqa: E402

SCHEMA = Path(dlio_benchmark.__path__[0]).absolute() / "configs"


@hydra.main(version_base=None, config_path=str(SCHEMA), config_name="config")
def load(settings: Any) -> None:
    arguments = ConfigArguments.get_instance()
    LoadConfig(arguments, settings["workload"])
    names = {*vars(arguments), *type(arguments).__dataclass_fields__}  # set arguments and defaults
    members = {name: getattr(arguments, name) for name in sorted(names)}
    values = {
        name: value.name if isinstance(value, Enum) else value
        for name, value in members.items()
        if isinstance(value, Enum | str | int | float | dict)
    }
    # Enum members as the code compares them: by identity.
    values["shuffles_files"] = arguments.file_shuffle is not type(arguments).file_shuffle
    values["shuffles_samples"] = arguments.sample_shuffle is not type(arguments).sample_shuffle
    sys.stdout.write(json.dumps(values))


if __name__ == "__main__":
    DLIOMPI.get_instance().set_parent_values(0, 1)  # as in its readers, which are not MPI ranks
    load()
