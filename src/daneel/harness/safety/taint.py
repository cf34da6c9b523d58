"""What a run has touched so far: private data, and other people's words. The two together must not meet a way out unasked.

A model cannot be trusted to tell data from instructions. So it is not asked to: whatever a file, a page or a program says, the
calls that could carry private data away are held against what the run has read before them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from daneel.harness.safety.patterns import PRIVATE, path_matches
from daneel.harness.safety.policy import SafetyPolicy
from daneel.harness.safety.targets import Touch, safety_of
from daneel.harness.tools.registry import Tool

MAX_LOOKED_AT = 20_000


@dataclass(slots=True)
class Taint:
    """`private` and `untrusted` say what it was, the first time; empty: nothing of the kind so far."""

    private: str = ""
    untrusted: str = ""

    def objection(self, tool: Tool, touched: Sequence[Touch], policy: SafetyPolicy) -> str | None:
        """Why this call may not be made unasked: it is a way out of a run that has both. What it reads itself counts too."""
        way_out = next((touch for touch in touched if _leads_out(tool, touch)), None)
        if way_out is None or not self.untrusted:
            return None
        private = self.private or private_of(tool, touched, policy)
        if not private:
            return None
        return (
            f"this run has read private data ({private}) and content that others may have written ({self.untrusted}), "
            f"and this call could send it away ({way_out})"
        )

    def add(self, tool: Tool, touched: Sequence[Touch], policy: SafetyPolicy) -> None:
        """A call is about to be made."""
        if not self.private:
            self.private = private_of(tool, touched, policy) or ""
        if not self.untrusted:
            self.untrusted = _untrusted_of(tool, touched, policy) or ""


def private_of(tool: Tool, touched: Sequence[Touch], policy: SafetyPolicy) -> str | None:
    """What private data a call reads."""
    if f"tool:{tool.name}" in policy.private:
        return tool.name
    said = safety_of(tool)
    for touch in touched:
        if touch.effect == "read" and touch.path is not None:
            if path_matches(touch.path, policy.private):
                return touch.path
            if said.reads_below and said.workspace is not None:
                # the tool itself passes over what is private by custom
                own = [pattern for pattern in policy.private if pattern not in PRIVATE]
                if found := _first_private(said.workspace / touch.path, said.workspace, own):
                    return found
        if touch.effect == "exec" and (found := _first_private(said.workspace, said.workspace, policy.private)):
            return f"{found}, which commands can read"
    return None


def _untrusted_of(tool: Tool, touched: Sequence[Touch], policy: SafetyPolicy) -> str | None:
    if f"tool:{tool.name}" in policy.untrusted:
        return tool.name
    for touch in touched:
        if touch.effect in ("network", "exec"):
            return f"{tool.name}: {touch}"
        if touch.effect == "read" and (touch.path is None or not path_matches(touch.path, policy.private)):
            return f"{tool.name}: {touch}"
    return None


def _leads_out(tool: Tool, touch: Touch) -> bool:
    """Whether data could leave by it: the network, a command that is not confined, a write that is not into the workspace."""
    if touch.effect == "exec":
        return not safety_of(tool).confined
    return touch.effect == "network" or (touch.effect == "write" and touch.is_outside)


def _first_private(folder: Path | None, root: Path | None, patterns: Sequence[str]) -> str | None:
    """A private file in the folder. A folder too large to look through counts as holding one; so does an unknown one."""
    if folder is None or root is None:
        return "files of this computer"
    if not patterns:
        return None
    looked_at = 0
    for parent, folders, files in os.walk(folder):
        for name in (*files, *folders):
            path = os.path.relpath(os.path.join(parent, name), root)
            if path_matches(path, patterns):
                return path
            looked_at += 1
            if looked_at > MAX_LOOKED_AT:
                return "a workspace too large to look through"
    return None
