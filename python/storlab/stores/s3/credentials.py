"""Find the credentials of an S3 target where the AWS tools find theirs; never print them.

The formats are those of the AWS SDKs and Tools Reference Guide, "Shared config and credentials
files" and "Environment variables support". Credentials from a program or another service (SSO,
roles, ``credential_process``, the machine's own role) need botocore, of the extra ``storlab[aws]``.
"""

from __future__ import annotations

import configparser
import importlib
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from storlab.base.errors import PreflightError
from storlab.base.files import read_input
from storlab.model.s3 import Credentials, S3Options
from storlab.model.target import Target

DEFAULT_REGION = "us-east-1"
_ACCESS, _SECRET, _TOKEN = "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"
# Settings by which a profile obtains keys from a program or another service.
_ELSEWHERE = (
    "credential_process",
    "sso_session",
    "sso_start_url",
    "role_arn",
    "web_identity_token_file",
    "credential_source",
    "login_session",
)
_INSTALL = 'pip install "storlab[aws]"'


@dataclass(frozen=True, slots=True)
class _Files:
    credentials: Path
    config: Path

    def both(self) -> str:
        return f"{self.credentials} and {self.config}"


def resolve(target: Target, base: Path) -> tuple[Credentials | None, str]:
    """Return credentials and region of a target; the credentials are None for embedded servers.

    The first source that is set is used: the environment variables that
    ``s3_options.credentials_env`` names, the profile ``s3_options.profile``, the variables
    ``AWS_*``, the profile ``AWS_PROFILE`` or ``default``, botocore's credentials for that profile.

    Args:
        target: S3 target.
        base: Directory to which relative paths of the AWS files refer.

    Raises:
        PreflightError: No source has keys, one has only half of a pair, or a file cannot be read.
    """
    if target.is_embedded:
        return None, DEFAULT_REGION
    options = target.s3_options or S3Options()
    where = f"target {target.name}"
    files = _files(base)
    if options.credentials_env is not None:
        prefix = options.credentials_env
        credentials = _from_environment(prefix, where)
        if credentials is None:
            raise PreflightError(
                where,
                f"the environment variables {prefix}_{_ACCESS} and {prefix}_{_SECRET} are not set",
                f"export both, because of s3_options.credentials_env = {prefix!r}",
            )
        return credentials, options.region or _region((f"{prefix}_REGION", *_REGIONS), {})
    name = options.profile
    if name is None:
        credentials = _from_environment("AWS", where)
        name = _variable("AWS_PROFILE") or "default"
        if credentials is not None:
            # The config file is read only if needed: a broken one is no error otherwise.
            given = options.region or _variable(*_REGIONS)
            return credentials, given or _region((), read_profile(name, *_paths(files), where))
    profile = read_profile(name, *_paths(files), where)
    credentials = _from_profile(profile, name, where, files)
    if credentials is None and _may_ask(options, profile):
        credentials = _from_botocore(name if profile else None, where, files)
    if credentials is None:
        raise _nothing_found(where, name, options.profile is not None, profile, files)
    return credentials, options.region or _region(_REGIONS, profile)


_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


def usual_endpoint(base: Path) -> str:
    """Return the address to which the AWS tools send S3 requests: that of a store, or Amazon's.

    It is set by ``AWS_ENDPOINT_URL_S3``, ``AWS_ENDPOINT_URL``, or ``endpoint_url`` of the profile.

    Args:
        base: Directory to which relative paths of the AWS files refer.

    Raises:
        PreflightError: A file of profiles cannot be read.
    """
    given = _variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    if given is not None:
        return given
    name = _variable("AWS_PROFILE") or "default"
    profile = read_profile(name, *_paths(_files(base)), f'profile "{name}"')
    amazon = f"https://s3.{_region(_REGIONS, profile)}.amazonaws.com"
    return profile.get("endpoint_url") or amazon


