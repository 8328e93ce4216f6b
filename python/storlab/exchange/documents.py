"""Find the JSON documents in the text of a result file, and repair damage done by logs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from storlab.contracts.registry import IMPORTERS, file_importers
from storlab.exchange.decoding import TERMINAL_CODES

_START = re.compile(
    r"^([^\S\n]*)(?:\S[^\n]*=> )?(?=\{\s*[\"}]|\[\s*[\[{\"\]])",  # Ansible: `ok: [host] => {`
    re.MULTILINE,
)
_ADJACENT = re.compile(r"([^\S\n]*)(?=\{\s*[\"}]|\[\s*[\[{\"\]])")
_JSON_LINE = re.compile(
    r'\s*(?:"(?:[^"\\]|\\.)*"\s*[:,]?|[\[\]{}]|(?:[\d.eE+-]+|true|false|null),?$)'
)
_NO_NUMBER = re.compile(r"(?<=[:\[,])(\s*)[-+]?(?:nan|inf(?:inity)?)(?=\s*[,\]}])", re.IGNORECASE)
_BARE_BACKSLASH = re.compile(r'\\(?!["\\/bfnrtu])')
_JSON_CHARACTERS = '"[]{}'
_MOST_REPAIRS = 50
_MOST_NOTED = 20  # lines outside the JSON that notes quote
_MESSAGE = re.compile(
    r"\b(note|warn|warning|errors?|err|fatal|hint|fail\w*|invalid|unsupported|cannot|unable|bad|"
    r"refused|denied|terminat\w*|signal|killed|abort\w*|interrupted|timed out)\b",
    re.IGNORECASE,
)
_NO_ERROR = re.compile(r"\berr(ors?)?\s*[:=]\s*(total=)?0\b", re.IGNORECASE)


@dataclass(slots=True)
class Document:
    """One document of a file: its text, its value if it is JSON, and notes on its repair."""

    text: str
    value: Any = None
    notes: list[str] = field(default_factory=list)
    key: str = ""  # its key or index in the document that contains it, if any


@dataclass(slots=True)
class Split:
    """JSON documents of a text, the lines outside of them, and errors of damaged documents."""

    documents: list[Document] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def split(text: str) -> Split:
    """Find the JSON documents in a text.

    A document starts at the beginning of a line, after ``... =>`` as Ansible prints it, or after
    another document on the same line.
    """
    result = Split()
    position = 0
    while (start := _ADJACENT.match(text, position) or _START.search(text, position)) is not None:
        _keep_lines(result, text[position : start.start()])
        _keep_lines(result, start[0])
        document, position = _document(text, start.end(), len(start[1]))
        if isinstance(document, Document):
            result.documents.append(document)
        else:
            result.damaged.append(document)
    _keep_lines(result, text[position:])
    return result


def _keep_lines(result: Split, text: str) -> None:
    result.rest += [line.strip() for line in text.split("\n") if line.strip()]


def line_notes(lines: list[str]) -> list[str]:
    """Return notes that quote the lines outside of a file's documents, messages first."""
    lines = [*(messages := messages_in(lines)), *(line for line in lines if line not in messages)]
    notes = [f"beside the result: {line[:200]}" for line in lines[:_MOST_NOTED]]
    if len(lines) > _MOST_NOTED:
        notes.append(f"beside the result: {len(lines) - _MOST_NOTED} more lines")
    return notes


def messages_in(lines: list[str]) -> list[str]:
    """Return the lines that look like warnings, errors or other messages of a tool."""
    return [line for line in lines if _MESSAGE.search(line) and not _NO_ERROR.search(line)]


def _document(text: str, start: int, indent: int) -> tuple[Document | str, int]:
    """Parse the document at ``start``, and repair it if necessary.

    Returns:
        The document, or the reason why it is damaged; and the position after it.
    """
    constants: list[str] = []
    decoder = json.JSONDecoder(parse_constant=constants.append)
    try:
        value, end = decoder.raw_decode(text, start)
    except RecursionError:
        return "the JSON is nested too deeply", len(text)
    except json.JSONDecodeError as error:
        limit = _next_start(text, start, error.pos, indent)
        body = text[start:limit]
        repaired = _repaired(body) if _may_be_result(body) else None
        if repaired is None:
            return f"the JSON is damaged or cut short: {error}", limit
        document, length_left = repaired
        return document, limit - length_left
    document = Document(text[start:end], value)
    if constants:
        document.text = json.dumps(value, ensure_ascii=False)
        document.notes.append(_no_number_note(len(constants)))
    return document, end


