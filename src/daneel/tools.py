"""The built-in tools, for harness files: `from daneel.tools import read_file, edit_file, run_command, fetch_url, submit`.

    Harness(tools=[read_file("notes"), edit_file("notes"), submit()])

Each name makes a tool: those of files and commands are bound to a workspace, a folder that they cannot leave. What they may do
unasked is the harness's `SafetyPolicy` (docs/safety.md).
"""

from __future__ import annotations

from daneel.harness.tools.builtin.command import run_command
from daneel.harness.tools.builtin.fetch import fetch_url
from daneel.harness.tools.builtin.files import Folder, edit_file, list_files, read_file, write_file
from daneel.harness.tools.builtin.search import search_text
from daneel.harness.tools.builtin.submit import submit
from daneel.harness.tools.registry import Tool

__all__ = [
    "edit_file",
    "fetch_url",
    "file_tools",
    "list_files",
    "read_file",
    "run_command",
    "search_text",
    "submit",
    "write_file",
]


def file_tools(workspace: Folder = ".") -> list[Tool]:
    """All five tools for the files of a workspace: list, search, read, edit, write."""
    return [make(workspace) for make in (list_files, search_text, read_file, edit_file, write_file)]
