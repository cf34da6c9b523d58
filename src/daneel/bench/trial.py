"""goal x harness x model x seed -> trial. Fills the workspace, runs the loop, asks the goal's check, and makes the row."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from daneel.bench.record import Trial
from daneel.bench.slot import Slot
from daneel.bench.workspace import WorkFolder
from daneel.errors import UserError
from daneel.harness.client import Client, ClientError, ServerRefused
from daneel.harness.definition import Goal, Harness, digest
from daneel.harness.loop import run
from daneel.harness.raised import described, is_interrupt
from daneel.harness.recorder import TranscriptSink
from daneel.harness.run_record import Run


@dataclass(frozen=True)
class ModelIdentity:
    """*M*. `verified`: the server is daneel's and hashes what it serves; else the hash is of what a foreign server tells."""

    name: str
    hash: str
    verified: bool
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What the server says of it, as far as it was hashed."""


_NOT_IDENTITY = frozenset({"id", "object", "owned_by", "created", "permission"})
"""Fields of a model's entry that say nothing of what is served, or change with every start of a server."""


def identify(client: Client) -> ModelIdentity:
    """The identity of the model that `client` talks to, from the server's `/v1/models`. Raises `UserError`.

    A server that has no such list, or does not list the model it was asked for (an alias), still may serve it: then only
    the name is hashed.
    """
    try:
        entries = {served.id: served.raw for served in client.models()}
    except ServerRefused as error:
        if error.status not in (404, 405, 501):
            raise UserError(str(error)) from error
        entries = {}
    except ClientError as error:
        raise UserError(str(error)) from error
    try:
        name = client.model
    except ClientError as error:
        raise UserError(str(error)) from error
    entry = entries.get(name, {})
    verified = entry.get("owned_by") == "daneel" and bool(entry.get("weights_sha256"))
    facts = {key: value for key, value in entry.items() if key not in _NOT_IDENTITY}
    return ModelIdentity(name, digest(facts if verified else [name, facts]), verified, facts)


class ModelChanged(UserError):
    """A server went away, and the one that took its place serves another model: no further trial would count.

    `is_sure` false: it may serve the same, but this trial does not count.
    """

    def __init__(self, message: str, *, is_sure: bool = True) -> None:
        super().__init__(message)
        self.is_sure = is_sure


@dataclass(frozen=True)
class Attempt:
    """A trial as it has just ended, with its run where there was one. `stop`: why no further trial may be run."""

    trial: Trial
    run: Run | None
    stop: ModelChanged | None = None


def attempt(
    slot: Slot,
    harness: Harness,
    goal: Goal,
    *,
    client: Client,
    model: ModelIdentity,
    folder: WorkFolder,
    transcripts: TranscriptSink | None = None,
) -> Attempt:
    """Run one trial; nothing is stored. Ctrl-C ends it as `cancelled`.

    A goal with a set-up is tried in `folder`, which is then the current folder. Whatever set-up or check raise makes the
    trial invalid, with the reason, never zero.
    """
    facts = _Facts(slot, harness, goal, model, now(), client.server)
    with ExitStack() as stack:
        workspace: Path | None = None
        if goal.setup is not None:
            try:
                workspace = stack.enter_context(folder.filled_by(goal))
            except UserError as error:
                return Attempt(facts.row("invalid", str(error)), None)
            except KeyboardInterrupt:
                return Attempt(facts.row("cancelled", "cancelled"), None)
        finished = run(harness, goal.prompt, client=client, transcript=transcripts, seed=slot.seed)
        finished.workspace = workspace
        try:
            other = None if finished.stop_reason == "cancelled" else _other_model(finished, client, model)
            if other is not None:
                return Attempt(facts.row("invalid", str(other), finished), finished, other if other.is_sure else None)
            achieved, why_not = _verdict(goal, finished)
        except KeyboardInterrupt:
            return Attempt(facts.row("cancelled", "cancelled while it was judged", finished), finished)
    return Attempt(facts.row(finished.stop_reason, why_not, finished, achieved), finished)


def now() -> str:
    """The time in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class _Facts:
    """All of a trial's row that is known before its run."""

    slot: Slot
    harness: Harness
    goal: Goal
    model: ModelIdentity
    started_at: str
    server: str

    def row(self, stop_reason: str, not_scored: str | None, finished: Run | None = None, achieved: bool | None = None) -> Trial:
        counted: dict[str, Any] = {}
        if finished is not None:
            usage = finished.usage
            if usage.unknown_turns == 0:
                counted = {name: getattr(usage, name) for name in ("prompt_tokens", "completion_tokens", "cached_tokens")}
            counted["calls"] = sum(call.result is not None for call in finished.calls) + finished.dropped.get("made_calls", 0)
            counted |= {"answer": _storable(finished.answer), "turns": finished.turns, "duration_s": finished.duration_s}
        return Trial(
            measurement=self.slot.measurement,
            index=self.slot.index,
            attempt=self.slot.attempt,
            harness=self.slot.arm.name,
            goal=self.slot.goal,
            model=self.model.name,
            seed=self.slot.seed,
            started_at=self.started_at,
            run_id=None if finished is None else finished.id,
            stop_reason=stop_reason,
            achieved=achieved,
            not_scored=_storable(not_scored),
            harness_hash=self.harness.fingerprint(),
            model_hash=self.model.hash,
            model_verified=self.model.verified,
            goal_hash=self.goal.fingerprint(),
            server=self.server,
            **counted,
        )


def _other_model(finished: Run, client: Client, model: ModelIdentity) -> ModelChanged | None:
    """Why a trial tells nothing of `model`: it went on to a server that serves another one, or one that does not say."""
    moved = [event.data for event in finished.events if event.kind == "failed_over"]
    if not moved:
        return None
    how = f"{moved[-1]['server']} failed ({moved[-1]['error']}), and {moved[-1]['to']}"
    try:
        served = identify(client)
    except UserError as error:
        return ModelChanged(f"{how} does not say what it serves: {error}", is_sure=False)
    return None if served == model else ModelChanged(f"{how} serves another model ({served.name})")


def _verdict(goal: Goal, finished: Run) -> tuple[bool | None, str | None]:
    """What the check says, or `None` and why it may not be asked or could not say."""
    if finished.stop_reason in ("invalid", "cancelled"):
        return None, finished.detail or finished.stop_reason
    try:
        return goal(finished), None
    except BaseException as error:  # a person's own code may raise anything
        if is_interrupt(error):
            raise
        return None, f"the check of goal {goal.name} raised {described(error)}"


def _storable(text: str | None) -> str | None:
    """A lone surrogate cannot be stored, and is replaced."""
    return None if text is None else text.encode("utf-8", "replace").decode()
