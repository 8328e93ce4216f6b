"""A run by a program of storlab's own, which leaves ``result.json`` and its events."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from storlab.model.result import EngineInfo, Failure, RunOutcome
from storlab.process.child import ChildRun, Launch


class OwnChildRun(ChildRun):
    """A run in progress. Every method may be called from any thread."""

    fix: ClassVar[str]  # of a child that ends without saying why

    def __init__(self, launch: Launch, info: EngineInfo, notes: list[str]) -> None:
        self._notes = notes
        super().__init__(launch, info)

    def result(self) -> dict[str, Any]:
        """``result.json``; empty where the child ended before it had anything to tell."""
        try:
            content = (self.launch.work_dir / "result.json").read_bytes()
        except OSError:
            return {}
        document: dict[str, Any] = json.loads(content)
        return document

    def raw(self) -> dict[str, bytes]:
        """As of every program, and its order."""
        order = (self.launch.work_dir / "order.json").read_bytes()
        return {**super().raw(), "order.json": order}

    def failure_in(self, document: dict[str, Any], outcome: RunOutcome) -> Failure | None:
        """What the child says of its failure, or how it ended without a result."""
        told = document.get("failure")
        if told is not None and not self.cancelled and not self.hung:
            return Failure.model_validate({"fix": self.fix, **told})
        ended = self.failure(self.fix)
        if ended is None and outcome.status == "finished" and not outcome.spans:
            return Failure(message=f"{self.launch.name} ended without a result", fix=self.fix)
        return ended
