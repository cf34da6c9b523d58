"""`search_text`: lines of the workspace's files that hold a text. No regular expressions: a model's could run for ever."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from daneel.harness.raised import ToolFailure
from daneel.harness.safety.paths import Workspace, parts_of
from daneel.harness.safety.patterns import PRIVATE, path_matches
from daneel.harness.safety.targets import ToolSafety
from daneel.harness.safety.untrusted import fence
from daneel.harness.tools.builtin.files import Folder
from daneel.harness.tools.builtin.making import at_least, built_in
from daneel.harness.tools.registry import Tool

MAX_FILE_BYTES = 1_000_000
MAX_FILES = 20_000
MAX_LINE_CHARS = 200
PASSED_OVER = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".ruff_cache", ".tox"))


def search_text(workspace: Folder = ".", *, max_matches: int = 50) -> Tool:
    """A tool that finds lines in files of the workspace. Files that are private by custom are passed over, and that is said."""
    at_least("search_text", max_matches=max_matches)
    place = Workspace.at(workspace)

    def search_text(text: str, folder: str = ".") -> str:
        """Find lines that hold a text, in all files of a folder and the folders in it. Capital letters make no difference.

        Args:
            text: The text to look for, as it is written. No patterns.
            folder: The folder to look in, such as src. A dot is the whole workspace.
        """
        wanted = text.strip("\n")
        if not wanted.strip():
            raise ToolFailure("the text to look for is empty")
        if "\n" in wanted:
            raise ToolFailure("the text to look for has several lines; look for one line at a time")
        search = _Search(wanted.casefold(), max_matches)
        parts = parts_of(folder)
        with place.folder(parts) as fd:
            search.folder(fd, "/".join(parts))
        return search.told(wanted)

    safety = ToolSafety(workspace=place.root, reads_below=True, fences=True)
    return built_in(search_text, effects=["read"], safety=safety, options={"max_matches": max_matches}, parallel=True)


@dataclass
class _Search:
    wanted: str
    max_matches: int
    lines: list[str] = field(default_factory=list)
    num_files: int = 0
    num_private: int = 0
    is_cut: bool = False

    def folder(self, fd: int, prefix: str) -> None:
        """Look through a folder, each step by descriptor and without following links."""
        for name, mode in _entries(fd):
            if self.is_cut:
                return
            path = f"{prefix}/{name}" if prefix else name
            if path_matches(path, PRIVATE):
                self.num_private += 1
            elif stat.S_ISDIR(mode):
                if name not in PASSED_OVER:
                    self._below(fd, name, path)
            elif stat.S_ISREG(mode):
                self._file(fd, name, path)

    def _below(self, fd: int, name: str, path: str) -> None:
        try:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
        except OSError:
            return
        try:
            self.folder(inner, path)
        finally:
            os.close(inner)

    def _file(self, fd: int, name: str, path: str) -> None:
        self.num_files += 1
        if self.num_files > MAX_FILES:
            self.is_cut = True
            return
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
        except OSError:
            return
        with os.fdopen(file, "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                return
            data = opened.read(MAX_FILE_BYTES)
        if b"\0" in data[:8192]:
            return
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            if self.wanted in line.casefold():
                if len(self.lines) >= self.max_matches:
                    self.is_cut = True
                    return
                self.lines.append(f"{path}:{number}: {line.strip()[:MAX_LINE_CHARS]}")

    def told(self, wanted: str) -> str:
        private = f" {self.num_private} private files were not looked into." if self.num_private else ""
        if not self.lines:
            return (
                f"No line holds that text ({self.num_files} files were looked through).{private} Try a shorter or another text."
            )
        said = f"{len(self.lines)} {'line holds' if len(self.lines) == 1 else 'lines hold'} that text:\n"
        said += fence("\n".join(self.lines), "search_text", max_chars=self.max_matches * (MAX_LINE_CHARS + 300))
        if self.is_cut:
            said += "\nThere are more. Look for a longer text, or in one folder."
        return said + (f"\n{private.strip()}" if private else "")


def _entries(fd: int) -> Iterator[tuple[str, int]]:
    """Names and kinds of what is in a folder."""
    for name in sorted(os.listdir(fd)):
        try:
            yield name, os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
        except OSError:
            continue
