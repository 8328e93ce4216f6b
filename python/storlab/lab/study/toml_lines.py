"""Line numbers of the keys of a TOML text, for error messages.

:mod:`tomllib` reports no positions, so this scanner finds them. It expects text that tomllib has
already accepted, and handles no errors.
"""

from __future__ import annotations

import tomllib
from bisect import bisect_right

Path = tuple[str | int, ...]

_BARE_END = frozenset(",]}#\n")
_BARE_KEY = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def key_lines(text: str) -> dict[Path, int]:
    """Return the line (from 1) of every table, key and array element of a TOML text.

    Args:
        text: Valid TOML.

    Returns:
        Line numbers by path: ``("workload", 1, "block_size")`` is the key ``block_size`` in the
        second ``[[workload]]``. If a table has several headers, the first one counts.
    """
    return _Walker(text).walk()


def nearest_line(lines: dict[Path, int], path: Path) -> int | None:
    """Return the line of ``path``, or else of the innermost table around it that has a line."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


class _Walker:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self.line_starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
        self.tables_in: dict[Path, int] = {}  # number of tables so far in each array of tables

    def walk(self) -> dict[Path, int]:
        table: Path = ()
        self._skip_blank()
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._assignment(table)
            self._skip_blank()
        return self.lines

    def _record(self, path: Path, at: int) -> None:
        self.lines.setdefault(path, bisect_right(self.line_starts, at))

    def _header(self) -> Path:
        start = self.at
        many = self.text.startswith("[[", start)
        self.at += 2 if many else 1
        names = self._key()
        self.at += 2 if many else 1
        path: Path = ()
        for position, name in enumerate(names):
            path = (*path, name)
            self._record(path, start)
            last = position == len(names) - 1
            if many and last:
                index = self.tables_in.get(path, 0)
                self.tables_in[path] = index + 1
                path = (*path, index)
                self._record(path, start)
            elif path in self.tables_in:
                path = (*path, self.tables_in[path] - 1)
        return path

    def _assignment(self, table: Path) -> None:
        start = self.at
        path = table
        for name in self._key():
            path = (*path, name)
            self._record(path, start)
        self.at += 1  # the equals sign
        self._skip_blank()
        self._value(path)

    def _key(self) -> list[str]:
        """Scan a dotted key, and return its parts."""
        parts: list[str] = []
        while True:
            self._skip_blank()
            start = self.at
            if self.text[start] in "\"'":
                self._string()
                literal = self.text[start : self.at]
                parts.append(tomllib.loads(f"key = {literal}")["key"])
            else:
                while self.text[self.at] in _BARE_KEY:
                    self.at += 1
                parts.append(self.text[start : self.at])
            self._skip_blank()
            if self.text[self.at] != ".":
                return parts
            self.at += 1

    def _value(self, path: Path) -> None:
        first = self.text[self.at]
        if first in "\"'":
            self._string()
        elif first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        else:
            while self.at < len(self.text) and self.text[self.at] not in _BARE_END:
                self.at += 1

    def _array(self, path: Path) -> None:
        self.at += 1
        index = 0
        while True:
            self._skip_blank()
            if self.text[self.at] == "]":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            element = (*path, index)
            self._record(element, self.at)
            self._value(element)
            index += 1

    def _inline_table(self, path: Path) -> None:
        self.at += 1
        while True:
            self._skip_blank()
            if self.text[self.at] == "}":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self._assignment(path)

    def _string(self) -> None:
        quote = self.text[self.at]
        delimiter = quote * 3 if self.text.startswith(quote * 3, self.at) else quote
        self.at += len(delimiter)
        while not self.text.startswith(delimiter, self.at):
            self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
        self.at += len(delimiter)
        if len(delimiter) == 3:
            # Up to two quotes directly before the three closing quotes are part of the string.
            while self.text.startswith(quote, self.at):
                self.at += 1

    def _skip_blank(self) -> None:
        while self.at < len(self.text):
            if self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text[self.at] in " \t\r\n":
                self.at += 1
            else:
                return
