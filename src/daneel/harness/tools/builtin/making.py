"""How the built-in tools are made: a function bound to its workspace, and what it says of itself to the guard."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from daneel.errors import UserError
from daneel.harness.raised import ToolFailure
from daneel.harness.safety.targets import ToolSafety
from daneel.harness.tools.registry import Effect, Tool, source_of, tool


def built_in(
    function: Callable[..., Any],
    *,
    effects: Iterable[Effect],
    safety: ToolSafety,
    options: dict[str, Any] | None = None,
    parallel: bool = False,
    repeats: bool = False,
) -> Tool:
    """A tool of a function. `options` are what it was made with: they are part of its source, and so of the fingerprint."""
    made = tool(effects=effects, parallel=parallel, repeats=repeats, max_result_chars=None)(function)
    function.safety = safety  # type: ignore[attr-defined]  # read by `safety_of`
    said = json.dumps(options or {}, sort_keys=True, default=repr)
    return replace(made, source=f"{source_of(function)}\n# with {said}")


def at_least(label: str, **numbers: float) -> None:
    """Raises UserError for a limit that is no positive number."""
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise UserError(f"{label}: {name} must be above 0, not {value!r}")


def text_of(data: bytes, path: str) -> str:
    """A file's bytes as text. Raises ToolFailure when it is none."""
    if b"\0" in data[:8192]:
        raise ToolFailure(f"{path} is not a text file; it cannot be read as text")
    return data.decode("utf-8", "replace")
