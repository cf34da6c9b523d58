"""`read_file`, `write_file`, `edit_file`, `list_files`: the files of one workspace, in words that a small model can act on."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Any

from daneel.harness.raised import ToolFailure
from daneel.harness.safety.approvals import diff_of
from daneel.harness.safety.paths import Workspace, parts_of
from daneel.harness.safety.targets import ToolSafety
from daneel.harness.safety.untrusted import defused, fence
from daneel.harness.tools.builtin.making import at_least, built_in, text_of
from daneel.harness.tools.registry import Tool

MAX_FILE_BYTES = 5_000_000
MAX_ENTRIES = 200

Folder = str | os.PathLike[str]


def read_file(workspace: Folder = ".", *, max_lines: int = 200, max_chars: int = 8000) -> Tool:
    """A tool that reads files of the workspace, `max_lines` or `max_chars` at a time, whichever is less."""
    at_least("read_file", max_lines=max_lines, max_chars=max_chars)
    place = Workspace.at(workspace)

    def read_file(path: str, start_line: int = 1) -> str:
        """Read a text file.

        Args:
            path: The file, such as notes.txt or src/main.py.
            start_line: The first line to read. 1 is the beginning.
        """
        lines = _read_text(place, path).splitlines(keepends=True)
        if not lines:
            return f"{path} is empty."
        if not 1 <= start_line <= len(lines):
            raise ToolFailure(f"{path} has {len(lines)} lines; start_line must be from 1 to {len(lines)}")
        shown: list[str] = []
        num_chars = 0
        for line in lines[start_line - 1 : start_line - 1 + max_lines]:
            if shown and num_chars + len(line) > max_chars:
                break
            shown.append(line)
            num_chars += len(line)
        last = start_line + len(shown) - 1
        said = f"{path}, lines {start_line} to {last} of {len(lines)}:\n"
        said += fence("".join(shown).rstrip("\n"), "read_file", max_chars=max_chars)
        if last < len(lines):
            said += f"\nThere is more. To read on, call read_file with start_line {last + 1}."
        return said

    safety = ToolSafety(workspace=place.root, fences=True)
    options = {"max_lines": max_lines, "max_chars": max_chars}
    return built_in(read_file, effects=["read"], safety=safety, options=options, parallel=True)


def write_file(workspace: Folder = ".") -> Tool:
    """A tool that writes whole files of the workspace; folders that are missing are made."""
    place = Workspace.at(workspace)

    def write_file(path: str, content: str) -> str:
        """Write a text file. What was in it before is replaced.

        Args:
            path: The file, such as notes.txt or src/main.py.
            content: The whole new text of the file.
        """
        existed = place.exists(path)
        place.write(path, _bytes(content))
        num_lines = len(content.splitlines())
        return f"{'Replaced' if existed else 'Created'} {path} ({num_lines} {'line' if num_lines == 1 else 'lines'})."

    def preview(arguments: Mapping[str, Any]) -> str:
        path = str(arguments["path"])
        before = _read_text(place, path) if place.exists(path) else ""
        return diff_of(path, before, str(arguments["content"]))

    safety = ToolSafety(workspace=place.root, preview=preview, fences=True)
    return built_in(write_file, effects=["write"], safety=safety)


def edit_file(workspace: Folder = ".") -> Tool:
    """A tool that replaces one place in a file of the workspace."""
    place = Workspace.at(workspace)

    def edit_file(path: str, old_text: str, new_text: str) -> str:
        """Replace one piece of text in a file.

        Args:
            path: The file, such as notes.txt or src/main.py.
            old_text: The text to replace, exactly as it is in the file. It must be in the file once.
            new_text: The text to put there.
        """
        before = _read_text(place, path, exact=True)
        after = _edited(before, old_text, new_text, path)
        place.write(path, _bytes(after))
        return f"Changed {path} at line {before.count(chr(10), 0, _first_difference(before, after)) + 1}."

    def preview(arguments: Mapping[str, Any]) -> str:
        path, old_text, new_text = (str(arguments[name]) for name in ("path", "old_text", "new_text"))
        before = _read_text(place, path, exact=True)
        return diff_of(path, before, _edited(before, old_text, new_text, path))

    safety = ToolSafety(workspace=place.root, preview=preview, fences=True)
    return built_in(edit_file, effects=["read", "write"], safety=safety)


def list_files(workspace: Folder = ".", *, max_entries: int = MAX_ENTRIES) -> Tool:
    """A tool that lists a folder of the workspace."""
    at_least("list_files", max_entries=max_entries)
    place = Workspace.at(workspace)

    def list_files(folder: str = ".") -> str:
        """List the files and folders in a folder.

        Args:
            folder: The folder, such as src. A dot is the whole workspace.
        """
        parts = parts_of(folder)
        name = "/".join(parts) or "The workspace"
        with place.folder(parts) as fd:
            entries = sorted(os.listdir(fd))
            if not entries:
                return f"{name} is empty."
            shown = [_entry(fd, entry) for entry in entries[:max_entries]]
        said = f"{name} has {len(entries)} {'entry' if len(entries) == 1 else 'entries'}:\n"
        said += fence("\n".join(shown), "list_files", max_chars=max_entries * 300)
        if len(entries) > max_entries:
            said += f"\nOnly the first {max_entries} are shown. Use search_text to find a file by what is in it."
        return said

    safety = ToolSafety(workspace=place.root, fences=True)
    return built_in(list_files, effects=["read"], safety=safety, options={"max_entries": max_entries}, parallel=True)


def _read_text(place: Workspace, path: str, *, exact: bool = False) -> str:
    """A file's text. `exact`: it will be written back, so every byte must be in it."""
    data = place.read(path, max_bytes=MAX_FILE_BYTES)
    if len(data) > MAX_FILE_BYTES:
        raise ToolFailure(f"{path} is larger than {MAX_FILE_BYTES // 1_000_000} MB; use search_text to find lines in it")
    text = text_of(data, path)
    if exact and _bytes(text) != data:
        raise ToolFailure(f"{path} is not UTF-8 text; it cannot be edited without spoiling it")
    return text


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _edited(text: str, old: str, new: str, path: str) -> str:
    """The text with its one `old` replaced. Raises ToolFailure, which says what to do, when there is none or several."""
    if not old:
        raise ToolFailure("old_text is empty; write the text that is to be replaced, or use write_file for a whole new file")
    if old == new:
        raise ToolFailure("old_text and new_text are the same; nothing would change")
    if "\r\n" in text and "\r" not in old:  # line ends as the file has them: a model is shown plain ones
        old, new = (part.replace("\n", "\r\n") for part in (old, new.replace("\r\n", "\n")))
    count = text.count(old)
    if count == 1:
        return text.replace(old, new)
    if count > 1:
        raise ToolFailure(
            f"old_text is {count} times in {path}; write more of the lines around it, so that it fits only one place"
        )
    if old in defused(text):
        raise ToolFailure(f"old_text has a backslash that you were shown and that is not in {path}; leave it out")
    if " ".join(old.split()) in " ".join(text.split()):
        raise ToolFailure(f"old_text is in {path} with other spaces or line ends; use read_file and copy it exactly")
    raise ToolFailure(f"old_text is not in {path}; use read_file to see what is there, and copy it exactly")


def _first_difference(before: str, after: str) -> int:
    return next(
        (at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), min(len(before), len(after))
    )


def _entry(folder_fd: int, name: str) -> str:
    """One line: a folder has a slash, a file its size."""
    plain = name.encode("utf-8", "replace").decode().replace("\n", "?")
    try:
        status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except OSError:
        return plain
    if stat.S_ISDIR(status.st_mode):
        return f"{plain}/"
    if stat.S_ISLNK(status.st_mode):
        return f"{plain} (a link; cannot be read)"
    return f"{plain} ({status.st_size} bytes)"
