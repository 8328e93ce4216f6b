"""Templates of studies for ``storlab init --from NAME``: TOML files that ship with storlab.

A line may end with a second value for the short form, ``runtime = "60s" # quick: "3s"``. The short
form lacks lines that end with ``# quick: none``. Only the short form has lines that begin with
``# quick only:``.
"""

from __future__ import annotations

import re
from pathlib import Path

from storlab.base.errors import UsageError
from storlab.base.nearest import suggest

_QUICK = re.compile(r"(?m)^(.*?[=:] )(.*?) # quick: (.+)$")
_ONLY = re.compile(r"(?m)^# quick only: (.+\n)")
_DIRECTORY = Path(__file__).resolve().parents[2] / "templates"


def template_names() -> list[str]:
    """Return the names of all templates."""
    return sorted(path.stem for path in _DIRECTORY.glob("*.toml"))


def template_title(name: str) -> str:
    """Return what the study of a template measures: the template's first line."""
    return template_text(name).partition("\n")[0].lstrip("# ").rstrip(".")


def template_text(name: str, *, quick: bool = False) -> str:
    """Return the study of a template, in full or in its short form.

    Raises:
        UsageError: There is no template of this name.
    """
    names = template_names()
    if name not in names:
        raise UsageError("--from", f'there is no template "{name}"', suggest(name, names))
    return chosen_form((_DIRECTORY / f"{name}.toml").read_text(), quick=quick)


def chosen_form(text: str, *, quick: bool) -> str:
    """Return a template with one value per line: the first, or the one for the short form."""
    if quick:
        text = re.sub(r"(?m)^.* # quick: none\n", "", text)
    text = _ONLY.sub(r"\1" if quick else "", text).replace(" # quick: none\n", "\n")
    return _QUICK.sub(r"\1\3" if quick else r"\1\2", text)
