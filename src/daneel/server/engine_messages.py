"""What the server and the engine's process say to each other: one tagged union for each direction."""

from __future__ import annotations

from msgspec import Struct

from daneel.server.engines.base import EngineInfo, EngineSpec, Generate, StepOutput
from daneel.server.engines.cache_state import CacheEntry, CacheLimits


class Load(Struct, tag=True, frozen=True):
    """First frame to the child: what to load. Answered by `Progress` frames, then `Loaded` or `LoadFailed`."""

    spec: EngineSpec


class Submit(Struct, tag=True, frozen=True):
    """Queue a sequence. Answered by `Refused`, or by outputs for its id until one has `finish`."""

    request: Generate


class Cancel(Struct, tag=True, frozen=True):
    """Drop a sequence, queued or running. No answer; outputs already on their way may still arrive."""

    request_id: int


class Tokenize(Struct, tag=True, frozen=True):
    """Answered by `Tokenized` with the same `call_id`."""

    call_id: int
    text: str


class ListCache(Struct, tag=True, frozen=True):
    """What is kept of a tenant? Answered by `CacheListed` with the same `call_id`."""

    call_id: int
    tenant: str


class ClearCache(Struct, tag=True, frozen=True):
    """Drop what is kept of a tenant. Answered by `CacheListed`: what there was."""

    call_id: int
    tenant: str


class ResizeCache(Struct, tag=True, frozen=True):
    """Answered by `CacheResized`."""

    call_id: int
    limits: CacheLimits


class Progress(Struct, tag=True, frozen=True):
    """The loaded fraction, 0 to 1."""

    fraction: float


class Loaded(Struct, tag=True, frozen=True):
    info: EngineInfo


class LoadFailed(Struct, tag=True, frozen=True):
    """`message` is one sentence for the person at the terminal."""

    message: str


class Refused(Struct, tag=True, frozen=True):
    """The request can never run; `message` says why."""

    request_id: int
    message: str


class Tokenized(Struct, tag=True, frozen=True):
    call_id: int
    token_ids: list[int]


class CacheListed(Struct, tag=True, frozen=True):
    call_id: int
    entries: list[CacheEntry]


class CacheResized(Struct, tag=True, frozen=True):
    call_id: int
    limits: CacheLimits


class Stepped(Struct, tag=True, frozen=True):
    """All outputs of one step, in one frame."""

    outputs: list[StepOutput]


AboutCache = ListCache | ClearCache | ResizeCache
ToChild = Load | Submit | Cancel | Tokenize | AboutCache
FromChild = Progress | Loaded | LoadFailed | Refused | Tokenized | CacheListed | CacheResized | Stepped
