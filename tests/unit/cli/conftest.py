"""Fixtures for tests of commands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from storlab.cli.main import main
from support.error_documents import Error


@pytest.fixture
def error(capsys: pytest.CaptureFixture[str]) -> Error:
    """Run a command that must fail; return its error, which must have a fix."""

    def run(*words: object, code: int) -> dict[str, Any]:
        capsys.readouterr()
        assert main([*map(str, words), "--json"]) == code
        error: dict[str, Any] = json.loads(capsys.readouterr().out)["error"]
        assert error["fix"]
        return error

    return run
