"""`submit`: the answer as a call, for models that call tools better than they stop. It ends the run."""

from __future__ import annotations

from collections.abc import Sequence

from daneel.harness.execute import Outcome
from daneel.harness.raised import ToolFailure
from daneel.harness.recovery import Attempt
from daneel.harness.safety.targets import ToolSafety
from daneel.harness.tools.builtin.making import built_in
from daneel.harness.tools.registry import Tool

ENDS_RUN = "ends_run"
"""The attribute of a tool's function that says so."""


def submit() -> Tool:
    """A tool whose argument is the run's answer."""

    def submit(answer: str) -> str:
        """Give the final answer. Call this last, when you know it.

        Args:
            answer: The whole answer.
        """
        if not answer.strip():
            raise ToolFailure("the answer is empty; write the whole answer")
        return answer

    setattr(submit, ENDS_RUN, True)
    return built_in(submit, effects=[], safety=ToolSafety())


def submitted(attempts: Sequence[Attempt], outcomes: Sequence[Outcome]) -> str | None:
    """The answer that one of a turn's calls gave, if one did: the first that was made without an error."""
    for attempt, outcome in zip(attempts, outcomes, strict=True):
        made = outcome.was_made and outcome.record.error is None
        if made and attempt.tool and attempt.bound and getattr(attempt.tool.function, ENDS_RUN, False):
            return str(attempt.bound.arguments["answer"])
    return None
