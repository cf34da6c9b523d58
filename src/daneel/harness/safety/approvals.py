"""Asking a person: what they are shown, and who can be asked."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Protocol

MAX_DIFF_LINES = 400


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """One call that waits for a person's word. All of it but `tool` and `reason` is a model's: show it as data.

    `can_repeat`: a yes may be taken for later calls of this tool too; never where private data could leave.
    """

    tool: str
    arguments: str
    """As JSON."""
    reason: str
    effects: tuple[str, ...] = ()
    diff: str | None = None
    """The change to files it would make, as a unified diff."""
    can_repeat: bool = True


class Approver(Protocol):
    """Someone who can be asked. `False` is no, and so is everything that raises."""

    def ask(self, request: ApprovalRequest, /) -> bool: ...


def diff_of(path: str, before: str, after: str) -> str:
    """A unified diff of one file, bounded: what was left out is said."""
    lines = list(
        difflib.unified_diff(before.splitlines(), after.splitlines(), f"{path} (now)", f"{path} (after)", lineterm="", n=3)
    )
    if len(lines) > MAX_DIFF_LINES:
        left_out = len(lines) - MAX_DIFF_LINES
        lines = [*lines[:MAX_DIFF_LINES], f"[… {left_out} more lines of the diff are not shown]"]
    return "\n".join(lines)
