"""Where a family keeps files or objects of its own: a directory, or a prefix of a bucket."""

from __future__ import annotations

from storlab.model.s3 import S3Store
from storlab.model.types import Table


class DataPlace(Table):
    """Exactly one of ``directory`` and ``store``. All that is in it belongs to storlab."""

    directory: str | None = None  # absolute; exists
    direct: bool = True  # O_DIRECT, of a directory
    store: S3Store | None = None
    prefix: str = ""  # of a store, ends with a slash

    def secrets(self) -> dict[str, str]:
        """The store's credentials; empty for a directory."""
        found = None if self.store is None else self.store.credentials
        return {} if found is None else found.as_dict()
