"""S3 targets: options in a study, and the resolved store, prefix and credentials.

Only :class:`Credentials` holds secrets, and no stored model contains it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from storlab.base.errors import FieldProblems, Problem
from storlab.base.secrets import names_secret
from storlab.model.types import StudyTable, Table

Addressing = Literal["path", "virtual"]
EMBEDDED = "embedded:"
LEAST_PART = 5 << 20  # smallest part of a multipart upload, except for the last part
LARGEST_PART = 5 << 30  # also the largest object for an upload in one request
MOST_PARTS = 10_000
LARGEST_OBJECT = 5 << 40


class S3Options(StudyTable):
    """``s3_options`` of a target: access to its object store, without credentials.

    Credentials come from the usual places of the AWS tools: ``AWS_ACCESS_KEY_ID``,
    ``AWS_SECRET_ACCESS_KEY`` and ``AWS_SESSION_TOKEN``, otherwise the profile in the shared
    credentials and config files.
    """

    region: str | None = Field(
        default=None,
        min_length=1,
        description="region that requests are signed for; by default that of the environment or "
        "profile, else us-east-1",
    )
    addressing: Addressing = Field(
        default="path",
        description="path: endpoint/bucket/key; virtual: bucket.endpoint/key",
    )
    endpoints: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list,
        description="further endpoints of the same store, such as https://node2:9000",
    )
    profile: str | None = Field(
        default=None, min_length=1, description="profile of the AWS credentials and config files"
    )
    credentials_env: str | None = Field(
        default=None,
        min_length=1,
        description="prefix of the environment variables that hold this target's keys: SSD means "
        "SSD_ACCESS_KEY_ID, SSD_SECRET_ACCESS_KEY and SSD_SESSION_TOKEN. By default "
        "the usual AWS variables, then the profile",
    )
    ca_file: str | None = Field(
        default=None,
        min_length=1,
        description="PEM file of the authority that signed the server's certificate; by default "
        "the system's",
    )
    verify_tls: bool = Field(
        default=True,
        description="false accepts any certificate, and every run is flagged tls-unverified",
    )
    prefix: str = Field(
        default="",
        description="prefix below which storlab writes its objects; other objects are not touched",
    )
    create_bucket: bool = Field(
        default=False,
        description="create the bucket if it is missing, and remove it at the end if it is empty; "
        "a bucket that storlab did not create is never removed",
    )

    @model_validator(mode="before")
    @classmethod
    def _no_secrets(cls, given: Any) -> Any:
        """Refuse secrets before other validation, whose error messages would show them."""
        if not isinstance(given, dict):
            return given
        problems = [
            Problem(
                (name,),
                "a study must not hold keys, because it is copied into every result",
                f"remove {name}; keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and "
                "AWS_SESSION_TOKEN) in the environment, from other variables by credentials_env, "
                "or from the AWS credentials file by profile",
            )
            for name in given
            if name not in cls.model_fields and isinstance(name, str) and names_secret(name)
        ]
        if problems:
            raise FieldProblems(problems)
        return given


@dataclass(frozen=True, slots=True)
class Credentials:
    """S3 keys that sign requests; ``repr()`` does not show them."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    # environment variable for the token, to name in messages
    token_place: str = field(default="AWS_SESSION_TOKEN", compare=False)

    def as_dict(self) -> dict[str, str]:
        """Return the keys and the optional session token by name, as the engine expects them."""
        fields = {"access_key": self.access_key, "secret_key": self.secret_key}
        return fields | ({"session_token": self.session_token} if self.session_token else {})


class S3Store(Table):
    """S3 bucket, with its endpoints and settings for requests."""

    # http://host:port or https://host:port, without path
    endpoints: list[str] = Field(min_length=1)
    bucket: str
    region: str = "us-east-1"
    addressing: Addressing = "path"
    ca_file: str | None = None  # absolute path
    verify_tls: bool = True
    credentials: Credentials | None = Field(default=None, exclude=True, repr=False)


class S3Access(Table):
    """Access to an S3 target for a workload: a bucket and the prefix that it may use.

    Below ``prefix`` are ``storlab.json`` (owner), ``pool-<hash>/`` (objects prepared before runs)
    and ``run-<run id>/`` (objects written by a run).
    """

    store: S3Store
    prefix: str  # ends with a slash


def grant(access: S3Access) -> dict[str, Any]:
    """Convert access to plain values, to be sent to the process or client that does a run.

    The values contain the credentials, and must never be written to a file.
    """
    keys = access.store.credentials
    return {"access": access.dump(), "credentials": None if keys is None else keys.as_dict()}


def access_of(granted: dict[str, Any]) -> S3Access:
    """Convert the plain values from :func:`grant` back to access with credentials."""
    access = S3Access.model_validate(granted["access"])
    keys = granted["credentials"]
    credentials = None if keys is None else Credentials(**keys)
    store = access.store.model_copy(update={"credentials": credentials})
    return access.model_copy(update={"store": store})
