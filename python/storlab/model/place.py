"""Where a family keeps files or objects of its own: a directory, or a prefix of a bucket."""

from __future__ import annotations

from pydantic import Field

from storlab.model.s3 import S3Store
from storlab.model.types import Table


class DataPlace(Table):
    """Exactly one of ``directory`` and ``store``. All that is in it belongs to storlab."""

    directory: str | None = None  # absolute; exists
    direct: bool = True  # O_DIRECT, of a directory
    store: S3Store | None = None
    prefix: str = ""  # of a store, ends with a slash
    # Of requests to a store:
    request_timeout_ns: int = Field(default=60_000_000_000, gt=0)  # without the answer, or a byte
    retries: int = Field(default=0, ge=0)  # further attempts of one that failed
    backoff_ns: int = Field(default=0, ge=0)  # before the first of them, doubled for each further

    def secrets(self) -> dict[str, str]:
        """The store's credentials; empty for a directory."""
        credentials = None if self.store is None else self.store.credentials
        return {} if credentials is None else credentials.as_dict()
