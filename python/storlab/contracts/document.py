"""Base classes of the JSON documents that commands print with ``--json``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from storlab.base.errors import StorlabError, StudyError

OPTIONAL: Any = Field(default=None, exclude_if=lambda value: value is None)
"""Default of a field that is left out of the JSON if it is None."""


class Part(BaseModel):
    """Object in a JSON document; infinity and NaN are printed as null."""

    model_config = ConfigDict(
        extra="forbid",
        from_attributes=True,
        serialize_by_alias=True,
        json_schema_serialization_defaults_required=True,
    )


class Error(Part):
    """Error of a command: location, cause and fix."""

    kind: str
    where: str
    what: str
    fix: str
    exit_code: int
    problems: list[dict[str, Any]] | None = OPTIONAL

    @classmethod
    def of(cls, error: StorlabError) -> Error:
        """Convert an exception; ``problems`` lists the problems of an invalid study."""
        return cls(
            kind=type(error).__name__,
            where=error.where,
            what=error.what,
            fix=error.fix,
            exit_code=error.exit_code,
            problems=error.problems if isinstance(error, StudyError) else None,
        )


class Document(Part):
    """JSON document that a command prints.

    A subclass overrides ``schema_name`` with the name of its schema. Removing a field or changing
    its meaning requires a new version.
    """

    schema_name: str = Field(alias="schema")
    version: Literal[1] = 1


class ErrorDocument(Document):
    """Document that a command prints instead of its result if it fails before it has one."""

    schema_name: Literal["error"] = Field(default="error", alias="schema")
    error: Error
