"""Parameters of requests to a bucket: time-out and retries, for families that move files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from storlab.model.params import Nanoseconds

BEFORE: Mapping[str, Any] = {"retries": 0, "retry_backoff": 0}
"""Values for stored plans of older versions, which lack these fields."""
Retries = Annotated[int, Field(ge=0, le=100)]
Timeout = Annotated[Nanoseconds, Field(gt=0)]

REQUEST_TIMEOUT: Any = Field(
    default="60s",
    description="buckets only: a request without an answer, or a download that receives no "
    "byte, fails after this time",
)
RETRIES: Any = Field(
    default=5,
    description="buckets only: retries of a request that failed for a temporary reason "
    "(connection, time-out, 5xx, SlowDown); their time counts, and every run "
    "reports their number",
)
RETRY_BACKOFF: Any = Field(
    default="200ms", description="pause before the first retry, doubled before each further one"
)
