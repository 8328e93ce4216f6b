"""Secrets: from the environment or a keyring, by name; never in studies, results or logs.

A study names where a secret lies (``password_env = "BMC_PASSWORD"``); only the meter that needs it
asks for the value, at the moment it opens its connection.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from storlab.base.errors import PreflightError, Problem

KEYRING_SERVICE = "storlab"
_SECRET_WORDS = re.compile(
    r"(^|_)(pass|passwd|password|passphrase|pwd|secret|token|community"
    r"|(api|auth|priv|access|secret|secret_?access)_?key(_?id)?)$",
    re.IGNORECASE,
)


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
    return _SECRET_WORDS.search(name) is not None


def secret_problems(fields: dict[str, object]) -> list[Problem]:
    """Fields of a study's table that hold a secret themselves, with what to write instead.

    Such are ``password = ...`` and its like, and addresses with ``user:password@`` in them. The
    values are not repeated.
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
        elif isinstance(value, str) and _has_password(value):
            problems.append(
                Problem(
                    (name,),
                    f"{name} has a password in its address",
                    'write the address without it, and set password_env = "NAME"',
                )
            )
    return problems


def _has_password(text: str) -> bool:
    if "://" not in text:
        return False
    try:
        return urlsplit(text).password is not None
    except ValueError:  # no address at all
        return False


def hide(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every secret in it replaced by ``***``; for messages of other programs."""
    for value in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(value, "***")
    return text
