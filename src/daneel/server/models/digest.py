"""The hash of weights that no catalogue or store vouches for: read once, remembered for as long as the file is the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from daneel.server.models.files import sha256_of
from daneel.server.models.progress import Progress
from daneel.server.models.pull import models_dir

_Remembered = dict[str, tuple[int, int, str]]
"""Absolute path -> size in bytes, modification time in ns, hash."""


def weights_digest(shards: Sequence[Path], progress: Progress) -> str | None:
    """sha256 of a model's one file; of several shards, that of their hashes in order. `None`: a file cannot be read."""
    memory = models_dir() / "digests.json"
    remembered = _read(memory)
    try:
        digests = [_digest(path.resolve(), remembered, progress) for path in shards]
    except OSError:
        return None
    _write(memory, remembered)
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def _digest(path: Path, remembered: _Remembered, progress: Progress) -> str:
    found = path.stat()
    size_bytes, modified_ns, digest = remembered.get(str(path), (-1, -1, ""))
    if (size_bytes, modified_ns) != (found.st_size, found.st_mtime_ns):
        digest = sha256_of(path, progress, f"hashing {path.name}")
        remembered[str(path)] = (found.st_size, found.st_mtime_ns, digest)
    return digest


def _read(memory: Path) -> _Remembered:
    try:
        return msgspec.json.decode(memory.read_bytes(), type=_Remembered)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return {}


def _write(memory: Path, remembered: _Remembered) -> None:
    """What cannot be remembered is read again the next time."""
    scratch = memory.with_suffix(".part")
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_bytes(msgspec.json.encode(remembered))
        scratch.replace(memory)
    except OSError:
        return
