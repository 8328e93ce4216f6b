"""What engines tell of a run of requests."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from storlab.contracts.details import Details


class ObjectDetails(Details):
    """Of a whole run."""

    error_examples: Mapping[str, str] = Field(default_factory=dict)  # one message for each kind
