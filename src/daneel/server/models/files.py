"""Small file helpers of the pull: hashing, a lock between processes, and disk errors as one clear sentence."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daneel.errors import UserError
from daneel.server.models.progress import Progress

_CHUNK_BYTES = 2**20
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


def size_of(path: Path) -> int:
    """Bytes of `path`; 0 when there is no such file."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def sha256_of(path: Path, progress: Progress, label: str) -> str:
    """Hash of a file, lower-case hexadecimal. Raises `OSError`."""
    digest = hashlib.sha256()
    total = size_of(path)
    done = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            progress.update(label, done, total)
    return digest.hexdigest()


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn the disk's errors into a `UserError` that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise UserError(f"the disk is full at {folder}: free some space and run the same command again to go on") from error
        raise UserError(f"cannot write to {folder}: {error.strerror or error}") from error


@contextmanager
def locked(path: Path, waiting: str, progress: Progress) -> Iterator[None]:
    """Hold the lock file `path`; when another process holds it, say `waiting` and wait. A dead holder holds nothing."""
    with disk_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _lock(descriptor, wait=False):
            progress.say(waiting)
            _lock(descriptor, wait=True)
        yield
    finally:
        # closing releases the lock; the file stays, since removing it would let two holders in
        os.close(descriptor)


if sys.platform == "win32":
    import msvcrt
    import time

    def _lock(descriptor: int, *, wait: bool) -> bool:
        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
                return True
            except OSError:
                if not wait:
                    return False
                time.sleep(0.5)

else:
    import fcntl

    def _lock(descriptor: int, *, wait: bool) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True