def _may_be_result(text: str) -> bool:
    """Return whether a damaged text may be a result, so that an attempt at repair is justified."""
    return any(importer.matches(text) for importer in file_importers())


def _next_start(text: str, start: int, position: int, indent: int) -> int:
    """Return the start of the next document that is not inside the damaged one before it."""
    position = max(start + 1, text.rfind("\n", 0, position) + 1)
    for found in _START.finditer(text, position):
        if len(found[1]) <= indent and found[0] == found[1]:
            return found.start()
    return len(text)


def _repaired(body: str) -> tuple[Document, int] | None:
    """Remove lines that are not JSON, and replace invalid values and backslashes.

    Returns:
        The document, and the number of characters after it; None if it stays unreadable.
    """
    notes: list[str] = []
    for _ in range(_MOST_REPAIRS):
        try:
            value, end = json.JSONDecoder(parse_constant=lambda _: None).raw_decode(body)
        except json.JSONDecodeError as error:
            changed = _repaired_once(body, error, notes)
            if changed is None:
                return None
            body = changed
        except RecursionError:
            return None
        else:
            return Document(json.dumps(value, ensure_ascii=False), value, notes), len(body) - end
    return None


def _repaired_once(body: str, error: json.JSONDecodeError, notes: list[str]) -> str | None:
    if error.msg.startswith("Invalid \\"):
        notes.append("backslashes in the JSON were not escaped and are read literally")
        changed = _BARE_BACKSLASH.sub(r"\\\\", body)
        return changed if changed != body else None
    at = error.pos
    if not error.msg.startswith("Invalid control"):  # else a line end inside a string
        while at < len(body) and body[at].isspace():
            at += 1
    begin = body.rfind("\n", 0, at) + 1
    end = body.find("\n", at)
    end = len(body) if end < 0 else end + 1
    line = body[begin:end]
    if _NO_NUMBER.search(body, max(0, at - 200), end):
        changed, count = _NO_NUMBER.subn(r"\1null", body)
        notes.append(_no_number_note(count))
        return changed
    if not body[end:].strip():  # cut short: there is nothing after the error
        return None
    message = _message().search(line)
    if message is not None and line.lstrip()[0] in _JSON_CHARACTERS:  # in the middle of a line
        cut = begin + message.start()
    elif message is not None or not _JSON_LINE.match(line):
        cut = begin
    else:
        return None
    notes.append(f"removed from inside the JSON: {body[cut:end].strip()[:200]}")
    return body[:cut] + body[end:]


def _message() -> re.Pattern[str]:
    """Return a pattern for the start of error messages of the imported tools, such as ``fio: ``."""
    names = "|".join(re.escape(name) for name in IMPORTERS)
    return re.compile(rf"(?:{names})(?:\[\d+\])?: |\b(?:warning|error): ", re.IGNORECASE)


def _no_number_note(count: int) -> str:
    values = "value is" if count == 1 else "values are"
    return f"{count} {values} NaN or infinite in the JSON, and treated as unknown"


def inner_documents(value: Any) -> Iterator[Document]:
    """Yield the parts of a JSON list or object that may be results, without deeper levels."""
    if isinstance(value, list):
        for number, part in enumerate(value):
            yield from _inner(part, f"[{number}]")
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _inner(part, str(key))


def _inner(value: Any, key: str) -> Iterator[Document]:
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        value = "\n".join(value)  # stdout_lines of Ansible
    if isinstance(value, str):
        value = TERMINAL_CODES.sub("", value)
        if "\n" in value or "{" in value:
            found = split(value)
            notes = line_notes(found.rest) if found.documents else []
            for document in found.documents or [Document(value)]:
                document.key, document.notes = key, [*notes, *document.notes]
                yield document
    elif isinstance(value, (dict, list)) and value:
        yield Document(json.dumps(value, ensure_ascii=False), value, key=key)
