"""File ``raw/course.json`` of a run: device counters, temperatures and CPU waits over time."""

from __future__ import annotations

COURSE_FILE = "course.json"
"""Name of the file with device counters and drive temperatures over the window.

``time_ns`` (on the run's clock) has the same length as ``read_bytes`` and ``written_bytes``, the
kernel's counters at these times. ``celsius`` has pairs of time and temperature by drive. ``WAITS``
is optional.
"""
WAITS = "waits"
"""Key of the CPU wait counters in ``course.json``.

The value has ``time_ns`` and three cumulative counters: ``waited_ns`` (in each interval, the wait
of the worker that waited longest), and ``stolen`` and all CPU ``ticks`` of the machine.
"""
