"""A lock against overlap: of the runs that name the same lock, one at a time.

The lock is the operating system's (`flock`), so it ends with the process that holds it, however that ends: there are no stale
locks. The file stays behind, because removing it would let two processes hold "the same" lock on different files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import platformdirs

from daneel.errors import UserError

_KEPT_CHARS = 60


class LockHeld(Exception):
    """Another run holds the lock; the message says which."""


def lock_name(file: Path, asked: str) -> str:
    """The lock of a harness file and what it is asked: a goal's name, or a prompt. The same from every working directory."""
    return f"{file.resolve()}\n{asked}"


def lock_path(name: str) -> Path:
    """Where the lock of this name lies: readable, and different for different names."""
    folder = os.environ.get("DANEEL_DATA_DIR") or platformdirs.user_data_dir("daneel", appauthor=False)
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(name.partition("\n")[0]).name).strip("-.")[:_KEPT_CHARS]
    return Path(folder) / "locks" / f"{readable or 'run'}-{hashlib.sha256(name.encode()).hexdigest()[:12]}.lock"


@contextmanager
def run_lock(name: str) -> Iterator[None]:
    """Hold the lock of this name. Raises LockHeld when another process does, UserError when there can be no lock."""
    if not name.strip():
        raise UserError("the name of a lock must not be empty")
    if sys.platform == "win32":
        raise UserError("locks against overlap are not supported on Windows")
    import fcntl  # there is none on Windows

    path = lock_path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # O_NOFOLLOW: nothing but a file of our own is written to. Not inherited: a program that a tool left running must not
        # hold the lock after the run has ended
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise UserError(f"the lock {path} cannot be opened: {error.strerror or error}") from error
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockHeld(f"another run holds the lock{_holder(number)}; this one was not started ({path})") from None
        except OSError as error:
            raise UserError(f"the lock {path} cannot be taken: {error.strerror or error}") from error
        try:
            _sign(number)
            yield
        finally:
            fcntl.flock(number, fcntl.LOCK_UN)  # a child just being started may still have our descriptor for a moment
    finally:
        os.close(number)


def _sign(number: int) -> None:
    """Who holds it, for whoever is turned away. Not needed for the lock itself, so a full disk is no reason to fail."""
    with contextlib.suppress(OSError):
        os.ftruncate(number, 0)
        os.pwrite(number, f"process {os.getpid()}, since {datetime.now():%Y-%m-%d %H:%M:%S}\n".encode(), 0)


def _holder(number: int) -> str:
    try:
        said = os.pread(number, 200, 0).decode(errors="replace").strip()
    except OSError:
        return ""
    return f" ({said})" if re.fullmatch(r"process \d+, since [\d :-]+", said) else ""
