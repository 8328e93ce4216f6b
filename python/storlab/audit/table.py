"""Table that audit rules check, read from a publication or built from results."""

from __future__ import annotations

from storlab.model.published import (
    NOT_STATED,
    PublishedTable,
    Row,
    load_published,
    published_names,
    read_table,
)

__all__ = ["NOT_STATED", "PublishedTable", "Row", "load_published", "published_names", "read_table"]
