"""Table of a group of requests, which are sent at the same time as those of other groups."""

from __future__ import annotations

from storlab.workloads.common.groups import GroupBase, group_table
from storlab.workloads.object.params import ObjectParams

OF_THE_RUN = (
    "concurrency_per_operation",
    "payload",
    "routing",
    "request_timeout",
    "retries",
    "retry_backoff",
    "verify",
    "load_percent",
)
"""Fields that all groups of a run have in common."""


@group_table(ObjectParams, OF_THE_RUN)
class ObjectGroup(GroupBase):
    """``[[workload.group]]``: requests that are sent at the same time as those of other groups."""
