"""What one trial leaves behind: the row that is stored, and all that the numbers are computed from."""

from __future__ import annotations

from msgspec import Struct


class Trial(Struct, frozen=True, kw_only=True):
    """One attempt at a goal.

    `achieved` is what the goal's check said, and `None` when the trial may not be scored: its run was `cancelled` or
    `invalid`, or the check itself failed; `not_scored` then says why, in words. `turns` counts completed model responses,
    `calls` those tool calls that were made. Tokens are `None` where the server did not count them. The three hashes say what
    was tried: harness (*H*), model (*M*) and goal (*G*); `model_verified` is false where M is only what a foreign server
    says of itself.
    """

    measurement: str
    index: int
    """The round: trials of different harnesses with the same index and goal have the same seed, and make a pair."""
    harness: str
    """The arm's name: the harness's, with its file's before it where two files have one of that name."""
    goal: str
    model: str
    seed: int
    started_at: str
    """UTC, ISO 8601."""
    run_id: str | None
    stop_reason: str
    achieved: bool | None
    not_scored: str | None = None
    answer: str | None = None
    turns: int = 0
    calls: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    duration_s: float = 0.0
    harness_hash: str = ""
    model_hash: str = ""
    model_verified: bool = False
    goal_hash: str = ""
    attempt: int = 0
    """Counts from 0 within a place in the plan; above 0 after an attempt that was invalid or cancelled."""
    server: str = ""

    @property
    def scored(self) -> bool:
        return self.achieved is not None

    @property
    def cancelled(self) -> bool:
        return self.stop_reason == "cancelled"
