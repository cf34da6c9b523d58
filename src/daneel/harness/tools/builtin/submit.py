"""`submit`: the answer as a call, for models that call tools better than they stop. It ends the run."""

from __future__ import annotations

from collections.abc import Sequence

from daneel.harness.raised import ToolFailure
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


def submitted(tools: Sequence[Tool | None], errors: Sequence[str | None], results: Sequence[str]) -> str | None:
    """The answer that one of a turn's calls gave, if one did: the first that was made without an error."""
    for tool, error, result in zip(tools, errors, results, strict=True):
        if tool is not None and error is None and getattr(tool.function, ENDS_RUN, False):
            return result
    return None
