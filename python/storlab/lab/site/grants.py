"""Access to stores that is granted to clients; keys travel only in orders."""

from __future__ import annotations

from typing import Any

from storlab.model.s3 import Credentials, S3Access


def grant(access: S3Access) -> dict[str, Any]:
    """Return the access for an order; it holds secrets and must never be written to a file."""
    keys = access.store.credentials
    return {"access": access.dump(), "credentials": None if keys is None else keys.as_dict()}


def access_of(granted: dict[str, Any]) -> S3Access:
    """Return the access from an order, with its keys."""
    access = S3Access.model_validate(granted["access"])
    keys = granted["credentials"]
    credentials = None if keys is None else Credentials(**keys)
    store = access.store.model_copy(update={"credentials": credentials})
    return access.model_copy(update={"store": store})
