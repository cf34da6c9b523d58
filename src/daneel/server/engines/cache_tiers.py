"""Where sequences are kept that left the KV cells: host memory, then a disk, so that a restart does not lose them.

At start only the heads of files are read; the whole is checked before a file is first offered, and whenever it is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from daneel.errors import UserError
from daneel.server.engines.base import EngineLoadError, PromptCache
from daneel.server.engines.cache_file import CacheFiles, Found, Key, delete_leftovers, write
from daneel.server.engines.cache_state import CacheEntry
from daneel.server.engines.kv_cache import Tier
from daneel.server.engines.prefix import common_prefix_length
from daneel.server.engines.quotas import oldest_of_greediest
from daneel.server.secret import read_or_make_secret


@dataclass(slots=True)
class KeptFile:
    """A file of ours, by its head. `checked`: the whole was found unchanged once. `kept_at`: seconds since the epoch."""

    path: Path
    num_bytes: int
    kept_at: float
    checked: bool = False


@dataclass(frozen=True, slots=True)
class KeptState:
    """A state in memory. `kept_at`: seconds since the epoch."""

    state: bytes
    kept_at: float


class MemoryTier:
    """At most `max_entries` sequences and `max_bytes` of state in host memory. What it lets go of is handed to `below`.

    Whoever has most in it loses first, the longest unused first.
    """

    name = "host_memory"

    def __init__(self, *, max_bytes: int, max_entries: int, below: DiskTier | None = None) -> None:
        self.max_bytes, self.max_entries = max_bytes, max_entries
        self.num_bytes = 0
        self._below = below
        self._kept: OrderedDict[Key, KeptState] = OrderedDict()

    def put(self, tenant: str, ids: Sequence[int], state: bytes) -> None:
        self._forget((tenant, tuple(ids)))
        for key in [key for key in self._kept if key[0] == tenant and key[1] == tuple(ids[: len(key[1])])]:
            self._forget(key)  # a beginning of the new one
        self._kept[tenant, tuple(ids)] = KeptState(state, time.time())
        self.num_bytes += len(state)
        self.trim()

    @property
    def takes(self) -> bool:
        return (self.max_bytes > 0 and self.max_entries > 0) or (self._below is not None and self._below.takes)

    def trim(self) -> None:
        """Let go of what is too much."""
        while self._kept and (self.num_bytes > self.max_bytes or len(self._kept) > self.max_entries):
            too_many = len(self._kept) > self.max_entries
            key = oldest_of_greediest((key, 1 if too_many else len(kept.state)) for key, kept in self._kept.items())
            state = self._kept[key].state
            self._forget(key)
            if self._below is not None:
                self._below.put(*key, state)

    def entries(self, tenant: str) -> list[CacheEntry]:
        """What is kept of a tenant, the latest used first."""
        now = time.time()
        return [
            CacheEntry("host_memory", len(ids), len(kept.state), max(0.0, now - kept.kept_at))
            for (owner, ids), kept in reversed(self._kept.items())
            if owner == tenant
        ]

    def clear(self, tenant: str) -> None:
        """Drop what is kept of a tenant."""
        for key in [key for key in self._kept if key[0] == tenant]:
            self._forget(key)

    def longest(self, tenant: str, ids: Sequence[int], *, whole: bool) -> tuple[int, Sequence[int], str] | None:
        return _longest(self._kept, tenant, ids, whole=whole, name=self.name)

    def get(self, tenant: str, ids: Sequence[int]) -> bytes | None:
        key = tenant, tuple(ids)
        kept = self._kept.get(key)
        if kept is None:
            return None
        self._kept.move_to_end(key)
        return kept.state

    def flush(self) -> None:
        """Hand everything down, for a restart."""
        if self._below is not None:
            for (tenant, ids), kept in self._kept.items():
                self._below.put(tenant, ids, kept.state)

    def _forget(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self.num_bytes -= len(kept.state)


class DiskTier:
    """At most `max_bytes` of files in `folder`; whoever has most loses first, the longest unused first.

    `scope`: model, template and engine build. Files of other scopes that were there at the start count, too, and go first.

    Raises `OSError` when the folder cannot be made, `UserError` when its secret cannot be read or is none; later failures only
    lose cache.
    """

    name = "disk"

    def __init__(self, folder: Path, *, max_bytes: int, scope: str) -> None:
        self._folder = folder
        self.max_bytes = max_bytes
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # it must stay, or what was kept cannot be told from what was forged
        root = hashlib.sha256(read_or_make_secret(folder / "secret")).digest()
        self._files = CacheFiles(hmac.digest(root, scope.encode(), "sha256"))
        self._kept: OrderedDict[Key, KeptFile] = OrderedDict()
        self._others: OrderedDict[Path, tuple[bytes, int]] = OrderedDict()
        """Files of other scopes: whose, as they say themselves, and their bytes; the longest unused first."""
        delete_leftovers(folder)
        for path in sorted(folder.glob("*.kv"), key=_mtime):
            if path.is_file():  # to open a named pipe would wait for ever
                self._note(path)

    def put(self, tenant: str, ids: Sequence[int], state: bytes) -> None:
        data = self._files.packed(tenant, ids, state)
        if len(data) > self.max_bytes:
            return
        path = self._folder / self._files.name(tenant, ids)
        with contextlib.suppress(OSError):
            write(path, data)
            self._kept.pop((tenant, tuple(ids)), None)
            self._kept[tenant, tuple(ids)] = KeptFile(path, len(data), time.time(), checked=True)
            self.trim()

    def longest(self, tenant: str, ids: Sequence[int], *, whole: bool) -> tuple[int, Sequence[int], str] | None:
        while True:
            found = _longest(self._kept, tenant, ids, whole=whole, name=self.name)
            if found is None or self._kept[tenant, tuple(found[1])].checked or self._read(tenant, found[1]) is not None:
                return found

    def get(self, tenant: str, ids: Sequence[int]) -> bytes | None:
        state = self._read(tenant, ids)
        if state is not None:
            key = tenant, tuple(ids)
            self._kept.move_to_end(key)
            with contextlib.suppress(OSError):
                os.utime(self._kept[key].path)
        return state

    def _read(self, tenant: str, ids: Sequence[int]) -> bytes | None:
        """The state of a file that is what it was; one that is not is dropped."""
        key = tenant, tuple(ids)
        kept = self._kept.get(key)
        if kept is None:
            return None
        data = b""
        with contextlib.suppress(OSError):
            data = kept.path.read_bytes()
        state = self._files.state(data, key)
        if state is None:
            self._drop(key)
            return None
        kept.checked = True
        return state

    def _note(self, path: Path) -> None:
        """Take up a file of an earlier run; what is not ours is left where it is."""
        found: Found | None = None
        with contextlib.suppress(OSError):
            found = self._files.found(path)
        if found is None:
            return
        if found.head is None:
            self._others[path] = found.owner, found.num_bytes
        else:
            self._kept[found.head.key] = KeptFile(path, found.num_bytes, found.kept_at)

    @property
    def takes(self) -> bool:
        return self.max_bytes > 0

    def trim(self) -> None:
        """Delete what is too much."""
        while self._others and self._num_bytes() > self.max_bytes:
            self._drop_other(next(iter(self._others)))
        while self._kept and sum(kept.num_bytes for kept in self._kept.values()) > self.max_bytes:
            self._drop(oldest_of_greediest((key, kept.num_bytes) for key, kept in self._kept.items()))

    def entries(self, tenant: str) -> list[CacheEntry]:
        """What is kept of a tenant, the latest used first."""
        now = time.time()
        return [
            CacheEntry("disk", len(ids), kept.num_bytes, max(0.0, now - kept.kept_at))
            for (owner, ids), kept in reversed(self._kept.items())
            if owner == tenant
        ]

    def clear(self, tenant: str) -> None:
        """Delete what is kept of a tenant, for other models and templates, too."""
        for path in [path for path, (owner, _) in self._others.items() if owner == tenant.encode()]:
            self._drop_other(path)
        for key in [key for key in self._kept if key[0] == tenant]:
            self._drop(key)

    def _num_bytes(self) -> int:
        return sum(kept.num_bytes for kept in self._kept.values()) + sum(size for _, size in self._others.values())

    def _drop_other(self, path: Path) -> None:
        del self._others[path]
        with contextlib.suppress(OSError):
            path.unlink()

    def _drop(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            with contextlib.suppress(OSError):
                kept.path.unlink()


@dataclass(frozen=True, slots=True)
class Tiers:
    """The tiers of one engine. Host memory is always there, be it for nothing: its limits may grow."""

    memory: MemoryTier
    disk: DiskTier | None = None

    @property
    def all(self) -> tuple[MemoryTier | DiskTier, ...]:
        """The quickest first."""
        return (self.memory, self.disk) if self.disk is not None else (self.memory,)

    @property
    def in_order(self) -> tuple[Tier, ...]:
        """As `KvCache` knows them."""
        return self.all

    @property
    def outlive(self) -> bool:
        """Whether what is kept is still there after a restart."""
        return self.disk is not None and self.disk.takes

    @classmethod
    def open(cls, wanted: PromptCache, *, scope: Sequence[str]) -> Tiers:
        """`scope`: what makes a state fit. Raises `EngineLoadError` when the disk's folder cannot be used."""
        disk: DiskTier | None = None
        if wanted.folder is not None:
            try:
                disk = DiskTier(Path(wanted.folder), max_bytes=wanted.max_disk_bytes, scope="\n".join([*scope, wanted.scope]))
            except OSError as error:
                raise EngineLoadError(f"the prompt cache's folder {wanted.folder} cannot be used: {error.strerror}") from error
            except UserError as error:
                raise EngineLoadError(f"the prompt cache's folder {wanted.folder} cannot be used: {error}") from error
        return cls(MemoryTier(max_bytes=wanted.max_bytes, max_entries=wanted.max_entries, below=disk), disk)

    def flush(self) -> None:
        """Hand what is in memory to the disk, for a restart."""
        self.memory.flush()


def _longest(
    kept: OrderedDict[Key, KeptState] | OrderedDict[Key, KeptFile], tenant: str, ids: Sequence[int], *, whole: bool, name: str
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


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
