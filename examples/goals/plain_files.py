"""Tools for files that say as little as can be said.

Those of `daneel.tools` give examples in their descriptions ("such as notes.txt or src/main.py"). Models below 2B take them for
files that are there, and read `notes.txt` in a folder that has none.
"""

from pathlib import Path

from daneel import ToolFailure, tool
from daneel.bench.end_state import files_of
from daneel.harness.safety.paths import Workspace

MAX_BYTES = 20_000


def here() -> Workspace:
    return Workspace.at(Path.cwd())


def text_in(path: str) -> str:
    return here().read(path, max_bytes=MAX_BYTES).decode("utf-8", "replace")


@tool
def read_file(path: str) -> str:
    """Read a file"""
    return text_in(path) or "The file is empty."


@tool(effects=["write"])
def write_file(path: str, content: str) -> str:
    """Write a file"""
    here().write(path, content.encode("utf-8", "replace"))
    return f"Wrote {path}."


@tool(effects=["write"])
def copy_file(path: str, new_path: str) -> str:
    """Copy a file"""
    here().write(new_path, text_in(path).encode("utf-8", "replace"))
    return f"Copied {path} to {new_path}."


@tool(effects=["write"])
def add_line(path: str, line: str) -> str:
    """Add a line to the end of a file"""
    before = text_in(path)
    before += "\n" if before and not before.endswith("\n") else ""
    here().write(path, f"{before}{line.strip()}\n".encode("utf-8", "replace"))
    return f"Added a line to {path}."


@tool
def find_lines(word: str) -> str:
    """Find the lines with a word, in all files"""
    if not word.strip():
        raise ToolFailure("The word to look for is empty.")
    wanted, files = word.strip().lower(), files_of(Path.cwd())
    lines = [f"{name}: {line}" for name, held in files.items() for line in held.splitlines() if wanted in line.lower()]
    return "\n".join(lines[:20]) or "No line has that word. Try another one."
