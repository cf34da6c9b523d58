"""The files of the disk's prompt cache, each one sequence: nothing is believed that was changed, or is another's.

Two HMAC-SHA256, of the head and of the whole, then the head (sizes, tenant, token ids) and the state. Their key is a secret of
this server mixed with the model, its template, the engine's build and the tenant: a file of another, or one with a single
flipped bit, is not a kept sequence but nothing. Files have mode 0600.
"""

from __future__ import annotations

import array
import contextlib
import hmac
import os
import struct
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"daneelkv2\n"
_SIZES = struct.Struct("<IQQ")
"""Of the tenant, the packed ids and the state, in bytes."""
_MAC_BYTES = 32
_START = len(MAGIC) + 2 * _MAC_BYTES
"""Where the head begins."""
_IDS = "i"
LEFTOVER_SUFFIX = ".kv.part"
LEFTOVER_AFTER_S = 3600.0
"""A file that is still being written after so long is what a killed server left."""

Key = tuple[str, tuple[int, ...]]
"""A tenant, and the token ids of a sequence."""


@dataclass(frozen=True, slots=True)
class Head:
    """What stands before a file's state. `packed` are its bytes; the state begins at `end`."""

    key: Key
    packed: bytes
    whole_mac: bytes
    end: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Found:
    """A file with our magic. `head` is `None` where it is of another model, template or build, or was changed.

    `owner`: whose it says it is. `kept_at`: seconds since the epoch.
    """

    head: Head | None
    owner: bytes
    num_bytes: int
    kept_at: float


class CacheFiles:
    """Writes and reads such files. `secret`: of this server and for what these states fit."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def name(self, tenant: str, ids: Sequence[int]) -> str:
        """The file of a sequence; it tells nothing of what is in it."""
        return f"{self._mac(tenant, _packed_ids(ids)).hex()[:40]}.kv"

    def packed(self, tenant: str, ids: Sequence[int], state: bytes) -> bytes:
        """A file's bytes."""
        owner, packed_ids = tenant.encode(), _packed_ids(ids)
        head = _SIZES.pack(len(owner), len(packed_ids), len(state)) + owner + packed_ids
        return MAGIC + self._mac(tenant, head) + self._mac(tenant, head, state) + head + state

    def state(self, data: bytes, key: Key) -> bytes | None:
        """The state in a whole file, if it is what was written for `key`."""
        head = self._head(data)
        if head is None or head.key != key:
            return None
        state = data[head.end :]
        return state if hmac.compare_digest(head.whole_mac, self._mac(key[0], head.packed, state)) else None

    def found(self, path: Path) -> Found | None:
        """What a file says in its head; the state is not read. `None` for what is not of this kind. Raises `OSError`."""
        with path.open("rb") as file:
            data = file.read(_START + _SIZES.size)
            if not data.startswith(MAGIC) or len(data) < _START + _SIZES.size:
                return None
            owner_size, ids_size, _ = _SIZES.unpack_from(data, _START)
            status = os.fstat(file.fileno())
            data += file.read(min(owner_size + ids_size, status.st_size))
        head = self._head(data)
        if head is not None and head.num_bytes != status.st_size:
            return None
        start = _START + _SIZES.size
        return Found(head, data[start : start + owner_size], status.st_size, status.st_mtime)

    def _mac(self, tenant: str, *parts: bytes) -> bytes:
        mac = hmac.new(hmac.digest(self._secret, tenant.encode(), "sha256"), digestmod="sha256")
        for part in parts:
            mac.update(part)
        return mac.digest()

    def _head(self, data: bytes) -> Head | None:
        """The head of a file of ours; `None` for anything else. `data` need not hold the state, but all before it."""
        if not data.startswith(MAGIC) or len(data) < _START + _SIZES.size:
            return None
        owner_size, ids_size, state_size = _SIZES.unpack_from(data, _START)
        at = _START + _SIZES.size + owner_size
        end = at + ids_size
        if end > len(data) or ids_size % array.array(_IDS).itemsize:
            return None
        tenant = data[at - owner_size : at].decode(errors="replace")
        packed = data[_START:end]
        if not hmac.compare_digest(data[len(MAGIC) : len(MAGIC) + _MAC_BYTES], self._mac(tenant, packed)):
            return None
        ids = array.array(_IDS)
        ids.frombytes(data[at:end])
        return Head((tenant, tuple(ids)), packed, data[_START - _MAC_BYTES : _START], end, end + state_size)


def write(path: Path, data: bytes) -> None:
    """Whole or not at all. `mkstemp` gives it mode 0600. Raises `OSError`."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=LEFTOVER_SUFFIX)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def delete_leftovers(folder: Path) -> None:
    """Delete what killed servers have left half written."""
    oldest_at = time.time() - LEFTOVER_AFTER_S
    for path in folder.glob(f"*{LEFTOVER_SUFFIX}"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest_at:
                path.unlink()


def _packed_ids(ids: Sequence[int]) -> bytes:
    return array.array(_IDS, ids).tobytes()
