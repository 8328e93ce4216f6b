"""The table that the rules read: a publication's, or one made of a result directory."""

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
