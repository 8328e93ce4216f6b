"""Read secrets from the environment or a keyring, and keep them out of studies and results.

A study contains only a secret's name (``password_env = "BMC_PASSWORD"``). The component that needs
the value reads it when it opens its connection.
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
_HEADER = re.compile(r"\s*([A-Za-z0-9-]+)\s*:(?!//)\s*\S")  # HTTP header with name and value
# authentication scheme followed by credentials, such as "Bearer abcd"
_SCHEME = re.compile(r"(bearer|basic|digest|token)\s+\S{4,}", re.IGNORECASE)


def secret(name_env: str) -> str:
    """Return a secret from an environment variable, or else from the keyring service ``storlab``.

    An empty environment variable counts as missing.

    Raises:
        PreflightError: The secret is neither in the environment nor in the keyring.
    """
    value = os.environ.get(name_env) or _from_keyring(name_env)
    if not value:
        raise PreflightError(
            f"secret {name_env}",
            "is neither in the environment nor in the keyring",
            f"export {name_env}=... before the run, or: keyring set {KEYRING_SERVICE} {name_env}",
        )
    return value


def _from_keyring(name: str) -> str | None:
    """Return a secret from the system's keyring; None if missing, or if keyring isn't installed."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        return None
    try:
        return keyring.get_password(KEYRING_SERVICE, name)
    except KeyringError:  # there is no keyring, or it is locked
        return None


def names_secret(name: str) -> bool:
    """Return whether a field name suggests a secret: ``password``, ``secret_key``, ..."""
    # apiKey becomes api_Key, and X-Api-Key X_Api_Key
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_")
    return _SECRET_WORDS.search(words) is not None


def secret_problems(fields: Mapping[str, object]) -> list[Problem]:
    """Return a problem for each field of a study's table that contains a secret.

    These are fields such as ``password``, addresses with ``user:password@`` or ``?token=...``, and
    HTTP headers with credentials, also in nested tables and lists. The messages do not contain the
    values.
    """
    problems = []
    for name, value in fields.items():
        if names_secret(name):
            problems.append(
                Problem(
                    (name,),
                    f"{name} is a secret, which must not be in a study because the study is "
                    "copied into every result",
                    f'store it in an environment variable, and set {name}_env = "NAME OF IT"',
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
    kind, instead = secret
    name = ".".join(map(str, field))
    fix = f'remove the secret, and set {instead} = "NAME OF AN ENVIRONMENT VARIABLE"'
    return [Problem(field, f"{name} contains {kind}", fix)]


def _carried(text: str) -> tuple[str, str] | None:
    """Return the kind of secret in a text and the field to use instead, or None."""
    if "://" in text:
        return _in_address(text)
    header = _HEADER.match(text)
    if _SCHEME.fullmatch(text.strip()) or (header and names_secret(header.group(1))):
        return "credentials in a header", "token_env"
    return None


def _in_address(text: str) -> tuple[str, str] | None:
    try:
        parts = urlsplit(text)
    except ValueError:  # the text is not an address
        return None
    if parts.password is not None:
        return "a password in its address", "password_env"
    for name, value in (*parse_qsl(parts.query), *parse_qsl(parts.fragment)):
        if value and names_secret(name):
            return f"a secret in its address ({name})", "token_env"
    return None


def hide(text: str, secrets: Iterable[str]) -> str:
    """Replace every secret that occurs in a text, such as another program's output, by ``***``."""
    for value in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(value, "***")
    return text
