"""daneel: the honest stack for agents on open models that you host yourself.

A harness file needs three names: `Harness`, `goal` and `tool`; `Recovery` changes what the model is told when it slips. They
are looked up on first use, so that the server's child processes, which import this package too, do not pay for the harness.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daneel.harness.context_policy import ContextPolicy
    from daneel.harness.definition import Goal, Harness, goal
    from daneel.harness.mcp.client import mcp_tools
    from daneel.harness.policy import Recovery
    from daneel.harness.raised import ToolFailure
    from daneel.harness.safety.policy import SafetyPolicy
    from daneel.harness.tools.examples import Example
    from daneel.harness.tools.gating import Gate, only_after
    from daneel.harness.tools.registry import Tool, tool

__all__ = [
    "ContextPolicy",
    "Example",
    "Gate",
    "Goal",
    "Harness",
    "Recovery",
    "SafetyPolicy",
    "Tool",
    "ToolFailure",
    "__version__",
    "goal",
    "mcp_tools",
    "only_after",
    "tool",
]

__version__ = "0.1.0"

_HOME = {
    "ContextPolicy": "daneel.harness.context_policy",
    "Example": "daneel.harness.tools.examples",
    "Gate": "daneel.harness.tools.gating",
    "Goal": "daneel.harness.definition",
    "Harness": "daneel.harness.definition",
    "goal": "daneel.harness.definition",
    "Recovery": "daneel.harness.policy",
    "SafetyPolicy": "daneel.harness.safety.policy",
    "Tool": "daneel.harness.tools.registry",
    "ToolFailure": "daneel.harness.raised",
    "mcp_tools": "daneel.harness.mcp.client",
    "only_after": "daneel.harness.tools.gating",
    "tool": "daneel.harness.tools.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'daneel' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
