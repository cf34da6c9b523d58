"""Where sequences are kept that left the KV cells: host memory, then a disk, so that a restart does not lose them.

A file on disk is one sequence: two HMAC-SHA256, of the head and of the whole, then the head (sizes, tenant, token ids) and the
state. Their key is a secret of this server mixed with the model, its template, the engine's build and the tenant: a file of
another, or one with a single flipped bit, is not a kept sequence but nothing. At start only heads are read; the whole is
checked before a file is first offered, and whenever it is read. Files have mode 0600.
"""

from __future__ import annotations

import array
import contextlib
import hashlib
import hmac
import os
import struct
import tempfile
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from daneel.errors import UserError
from daneel.server.engines.base import EngineLoadError, PromptCache
from daneel.server.engines.cache_state import CacheEntry
from daneel.server.engines.kv_cache import Tier
from daneel.server.engines.prefix import common_prefix_length
from daneel.server.engines.quotas import oldest_of_greediest
from daneel.server.secret import read_or_make_secret

MAGIC = b"daneelkv2\n"
_SIZES = struct.Struct("<IQQ")
"""Of the tenant, the packed ids and the state, in bytes."""
_MAC_BYTES = 32
LEFTOVER_SUFFIX = ".kv.part"
LEFTOVER_AFTER_S = 3600.0
"""A file that is still being written after so long is what a killed server left."""
_IDS = "i"

Key = tuple[str, tuple[int, ...]]


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


@dataclass(frozen=True, slots=True)
class _Head:
    """What stands before a file's state. `packed` are its bytes; the state begins at `end`."""

    key: Key
    packed: bytes
    whole_mac: bytes
    end: int
    num_bytes: int


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
        self._secret = hmac.digest(root, scope.encode(), "sha256")
        self._kept: OrderedDict[Key, KeptFile] = OrderedDict()
        self._others: OrderedDict[Path, tuple[bytes, int]] = OrderedDict()
        """Files of other scopes: whose, as they say themselves, and their bytes; the longest unused first."""
        _delete_leftovers(folder)
        for path in sorted(folder.glob("*.kv"), key=_mtime):
            if path.is_file():  # to open a named pipe would wait for ever
                self._note(path)

    def put(self, tenant: str, ids: Sequence[int], state: bytes) -> None:
        data = self._packed(tenant, ids, state)
        if len(data) > self.max_bytes:
            return
        path = self._folder / f"{self._mac(tenant, _packed_ids(ids)).hex()[:40]}.kv"
        with contextlib.suppress(OSError):
            _write(path, data)
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
        head = self._head(data)
        state = data[head.end :] if head is not None else b""
        if head is None or head.key != key or not hmac.compare_digest(head.whole_mac, self._mac(tenant, head.packed, state)):
            self._drop(key)
            return None
        kept.checked = True
        return state

    def _mac(self, tenant: str, *parts: bytes) -> bytes:
        mac = hmac.new(hmac.digest(self._secret, tenant.encode(), "sha256"), digestmod="sha256")
        for part in parts:
            mac.update(part)
        return mac.digest()

    def _packed(self, tenant: str, ids: Sequence[int], state: bytes) -> bytes:
        owner, packed_ids = tenant.encode(), _packed_ids(ids)
        head = _SIZES.pack(len(owner), len(packed_ids), len(state)) + owner + packed_ids
        return MAGIC + self._mac(tenant, head) + self._mac(tenant, head, state) + head + state

    def _head(self, data: bytes) -> _Head | None:
        """The head of a file of ours; `None` for anything else. `data` need not hold the state, but all before it."""
        start = len(MAGIC) + 2 * _MAC_BYTES
        if not data.startswith(MAGIC) or len(data) < start + _SIZES.size:
            return None
        owner_size, ids_size, state_size = _SIZES.unpack_from(data, start)
        at = start + _SIZES.size + owner_size
        end = at + ids_size
        if end > len(data) or ids_size % array.array(_IDS).itemsize:
            return None
        tenant = data[at - owner_size : at].decode(errors="replace")
        packed = data[start:end]
        if not hmac.compare_digest(data[len(MAGIC) : len(MAGIC) + _MAC_BYTES], self._mac(tenant, packed)):
            return None
        ids = array.array(_IDS)
        ids.frombytes(data[at:end])
        return _Head((tenant, tuple(ids)), packed, data[start - _MAC_BYTES : start], end, end + state_size)

    def _note(self, path: Path) -> None:
        """Take up a file of an earlier run; what is not ours is left where it is."""
        with contextlib.suppress(OSError), path.open("rb") as file:
            data = file.read(len(MAGIC) + 2 * _MAC_BYTES + _SIZES.size)
            if data.startswith(MAGIC) and len(data) >= _SIZES.size:
                owner_size, ids_size, _ = _SIZES.unpack_from(data, len(data) - _SIZES.size)
                status = os.fstat(file.fileno())
                num_bytes = status.st_size
                data += file.read(min(owner_size + ids_size, num_bytes))
                head = self._head(data)
                if head is not None and head.num_bytes == num_bytes:
                    self._kept[head.key] = KeptFile(path, num_bytes, status.st_mtime)
                elif head is None:
                    start = len(MAGIC) + 2 * _MAC_BYTES + _SIZES.size
                    self._others[path] = data[start : start + owner_size], num_bytes

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


def _packed_ids(ids: Sequence[int]) -> bytes:
    return array.array(_IDS, ids).tobytes()


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all. `mkstemp` gives it mode 0600."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=LEFTOVER_SUFFIX)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _delete_leftovers(folder: Path) -> None:
    oldest_at = time.time() - LEFTOVER_AFTER_S
    for path in folder.glob(f"*{LEFTOVER_SUFFIX}"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest_at:
                path.unlink()


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
