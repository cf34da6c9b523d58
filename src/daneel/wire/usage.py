"""Usage as any peer reports it, as daneel's own struct."""

from __future__ import annotations

from typing import Any

from daneel.wire.messages import CompletionTokensDetails, PromptTokensDetails, Usage


def read_usage(usage: Any) -> Usage | None:
    """Token counts from a peer's `usage`, or `None` if it gave none. Counts it did not give are 0.

    Cached tokens are read from `prompt_tokens_details.cached_tokens` (the dialect), `prompt_cache_hit_tokens` (DeepSeek) or
    `cached_tokens` (Moonshot). `cached_tokens()` tells 0 from not given.
    """
    if not isinstance(usage, dict):
        return None
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    if prompt is None and completion is None:
        return None
    total = _count(usage.get("total_tokens"))
    details = usage.get("completion_tokens_details")
    counts = details if isinstance(details, dict) else {}
    return Usage(
        prompt_tokens=prompt or 0,
        completion_tokens=completion or 0,
        total_tokens=total if total is not None else (prompt or 0) + (completion or 0),
        prompt_tokens_details=PromptTokensDetails(cached_tokens=cached_tokens(usage) or 0),
        completion_tokens_details=CompletionTokensDetails(
            **{name: _count(counts.get(name)) or 0 for name in CompletionTokensDetails.__struct_fields__}
        ),
    )


def cached_tokens(usage: Any) -> int | None:
    """How many prompt tokens were read from the peer's cache; `None` if it did not say."""
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    found = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    for name in ("prompt_cache_hit_tokens", "cached_tokens"):
        found = found if found is not None else _count(usage.get(name))
    return found


def _count(value: Any) -> int | None:
    """A count: an integer, or a float that is one; never negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or value < 0 or value > 2**53:
        return None
    return int(value)
