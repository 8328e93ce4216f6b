"""Reader of DLIO's workload files, which records the line of each setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from storlab.base.errors import UsageError
from storlab.base.files import read_input
from storlab.base.secrets import names_secret
from storlab.contracts.translation import Remark

_FIX = "give a workload file of DLIO, such as unet3d_h100.yaml, or the config.yaml of a run"


@dataclass(frozen=True, slots=True)
class Setting:
    """Setting in a workload file, with its line, its text and its value."""

    where: str  # file and line
    text: str  # as in "reader.batch_size: 7"
    value: Any


class WorkloadFile:
    """Settings of a workload file by dotted name; each is removed when a translator takes it.

    Attributes:
        name: Name of the file without suffix.
        where: Name of the file.
        remarks: Remarks about settings that have been taken.
    """

    def __init__(self, path: Path) -> None:
        """Read a file; raise UsageError if it is not a workload of DLIO."""
        self.name = path.stem
        self.where = path.name
        self.remarks: list[Remark] = []
        try:
            root = yaml.compose(read_input(path).decode(), Loader=yaml.SafeLoader)
        except OSError as error:
            raise UsageError(str(path), f"cannot be read: {error.strerror}", _FIX) from error
        except (UnicodeDecodeError, yaml.YAMLError) as error:
            what = f"is not YAML: {' '.join(str(error).split())}"
            raise UsageError(str(path), what, _FIX) from error
        found = dict(self._settings(root, ""))
        stored = {name.removeprefix("workload."): setting for name, setting in found.items()}
        self._rest = stored if all(n.startswith("workload.") for n in found) else found
        if not any(n.startswith(("workflow.", "train.", "model")) for n in self._rest):
            raise UsageError(str(path), "has no table workflow, train or model of DLIO", _FIX)

    def _settings(self, node: yaml.Node | None, name: str) -> Iterator[tuple[str, Setting]]:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                below = f"{name}.{key.value}" if name else str(key.value)
                yield from self._settings(value, below)
        elif node is not None:
            value = yaml.SafeLoader("").construct_object(node, deep=True)
            where = f"{self.where}:{node.start_mark.line + 1}"
            shown = "***" if names_secret(name) else value
            yield name, Setting(where, f"{name}: {shown}", value)

    def take(self, *names: str) -> Setting | None:
        """Take all settings with these names; return the first that is set, or None."""
        taken = [self._rest.pop(name, None) for name in names]
        return next((setting for setting in taken if setting is not None), None)

    def number(self, *names: str, default: float | None = None) -> float | None:
        """Take settings; return the first that is set, as a number, or the default.

        Raises:
            UsageError: The value is not a number.
        """
        setting = self.take(*names)
        if setting is None or setting.value is None:
            return default
        try:
            return float(setting.value)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{setting.where}: {setting.text}", "is not a number", _FIX) from error

    def whole(self, *names: str, default: int) -> int:
        """Take settings; return the first that is set, as a whole number, or the default.

        A fraction is rounded, with a remark.
        """
        setting = next((s for s in map(self._rest.get, names) if s is not None), None)
        value = self.number(*names)
        if value is None:
            return default
        if setting is not None and not value.is_integer():
            self.remark(setting, f"is rounded to {round(value):,}")
        return round(value)

    def is_on(self, name: str, *, default: bool) -> bool:
        """Take a setting; return whether it is true, or the default if it is not set."""
        setting = self.take(name)
        if setting is None or setting.value is None:
            return default
        return setting.value is True or str(setting.value).lower() == "true"

    def remark(self, setting: Setting, meaning: str) -> None:
        """Add a remark about a setting."""
        self.remarks.append(Remark(setting.where, setting.text, meaning))

    def has(self, prefix: str) -> bool:
        """Return whether a setting that was not taken has a name with this prefix."""
        return any(name.startswith(prefix) for name in self._rest)

    def take_rest(self) -> list[tuple[str, Setting]]:
        """Take all remaining settings; return their names and values."""
        rest, self._rest = self._rest, {}
        return list(rest.items())