def read_profile(name: str, credentials: Path, config: Path, where: str) -> dict[str, str]:
    """Return all settings of an AWS profile; the credentials file overrides the config file.

    Args:
        name: Name of the profile.
        credentials: Path of the credentials file.
        config: Path of the config file.
        where: Name of the target in error messages.

    Returns:
        Values by setting in lower case; empty if neither file has the profile.

    Raises:
        PreflightError: A file cannot be read; the message contains none of its content.
    """
    settings: dict[str, str] = {}
    in_config, in_credentials = _sections(config, where), _sections(credentials, where)
    for section, values in in_config.items():
        if _profile_of(section, plain="default") == name:
            settings |= values
    for section, values in in_credentials.items():
        # Old tools wrote "[profile x]" to the credentials file, and the AWS tools still read it.
        if name in (section, _profile_of(section)):
            settings |= values
    return settings


def _profile_of(section: str, plain: str | None = None) -> str | None:
    """Return the profile's name from a section such as ``profile x`` or ``profile "x y"``.

    Args:
        section: Name of the section.
        plain: Name of a profile whose section lacks the word ``profile``.

    Returns:
        The name; None if the section is not a profile's.
    """
    if section == plain:
        return section
    try:
        words = shlex.split(section)
    except ValueError:  # a section with an unclosed quote names no profile
        return None
    return words[1] if len(words) == 2 and words[0] == "profile" else None


