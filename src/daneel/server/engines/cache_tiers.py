"""Where sequences are kept that left the KV cells: host memory, then a disk, so that a restart does not lose them.

A file on disk is one sequence: a header (JSON), its token ids, its state, and before all that an HMAC-SHA256 over the rest. The
key of the HMAC is a secret of this server mixed with the model, its template, the engine's build and the tenant: a file of
another, or one with a single flipped bit, is not a kept sequence but nothing. Files have mode 0600.
"""

from __future__ import annotations

import array
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import struct
import tempfile
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from daneel.server.engines.base import EngineLoadError, PromptCache
from daneel.server.engines.kv_cache import Tier
from daneel.server.engines.prefix import common_prefix_length

MAGIC = b"daneelkv1\n"
_LENGTHS = struct.Struct("<IQQ")
_MAC_BYTES = 32
_IDS = "i"

Key = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of a kept sequence without reading its state."""

    num_bytes: int
    path: Path | None = None


class MemoryTier:
    """At most `max_entries` sequences and `max_bytes` of state in host memory. What it lets go of is handed to `below`."""

    name = "host_memory"

    def __init__(self, *, max_bytes: int, max_entries: int, below: Tier | None = None) -> None:
        self.max_bytes, self.max_entries = max_bytes, max_entries
        self.num_bytes = 0
        self._below = below
        self._kept: OrderedDict[Key, bytes] = OrderedDict()

    def put(self, tenant: str, ids: Sequence[int], state: bytes) -> None:
        self._forget((tenant, tuple(ids)))
        for key in [key for key in self._kept if key[0] == tenant and key[1] == tuple(ids[: len(key[1])])]:
            self._forget(key)  # a beginning of the new one
        self._kept[tenant, tuple(ids)] = state
        self.num_bytes += len(state)
        while self._kept and (self.num_bytes > self.max_bytes or len(self._kept) > self.max_entries):
            (owner, old), oldest = next(iter(self._kept.items()))
            self._forget((owner, old))
            if self._below is not None:
                self._below.put(owner, old, oldest)

    def longest(self, tenant: str, ids: Sequence[int], *, whole: bool) -> tuple[int, Sequence[int], str] | None:
        return _longest(self._kept, tenant, ids, whole=whole, name=self.name)

    def get(self, tenant: str, ids: Sequence[int]) -> bytes | None:
        key = tenant, tuple(ids)
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def flush(self) -> None:
        """Hand everything down, for a restart."""
        if self._below is not None:
            for (tenant, ids), state in self._kept.items():
                self._below.put(tenant, ids, state)

    def _forget(self, key: Key) -> None:
        state = self._kept.pop(key, None)
        if state is not None:
            self.num_bytes -= len(state)


class DiskTier:
    """At most `max_bytes` of files in `folder`, the oldest used go first. `scope`: model, template and engine build.

    Raises `OSError` when the folder cannot be made or its secret not be read; later failures only lose cache.
    """

    name = "disk"

    def __init__(self, folder: Path, *, max_bytes: int, scope: str) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._secret = hmac.digest(_secret(folder / "secret"), scope.encode(), "sha256")
        self._kept: OrderedDict[Key, Kept] = OrderedDict()
        for path in sorted(folder.glob("*.kv"), key=_mtime):
            self._note(path)

    def put(self, tenant: str, ids: Sequence[int], state: bytes) -> None:
        data = self._packed(tenant, ids, state)
        if len(data) > self._max_bytes:
            return
        path = self._folder / f"{self._mac(tenant, _packed_ids(ids)).hex()[:40]}.kv"
        with contextlib.suppress(OSError):
            _write(path, data)
            self._kept.pop((tenant, tuple(ids)), None)
            self._kept[tenant, tuple(ids)] = Kept(len(data), path)
            self._trim()

    def longest(self, tenant: str, ids: Sequence[int], *, whole: bool) -> tuple[int, Sequence[int], str] | None:
        return _longest(self._kept, tenant, ids, whole=whole, name=self.name)

    def get(self, tenant: str, ids: Sequence[int]) -> bytes | None:
        key = tenant, tuple(ids)
        kept = self._kept.get(key)
        if kept is None or kept.path is None:
            return None
        try:
            found = self._unpacked(kept.path.read_bytes())
        except OSError:
            found = None
        if found is None or found[0] != tenant or tuple(found[1]) != key[1]:
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        with contextlib.suppress(OSError):
            os.utime(kept.path)
        return found[2]

    def _mac(self, tenant: str, data: bytes) -> bytes:
        return hmac.digest(hmac.digest(self._secret, tenant.encode(), "sha256"), data, "sha256")

    def _packed(self, tenant: str, ids: Sequence[int], state: bytes) -> bytes:
        header = json.dumps({"tenant": tenant}).encode()
        packed = _packed_ids(ids)
        body = _LENGTHS.pack(len(header), len(packed), len(state)) + header + packed + state
        return MAGIC + self._mac(tenant, body) + body

    def _unpacked(self, data: bytes) -> tuple[str, list[int], bytes] | None:
        """Tenant, ids and state of a file of ours; `None` for anything else, a flipped bit included."""
        start = len(MAGIC) + _MAC_BYTES
        if not data.startswith(MAGIC) or len(data) < start + _LENGTHS.size:
            return None
        mac, body = data[len(MAGIC) : start], data[start:]
        header_size, ids_size, state_size = _LENGTHS.unpack_from(body)
        if _LENGTHS.size + header_size + ids_size + state_size != len(body):
            return None
        at = _LENGTHS.size + header_size
        try:
            tenant = json.loads(body[_LENGTHS.size : at])["tenant"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        if not isinstance(tenant, str) or not hmac.compare_digest(mac, self._mac(tenant, body)):
            return None
        ids = array.array(_IDS)
        ids.frombytes(body[at : at + ids_size])
        return tenant, ids.tolist(), body[at + ids_size :]

    def _note(self, path: Path) -> None:
        """Take up a file of an earlier run; what is not ours is left where it is."""
        try:
            found = self._unpacked(path.read_bytes())
            if found is not None:
                self._kept[found[0], tuple(found[1])] = Kept(path.stat().st_size, path)
        except OSError:
            return

    def _trim(self) -> None:
        while self._kept and sum(kept.num_bytes for kept in self._kept.values()) > self._max_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None and kept.path is not None:
            with contextlib.suppress(OSError):
                kept.path.unlink()


@dataclass(frozen=True, slots=True)
class Tiers:
    """The tiers of one engine, the quickest first."""

    in_order: tuple[Tier, ...] = ()

    @classmethod
    def open(cls, wanted: PromptCache, *, scope: Sequence[str]) -> Tiers:
        """`scope`: what makes a state fit. Raises `EngineLoadError` when the disk's folder cannot be used."""
        disk: DiskTier | None = None
        if wanted.folder is not None and wanted.max_disk_bytes > 0:
            try:
                disk = DiskTier(Path(wanted.folder), max_bytes=wanted.max_disk_bytes, scope="\n".join([*scope, wanted.scope]))
            except OSError as error:
                raise EngineLoadError(f"the prompt cache's folder {wanted.folder} cannot be used: {error.strerror}") from error
        if wanted.max_bytes <= 0 or wanted.max_entries <= 0:
            return cls((disk,) if disk else ())
        memory = MemoryTier(max_bytes=wanted.max_bytes, max_entries=wanted.max_entries, below=disk)
        return cls((memory, disk) if disk else (memory,))

    def flush(self) -> None:
        """Hand what is in memory to the disk, for a restart."""
        for tier in self.in_order:
            if isinstance(tier, MemoryTier):
                tier.flush()


def _longest(
    kept: OrderedDict[Key, bytes] | OrderedDict[Key, Kept], tenant: str, ids: Sequence[int], *, whole: bool, name: str
) -> tuple[int, Sequence[int], str] | None:
    best: tuple[int, Sequence[int], str] | None = None
    wanted = tuple(ids)
    for owner, known in kept:
        if owner != tenant:
            continue
        length = common_prefix_length(known, wanted)
        if length and (not whole or length == len(known)) and (best is None or length > best[0]):
            best = length, known, name
    return best


def _packed_ids(ids: Sequence[int]) -> bytes:
    return array.array(_IDS, ids).tobytes()


def _secret(path: Path) -> bytes:
    """The folder's own secret; made at the first time. It must stay, or what was kept cannot be told from what was forged."""
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
    return hashlib.sha256(path.read_bytes()).digest()


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all. `mkstemp` gives it mode 0600."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
