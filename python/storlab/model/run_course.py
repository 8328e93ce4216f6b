"""What lies beside the samples of a run for its course over time: ``raw/course.json``."""

from __future__ import annotations

COURSE_FILE = "course.json"
"""Counters of the devices behind the target, and temperatures of drives, along the window.

``time_ns`` (of the run's clock), and of the same length ``read_bytes`` and ``written_bytes``, as
the kernel had counted them then; ``celsius``: by drive, pairs of a time and a temperature;
``WAITS``.
"""
WAITS = "waits"
"""What was kept from its core: ``time_ns``, and counted until then ``waited_ns`` (of each stretch
the worker that waited longest), ``stolen`` and all ``ticks`` of the machine's cores.
"""
