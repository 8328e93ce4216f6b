"""Fields of families that move whole files: how patient their requests to a bucket are."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

Retries = Annotated[int, Field(ge=0, le=100)]

REQUEST_TIMEOUT: Any = Field(
    default="60s",
    gt=0,
    description="to a bucket: a request without its answer after this time, or a download without "
    "another byte, has failed",
)
RETRIES: Any = Field(
    default=5,
    description="to a bucket: further attempts of a request that failed; their time is in the "
    "figures, and every run says how many there were",
)
RETRY_BACKOFF: Any = Field(
    default="200ms", description="pause before the first of them, doubled for each further one"
)
