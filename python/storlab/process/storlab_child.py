"""Base class of runs that storlab's own child programs execute and report in ``result.json``."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from storlab.model.result import EngineInfo, Failure, RunOutcome
from storlab.process.child import ChildRun, Launch


class OwnChildRun(ChildRun):
    """Run that a child program of storlab executes. Methods may be called from any thread."""

    fix: ClassVar[str]  # fix for a child that ends without a reason

    def __init__(self, launch: Launch, info: EngineInfo, notes: list[str]) -> None:
        self._notes = notes
        super().__init__(launch, info)

    def result(self) -> dict[str, Any]:
        """Return the content of the child's ``result.json``; an empty dict if there is none."""
        try:
            content = (self.launch.work_dir / "result.json").read_bytes()
        except OSError:
            return {}
        document: dict[str, Any] = json.loads(content)
        return document

    def raw(self) -> dict[str, bytes]:
        """Return the files to store with the run's results, including the child's input."""
        order = (self.launch.work_dir / "order.json").read_bytes()
        return {**super().raw(), "order.json": order}

    def failure_in(self, document: dict[str, Any], outcome: RunOutcome) -> Failure | None:
        """Return the failure that the child reported, or one for its exit without a result.

        Returns None if the run succeeded.
        """
        told = document.get("failure")
        if told is not None and not self.cancelled and not self.hung:
            return Failure.model_validate({"fix": self.fix, **told})
        ended = self.failure(self.fix)
        if ended is None and outcome.status == "finished" and not outcome.spans:
            return Failure(message=f"{self.launch.name} ended without a result", fix=self.fix)
        return ended
