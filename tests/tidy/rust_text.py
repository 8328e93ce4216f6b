"""Minimal Rust lexer that blanks out comments and literals."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
    (?P<line>//[^\n]*)
  | (?P<block>/\*)
  | (?P<raw>b?r(?P<hash>\#*)")
  | (?P<text>b?"(?:\\.|[^"\\])*")
  | (?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^\\'\n])')
    """,
    re.VERBOSE | re.DOTALL,
)


def blank(source: str) -> str:
    """Replace comments, strings and characters by spaces; line numbers stay."""
    out: list[str] = []
    position = 0
    while match := _TOKEN.search(source, position):
        out.append(source[position : match.start()])
        end = _end_of_token(source, match)
        out.append(re.sub(r"[^\n]", " ", source[match.start() : end]))
        position = end
    out.append(source[position:])
    return "".join(out)


def _end_of_token(source: str, match: re.Match[str]) -> int:
    if match["block"]:
        return _end_of_comment(source, match.end())
    if match["raw"]:
        closing = source.find('"' + match["hash"], match.end())
        return len(source) if closing < 0 else closing + 1 + len(match["hash"])
    return match.end()


def _end_of_comment(source: str, position: int) -> int:
    depth = 1
    for match in re.finditer(r"/\*|\*/", source[position:]):
        depth += 1 if match.group() == "/*" else -1
        if depth == 0:
            return position + match.end()
    return len(source)
