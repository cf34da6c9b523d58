"""A secret of this server that outlives it: what tenants are named by, and so whose the cache on disk is."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from pathlib import Path

from daneel.errors import UserError

SECRET_BYTES = 32


def read_or_make_secret(path: Path) -> bytes:
    """The secret in the file at `path`, which is made, with mode 0600, if there is none. Raises `UserError`.

    Two servers that start at the same time get the same one: the file is whole before it has its name.
    """
    try:
        if not path.exists():
            _make(path)
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            secret = file.read(SECRET_BYTES + 1)
    except OSError as error:
        raise UserError(f"the server's secret {path} cannot be read or made: {error.strerror or error}") from error
    if os.name == "posix" and mode & 0o077:
        raise UserError(f"the server's secret {path} has mode {mode:04o}, so others may know it: delete it, a new one is made")
    if len(secret) != SECRET_BYTES:
        size = len(secret) if len(secret) < SECRET_BYTES else f"more than {SECRET_BYTES}"
        raise UserError(f"the server's secret {path} has {size} bytes, not {SECRET_BYTES}: delete it, a new one is made")
    return secret


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")  # mkstemp gives it mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
