"""What a run leaves behind: the record that a goal's check reads and `--json` prints."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

StopReason = Literal[
    "answered",
    "turn_limit",
    "token_limit",
    "time_limit",
    "loop",
    "context_limit",
    "gave_up",
    "refused",
    "cancelled",
    "invalid",
]
"""Why a run ended. `invalid` is a failure of the server or the network: such a trial is run again, never scored."""

JsonObject = dict[str, Any]


@dataclass(slots=True)
class CallRecord:
    """One tool call. `arguments` is an object, or the model's own text where it could not be read.

    `result` is the text the model was given; None when the call was not made. `error` says what went wrong: of a call that
    was not made, or inside the tool. `returned` is what the tool itself returned, as text, where the model was given
    something else (rendered, or cut); `notes` say what was done to it.
    """

    name: str | None
    arguments: JsonObject | str
    result: str | None = None
    error: str | None = None
    id: str = ""
    turn: int = 0
    duration_s: float = 0.0
    returned: str | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> JsonObject:
        plain = {"name": self.name, "arguments": self.arguments, "result": self.result, "error": self.error}
        return {**plain, **self.extras()}

    def extras(self) -> JsonObject:
        """What most calls do not have."""
        extras: JsonObject = {} if self.returned is None else {"returned": self.returned}
        return {**extras, "notes": list(self.notes)} if self.notes else extras


@dataclass(frozen=True, slots=True)
class Event:
    """One step that was out of the ordinary: a repair, a note to the model, a detector's firing. `turn` counts from 1."""

    kind: str
    turn: int
    data: JsonObject = field(default_factory=dict)

    def to_dict(self) -> JsonObject:
        return {"kind": self.kind, "turn": self.turn, **self.data}


@dataclass(slots=True)
class RunUsage:
    """Tokens over all turns of a run, as the server counted them; `cached_tokens` of the prompt tokens came from cache."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    unknown_turns: int = 0
    """Turns for which the server gave no usage."""
    summaries: int = 0
    """Requests for summaries of old turns, which are no turns."""
    summary_tokens: int = 0
    """Their prompt and completion tokens, which are in none of the other counts."""

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def to_dict(self) -> JsonObject:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.total_tokens,
            "cached_tokens": self.cached_tokens,
            "unknown_turns": self.unknown_turns,
            "summaries": self.summaries,
            "summary_tokens": self.summary_tokens,
        }


@dataclass(slots=True)
class Run:
    """A finished run. `answer` is the model's last text when the run was `answered`, else None."""

    id: str
    stop_reason: StopReason
    answer: str | None
    turns: int
    calls: list[CallRecord]
    usage: RunUsage
    messages: list[JsonObject]
    events: list[Event]
    duration_s: float = 0.0
    detail: str | None = None
    """One sentence on why it stopped, when the reason alone does not say it."""
    harness_hash: str = ""
    seed: int | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    """How many of the first calls, messages and events a very long run does not hold any more. Its transcript does."""
    workspace: Path | None = None
    """The folder that the goal's set-up filled and the run worked in, for the check to look at."""

    def to_dict(self) -> JsonObject:
        """The object that `daneel run --json` prints."""
        return {
            "id": self.id,
            "stop_reason": self.stop_reason,
            "detail": self.detail,
            "answer": self.answer,
            "turns": self.turns,
            "calls": [call.to_dict() for call in self.calls],
            "usage": self.usage.to_dict(),
            "messages": self.messages,
            "events": [event.to_dict() for event in self.events],
            "duration_s": round(self.duration_s, 3),
            "harness_hash": self.harness_hash,
            "seed": self.seed,
            "dropped": self.dropped,
        }
