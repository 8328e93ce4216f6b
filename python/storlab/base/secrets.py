"""Secrets: from the environment or a keyring, by name; never in studies, results or logs.

A study names where a secret lies (``password_env = "BMC_PASSWORD"``); only the meter that needs it
asks for the value, at the moment it opens its connection.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, urlsplit

from storlab.base.errors import PreflightError, Problem

KEYRING_SERVICE = "storlab"
_SECRET_WORDS = re.compile(
    r"(^|_)(pass|passwd|password|passphrase|pwd|secret|token|community"
    r"|authorization|cookie|bearer|credentials?|sig|signature"
    r"|(api|auth|priv|access|secret|secret_?access)_?key(_?id)?)$",
    re.IGNORECASE,
)
_HEADER = re.compile(r"\s*([A-Za-z0-9-]+)\s*:(?!//)\s*\S")  # of HTTP, name and value in one text
_SCHEME = re.compile(r"(bearer|basic|digest|token)\s+\S{4,}", re.IGNORECASE)  # before credentials


def secret(name_env: str) -> str:
    """The secret of that name: the environment variable, else the keyring entry of ``storlab``.

    An empty variable counts as none. Raises PreflightError where neither has it.
    """
    value = os.environ.get(name_env) or _from_keyring(name_env)
    if not value:
        raise PreflightError(
            f"secret {name_env}",
            "it is neither in the environment nor in the keyring",
            f"export {name_env}=... before the run, or: keyring set {KEYRING_SERVICE} {name_env}",
        )
    return value


def _from_keyring(name: str) -> str | None:
    """From the desktop's or system's keyring, where the optional library is installed."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        return None
    try:
        return keyring.get_password(KEYRING_SERVICE, name)
    except KeyringError:  # none on this machine, or locked: the environment is what remains
        return None


def names_secret(name: str) -> bool:
    """Whether a field of that name would hold a secret: ``password``, ``secret_key``, ..."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_")  # apiKey, X-Api-Key
    return _SECRET_WORDS.search(words) is not None


def secret_problems(fields: Mapping[str, object]) -> list[Problem]:
    """Fields of a study's table that hold a secret themselves, with what to write instead.

    Such are ``password = ...`` and its like, addresses with ``user:password@`` or ``?token=...`` in
    them, and headers of HTTP that carry credentials; in tables and lists below it, too. The values
    are not repeated.
    """
    problems = []
    for name, value in fields.items():
        if names_secret(name):
            problems.append(
                Problem(
                    (name,),
                    f"{name} is a secret, and a study is copied into every result",
                    f'set {name}_env = "NAME" to the name of an environment variable that holds it',
                )
            )
        else:
            problems += _in_value((name,), value)
    return problems


def _in_value(field: tuple[str | int, ...], value: object) -> list[Problem]:
    if isinstance(value, Mapping):
        below = secret_problems({str(name): below for name, below in value.items()})
        return [Problem((*field, *p.field), p.what, p.fix) for p in below]
    if isinstance(value, (list, tuple)):
        return [p for n, element in enumerate(value) for p in _in_value((*field, n), element)]
    if not isinstance(value, str):
        return []
    secret = _carried(value)
    if secret is None:
        return []
    carried, instead = secret
    name = ".".join(map(str, field))
    fix = f'write it without that, and set {instead} = "NAME"'
    return [Problem(field, f"{name} has {carried}", fix)]


def _carried(text: str) -> tuple[str, str] | None:
    """The secret in a text, by what it is, and the field that names it instead."""
    if "://" in text:
        return _in_address(text)
    header = _HEADER.match(text)
    if _SCHEME.fullmatch(text.strip()) or (header and names_secret(header.group(1))):
        return "credentials in a header", "token_env"
    return None


def _in_address(text: str) -> tuple[str, str] | None:
    try:
        parts = urlsplit(text)
    except ValueError:  # no address at all
        return None
    if parts.password is not None:
        return "a password in its address", "password_env"
    for name, value in (*parse_qsl(parts.query), *parse_qsl(parts.fragment)):
        if value and names_secret(name):
            return f"a secret in its address ({name})", "token_env"
    return None


def hide(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every secret in it replaced by ``***``; for messages of other programs."""
    for value in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(value, "***")
    return text
