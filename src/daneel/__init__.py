"""daneel: the honest stack for agents on open models that you host yourself.

A harness file needs three names: `Harness`, `goal` and `tool`.
"""

from __future__ import annotations

from daneel.harness.definition import Goal, Harness, goal
from daneel.harness.tools.registry import Tool, tool

__all__ = ["Goal", "Harness", "Tool", "__version__", "goal", "tool"]

__version__ = "0.1.0"
