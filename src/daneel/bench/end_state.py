"""What a run left in its workspace, for a goal's check: the files, read within bounds, whatever a model has put there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

MAX_FILES = 1000
MAX_FILE_BYTES = 1_000_000


def files_of(workspace: Path | None) -> dict[str, str]:
    """The text of every file in a workspace, by its path in it; `{}` where there is no workspace.

    Links are not followed. What is no plain text file of at most 1 MB (a link, a pipe, a picture, a file that may not be read)
    has a text in angle brackets, which no check will take for what it wants. Raises ValueError beyond 1,000 files.
    """
    found: dict[str, str] = {}
    for path in _paths(workspace) if workspace is not None else ():
        if len(found) >= MAX_FILES:
            raise ValueError(f"the workspace holds more than {MAX_FILES} files")
        found[path.relative_to(str(workspace)).as_posix()] = _text(path)
    return found


def _paths(workspace: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(workspace):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted([*names, *links]):
            yield Path(folder, name)


def _text(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return "<no plain file>"
    try:
        with path.open("rb") as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return f"<cannot be read: {error.strerror}>"
    if len(data) > MAX_FILE_BYTES:
        return "<too large>"
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "<no text>"
