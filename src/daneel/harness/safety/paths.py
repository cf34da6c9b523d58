"""A workspace: the one folder whose files tools may touch, and no path out of it.

A path from a model is taken apart before anything is opened: absolute paths, `..`, `~`, backslashes, control and invisible
characters, and letters that some file system reads as dots or slashes are refused. What is left is opened one step at a time,
each step relative to the folder before it and never through a link (`openat` with `O_NOFOLLOW`): so it does not help to put a
link in the way between a check and its use, there being no such gap.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from daneel.errors import UserError
from daneel.harness.raised import ToolFailure

MAX_PATH_CHARS = 1000
MAX_PARTS = 64
_LIKE_SLASHES = frozenset("/\\\u2044\u2215\u2216\u29f5\u29f8\u29f9")
_LIKE_DOTS = dict.fromkeys(map(ord, "\u00b7\u2024\u2027\u2219\u22c5\u3002\u30fb\uff61\uff65"), ".")
_INVISIBLE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PathRefused(ToolFailure):
    """A path that leads out of the workspace, or might. The message is for the model."""


def parts_of(path: str) -> tuple[str, ...]:
    """The parts of a path inside a workspace; none for the workspace itself. Raises PathRefused."""
    text = path.strip()
    if len(text) > MAX_PATH_CHARS:
        raise PathRefused(f"the path is too long ({len(text)} characters)")
    shown = ascii(text)[1:-1]
    if text.startswith(("/", "~")) or (len(text) > 1 and text[1] == ":" and text[0].isalpha()):
        raise PathRefused(f"{shown} is an absolute path; write it relative to the workspace, such as notes.txt or src/main.py")
    parts = []
    for part in text.split("/"):
        if part in ("", "."):
            continue
        _check_part(part, shown)
        parts.append(part)
    if len(parts) > MAX_PARTS:
        raise PathRefused(f"{shown} has too many folders")
    return tuple(parts)


def _check_part(part: str, shown: str) -> None:
    """No part may be, or be read by any file system as, something else than a plain name."""
    for form in (part, unicodedata.normalize("NFKC", part)):
        if set(form.translate(_LIKE_DOTS)) <= {".", " "}:
            raise PathRefused(f"{shown} leads out of the workspace; only files inside it can be used")
        if set(form) & _LIKE_SLASHES:
            raise PathRefused(f"{shown} has a character that may be read as a separator of folders; use plain /")
    if any(unicodedata.category(character) in _INVISIBLE for character in part):
        raise PathRefused(f"{shown} has an invisible character; write the plain name")
    if len(os.fsencode(part)) > 255:
        raise PathRefused(f"{shown}: a name in it is too long")


@dataclass(frozen=True)
class Workspace:
    """A folder that tools work in. Raises UserError when it is none. `root` is a real, absolute path."""

    root: Path

    @staticmethod
    def at(folder: str | os.PathLike[str]) -> Workspace:
        """The workspace in `folder`, seen from the current folder."""
        root = Path(folder).expanduser().resolve()
        if not root.is_dir():
            raise UserError(f"workspace {folder}: {'is not a folder' if root.exists() else 'there is no such folder'}")
        if root == Path(root.anchor):
            raise UserError("workspace /: the whole file system cannot be a workspace; name a folder of its own")
        return Workspace(root)

    @contextmanager
    def folder(self, parts: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
        """A file descriptor of the folder, each step taken without following links. `make`: missing folders are made."""
        try:
            fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ToolFailure(f"the workspace cannot be opened: {error.strerror}") from error
        try:
            for number, part in enumerate(parts):
                try:
                    new = _step(fd, part, make=make)
                except OSError as error:
                    raise _told(error, "/".join(parts[: number + 1]), fd, part) from error
                os.close(fd)
                fd = new
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def reading(self, path: str) -> Iterator[int]:
        """A file descriptor of a plain file, for reading."""
        *folders, name = _named(path)
        with self.folder(tuple(folders)) as folder_fd:
            try:
                # O_NONBLOCK: a named pipe would wait for its other end
                fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
            except OSError as error:
                raise _told(error, path, folder_fd, name) from error
            try:
                _require_file(os.fstat(fd).st_mode, path)
                yield fd
            finally:
                os.close(fd)

    def read(self, path: str, *, max_bytes: int) -> bytes:
        """Up to `max_bytes` of a file, and one more if there are more."""
        with self.reading(path) as fd:
            chunks: list[bytes] = []
            left = max_bytes + 1
            while left > 0 and (chunk := os.read(fd, min(left, 1 << 20))):
                chunks.append(chunk)
                left -= len(chunk)
            return b"".join(chunks)

    def exists(self, path: str) -> bool:
        """Whether there is a plain file. Raises PathRefused, and ToolFailure for a folder or a link."""
        *folders, name = _named(path)
        try:
            with self.folder(tuple(folders)) as folder_fd:
                mode = _mode(folder_fd, name)
        except MissingFile:
            return False
        if mode is None:
            return False
        _require_file(mode, path)
        return True

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file: all of it or nothing, a new file in place of the old, so that no other name of it changes."""
        *folders, name = _named(path)
        with self.folder(tuple(folders), make=True) as folder_fd:
            mode = _mode(folder_fd, name)
            if mode is not None:
                _require_file(mode, path)
            temporary = f".daneel-{secrets.token_hex(8)}"
            try:
                _write_new(
                    folder_fd, temporary, data, 0o666 if mode is None else stat.S_IMODE(mode) & 0o777, keep=mode is not None
                )
                os.replace(temporary, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder_fd)
                raise ToolFailure(f"{path} could not be written: {error.strerror}") from error


class MissingFile(ToolFailure):
    """There is no such file or folder."""


def _named(path: str) -> tuple[str, ...]:
    parts = parts_of(path)
    if not parts:
        raise PathRefused("the path is empty; name a file, such as notes.txt")
    return parts


def _step(fd: int, part: str, *, make: bool) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=fd)
    except FileNotFoundError:
        if not make:
            raise
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=fd)
        return os.open(part, _FOLDER, dir_fd=fd)


def _mode(folder_fd: int, name: str) -> int | None:
    try:
        return os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ToolFailure(f"{name} cannot be opened: {error.strerror}") from error


def _require_file(mode: int, path: str) -> None:
    if stat.S_ISLNK(mode):
        raise PathRefused(f"{path} is a link; links are not followed. Name the file itself")
    if stat.S_ISDIR(mode):
        raise ToolFailure(f"{path} is a folder, not a file. Use list_files to see what is in it")
    if not stat.S_ISREG(mode):
        raise ToolFailure(f"{path} is not a plain file")


def _told(error: OSError, path: str, folder_fd: int, name: str) -> ToolFailure:
    """What went wrong when `name` was opened, for the model."""
    if error.errno == errno.ENOENT:
        return MissingFile(f"there is no {path}. Use list_files to see what there is")
    if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
        mode = _mode(folder_fd, name)
        if mode is not None and stat.S_ISLNK(mode):
            return PathRefused(f"{path} is a link; links are not followed. Name the file itself")
        return ToolFailure(f"{path} is a file, not a folder")
    if error.errno == errno.ENXIO:
        return ToolFailure(f"{path} is not a plain file")
    return ToolFailure(f"{path} cannot be opened: {error.strerror}")


def _write_new(folder_fd: int, name: str, data: bytes, mode: int, *, keep: bool) -> None:
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder_fd)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if keep:
            os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)