def _sections(path: Path, where: str) -> dict[str, dict[str, str]]:
    # Secrets may contain "%" and ":", so there is no interpolation, and "=" is the only delimiter.
    parser = configparser.RawConfigParser(
        strict=False, delimiters=("=",), default_section="", allow_no_value=True
    )
    fix = "correct the file, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    try:
        parser.read_string(read_input(path).decode("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise PreflightError(where, f"{path} cannot be read: {error.strerror}", fix) from error
    except UnicodeDecodeError:
        raise PreflightError(where, f"{path} is not UTF-8 text", fix) from None
    except configparser.Error as error:
        # The error quotes the line, which may contain a secret, so show only its number.
        problem = f"{path} is not a valid AWS file of profiles: see line {_line(error)}"
        raise PreflightError(where, problem, fix) from None
    return {
        section: {key: (value or "").strip() for key, value in parser.items(section)}
        for section in parser.sections()
    }


def _line(error: configparser.Error) -> int | str:
    if isinstance(error, configparser.MissingSectionHeaderError):
        return error.lineno
    if isinstance(error, configparser.ParsingError):
        return ", ".join(str(number) for number, _ in error.errors)
    return getattr(error, "lineno", None) or "?"


def _from_environment(prefix: str, where: str) -> Credentials | None:
    names = (f"{prefix}_{_ACCESS}", f"{prefix}_{_SECRET}")
    access, secret = _variable(names[0]), _variable(names[1])
    token = (f"{prefix}_{_TOKEN}", _variable(f"{prefix}_{_TOKEN}"))
    return _pair(access, secret, token, names, "the environment", where)


def _from_profile(
    profile: Mapping[str, str], name: str, where: str, files: _Files
) -> Credentials | None:
    names = ("aws_access_key_id", "aws_secret_access_key")
    access, secret = (profile.get(key) or None for key in names)
    token = (f'aws_session_token of profile "{name}"', profile.get("aws_session_token") or None)
    return _pair(access, secret, token, names, f'profile "{name}" in {files.both()}', where)


def _may_ask(options: S3Options, profile: Mapping[str, str]) -> bool:
    """Return whether botocore may supply the keys.

    It may if the profile obtains keys from a program or service, or if no profile was named. If a
    named profile is missing, botocore must not supply other keys.
    """
    if any(profile.get(key) for key in _ELSEWHERE):
        return True
    return options.profile is None and (bool(profile) or _variable("AWS_PROFILE") is None)


def _from_botocore(profile: str | None, where: str, files: _Files) -> Credentials | None:
    """Return the keys that botocore finds for a profile; None if none, or if not installed."""
    try:
        session = importlib.import_module("botocore.session").Session(profile=profile)
        errors = importlib.import_module("botocore.exceptions")
    except ImportError:  # import takes 0.2 s, and most studies do not need it
        return None
    session.set_config_variable("credentials_file", str(files.credentials))
    session.set_config_variable("config_file", str(files.config))
    try:
        chained = session.get_credentials()
        frozen = None if chained is None else chained.get_frozen_credentials()
    except (errors.BotoCoreError, errors.ClientError, OSError, ValueError) as error:
        # Hide errors about a credential program: they may quote its output and thus a secret.
        of_program = getattr(error, "kwargs", {}).get("provider") == "custom-process"
        is_told = isinstance(error, (errors.BotoCoreError, errors.ClientError)) and not of_program
        way = f'profile "{profile}"' if profile else "the role of this machine"
        raise PreflightError(
            where,
            f"{way} returned no keys: {error if is_told else 'its program failed'}",
            "aws sts get-caller-identity"
            + (f" --profile {profile}" if profile else "")
            + " must succeed first; to renew an expired login, run aws sso login",
        ) from None
    if frozen is None:
        return None
    place = f'the session of profile "{profile}"' if profile else "the role of this machine"
    return Credentials(frozen.access_key, frozen.secret_key, frozen.token, place)


def _pair(
    access: str | None,
    secret: str | None,
    token: tuple[str, str | None],
    names: tuple[str, str],
    place: str,
    where: str,
) -> Credentials | None:
    """Build credentials from a pair of keys; None if both are missing.

    Args:
        access: Access key.
        secret: Secret key.
        token: Name of the session token's setting, and its value.
        names: Names of the settings of access key and secret key.
        place: Source of the keys, for the message.
        where: Name of the target, for the message.

    Raises:
        PreflightError: One of the two keys is missing.
    """
    if access is None and secret is None:
        return None
    if access is None or secret is None:
        has, lacks = (names[1], names[0]) if access is None else names
        raise PreflightError(
            where, f"{place} has {has} but not {lacks}", f"set {lacks}, or remove {has}"
        )
    return Credentials(access, secret, token[1], token[0])


def _variable(*names: str) -> str | None:
    """Return the stripped value of the first of these environment variables that is not empty."""
    values = (os.environ.get(name, "").strip() for name in names)
    return next((value for value in values if value), None)


def _region(variables: tuple[str, ...], profile: Mapping[str, str]) -> str:
    return _variable(*variables) or profile.get("region") or DEFAULT_REGION


def _files(base: Path) -> _Files:
    def place(variable: str, usual: str) -> Path:
        # Path.expanduser would raise if there is no home directory, even if none is needed.
        return base / os.path.expanduser(_variable(variable) or usual)  # noqa: PTH111

    return _Files(
        place("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
        place("AWS_CONFIG_FILE", "~/.aws/config"),
    )


def _paths(files: _Files) -> tuple[Path, Path]:
    return files.credentials, files.config


def _nothing_found(
    where: str, name: str, asked: bool, profile: Mapping[str, str], files: _Files
) -> PreflightError:
    elsewhere = [key for key in _ELSEWHERE if profile.get(key)]
    if elsewhere:
        return PreflightError(
            where,
            f'profile "{name}" gets its keys by {elsewhere[0]}, which needs botocore',
            f"{_INSTALL}, or export them: eval $(aws configure export-credentials --profile {name} "
            "--format env), and remove s3_options.profile",
        )
    if asked:
        return PreflightError(
            where,
            f'there are no keys in profile "{name}", neither in {files.credentials} nor in '
            f"{files.config}",
            f"run aws configure --profile {name}, or set another s3_options.profile",
        )
    return PreflightError(
        where,
        "there are no credentials: neither AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the "
        f'environment, nor a profile "{name}" with keys in {files.both()}',
        "export the two variables, or set s3_options.credentials_env (other variables) or "
        "s3_options.profile",
    )
