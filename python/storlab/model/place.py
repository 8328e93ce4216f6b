"""Location of a workload family's own files or objects: a directory or a bucket prefix."""

from __future__ import annotations

from pydantic import Field

from storlab.model.s3 import S3Store
from storlab.model.types import Table


class DataPlace(Table):
    """Directory or bucket prefix (exactly one of them) whose content all belongs to storlab."""

    directory: str | None = None  # absolute path of an existing directory
    direct: bool = True  # whether to use O_DIRECT in the directory
    store: S3Store | None = None
    prefix: str = ""  # prefix in the store, ending with a slash
    # time after which a request fails if no byte of the response arrives
    request_timeout_ns: int = Field(default=60_000_000_000, gt=0)
    retries: int = Field(default=0, ge=0)  # further attempts after a failed request
    # pause before the first retry of a request, doubled for each further one
    backoff_ns: int = Field(default=0, ge=0)

    def secrets(self) -> dict[str, str]:
        """Return the store's credentials; empty for a directory."""
        credentials = None if self.store is None else self.store.credentials
        return {} if credentials is None else credentials.as_dict()
