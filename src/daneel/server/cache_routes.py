"""`/v1/cache`: what is kept of the caller's prompts, dropping it, and, for an admin, how much may be kept.

A caller sees and drops only what is its own.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from daneel.server.auth import Caller
from daneel.server.chat import unavailable
from daneel.server.engine_process import EngineDied, EngineRestarting
from daneel.server.engines.cache_state import CacheEntry, CacheLimits
from daneel.server.served_model import ServedModel
from daneel.wire.errors import BadRequest, Forbidden
from daneel.wire.strict_json import decode_object, kind_of, shown

MAX_LIMIT = 2**53 - 1
"""The largest integer that every JSON reader takes for what it is."""


class CacheReply(Struct):
    """What is kept of one caller. `tokens` and `bytes` are sums over `entries`; some of them may share cells."""

    entries: list[CacheEntry]
    tokens: int
    bytes: int
    object: str = "cache"


class ClearedReply(Struct):
    """How much was dropped."""

    entries: int
    tokens: int
    bytes: int
    object: str = "cache.cleared"


class LimitsReply(Struct):
    limits: CacheLimits
    object: str = "cache.limits"


async def entries(model: ServedModel, caller: Caller) -> CacheReply:
    """Raises `ServerUnavailable` while there is no engine."""
    found = await _asked(model.engine.cache_entries(caller.tenant))
    return CacheReply(found, sum(entry.tokens for entry in found), sum(entry.bytes for entry in found))


async def clear(model: ServedModel, caller: Caller) -> ClearedReply:
    """Drop everything of the caller: cells, tiers, and the server's memory of its turns and texts. Raises as `entries`."""
    model.forget(caller.tenant)
    gone = await _asked(model.engine.clear_cache(caller.tenant))
    return ClearedReply(len(gone), sum(entry.tokens for entry in gone), sum(entry.bytes for entry in gone))


async def resize(body: bytes, model: ServedModel, caller: Caller) -> LimitsReply:
    """Change the limits that the body names. Raises `Forbidden`, `BadRequest`, and as `entries`."""
    if not caller.admin:
        raise Forbidden("the cache's limits are for an admin key, and this is none (see --admin-key-file of daneel serve)")
    changes = _checked(decode_object(body), model.engine.cache_limits)
    limits = structs.replace(model.engine.cache_limits, **changes)
    return LimitsReply(await _asked(model.engine.resize_cache(limits)))


def _checked(given: dict[str, Any], limits: CacheLimits) -> dict[str, Any]:
    names = CacheLimits.__struct_fields__
    for name, value in given.items():
        if name not in names:
            raise BadRequest(f"{name}: there is no such limit; there are {', '.join(names)}", param=name)
        if value is None and name == "max_idle_tokens":
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadRequest(f"{name}: must be an integer, not {kind_of(value)}", param=name)
        if not 0 <= value <= MAX_LIMIT:
            raise BadRequest(f"{name}: must be between 0 and {MAX_LIMIT}; got {shown(value)}", param=name)
        if name == "max_disk_bytes" and limits.max_disk_bytes is None:
            raise BadRequest("max_disk_bytes: this server has no folder for it; start it with --prompt-cache-dir", param=name)
    if not given:
        raise BadRequest(f"no limit is given; there are {', '.join(names)}")
    return given


async def _asked(answer: Any) -> Any:
    try:
        return await answer
    except (EngineDied, EngineRestarting) as error:
        raise unavailable(error) from error
