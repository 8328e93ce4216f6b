"""Configuration of cuFile: its file, JSON with comments, and environment variables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from storlab.base.files import read_input

PATH_VARIABLE = "CUFILE_ENV_PATH_JSON"
USUAL = "etc/cufile.json"
_YES, _NO = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})
# Strings are matched as well as comments, so that "//" inside of a string is no comment.
_STRING_OR_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r",(\s*[}\]])")


@dataclass(frozen=True, slots=True)
class CuFileConfiguration:
    """Configured settings of cuFile; None if not set, so that the library's default applies."""

    path: Path | None = None  # None: no file exists
    problem: str = ""  # why the file cannot be read
    allow_compat: bool | None = None
    force_compat: bool | None = None
    p2pdma: bool | None = None
    nvme_p2pdma: bool | None = None  # setting for NVMe drives only, which some versions have
    poll_mode: bool | None = None
    poll_kb: int | None = None
    direct_io_kb: int | None = None
    # Transfer size in KiB, by file system, below which cuFile uses POSIX; only sizes above 0.
    posix_below_kb: Mapping[str, int] = field(default_factory=dict)


def configuration(root: Path, environment: Mapping[str, str]) -> CuFileConfiguration:
    """Read the configuration of cuFile as the library would.

    Args:
        root: Root of the file system with ``etc/cufile.json``.
        environment: Environment variables, which override the file.
    """
    named = environment.get(PATH_VARIABLE)
    path = Path(named) if named else root / USUAL
    values: dict[str, Any] = {}
    problem = ""
    try:
        values = parse(read_input(path).decode(errors="replace"))
    except FileNotFoundError:
        problem = f"{PATH_VARIABLE} names {path}, which does not exist" if named else ""
        return _with_environment(CuFileConfiguration(None, problem), environment)
    except (OSError, ValueError) as error:
        problem = f"{path} cannot be read: {error}"
    known = _table(values, "properties")
    return _with_environment(
        CuFileConfiguration(
            path=path,
            problem=problem,
            allow_compat=_flag(known.get("allow_compat_mode")),
            force_compat=_flag(known.get("force_compat_mode")),
            p2pdma=_flag(known.get("use_pci_p2pdma")),
            nvme_p2pdma=_flag(_table(values, "block.nvme").get("use_pci_p2pdma")),
            poll_mode=_flag(known.get("use_poll_mode")),
            poll_kb=_number(known.get("poll_mode_max_size_kb")),
            direct_io_kb=_number(known.get("max_direct_io_size_kb")),
            posix_below_kb={
                name: least
                for name in _table(values, "fs")
                if (least := _number(_table(values, f"fs.{name}").get("posix_gds_min_kb")))
            },
        ),
        environment,
    )


def parse(text: str) -> dict[str, Any]:
    """Parse JSON that may have comments and trailing commas; raise ValueError if invalid."""
    plain = _STRING_OR_COMMENT.sub(lambda match: match[1] or " ", text)
    document = json.loads(_LAST_COMMA.sub(r"\1", plain))
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")
    return document


def _table(values: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """Return the nested table with a dotted name; empty if there is none."""
    table: Any = values
    for name in place.split("."):
        table = table.get(name) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def _with_environment(
    configured: CuFileConfiguration, environment: Mapping[str, str]
) -> CuFileConfiguration:
    """Replace settings of the file by those in environment variables."""
    allow, force, p2pdma = (
        _flag(environment.get(f"CUFILE_{name}"))
        for name in ("ALLOW_COMPAT_MODE", "FORCE_COMPAT_MODE", "USE_PCIP2PDMA")
    )
    return replace(
        configured,
        allow_compat=configured.allow_compat if allow is None else allow,
        force_compat=configured.force_compat if force is None else force,
        p2pdma=configured.p2pdma if p2pdma is None else p2pdma,
    )


def _flag(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    word = str(value).lower()
    return True if word in _YES else False if word in _NO else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
